"""The login node of a Slurm cluster, users' homes, and the way between nodes."""

from __future__ import annotations

from assay.checks.alike import by_value, told
from assay.checks.registry import Fleet, check
from assay.checks.verdict import fail, ok, some, unknown, warn
from assay.facts.mounts import Mount, Mounts
from assay.facts.slurm_login import LoginNode
from assay.facts.slurm_session import SlurmSession
from assay.facts.ssh_trust import SshTrust
from assay.facts.sshd import Sshd
from assay.model import Missing, Verdict
from assay.profiles.host import FileSystems, Host
from assay.profiles.slurm import Slurm
from assay.slurm.config import SlurmConfig
from assay.slurm.node import SlurmNodes

_PASSING = frozenset({"overlay", "tmpfs", "ramfs", "rootfs", "squashfs", "aufs"})


@check(
    "slurm.login.separate",
    category="lifecycle",
    severity="medium",
    criteria=("life-slurm-head-node",),
    why="Users compile, copy and edit on the login node; on a worker that steals from jobs, on the controller it can "
    "stop the scheduler.",
    fix="Provide a CPU machine of its own as login node.",
)
def separate(login: LoginNode, nodes: SlurmNodes, config: SlurmConfig) -> Verdict:
    """Passes when the login node is neither a node that runs jobs nor the controller's host, and has no GPU."""
    short = login.hostname.partition(".")[0]
    if not short:
        return unknown("the login node does not tell its name", "too-little")
    worker = next((n.name for n in nodes.nodes if short in _aliases(n.name, n.hostname)), None)
    if worker or login.slurmd:
        return fail(f"the login node {short} runs jobs ({worker or 'slurmd runs there'})", seen=short)
    if short in {host.partition(".")[0] for host in config.hosts} or login.slurmctld:
        return warn(f"the login node {short} is also the controller", seen=short)
    if login.gpus:
        return warn(f"the login node {short} has {login.gpus} GPUs outside the scheduler", seen=login.gpus)
    return ok(f"{short} is a machine of its own")


def _aliases(*names: str | None) -> set[str]:
    return {name.partition(".")[0] for name in names if name}


@check(
    "slurm.login.lasting",
    category="lifecycle",
    severity="high",
    criteria=("life-slurm-head-node",),
    why="On a login node that starts from an image, everything outside a mounted directory is gone after its restart.",
    fix="Give the login node a disk, or mount users' homes from shared storage and say what a restart takes away.",
)
def lasting(login: LoginNode, bar: Host) -> Verdict:
    """Fails when homes lie on a root file system that is made anew at every start; warns for such a root alone."""
    if not login.root_fs or not login.home_fs:
        return unknown("the login node does not tell its file systems", "too-little")
    where = f" ({login.container})" if login.container else ""
    if login.home_fs in _PASSING and login.home_on_root:
        return fail(f"homes ({login.home}) lie on the {login.home_fs} of the login node{where}", seen=login.home_fs)
    if login.root_fs in _PASSING:
        return warn(f"the root of the login node is {login.root_fs}{where}: only {login.home} outlives it")
    known = bar.filesystems.disk | bar.filesystems.network | bar.filesystems.parallel
    words = f"root on {login.root_fs}, homes on {login.home_fs}"
    return ok(words) if {login.root_fs, login.home_fs} <= known else unknown(f"{words}: whether they last is not known")


@check(
    "slurm.login.packages",
    category="lifecycle",
    severity="low",
    criteria=("exp-slurm-packages",),
    why="A login node without everyday tools stops users before their first job.",
    fix="apt install python3 git curl wget vim nano on the login node.",
)
def packages(login: LoginNode, bar: Slurm) -> Verdict:
    """Warns when an everyday program, or a package manager, is not on the login node's PATH."""
    have = set(login.tools)
    lacking = sorted(bar.tools.names - have - ({"vim"} if "vi" in have else set()))
    if not bar.package_managers.names & have:
        lacking.append("a package manager")
    return warn(f"not on the login node: {some(lacking, 8)}", seen=lacking) if lacking else ok("all everyday tools")


