"""What two nodes share: told by both of them trying it together, which `assay audit --load` has them do."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from assay.checks.registry import Fleet, check
from assay.checks.verdict import fail, ok, skip, some, unknown, warn
from assay.facts.storage_pair import LockSide, PairSide, StoragePair
from assay.model import Status, Verdict
from assay.profiles.storage import Storage

_REFUSED = frozenset({"EACCES", "EPERM", "EROFS", "EDQUOT", "ENOSPC"})
_MODULES = 2000
_GRAVEST = (Status.FAIL, Status.WARN, Status.UNKNOWN)


class Both(Struct, frozen=True):
    """Both sides of one directory, with the names of the nodes; `first` made what `second` looked for."""

    directory: str
    nodes: tuple[str, str]
    first: PairSide
    second: PairSide

    @property
    def met(self) -> bool:
        """They found each other there."""
        return bool(self.first.met and self.second.met)


Judge = Callable[[Both], Verdict]


def _each(pairs: Fleet[StoragePair], judge: Judge) -> Verdict:
    """The gravest verdict over all directories, all of those equally grave told."""
    ones = {node: fact for node, fact in pairs.items() if fact.first}
    others = {node: fact for node, fact in pairs.items() if not fact.first}
    if not ones or not others:
        gaps = [f"{node}: {gap.reason}" for node, gap in pairs.missing.items()]
        return unknown(f"only {some(pairs)} said what it found" + (f"; {some(gaps)}" if gaps else ""), "too-little")
    (one, first), (other, second) = next(iter(ones.items())), next(iter(others.items()))
    both = [
        Both(side.directory, (one, other), side, second.of(side.directory) or PairSide(directory=side.directory))
        for side in first.directories
    ]
    return _together([(b.directory, judge(b)) for b in both]) if both else skip("no directory was tried", "not-asked")


def _together(verdicts: list[tuple[str, Verdict]]) -> Verdict:
    for status in _GRAVEST:
        if found := [(path, v) for path, v in verdicts if v.status is status]:
            words = "; ".join(f"{path}: {v.message}" for path, v in found)
            return Verdict(status, words, found[0][1].reason, {p: v.seen for p, v in found}, None, found[0][1].bar)
    words = "; ".join(f"{path}: {v.message}" for path, v in verdicts)
    passed = [(path, v) for path, v in verdicts if v.status is Status.PASS]
    if not passed:
        return Verdict(Status.SKIP, words, verdicts[0][1].reason)
    return Verdict(Status.PASS, words, "", {path: v.seen for path, v in passed}, None, passed[0][1].bar)


def _shared(judge: Judge) -> Judge:
    """A rule that has nothing to say of a directory where the nodes did not meet, and of one they could not write."""

    def rule(both: Both) -> Verdict:
        if both.met:
            return judge(both)
        return _closed(both) or skip("the nodes do not share it")

    return rule


def _closed(both: Both) -> Verdict | None:
    for node, side in zip(both.nodes, (both.first, both.second), strict=True):
        error = side.errors.get("same-inode")
        if error in _REFUSED:
            return skip(f"this user cannot write there: {error} on {node}", "denied")
        if error:
            return unknown(f"{error} on {node}", "failed")
    return None


def _unfinished(both: Both, *steps: str) -> Verdict:
    """Why a step has no answer of both nodes."""
    errors = [s.errors[step] for s in (both.first, both.second) for step in steps if step in s.errors]
    said = errors or [s.stopped for s in (both.first, both.second) if s.stopped]
    return unknown(said[0] if said else "a node ended before it said so", "failed")


@check(
    "storage.pair.same-inode",
    category="storage",
    severity="critical",
    criteria=("stor-mount-layout", "exp-slurm-home"),
    why="A directory that only looks shared keeps what a job writes on the node: checkpoints and results are lost.",
    fix="Mount the shared file system on the node named (findmnt -T DIRECTORY) and let the health check compare its "
    "source, not only its presence.",
)
def same_inode(pairs: Fleet[StoragePair]) -> Verdict:
    """Passes when one node finds, within 20 s, the randomly named directory that the other has just made there.

    Equal inode numbers alone prove nothing: two local disks have them too. Clients of some file systems number inodes
    for themselves, so different ones are told and not held against a directory in which the nodes met.
    """
    return _each(pairs, _same)


def _same(both: Both) -> Verdict:
    first, second = both.first, both.second
    if both.met:
        words = f"shared by {both.nodes[0]} and {both.nodes[1]}"
        if first.private == second.private:
            return ok(f"{words}, inode {first.private} on both", seen=first.private)
        return ok(f"{words}; each numbers inodes for itself", seen=[first.private, second.private])
    if closed := _closed(both):
        return closed
    if first.met is None or second.met is None:
        return _unfinished(both, "same-inode")
    sides = [
        f"{side.fstype or 'unknown'} of {side.fs_source or 'unknown'} (inode {side.inode}) on {node}"
        for node, side in zip(both.nodes, (first, second), strict=True)
    ]
    return fail(f"not shared: {sides[0]}, {sides[1]}", seen=sides)


@check(
    "storage.pair.locks",
    category="storage",
    severity="high",
    criteria=("stor-posix",),
    why="Data bases, package caches and checkpoint writers trust locks; where these hold on one node only, two nodes "
    "write at once and files are damaged without a word.",
    fix="Mount Lustre with -o flock, NFS without nolock and local_lock, and start its lock manager; for others see the "
    "client's options for cluster-wide locks.",
)
def locks(pairs: Fleet[StoragePair]) -> Verdict:
    """Fails when both nodes get one exclusive lock, or increments made under it are lost; flock and fcntl apart.

    Warns when the file system refuses locks: programs see that and say so.
    """
    return _each(pairs, _shared(_locks))


def _locks(both: Both) -> Verdict:
    found = [_lock(name, both, getattr(both.first, name), getattr(both.second, name)) for name in ("flock", "fcntl")]
    return next(v for status in (*_GRAVEST, Status.PASS) for v in found if v.status is status)


def _lock(name: str, both: Both, first: LockSide | None, second: LockSide | None) -> Verdict:
    if first is None or second is None:
        return _unfinished(both, name)
    if first.lock == second.lock == "ok":
        return fail(f"{name}: both nodes had the same exclusive lock", seen=name)
    if refused := {first.lock, second.lock} - {"ok", "busy"}:
        return warn(f"{name} is refused: {some(sorted(refused))}", seen=sorted(refused))
    if first.lock == "busy":
        return unknown(f"{name}: a lock on a new file was busy", seen=name)
    return _counted(name, first, second)


def _counted(name: str, first: LockSide, second: LockSide) -> Verdict:
    if first.done is None or second.done is None or first.total is None or second.total is None:
        return unknown(f"{name}: increments were not counted", "failed")
    made = first.done + second.done
    if lost := made - min(first.total, second.total):
        return fail(f"{name}: {lost} of {made} increments made under the lock are lost", seen=lost)
    if not first.done or not second.done:
        return unknown(f"{name}: only one node got the lock in the time it had", "timed-out")
    return ok(f"flock and fcntl exclude, none of {made} increments lost")


@check(
    "storage.pair.mkdir",
    category="storage",
    severity="high",
    criteria=("stor-posix",),
    why="Programs on many nodes make the same directory at once and take EEXIST for 'there it is': with any other "
    "answer a job dies at its start, now and then.",
    fix="Update the file system's client; report it to its vendor with the numbers of this finding.",
)
def mkdir(pairs: Fleet[StoragePair]) -> Verdict:
    """Both nodes make the same 200 directories: each must be made by exactly one, and the other must get EEXIST."""
    return _each(pairs, _shared(_mkdir))


def _mkdir(both: Both) -> Verdict:
    one, other = both.first.race, both.second.race
    if one is None or other is None:
        return _unfinished(both, "mkdir")
    others = sorted({*one.others, *other.others})
    if others:
        return fail(f"mkdir answers {some(others)} where EEXIST is due", seen=others)
    twice, all_ = (one.made & other.made).bit_count(), (1 << one.tried) - 1
    if twice:
        return fail(f"{twice} of {one.tried} directories were made by both nodes", seen=twice)
    if nobody := (all_ & ~(one.made | other.made)).bit_count():
        return fail(f"{nobody} of {one.tried} directories were made by nobody, yet are said to exist", seen=nobody)
    won = [one.made.bit_count(), other.made.bit_count()]
    return ok(f"{one.tried} directories, {won[0]} and {won[1]} made by either node", seen=won)


@check(
    "storage.pair.names",
    category="storage",
    severity="medium",
    criteria=("stor-posix",),
    why="Time stamps and step names put colons into file names; where they are refused or changed, checkpoints cannot "
    "be written or found.",
    fix="Switch off the translation of names in the client or gateway (for SMB the option nomapposix).",
)
def names(pairs: Fleet[StoragePair]) -> Verdict:
    """One node writes a file with colons and a blank in its name; the other must list and read it under that name."""
    return _each(pairs, _shared(_names))


def _names(both: Both) -> Verdict:
    first, second = both.first, both.second
    if first.colon is None or (second.colon is None and first.colon):
        return _unfinished(both, "colon")
    if not first.colon:
        return fail(f"a file name with colons is refused: {first.errors.get('colon', 'no reason')}")
    if not second.colon:
        return fail("a file with colons in its name is not found under that name on the other node")
    return ok("colons in file names are kept")


@check(
    "storage.pair.visibility",
    category="storage",
    severity="medium",
    criteria=("stor-posix",),
    why="Nodes of a job tell each other through files that something is ready; seen late, it times out or reads what "
    "is old.",
    fix="NFS: mount with lookupcache=positive and a short acdirmax where jobs wait for files; else see the client's "
    "settings for metadata caching.",
)
def visibility(pairs: Fleet[StoragePair], bar: Storage) -> Verdict:
    """Fails when a synced file reads differently on the other node; warns when changes are seen later than the bar.

    A new file takes 20 turns, there and back, halved; a rename, an append and an unlink one turn each, there and back.
    The other node looks without a break, as a program does that waits: this is the worst case for caches.
    """
    return _each(pairs, _shared(lambda both: _visibility(both, bar)))


def _visibility(both: Both, bar: Storage) -> Verdict:
    first, second = both.first, both.second
    if not first.sha256 or not second.sha256:
        return _unfinished(both, "checksum")
    if first.sha256 != second.sha256:
        return fail("a file that one node wrote and synced reads differently on the other")
    if first.rounds is None or second.rounds is None:
        return _unfinished(both, "visibility")
    return _seen(first, second, bar)


def _seen(first: PairSide, second: PairSide, bar: Storage) -> Verdict:
    limit = bar.visible_s.bar(" s", "<= ")
    if second.unseen:
        return warn(f"not seen within 4 s: {some(second.unseen)}", seen=list(second.unseen), bar=limit)
    if first.create_median_s is None or first.create_max_s is None:
        return warn("a new file was not seen within 12 s", seen=None, bar=limit)
    took = {"create": first.create_max_s, "rename": first.rename_s, "append": first.append_s, "unlink": first.unlink_s}
    late = [f"{name} {s:.1f} s" for name, s in took.items() if s is not None and s > bar.visible_s.value]
    if late:
        return warn(f"seen late: {some(late)}", seen=took, bar=limit)
    words = f"a new file is seen after {_ms(first.create_median_s)}, at most {_ms(first.create_max_s)}"
    return ok(f"{words}; synced content is equal", seen=took, bar=limit)


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms"


@check(
    "storage.pair.import",
    category="storage",
    severity="medium",
    why="Python environments are tens of thousands of small files: where each costs milliseconds, every start of every "
    "job waits for them on every node.",
    fix="Keep environments in container images or squashfs files, or on local disks; ask for the file system's tuning "
    "for small files.",
)
def imports(pairs: Fleet[StoragePair], bar: Storage) -> Verdict:
    """Warns when a node takes longer than the bar to import 2,000 small modules that the other has just written.

    Fewer modules, where there was no time for all, are reckoned up. Caches are not dropped: servers may answer from
    memory, so a first import of the day can be slower.
    """
    return _each(pairs, _shared(lambda both: _import(both, bar)))


def _import(both: Both, bar: Storage) -> Verdict:
    modules, took_s = both.second.modules, both.second.import_s
    if not modules or took_s is None:
        return _unfinished(both, "import")
    whole_s = took_s * _MODULES / modules
    words = f"{modules} small modules imported in {took_s:.1f} s, caches not dropped"
    limit = bar.import_s.bar(f" s for {_MODULES} modules", "<= ")
    return (warn if whole_s > bar.import_s.value else ok)(words, seen=took_s, bar=limit)


@check(
    "slurm.ssh-between.works",
    category="orchestration",
    severity="medium",
    criteria=("exp-slurm-node-ssh",),
    why="Launchers of MPI, Ray and DeepSpeed go from node to node by ssh; a question or a password stops them.",
    fix="Host-based trust or certificates, and host keys of all nodes in /etc/ssh/ssh_known_hosts.",
)
def ssh_works(pairs: Fleet[StoragePair]) -> Verdict:
    """Fails when one of the two nodes does not get to the other by ssh without password and question.

    Only where the target asks for it: try_ssh = true in [targets.NAME.slurm].
    """
    tries = {node: fact.ssh for node, fact in pairs.items() if fact.ssh}
    if not tries:
        return skip("the target does not ask for it (try_ssh)", "not-asked")
    bad = [f"{node} to {ssh.to}: {ssh.said or 'failed'}" for node, ssh in tries.items() if not ssh.ok]
    if bad:
        return fail(some(bad), seen=bad)
    if len(tries) < 2:
        return unknown(f"only {some(tries)} tried it", "too-little")
    return ok(f"{' and '.join(tries)} go to each other by ssh without a password")
