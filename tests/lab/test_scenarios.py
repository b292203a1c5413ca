"""Each scenario does in a real lab what it says."""

import functools
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from assay.errors import UsageError
from assay.lab import lifecycle
from assay.lab.control import Lab
from assay.lab.scenarios import SCENARIOS, fits, fitting, scenario
from assay.lab.spec import Spec, spare
from assay.slurm.hostlist import hosts
from lab.scenarios import BASELINE, EXPECTED, NODES, OF_THE_MACHINE
from on_lab import reason, sh, started, state, until

XID = "<3>NVRM: Xid (PCI:0000:19:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
HARMLESS = (
    "<3>NVRM: Xid (PCI:0000:19:00): 31, pid=4711, name=python3, Ch 00000008, MMU Fault: ENGINE GRAPHICS",
    "<3>NVRM: Xid (PCI:0000:19:00): 94, pid=4711, name=python3, Contained: SM (0x1). RST: No, D-RST: No",
    "<3>NVRM: Xid (PCI:0000:19:00): 154, GPU recovery action changed from 0x0 (None) to 0x0 (None)",
    "<6>python3[4711]: segfault at 0 ip 0 sp 0 error 4 NVRM: Xid (PCI:0000:19:00): 79, GPU has fallen off the bus.",
)
Set = Callable[[str], Lab]


@pytest.fixture(scope="module")
def plain(own_name: str) -> Iterator[Lab]:
    yield started(Spec(name=f"{own_name}-sc", scenario="no-health-checks"))
    lifecycle.down(f"{own_name}-sc")


@pytest.fixture
def show(plain: Lab) -> Set:
    """The lab, started over with a scenario."""

    def start_over(name: str) -> Lab:
        lifecycle.start_over(plain.name, name)
        return plain

    return start_over


def partition(lab: Lab) -> set[str]:
    nodes = sh(lab, "ctl", "scontrol show hostnames $(scontrol show partition batch | sed -n 's/^ *Nodes=//p')")
    return set(nodes.split())


