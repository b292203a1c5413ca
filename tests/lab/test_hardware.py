"""What emulated tools print is read by the parsers of the real ones, and two formats of one tool say the same."""

import msgspec
import pytest

from assay.facts.formats import formats
from assay.facts.nvidia import NvidiaSmi
from assay.lab.hardware.amd import AmdSmi
from assay.lab.hardware.layout import cpu_ranges, devices, of, rdma_names
from assay.lab.hardware.nvidia_smi import Smi
from assay.lab.hardware.shapes import SHAPES
from assay.lab.hardware.state import State

NVIDIA = [name for name, shape in SHAPES.items() if shape.gpu and shape.gpu.vendor == "10de"]
STATES = {
    "idle": State(),
    "busy": State(gpus={0: frozenset({"busy"}), 2: frozenset({"busy"})}),
    "sick": State(gpus={0: frozenset({"ecc", "remap-pending"}), 1: frozenset({"throttle"}), 3: frozenset({"hot"})}),
    "fewer": State(gpus={2: frozenset({"off-bus"})}),
}


def smi(shape: str, state: State) -> Smi:
    return Smi("host-01", SHAPES[shape], state, devices(SHAPES[shape], state), "Mon Nov  2 09:00:00 2026")


@pytest.mark.parametrize("state", STATES.values(), ids=STATES)
@pytest.mark.parametrize("shape", NVIDIA)
def test_text_and_xml_of_nvidia_smi_say_the_same(shape: str, state: State) -> None:
    tool, read = smi(shape, state), formats()
    text: NvidiaSmi = read["nvidia-smi -q"](tool.answer(("-q",)).out)
    xml: NvidiaSmi = read["nvidia-smi -q -x"](tool.answer(("-q", "-x")).out)
    assert text.complete
    assert xml.complete
    assert len(xml.gpus) == SHAPES[shape].gpus - sum("off-bus" in faults for faults in state.gpus.values())
    assert msgspec.to_builtins(text) == msgspec.to_builtins(xml)


@pytest.mark.parametrize("shape", NVIDIA)
def test_lists_and_links_are_readable(shape: str) -> None:
    tool, read, gpu = smi(shape, State()), formats(), SHAPES[shape].gpu
    assert gpu
    assert len(read["nvidia-smi -L"](tool.answer(("-L",)).out).gpus) == SHAPES[shape].gpus
    links = read["nvidia-smi nvlink -s"](tool.answer(("nvlink", "-s")).out)
    assert {g.total for g in links.gpus} == {gpu.links}
    topology = read["nvidia-smi topo -m"](tool.answer(("topo", "-m")).out)
    assert topology.complete
    assert len(topology.gpus) == SHAPES[shape].gpus
    assert len(topology.nics) == len(rdma_names(tool.found))


def test_a_lost_gpu_ends_nvidia_smi() -> None:
    said = smi("hgx-h100", State(gpus={4: frozenset({"lost"})})).answer(("-q", "-x"))
    assert said.rc == 15
    assert "Unable to determine the device handle for GPU4: 00000000:9B:00.0" in said.out


def test_amd_smi_names_every_gpu_and_its_faults() -> None:
    state = State(gpus={3: frozenset({"ecc", "throttle"})})
    shape = SHAPES["mi355x"]
    tool = AmdSmi("host-01", shape, state, devices(shape, state))
    read = formats()
    gpus = read["amd-smi metric"](tool.answer(("metric", "--json")).out).gpus
    assert [g.index for g in gpus if g.ras and g.ras.uncorrectable] == [3]
    assert [g.index for g in gpus if g.violations] == [3]
    static = read["amd-smi static"](tool.answer(("static", "--json")).out).gpus
    assert {g.product for g in static} == {"AMD Instinct MI355X"}
    assert len({g.serial for g in static}) == len({g.bdf for g in static}) == 8


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_addresses_are_unique_and_bridges_exist(shape: msgspec.Struct) -> None:
    found = devices(shape, State())
    addresses = {d.address for d in found}
    assert len(addresses) == len(found)
    assert {parent for d in found for parent in d.parents} <= addresses
    assert {len(of("gpu", found)), shape.gpus} == {shape.gpus}


def test_numa_nodes_share_out_all_cpus() -> None:
    assert cpu_ranges(SHAPES["hgx-h100"], 1) == "56-111,168-223"
    assert cpu_ranges(SHAPES["gb300-tray"], 0) == "0-71"