@check(
    "slurm.login.sudo",
    category="lifecycle",
    severity="low",
    criteria=("exp-slurm-sudo",),
    why="A tenant who may not become root on the head node cannot install, mount or repair anything there.",
    fix="Install sudo and put the tenant's administrators into its group.",
)
def sudo(login: LoginNode) -> Verdict:
    """Passes when this user is root or an administrator with sudo at hand; another user's rights are not known."""
    if login.sudo is None or login.admin is None:
        return unknown("whether sudo gives rights here is not told", "too-little")
    if not login.sudo:
        return warn("no sudo that can give rights on the login node")
    if login.admin:
        return ok("sudo is there, and this user is root or in its group")
    return unknown("sudo is there; this user is in no group of administrators", "too-little")


@check(
    "slurm.home.shared",
    category="storage",
    severity="high",
    criteria=("stor-mount-layout", "exp-slurm-home"),
    why="A home that differs from node to node loses environments and results; a job finds other files on each.",
    fix="Mount /home (or $HOME) from the same shared file system on every node and on the login node.",
)
def home(mounts: Fleet[Mounts], jobs: Fleet[SlurmSession], bar: Host) -> Verdict:
    """Fails when homes lie on a node's own disk, or come from different sources on different nodes.

    Root's home is its own on every node: for root, the homes of local accounts count.
    """
    held = {node: found for node, job in jobs.items() if node in mounts and (found := _held(job, mounts[node]))}
    if not held:
        return unknown("where users' homes lie is not told: no local account, and the audit ran as root", "too-little")
    where = {node: f"{m.source}{m.root if m.root != '/' else ''} ({m.fstype})" for node, m in held.items()}
    own = [node for node, m in held.items() if _own(m, bar.filesystems)]
    if own:
        return fail(f"homes on the node's own {held[own[0]].fstype}: {some(own)}", seen=where[own[0]])
    if len(by_value(where)) > 1:
        return fail(f"homes differ: {told(by_value(where))}", seen=by_value(where))
    shared = next(iter(held.values()))
    if shared.fstype in bar.filesystems.parallel | bar.filesystems.network:
        return ok(f"homes on {shared.source} ({shared.fstype}) on {len(held)} nodes", seen=shared.source)
    return unknown(f"homes on {shared.source} ({shared.fstype}): whether that is shared is not known")


def _held(job: SlurmSession, mounts: Mounts) -> Mount | None:
    """The mount that holds the user's home; root's own home tells nothing."""
    home = job.home if job.home not in ("", "/", "/root") else next(iter(job.homes), "")
    return next(iter(mounts.holding([home])), None) if home else None


def _own(mount: Mount, known: FileSystems) -> bool:
    return mount.target == "/" or mount.fstype in known.disk or mount.fstype in _PASSING - {"tmpfs"}


@check(
    "slurm.ssh-between",
    category="orchestration",
    severity="medium",
    criteria=("orch-no-key-copying", "exp-slurm-node-ssh"),
    why="Launchers of MPI, Ray and DeepSpeed go from node to node by ssh; users should not have to copy keys for that.",
    fix="Host-based trust (HostbasedAuthentication, EnableSSHKeysign, shosts.equiv, ssh_known_hosts), certificates, "
    "or a key made for each user in a shared home.",
)
def ssh_between(_job: SlurmSession, trust: SshTrust, sshd: Sshd | Missing) -> Verdict:
    """Looks for host-based trust, certificates, or keys that are authorized in users' homes; connects to nothing."""
    ways = _ways(trust, sshd)
    if ways:
        limited = "; only users with a job on the node get in" if trust.adopt else ""
        return ok(f"{some(ways)}{limited}", seen=ways)
    if isinstance(sshd, Missing) and sshd.kind == "absent":
        return warn("no SSH server on the node: users cannot go from node to node")
    return unknown("no host trust, certificate or authorized key was seen; homes may hide theirs", "too-little")


def _ways(trust: SshTrust, sshd: Sshd | Missing) -> list[str]:
    server = sshd if isinstance(sshd, Sshd) else Sshd()
    hosts = server.one("hostbasedauthentication") == "yes" and trust.client.get("hostbasedauthentication") == "yes"
    people = {path.rsplit("/", 2)[0] for path in trust.keys} & {path.rsplit("/", 2)[0] for path in trust.authorized}
    found = {
        "host-based trust": hosts and trust.shosts,
        "SSH certificates": server.one("trustedusercakeys") not in (None, "none"),
        "keys from a directory": server.one("authorizedkeyscommand") not in (None, "none"),
        f"keys in {len(people)} homes": bool(people),
    }
    return [name for name, there in found.items() if there]