def kept(condition: Callable[[], bool], seconds: float) -> None:
    """A condition that holds all the time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        assert condition()
        time.sleep(0.2)


def health_runs(lab: Lab, node: str) -> int:
    return int(sh(lab, node, "wc -l </var/log/node-health.log 2>/dev/null || echo 0"))


def two_more_runs(lab: Lab, node: str) -> None:
    """Wait until the health check has seen all that happened before."""
    before = health_runs(lab, node)
    until(lambda: health_runs(lab, node) >= before + 2, "two runs of the health check")


# ---- the table and the command line ---------------------------------------------------------------------------


def test_the_table_names_every_scenario_and_the_verbs_that_it_says_itself() -> None:
    assert {name: one.found_by for name, one in SCENARIOS.items()} == {n: e.verbs for n, e in EXPECTED.items()}
    assert all(("audit" in expected.verbs) == bool(expected.findings) for expected in EXPECTED.values())


def test_a_scenario_is_refused_where_it_cannot_be_shown() -> None:
    with pytest.raises(UsageError, match="needs 17 nodes of shape gb300-nvl72"):
        fits(Spec(), scenario("nvl72-3-of-18"))
    with pytest.raises(UsageError, match="needs 32 nodes"):
        fits(Spec(), scenario("flat-topology"))
    assert fitting("nvl72-3-of-18", None, None) == ("gb300-nvl72", 17)
    assert fitting("healthy", "mi355x", 2) == ("mi355x", 2)


def assay(*argv: str) -> subprocess.CompletedProcess[str]:
    own = [sys.executable, "-m", "assay", "lab", "scenario", *argv]
    return subprocess.run(own, capture_output=True, text=True, check=False, timeout=60)


def test_the_command_lists_scenarios_and_sets_one(plain: Lab) -> None:
    listed = assay("--list").stdout.splitlines()
    assert [line.split()[0] for line in listed] == list(SCENARIOS)
    assert next(line for line in listed if line.startswith("gpu-count-7 ")).split()[1] == "audit"
    sh(plain, "gpu01", "touch /var/lib/mine /shared/ours")
    assert assay("--name", plain.name, "healthy").returncode == 0
    assert plain.spec().scenario == "healthy"
    assert sh(plain, "gpu01", "ls /var/lib/mine /shared/ours 2>/dev/null; cat /etc/assay-emulated") == "lab hgx-h100"
    for wrong in ("nonesuch", "nvl72-3-of-18"):
        done = assay("--name", plain.name, wrong)
        assert done.returncode == 2
        assert plain.spec().scenario == "healthy"


# ---- what an audit finds --------------------------------------------------------------------------------------


def beyond(lab: Lab, home: Path) -> dict[str, tuple[str, ...]]:
    """What an audit by alice fails or warns about that a healthy lab does not."""
    done = subprocess.run(
        [sys.executable, "-m", "assay", "audit", f"lab:{lab.name}", "--json", "--fresh", "--fail-on", "never"],
        env=os.environ | {"HOME": str(home), "ASSAY_RUNS": str(home / "runs")}, cwd=home,
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode in (0, 3), done.stderr
    found: dict[str, tuple[str, ...]] = {}
    for one in json.loads(done.stdout)["findings"]:
        if one["status"] in {"fail", "warn", "error"} and one["check"] not in BASELINE | OF_THE_MACHINE:
            key = f"{one['check']} {one['status']}"
            found[key] = tuple(sorted({*found.get(key, ()), *(hosts(one["subject"]) or (one["subject"],))}))
    return found


@pytest.mark.parametrize("name", [name for name, one in SCENARIOS.items() if not one.nodes])
def test_an_audit_finds_exactly_what_is_wrong(show: Set, name: str, tmp_path: Path) -> None:
    lab = show(name)
    if name == "softlockup-storage-drain":
        until(lambda: "DRAIN" in state(lab, "gpu02"), "gpu02 drained")
    assert beyond(lab, tmp_path) == EXPECTED[name].findings


# ---- health checks --------------------------------------------------------------------------------------------


def test_a_healthy_provider_swaps_repairs_validates_and_returns(show: Set) -> None:
    lab = show("healthy-provider")
    for line in HARMLESS:
        lab.ask("kmsg", "gpu01", text=line)
    job = sh(lab, "login", "sbatch --parsable --requeue -N1 -w gpu02 --gres=gpu:8 --wrap 'sleep 300'", "alice")
    until(lambda: "ALLOC" in state(lab, "gpu02"), "the job runs")
    lab.ask("state", "gpu02", fields={"gpus": {"0": ["lost"]}})
    lab.ask("kmsg", "gpu02", text=XID)
    until(lambda: "DRAIN" in state(lab, "gpu02"), "gpu02 drained")
    assert reason(lab, "gpu02").startswith("node-health: GPU 0000:19:00: Xid 79")
    until(lambda: partition(lab) == {"gpu01", "gpu03", "gpu04", "gpu05"}, "the spare takes its place")
    log = "cat /var/log/node-lifecycle.log"
    until(lambda: "gpu02: back in service" in sh(lab, "ctl", log), "gpu02 back", 60)
    steps = ("takes its place", f"requeue job {job}", "gpu02: reboot", "gpu02: valid", "gpu02: back in service")
    places = [sh(lab, "ctl", log).index(step) for step in steps]
    assert places == sorted(places)
    assert partition(lab) == set(NODES)
    assert lab.ask("status")["hosts"]["gpu02"]["boots"] == 2
    assert sh(lab, "ctl", "scontrol -o show reservation; squeue -h -w gpu01") == "No reservations in the system"
    assert state(lab, "gpu01") == "IDLE"  # harmless lines


def test_a_foreign_drain_is_left_alone(show: Set) -> None:
    lab = show("healthy-provider")
    sh(lab, "ctl", "scontrol update nodename=gpu03 state=drain reason='ask Mary'")
    lab.ask("kmsg", "gpu03", text=XID)
    two_more_runs(lab, "gpu03")
    assert reason(lab, "gpu03") == "ask Mary"
    assert partition(lab) == set(NODES)


def test_no_health_checks_notice_nothing(show: Set) -> None:
    lab = show("no-health-checks")
    lab.ask("kmsg", "gpu02", text=XID)
    assert "HealthCheckProgram" not in sh(lab, "gpu02", "cat /etc/slurm/slurm.conf")
    assert state(lab, "gpu02") == "IDLE"


def test_circular_gate_waits_for_ever(show: Set) -> None:
    lab = show("circular-gate")
    lab.ask("kmsg", "gpu02", text=XID)
    queue = "squeue -h -n validate-gpu02 -o '%T %r'"
    until(lambda: sh(lab, "ctl", queue) != "", "the validation is submitted")
    kept(lambda: sh(lab, "ctl", queue).startswith("PENDING"), 2)
    assert "DRAIN" in state(lab, "gpu02") or "DOWN" in state(lab, "gpu02")


def test_a_busy_node_is_drained_for_a_diag_that_took_too_long(show: Set) -> None:
    lab = show("diag-timeout-drains-healthy")
    sh(lab, "login", "sbatch -N1 -w gpu02 --gres=gpu:8 --wrap 'sleep 60'", "alice")
    until(lambda: "DRAIN" in state(lab, "gpu02"), "the busy node drained")
    assert reason(lab, "gpu02") == "node-health: GPU: diag timed out"
    assert "Xid" not in sh(lab, "gpu02", "dmesg")
    assert {state(lab, node) for node in NODES if node != "gpu02"} == {"IDLE"}


def test_output_that_nobody_reads_drains_nothing(show: Set) -> None:
    lab = show("output-nobody-reads")
    lab.ask("kmsg", "gpu02", text=XID)
    until(lambda: "GPU 0000:19:00: Xid 79" in sh(lab, "gpu02", "cat /var/log/node-health.log"), "found")
    assert state(lab, "gpu02") == "IDLE"
    assert sh(lab, "login", "srun -N1 -w gpu02 hostname", "alice") == "gpu02"


def test_a_wrong_node_name_is_tried_again_and_again(show: Set) -> None:
    lab = show("wrong-node-name-loop")
    lab.ask("kmsg", "gpu02", text=XID)
    said = "grep -c 'could not drain gpu02.cluster.internal' /var/log/node-health.log || true"
    until(lambda: int(sh(lab, "gpu02", said)) >= 2, "tried twice")
    assert state(lab, "gpu02") == "IDLE"
    assert "Invalid node name" in sh(lab, "gpu02", "cat /var/log/node-health.log")


def test_a_bad_spare_takes_the_place_of_a_bad_node(show: Set) -> None:
    lab = show("bad-spare")
    lab.ask("kmsg", "gpu02", text=XID)
    until(lambda: "gpu05" in partition(lab), "the spare in service")
    assert sh(lab, "login", "srun -N1 -w gpu05 --gres=gpu:8 nvidia-smi -L | wc -l", "alice") == "7"


def test_an_active_check_is_stale(show: Set) -> None:
    lab = show("stale-active-check")
    last = sh(lab, "gpu01", "date -d \"$(cut -d' ' -f1 /var/log/gpu-diag.log | tail -1)\" +%s; date +%s").split()
    assert 8 < (int(last[1]) - int(last[0])) / 86400 < 9
    assert state(lab, "gpu01") == "IDLE"


def test_the_end_of_a_job_drains_its_node_for_storage(show: Set) -> None:
    lab = show("softlockup-storage-drain")
    until(lambda: "DRAIN" in state(lab, "gpu02"), "gpu02 drained")
    assert reason(lab, "gpu02") == "node-health: storage: nfs: server storage01 not responding, still trying"
    heard = sh(lab, "gpu02", "timeout 3 dd if=/dev/kmsg iflag=nonblock bs=8192 2>/dev/null | grep lockup")
    assert heard.startswith("0,")  # by the kernel, not by a program
    assert {state(lab, node) for node in NODES if node != "gpu02"} == {"IDLE"}


# ---- machines -------------------------------------------------------------------------------------------------


def test_seven_of_eight_gpus_and_slurm_is_content(show: Set) -> None:
    lab = show("gpu-count-7")
    counts = {node: sh(lab, node, "nvidia-smi -L | wc -l") for node in NODES}
    assert counts == {"gpu01": "8", "gpu02": "7", "gpu03": "8", "gpu04": "8"}
    two_more_runs(lab, "gpu02")
    assert state(lab, "gpu02") == "IDLE"
    assert "Gres=gpu:h100:8" in sh(lab, "ctl", "scontrol show node gpu02")


def test_a_cut_fabric_stays_cut_over_a_reboot(show: Set) -> None:
    lab = show("fabric-cut")
    connect = ["timeout", "2", "bash", "-c", ": >/dev/tcp/gpu03-ib/6818"]
    assert lab.run("gpu01", connect).returncode != 0
    assert lab.run("gpu01", [*connect[:4], ": >/dev/tcp/gpu03/6818"]).returncode == 0
    assert state(lab, "gpu03") == "IDLE"
    assert sh(lab, "gpu03", "grep -l DOWN /sys/class/infiniband/*/ports/1/state | wc -l") == "8"
    lab.ask("power", "gpu03", to="off")
    until(lambda: lab.ask("status")["hosts"]["gpu03"]["power"] == "off", "gpu03 off")
    lab.ask("power", "gpu03", to="on")
    until(lambda: "ready" in lab.ask("status")["hosts"]["gpu03"]["boot"], "gpu03 on")
    assert sh(lab, "gpu03", "cat /sys/class/net/ib0/carrier") == "0"


def transfer(lab: Lab, node: str) -> float:
    """Seconds that 4 MB to a node take on the fabric."""
    serve = "import socket; c=socket.create_server(('',7)).accept()[0]\nwhile c.recv(1<<16): pass\nc.send(b'x')"
    send = (
        "import socket,sys,time; t=time.time(); s=socket.create_connection((sys.argv[1],7)); s.sendall(bytes(4<<20));"
        "s.shutdown(1); s.recv(1); print(time.time()-t)"
    )
    own = [sys.executable, "-m", "assay.lab.enter", lab.name, node, "root", "python3", "-c", serve]
    with subprocess.Popen(own) as server:
        listening = functools.partial(sh, lab, node, "grep -c ' 0A ' /proc/net/tcp || true")
        until(lambda: int(listening()) >= 2, "listening")  # slurmd and this
        took = float(lab.run("gpu01", ["python3", "-c", send, f"{node}-ib"]).stdout)
        server.wait(30)
    return took


def test_a_straggler_is_slow_and_looks_well(show: Set) -> None:
    lab = show("straggler")
    slow = transfer(lab, "gpu03")
    assert slow > 0.7  # 33 Mbit at 40 Mbit/s
    assert transfer(lab, "gpu02") < slow
    assert sh(lab, "gpu03", "cat /sys/class/net/ib0/carrier") == "1"
    assert {state(lab, node) for node in NODES} == {"IDLE"}


def test_local_scratch_poses_as_shared(show: Set) -> None:
    lab = show("local-scratch-posing-as-shared")
    where = {node: sh(lab, node, "stat -c %d:%i /shared") for node in NODES}
    assert where["gpu01"] == where["gpu02"] != where["gpu03"]
    sh(lab, "login", "srun -N1 -w gpu03 bash -c 'echo lost >/shared/result'", "alice")
    assert lab.run("login", ["cat", "/shared/result"]).returncode != 0
    assert state(lab, "gpu03") == "IDLE"


# ---- Slurm's settings -----------------------------------------------------------------------------------------


def test_a_task_gets_one_core_unless_it_asks(show: Set) -> None:
    cores = "srun -N1 --gres=gpu:8 bash -c 'echo $SLURM_CPUS_ON_NODE'"
    assert sh(show("cpu-default-1"), "login", cores, "alice") == "2"  # both threads of one core
    assert sh(show("no-health-checks"), "login", cores, "alice") == "224"


def test_memory_of_2048_mb_refuses_jobs(show: Set) -> None:
    lab = show("realmemory-2048")
    assert "RealMemory=2048 " in sh(lab, "ctl", "scontrol show node gpu01")
    refused = lab.run("login", ["srun", "-N1", "--mem=16G", "hostname"], user="alice")
    assert refused.returncode != 0
    assert "Memory specification can not be satisfied" in refused.stderr
    assert sh(lab, "login", "srun -N1 hostname", "alice") in NODES


def test_a_prolog_that_outlasts_messages(show: Set) -> None:
    lab = show("prolog-hangs")
    begun = time.monotonic()
    assert sh(lab, "login", "srun -N1 -w gpu02 hostname", "alice") == "gpu02"
    limit = "scontrol show config | sed -n 's/^MessageTimeout *= \\([0-9]*\\).*/\\1/p'"
    assert time.monotonic() - begun > int(sh(lab, "ctl", limit))


def test_users_may_submit_scripts_only(show: Set) -> None:
    lab = show("no-srun-for-users")
    refused = lab.run("login", ["srun", "-N1", "hostname"], user="alice")
    assert refused.returncode != 0
    assert "use sbatch" in refused.stderr
    job = sh(lab, "login", "sbatch --parsable -N1 --wrap 'srun hostname'", "alice")
    until(lambda: sh(lab, "login", f"cat ~/slurm-{job}.out || true", "alice") in NODES, "the job's output")


# ---- labs of another size -------------------------------------------------------------------------------------


def test_flat_topology_spans_racks(own_name: str, tmp_path: Path) -> None:
    lab = started(Spec(name=f"{own_name}-flat", scenario="flat-topology", nodes=32))
    try:
        switches = sh(lab, "login", "scontrol -o show topology").splitlines()
        assert [line.split()[0] for line in switches] == ["SwitchName=switch"]
        racks = set(sh(lab, "login", "sinfo -h -N -o %f").split())
        assert racks == {f"h100,rack{number}" for number in range(1, 9)}
        assert beyond(lab, tmp_path) == EXPECTED["flat-topology"].findings
    finally:
        lifecycle.down(lab.name)


def test_three_trays_of_a_domain_are_out(own_name: str, tmp_path: Path) -> None:
    lab = started(Spec(name=f"{own_name}-nvl", scenario="nvl72-3-of-18", nodes=17, shape="gb300-nvl72"))
    try:
        out = ("gpu03", "gpu07", "gpu11")
        until(lambda: all("DRAIN" in state(lab, tray) for tray in out), "three trays drained")
        assert all("Xid 149" in reason(lab, tray) for tray in out)
        assert sum("DRAIN" not in state(lab, f"gpu{n:02d}") for n in range(1, 19)) == 15
        trays = ("gpu01", "gpu18")
        uuids = {sh(lab, tray, "nvidia-smi -q | grep -iE 'ClusterUUID|CliqueId'") for tray in trays}
        assert len(uuids) == 1
        assert spare(lab.spec()) == "gpu18"
        assert beyond(lab, tmp_path) == EXPECTED["nvl72-3-of-18"].findings
    finally:
        lifecycle.down(lab.name)
