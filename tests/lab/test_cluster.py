"""The lab as its users meet it: a real Slurm on hosts that are apart from each other and from this machine."""

import json
import subprocess
import sys
import time
from collections.abc import Callable

import pytest

from assay.lab.control import Lab
from assay.lab.spec import gpu_nodes, spare

NODES = ("gpu01", "gpu02", "gpu03", "gpu04")
XID = "NVRM: Xid (PCI:0000:19:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."


def sh(lab: Lab, host: str, script: str, user: str = "root") -> str:
    done = lab.run(host, ["bash", "-c", script], user=user)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def assay(lab: Lab, verb: str, *argv: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    own = [sys.executable, "-m", "assay", "lab", verb, "--name", lab.name, *argv]
    return subprocess.run(own, input=stdin, capture_output=True, text=True, check=False, timeout=60)


def until(met: Callable[[], bool], what: str, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not met():
        assert time.monotonic() < end, f"not in {seconds} s: {what}"
        time.sleep(0.1)


def state(lab: Lab, node: str) -> str:
    return sh(lab, "ctl", f"scontrol -o show node {node} | grep -o ' State=[^ ]*'").removeprefix("State=")


def resume(lab: Lab, node: str) -> None:
    """Back to idle, whatever state Slurm has the node in."""

    def idle() -> bool:
        lab.run("ctl", ["scontrol", "update", f"nodename={node}", "state=resume"])  # an error where it is idle already
        return state(lab, node) == "IDLE" and "ready" in lab.ask("status")["hosts"][node]["boot"]

    until(idle, f"{node} idle")


# ---- hosts ----------------------------------------------------------------------------------------------------


def test_every_host_has_its_own_name_networks_processes_and_uptime(lab: Lab) -> None:
    seen = {}
    for node in NODES:
        seen[node] = sh(lab, node, "hostname; cat /etc/machine-id /proc/sys/kernel/random/boot_id; ip -br -4 addr")
        assert seen[node].startswith(f"{node}\n")
        assert "eth0@" in seen[node]
        assert "ib0@" in seen[node]
        assert sh(lab, node, "cat /proc/1/comm") == "init"
    assert float(sh(lab, "login", "cat /proc/uptime").split()[0]) > lab.spec().uptime_s - 60
    assert len(set(seen.values())) == len(NODES)
    assert "ib0" not in sh(lab, "login", "ls /sys/class/net")


def test_hosts_reach_each_other_in_both_networks(lab: Lab) -> None:
    listen = "import socket; s=socket.create_server(('', 7)); print(s.accept()[1][0])"
    for name, address in (("gpu02", "10.77.0.11"), ("gpu02-ib", "10.78.0.11")):
        with subprocess.Popen(
            [sys.executable, "-m", "assay.lab.enter", lab.name, "gpu02", "root", "python3", "-c", listen],
            stdout=subprocess.PIPE, text=True,
        ) as server:  # fmt: skip
            until(lambda name=name: not lab.run("gpu01", ["bash", "-c", f": >/dev/tcp/{name}/7"]).returncode, name)  # type: ignore[misc]
            assert server.communicate(timeout=30)[0].strip() == address


def test_this_machine_is_out_of_reach(lab: Lab) -> None:
    assert lab.run("gpu01", ["bash", "-c", "echo 1 >/proc/sys/vm/swappiness"]).returncode != 0
    assert sh(lab, "gpu01", "ls -A /root /home") == "/home:\n\n/root:"
    assert "cap_sys_module" not in sh(lab, "gpu01", "setpriv --dump | grep -i bounding")
    if lab.spec().constrain:
        assert lab.run("gpu01", ["mknod", "/dev/disk", "b", "8", "0"]).returncode != 0


def test_what_a_node_writes_stays_there_and_shared_is_shared(lab: Lab) -> None:
    sh(lab, "gpu01", "echo own >/usr/local/own; echo ours >/shared/ours")
    assert lab.run("gpu02", ["cat", "/usr/local/own"]).returncode != 0
    assert sh(lab, "gpu02", "cat /shared/ours; rm /shared/ours") == "ours"
    inodes = {sh(lab, node, "stat -c %d:%i /shared/home") for node in ("login", *NODES)}
    assert len(inodes) == 1


def test_keys_are_on_the_control_node_only(lab: Lab) -> None:
    look = "find /etc /run /tmp /shared /var -name munge.key -o -name jwt.key; ls -A /etc/munge"
    assert "munge.key" in sh(lab, "ctl", look)
    for host in ("login", *NODES):
        assert sh(lab, host, look) == ""
        assert "STATUS:          Success" in sh(lab, host, "munge -n | unmunge")


def test_tenants_are_apart(lab: Lab) -> None:
    assert sh(lab, "login", "pwd; id -u", user="alice") == "/shared/home/alice\n1000"
    sh(lab, "login", "echo secret >file", user="alice")
    assert lab.run("gpu01", ["cat", "/shared/home/alice/file"], user="bob").returncode != 0


# ---- Slurm ----------------------------------------------------------------------------------------------------


def test_the_spare_is_in_no_partition(lab: Lab) -> None:
    listed = sh(lab, "login", "sinfo -h -N -o '%N %P %T'").splitlines()
    assert {line.split()[0] for line in listed} == set(NODES)
    assert {line.split()[1] for line in listed} == {"batch*", "all"}
    assert state(lab, spare(lab.spec())) == "IDLE"


def test_an_ordinary_user_runs_on_all_nodes_with_gpus_of_his_own(lab: Lab) -> None:
    said = sh(
        lab, "login", "srun -N4 --gpus-per-node=2 bash -c 'echo $(hostname) $CUDA_VISIBLE_DEVICES $(id -u)'", "alice"
    )
    assert sorted(said.splitlines()) == [f"{node} 0,1 1000" for node in NODES]
    job = sh(lab, "login", "sbatch --parsable -W --gres=gpu:8 --wrap 'echo $SLURM_JOB_GPUS'", "alice")
    assert sh(lab, "gpu01", f"cat /shared/home/alice/slurm-{job}.out", "alice") == "0,1,2,3,4,5,6,7"


def test_a_job_is_kept_to_its_gpus(lab: Lab) -> None:
    if not lab.spec().constrain:
        pytest.skip("no cgroups of version 1 on this machine")
    read = "for i in 0 1 2 7; do head -c1 /dev/nvidia$i 2>&1; done; true"
    said = sh(lab, "login", f"srun -N1 --gpus-per-node=2 bash -c '{read}'", "alice").splitlines()
    assert [line.rpartition(": ")[2] for line in said] == ["No such device or address"] * 2 + [
        "Operation not permitted"
    ] * 2


def test_a_reboot_through_slurm_is_a_real_one(lab: Lab) -> None:
    boot_id = sh(lab, "gpu04", "cat /proc/sys/kernel/random/boot_id; echo kept >/var/lib/kept")
    sh(lab, "ctl", "scontrol reboot ASAP nextstate=RESUME gpu04")
    until(lambda: lab.ask("status")["hosts"]["gpu04"]["boots"] > 1, "the second boot")
    until(lambda: state(lab, "gpu04") == "IDLE", "gpu04 idle")
    assert sh(lab, "gpu04", "cat /proc/sys/kernel/random/boot_id") != boot_id
    assert float(sh(lab, "gpu04", "cat /proc/uptime").split()[0]) < 100
    assert sh(lab, "gpu04", "cat /var/lib/kept") == "kept"
    assert "emulated machine gpu04" in sh(lab, "gpu04", "dmesg")


def test_the_health_check_drains_the_node_that_had_an_xid(lab: Lab) -> None:
    lab.ask("kmsg", "gpu03", text=f"<3>{XID}")
    until(lambda: "DRAIN" in state(lab, "gpu03"), "gpu03 drained")
    try:
        assert "health-check: Xid (PCI:0000:19:00): 79" in sh(lab, "ctl", "scontrol show node gpu03")
        assert state(lab, "gpu02") == "IDLE"
    finally:
        assert assay(lab, "power", "gpu03", "off").returncode == 0
        until(lambda: lab.ask("status")["hosts"]["gpu03"]["power"] == "off", "gpu03 off")
        assert assay(lab, "exec", "gpu03", "--", "true").returncode == 2
        assert assay(lab, "power", "gpu03", "on").returncode == 0
        resume(lab, "gpu03")
    assert "Xid" not in sh(lab, "gpu03", "dmesg")


def test_a_cut_fabric_leaves_slurm_content(lab: Lab) -> None:
    connect = ["timeout", "3", "bash", "-c", ": >/dev/tcp/gpu01-ib/6818"]
    assert lab.run("gpu02", connect).returncode == 0
    assert assay(lab, "link", "gpu01", "ib0", "down").returncode == 0
    try:
        assert lab.run("gpu02", connect).returncode != 0
        assert lab.run("gpu02", ["bash", "-c", ": >/dev/tcp/gpu01/6818"]).returncode == 0
        assert "NO-CARRIER" in sh(lab, "gpu01", "ip link show ib0")
        assert state(lab, "gpu01") == "IDLE"
    finally:
        assert assay(lab, "link", "gpu01", "ib0", "up").returncode == 0
    assert assay(lab, "link", "login", "ib0", "down").returncode == 2


# ---- kernel log and hardware ----------------------------------------------------------------------------------


def test_a_kernel_log_belongs_to_one_node_and_user_space_cannot_speak_as_the_kernel(lab: Lab) -> None:
    wait = (
        'exec 3</dev/kmsg; echo open; while read -r line <&3; do case $line in *marked*) echo "$line"; exit; esac; done'
    )
    with subprocess.Popen(
        [sys.executable, "-m", "assay.lab.enter", lab.name, "gpu02", "root", "bash", "-c", wait],
        stdout=subprocess.PIPE, text=True,
    ) as reader:  # fmt: skip
        assert reader.stdout
        assert reader.stdout.readline() == "open\n"
        lab.ask("kmsg", "gpu02", text="<6>marked by the kernel")
        assert reader.stdout.readline().startswith("6,")
        assert reader.wait(30) == 0
    sh(lab, "gpu02", "echo '<3>marked by a program' >/dev/kmsg")
    history = sh(lab, "gpu02", "timeout 5 dd if=/dev/kmsg iflag=nonblock bs=8192 2>/dev/null | grep marked; true")
    assert [line.partition(",")[0] for line in history.splitlines()] == ["6", "11"]
    assert "marked by a program" in sh(lab, "gpu02", "dmesg")
    assert "marked" not in sh(lab, "gpu01", "dmesg")


def test_the_hardware_is_what_its_state_says_and_only_on_that_node(lab: Lab) -> None:
    count = "nvidia-smi -L | wc -l; ls /dev/nvidia[0-9] | wc -l; ls /proc/driver/nvidia/gpus | wc -l"
    assert sh(lab, "gpu02", count).split() == ["8"] * 3
    lab.ask("state", "gpu02", fields={"gpus": {"5": ["off-bus"]}, "rails_down": [0]})
    try:
        assert sh(lab, "gpu02", count, "alice").split() == ["7"] * 3
        assert "DOWN" in sh(lab, "gpu02", "cat /sys/class/infiniband/*/ports/1/state")
        assert sh(lab, "gpu01", count).split() == ["8"] * 3
    finally:
        lab.ask("state", "gpu02", fields={"gpus": {}, "rails_down": []})
    assert sh(lab, "gpu02", count).split() == ["8"] * 3


def test_every_node_has_gpus_of_its_own(lab: Lab) -> None:
    lists = {sh(lab, node, "nvidia-smi -L") for node in gpu_nodes(lab.spec())}
    assert len(lists) == len(gpu_nodes(lab.spec()))
    assert lab.run("login", ["nvidia-smi"]).returncode == 127
    refused = lab.run("gpu01", ["nvidia-smi", "--no-such-option"])
    assert refused.returncode != 0


# ---- the command line -----------------------------------------------------------------------------------------


def test_exec_is_transparent(lab: Lab) -> None:
    done = assay(
        lab,
        "exec",
        "-u",
        "alice",
        "gpu01",
        "--",
        "sh",
        "-c",
        'cat; echo "$0 $1" >&2; exit 7',
        "a b",
        "$HOME",
        stdin="in",
    )
    assert (done.returncode, done.stdout, done.stderr) == (7, "in", "a b $HOME\n")
    assert assay(lab, "exec", "gpu01", "no-such-program").returncode == 127
    assert assay(lab, "exec", "gpu01", "sh", "-c", "kill -9 $$").returncode == 137


def test_what_is_wrong_is_said_and_ends_with_2(lab: Lab) -> None:
    for argv, said in (
        (("exec", "gpu99", "--", "true"), "no host 'gpu99' in this lab"),
        (("up",), "is already up"),
        (("link", "ctl", "ib0", "up"), "ctl has no ib0"),
    ):
        done = assay(lab, *argv)
        assert done.returncode == 2
        assert said in done.stderr
    absent = subprocess.run(
        [sys.executable, "-m", "assay", "lab", "exec", "--name", "nonesuch", "gpu01", "true"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (absent.returncode, "no lab 'nonesuch' is up" in absent.stderr) == (2, True)


def test_status_tells_hosts_and_how_gpus_are_kept(lab: Lab) -> None:
    found = json.loads(assay(lab, "status", "--json").stdout)
    assert found["emulated"] is True
    assert found["device_constraint"].startswith("cgroup/v1" if lab.spec().constrain else "none: ")
    assert {name: host["role"] for name, host in found["hosts"].items()}["login"] == "login"
    assert found["hosts"]["gpu01"]["slurm"] == "IDLE"
    assert "spare" in assay(lab, "status").stdout


def test_logs_are_there_also_of_a_node_that_is_off(lab: Lab) -> None:
    name = spare(lab.spec())
    assay(lab, "power", name, "off")
    until(lambda: lab.ask("status")["hosts"][name]["power"] == "off", "the spare off")
    assert "slurmd version" in assay(lab, "log", name).stdout
    assay(lab, "power", name, "on")
    resume(lab, name)
