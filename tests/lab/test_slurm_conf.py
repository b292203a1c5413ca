"""Slurm's configuration as it is written for a lab."""

from pathlib import Path

import pytest

from assay.errors import UsageError
from assay.lab import layer, slurm_conf
from assay.lab.scenario import Scenario
from assay.lab.scenarios import SCENARIOS, scenario
from assay.lab.spec import SHAPES, Spec, check, gpu_nodes, hosts

GOLDEN = Path(__file__).parent / "golden"
SPECS = {
    "default": Spec(constrain="cgroup/v1"),
    "unconstrained": Spec(scenario="no-health-checks"),
    "slow-defaults": Spec(slow_defaults=True),
    "accounting": Spec(accounting=True, nodes=2, shape="gb300-nvl72"),
    "many": Spec(nodes=120, shape="mi355x"),
}


@pytest.mark.parametrize("name", SPECS)
def test_slurm_conf_is_the_golden_one(name: str) -> None:
    spec = SPECS[name]
    assert slurm_conf.slurm_conf(spec, scenario(spec.scenario)) == (GOLDEN / f"{name}.conf").read_text()


def test_a_scenario_changes_keys_of_the_cluster_and_of_some_nodes() -> None:
    odd = Scenario(
        "odd",
        "",
        slurm={"ReturnToService": None, "Prolog": "/etc/slurm/prolog"},
        node_lines={"gpu02": {"RealMemory": "2048"}, "spare": {"Gres": ""}},
    )
    text = slurm_conf.slurm_conf(Spec(), odd)
    assert "ReturnToService" not in text
    assert "\nProlog=/etc/slurm/prolog\n" in text
    lines = [line for line in text.splitlines() if line.startswith("NodeName")]
    assert [line.split()[0] for line in lines] == ["NodeName=gpu[01,03-04]", "NodeName=gpu02", "NodeName=gpu05"]
    assert "RealMemory=2048 " in lines[1]
    assert "Gres" not in lines[2]


@pytest.mark.parametrize("shape", SHAPES)
def test_a_node_offers_the_gpus_of_its_shape(shape: str) -> None:
    spec = Spec(shape=shape)
    gpus = 4 if shape == "gb300-nvl72" else 8
    assert slurm_conf.node_keys("gpu01", spec, scenario("healthy"))["Gres"].endswith(f":{gpus}")
    assert f" Count={gpus} " in slurm_conf.gres_conf(spec)


def test_only_the_spare_is_in_no_partition() -> None:
    spec = Spec(nodes=3)
    partitions = [line for line in slurm_conf.slurm_conf(spec, scenario("healthy")).splitlines() if "Partition" in line]
    assert all("Nodes=gpu[01-03]" in line for line in partitions)
    assert len(partitions) == len(slurm_conf.PARTITIONS)


def test_every_host_has_its_own_name_and_addresses() -> None:
    found = hosts(Spec(nodes=300))
    assert len({host.name for host in found}) == len({host.management for host in found}) == 303
    assert gpu_nodes(Spec(nodes=300))[-1] == "gpu301"
    assert "10.78.0.11 gpu01-ib" in layer.hosts_file(Spec()).splitlines()


@pytest.mark.parametrize("spec", [Spec(name="../x"), Spec(nodes=0), Spec(nodes=100_000), Spec(shape="abacus")])
def test_a_lab_that_cannot_be_is_refused(spec: Spec) -> None:
    with pytest.raises(UsageError):
        check(spec)


def test_scenarios_are_known_by_name() -> None:
    assert all(one.summary for one in SCENARIOS.values())
    with pytest.raises(UsageError, match="unknown scenario"):
        scenario("nonesuch")


def test_leaf_switches_hold_every_node_once() -> None:
    assert slurm_conf.topology_conf(Spec(nodes=8), scenario("healthy")) == (
        "SwitchName=leaf1 Nodes=gpu[01-04]\nSwitchName=leaf2 Nodes=gpu[05-08]\nSwitchName=leaf3 Nodes=gpu09\n"
        "SwitchName=spine Switches=leaf[1-3]\n"
    )
