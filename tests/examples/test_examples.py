"""Every example run is what its generator makes today, and is judged as its golden file says.

After a change of a probe or a rule: `python scripts/examples.py --golden`, then read the difference.
"""

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

from assay.audit.judge import facts_of, judge_run
from assay.checks.engine import NodeFacts, judge
from assay.checks.registry import When, checks
from assay.facts.source import sources
from assay.lab.hosts import EXAMPLES, NOW, TENANT, Machine, State, build, variant
from assay.lab.virtual import VirtualHost, answer
from assay.model import Finding, Status
from assay.profiles import Profiles
from assay.run.archive import unpack
from assay.run.store import Run

ROOT = Path(__file__).resolve().parents[2]
LIMIT = 150 << 10
HEALTHY = ("hgx-h100", "hgx-b300", "gb300-tray", "mi355x", "login-cpu", "vm-pcie", "unprivileged")
# What a well kept host still shows: evidence that nobody on it can give, and choices that are debatable.
EXPECTED = {
    "bmc.in-band", "kernel.log.readable", "minimums.kernel", "numa.gpu-memory", "storage.local-scratch",
    "health.active.light",
}  # fmt: skip
PLANTED = {
    "cuda.nvcc.gpu", "cuda.nvcc.path", "health.fresh", "kernel.log.kept", "kernel.log.readable", "kernel.named-cves",
    "kernel.newest-runs", "memory.swap", "minimums.docker", "minimums.nvidia-container-toolkit",
    "minimums.nvidia-driver",
    "minimums.runc", "net.gpudirect.path", "net.pcie.acs", "net.rdma.ports", "nvidia.gpu.count",
    "nvidia.profiling.open",
    "nvidia.remapped-rows", "sockets.observability", "ssh.password-login", "storage.image-space", "storage.space",
    "sudo.not-for-everyone", "time.synchronised", "users.identity-provider", "virt.nested",
}  # fmt: skip


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("examples_generator", ROOT / "scripts" / "examples.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def script() -> ModuleType:
    return generator()


def committed(name: str, directory: Path) -> Run:
    return unpack(ROOT / "examples" / f"{name}.assay", directory / "packed")


def golden(name: str) -> dict[str, list[list[str]]]:
    loaded: dict[str, list[list[str]]] = json.loads((Path(__file__).parent / f"{name}.json").read_text())
    return loaded


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_committed_run_is_what_the_generator_makes(name: str, script: ModuleType, tmp_path: Path) -> None:
    old, new = committed(name, tmp_path), script.record(name, tmp_path / "new")
    assert (ROOT / "examples" / f"{name}.assay").stat().st_size < LIMIT
    assert old.info.emulated
    assert not old.problems()
    for node in new.index.nodes():
        ids = {place.probe: place.id for place in old.index.of_node(node)}
        changed = [place.probe for place in new.index.of_node(node) if ids.get(place.probe) != place.id]
        assert not changed, f"{node}: run python scripts/examples.py --golden"
        assert len(ids) == len(new.index.of_node(node))


@pytest.mark.parametrize("name", EXAMPLES)
def test_verdicts_are_those_of_the_golden_file(name: str, script: ModuleType, tmp_path: Path) -> None:
    assert json.loads(json.dumps(script.verdicts(committed(name, tmp_path)))) == golden(name)


def test_each_example_has_a_golden_file_and_nothing_is_left_over() -> None:
    assert {p.stem for p in Path(__file__).parent.glob("*.json")} == set(EXAMPLES)
    assert {p.stem for p in (ROOT / "examples").glob("*.assay")} == set(EXAMPLES)


@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_host_raises_no_alarm(name: str) -> None:
    found = golden(name)
    assert not [row for row in found["loud"] if row[1] in ("fail", "error")]
    assert {row[0] for row in found["loud"]} <= EXPECTED


def test_every_planted_fault_is_found_by_name() -> None:
    loud = {row[0] for row in golden("badly-kept")["loud"] if row[1] in ("fail", "warn")}
    assert sorted(PLANTED - loud) == []


def test_a_hung_smi_fails_and_is_never_skipped() -> None:
    loud = {row[0]: row[1] for row in golden("hung-smi")["loud"]}
    assert loud["nvidia.gpu.responds"] == "fail"
    host = build(EXAMPLES["hung-smi"][0])
    skipped = {f.check for f in verdicts([host]) if f.status is Status.SKIP}
    healthy = {f.check for f in verdicts([build(EXAMPLES["hgx-h100"][0])]) if f.status is Status.PASS}
    assert skipped & healthy == set(), "what nvidia-smi would have told is unknown, not inapplicable"


def facts(host: VirtualHost) -> NodeFacts:
    known = {name: source for name, source in sources().items() if source.probe.place == "node"}
    return facts_of(host.name, [(name, answer(host, source.probe)) for name, source in known.items()], known)


def verdicts(found: list[VirtualHost]) -> list[Finding]:
    return judge([facts(host) for host in found], checks().values(), Profiles(), When(NOW))


WORSE = {
    "badly kept": EXAMPLES["badly-kept"][0],
    "healthy": EXAMPLES["hgx-h100"][0],
    "faulty": variant(
        EXAMPLES["hgx-h100"][0],
        state=State(
            gpus={0: frozenset({"ecc"}), 2: frozenset({"throttle"}), 3: frozenset({"hot"})},
            acs=True,
            rails_down=frozenset({7}),
        ),
    ),
    "a lost GPU": variant(EXAMPLES["hgx-b300"][0], state=State(gpus={6: frozenset({"lost"})})),
    "amd": EXAMPLES["mi355x"][0],
}


@pytest.mark.parametrize("machine", WORSE.values(), ids=WORSE)
def test_a_tenant_never_passes_what_root_would_have_failed(machine: Machine) -> None:
    root = {f.check: f for f in verdicts([build(machine)])}
    tenant = {f.check: f for f in verdicts([build(variant(machine, uid=TENANT))])}
    alarm = (Status.FAIL, Status.WARN)
    assert not [
        f"{n}: {root[n].message}" for n, f in tenant.items() if f.status is Status.PASS and root[n].status in alarm
    ]
    refused = [f for n, f in tenant.items() if root[n].status is not Status.SKIP and f.status is Status.SKIP]
    assert {f.reason for f in refused} <= {"denied"}, [(f.check, f.message) for f in refused if f.reason != "denied"]


def test_what_was_refused_is_listed(tmp_path: Path) -> None:
    judgement = judge_run(committed("unprivileged", tmp_path), Profiles())
    assert {"access.sshd", "access.sudo", "host.identity"} <= {grant.probe for grant in judgement.not_granted}


FAULTS = {
    "ecc": {"nvidia.ecc.uncorrectable"},
    "throttle": {"nvidia.throttle"},
    "hot": {"nvidia.temperature"},
    "remap-pending": {"nvidia.remapped-rows", "nvidia.recovery-action"},
    "off-bus": {"nvidia.gpu.count"},
    "lost": {"nvidia.gpu.responds"},
    "busy": {"nvidia.gpu.processes"},
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("shape", ["hgx-h100", "hgx-b300", "gb300-tray"])
def test_one_fault_of_one_gpu_is_found(shape: str, fault: str) -> None:
    sick = variant(EXAMPLES[shape][0], state=State(gpus={1: frozenset({fault})}))
    found = {f.check for f in verdicts([build(sick)]) if f.status in (Status.FAIL, Status.WARN)}
    assert FAULTS[fault] <= found, sorted(found)
