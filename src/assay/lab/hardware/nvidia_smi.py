"""What nvidia-smi prints: `-q -x`, `-q`, `-L`, `topo -m`, `nvlink -s` and `-e`, and its refusals."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from assay.lab.hardware.layout import Device, cpu_ranges, gpu_uuid, numa_of, of, rdma_names
from assay.lab.hardware.nvidia_sections import Section, sections, smi_address
from assay.lab.hardware.shapes import Gpu, Shape
from assay.lab.hardware.state import State
from assay.lab.virtual import Output

_COLUMN = 55
_XML_HEAD = '<?xml version="1.0" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v13.dtd">\n<nvidia_smi_log>\n'
_LEGEND = """
Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)
  NODE = Connection traversing PCIe as well as the interconnect between PCIe Host Bridges within a NUMA node
  PHB  = Connection traversing PCIe as well as a PCIe Host Bridge (typically the CPU)
  PXB  = Connection traversing multiple PCIe bridges (without traversing the PCIe Host Bridge)
  PIX  = Connection traversing at most a single PCIe bridge
  NV#  = Connection traversing a bonded set of # NVLinks
"""


class Smi:
    """nvidia-smi of one machine at one moment; `now` is how it writes the time."""

    def __init__(self, host: str, shape: Shape, state: State, found: tuple[Device, ...], now: str) -> None:
        if shape.gpu is None:
            raise ValueError(f"{shape.name} has no GPU")
        self.host, self.shape, self.state, self.now = host, shape, state, now
        self.gpu: Gpu = shape.gpu
        self.found, self.gpus = found, of("gpu", found)

    def answer(self, arguments: tuple[str, ...]) -> Output:
        """The output of `nvidia-smi` with these arguments."""
        ways: dict[tuple[str, ...], Callable[[], str]] = {
            ("-q", "-x"): self.xml, ("-q",): self.text, ("-L",): self.listed, ("topo", "-m"): self.topology,
            ("nvlink", "-s"): self.links, ("nvlink", "-e"): self.link_errors,
        }  # fmt: skip
        if arguments not in ways:
            raise LookupError(f"nvidia-smi {' '.join(arguments)}")
        if lost := [d for d in self.gpus if self.state.has(d.index, "lost")]:
            handle = (
                f"Unable to determine the device handle for GPU{lost[0].index}: {smi_address(lost[0])}: Unknown Error\n"
            )
            return Output(handle + "No devices were found\n" if len(lost) == len(self.gpus) else handle, rc=15)
        return Output(ways[arguments]())

    # ---- -q ----

    def xml(self) -> str:
        """`nvidia-smi -q -x`."""
        text = _XML_HEAD + "".join(f"\t<{tag}>{value}</{tag}>\n" for tag, value in self._head())
        for device in self.gpus:
            text += f'\t<gpu id="{smi_address(device)}">\n'
            text += "".join(_xml(s, 2) for s in sections(self.host, self.shape, self.state, device))
            text += (
                _clock_list(self.gpu) + self._xml_processes(device) + "\t\t<capabilities>\n\t\t\t<egm>disabled</egm>\n"
            )
            text += "\t\t</capabilities>\n\t</gpu>\n\n"
        return text + "</nvidia_smi_log>\n"

    def text(self) -> str:
        """`nvidia-smi -q`."""
        names = ("Timestamp", "Driver Version", "CUDA Version", "Attached GPUs")
        head = [f"{name:<{_COLUMN}}: {value}\n" for name, (_, value) in zip(names, self._head(), strict=True)]
        text = "\n==============NVSMI LOG==============\n\n" + "".join(head[:3]) + "\n" + head[3]
        for device in self.gpus:
            text += f"GPU {smi_address(device)}\n"
            text += "".join(_text(s, 1) for s in sections(self.host, self.shape, self.state, device))
            text += self._text_processes(device)
        return text + "\n"

    def _head(self) -> list[tuple[str, str]]:
        return [
            ("timestamp", self.now), ("driver_version", self.state.driver), ("cuda_version", self.state.cuda),
            ("attached_gpus", str(len(self.gpus))),
        ]  # fmt: skip

    def _processes(self, device: Device) -> Iterator[tuple[int, str, int]]:
        if self.state.has(device.index, "busy"):
            yield 48211 + device.index, "/opt/train/bin/python3", self.gpu.memory_mib * 9 // 10

    def _xml_processes(self, device: Device) -> str:
        body = ""
        for pid, name, mib in self._processes(device):
            values = {
                "gpu_instance_id": "N/A", "compute_instance_id": "N/A", "pid": pid, "type": "C", "process_name": name,
                "used_memory": f"{mib} MiB",
            }  # fmt: skip
            lines = "".join(f"\t\t\t\t<{tag}>{value}</{tag}>\n" for tag, value in values.items())
            body += f"\t\t\t<process_info>\n{lines}\t\t\t</process_info>\n"
        return f"\t\t<processes>\n{body}\t\t</processes>\n\t\t<accounted_processes>\n\t\t</accounted_processes>\n"

    def _text_processes(self, device: Device) -> str:
        found = list(self._processes(device))
        if not found:
            return _text(("Processes", "", "None"), 1)
        rows = [("GPU instance ID", "N/A", 8), ("Compute instance ID", "N/A", 8)]
        text = "    Processes\n"
        for pid, name, mib in found:
            more = [
                ("Process ID", pid, 8),
                ("Type", "C", 12),
                ("Name", name, 12),
                ("Used GPU Memory", f"{mib} MiB", 12),
            ]
            text += "".join(f"{' ' * indent + label:<42}: {value}\n" for label, value, indent in (*rows, *more))
        return text

    # ---- lists and links ----

    def listed(self) -> str:
        """`nvidia-smi -L`."""
        return "".join(f"GPU {d.index}: {self._title(d)}\n" for d in self.gpus)

    def _title(self, device: Device) -> str:
        return f"{self.gpu.name} (UUID: {gpu_uuid(self.host, device.index)})"

    def links(self) -> str:
        """`nvidia-smi nvlink -s`."""
        if not self.gpu.links:
            words = "\t Unable to retrieve NVLink information: this device does not have or support Nvlink\n"
            return "".join(f"GPU {d.index}: {self._title(d)}\n{words}" for d in self.gpus)
        lines = "".join(f"\t Link {n}: {self.gpu.link_gbs:g} GB/s\n" for n in range(self.gpu.links))
        return "".join(f"GPU {d.index}: {self._title(d)}\n{lines}" for d in self.gpus)

    def link_errors(self) -> str:
        """`nvidia-smi nvlink -e`."""
        names = ("Replay Errors", "Recovery Errors", "CRC Errors")
        lines = "".join(f"\t Link {n}: {name}: 0\n" for n in range(self.gpu.links) for name in names)
        return "".join(f"GPU {d.index}: {self._title(d)}\n{lines}" for d in self.gpus)

    def topology(self) -> str:
        """`nvidia-smi topo -m`."""
        cards = rdma_names(self.found)
        rows = {f"GPU{d.index}": d for d in self.gpus} | {f"NIC{i}": d for i, d in enumerate(cards.values())}
        text = "\t" + "\t".join((*rows, "CPU Affinity", "NUMA Affinity", "GPU NUMA ID")) + "\n"
        for name, row in rows.items():
            text += "\t".join((name, *(self._code(row, column) for column in rows.values())))
            text += ("\t" + "\t".join(self._affinity(row)) if row.kind == "gpu" else "") + "\n"
        names = "".join(f"  NIC{i}: {name}\n" for i, name in enumerate(cards))
        return text + _LEGEND + (f"\nNIC Legend:\n\n{names}" if names else "") + "\n"

    def _code(self, row: Device, column: Device) -> str:
        if row.address == column.address:
            return " X "
        if row.kind == column.kind == "gpu" and self.gpu.links:
            return f"NV{self.gpu.links}"
        if row.parents[:2] == column.parents[:2] and len(row.parents) > 1:
            return "PIX"
        if row.parents[:1] == column.parents[:1]:
            return "PIX"
        return "PHB" if self.shape.guest else "NODE" if row.numa == column.numa else "SYS"

    def _affinity(self, device: Device) -> tuple[str, str, str]:
        cpus = cpu_ranges(self.shape, numa_of(self.shape, device.index, self.shape.gpus))
        memory = str(2 + 8 * device.index) if self.gpu.coherent else "N/A"
        return cpus, str(max(device.numa, 0)), memory


def _xml(section: Section, depth: int) -> str:
    _, tag, value = section
    indent = "\t" * depth
    if tag == "mig_devices":
        return f"{indent}<{tag}>\n{indent}\t{value}\n{indent}</{tag}>\n"
    if isinstance(value, str):
        return f"{indent}<{tag}>{value}</{tag}>\n"
    return f"{indent}<{tag}>\n{''.join(_xml(s, depth + 1) for s in value)}{indent}</{tag}>\n"


def _text(section: Section, depth: int) -> str:
    label, tag, value = section
    indent = "    " * depth
    if tag == "mig_devices":
        return ""
    if isinstance(value, str):
        return f"{indent + label:<{_COLUMN}}: {value}\n"
    if tag.endswith("_retirement"):
        return f"{indent + label:<{_COLUMN}}: N/A\n"
    return f"{indent}{label}\n" + "".join(_text(s, depth + 1) for s in value)


def _clock_list(gpu: Gpu) -> str:
    steps = "".join(
        f"\t\t\t\t<supported_graphics_clock>{mhz} MHz</supported_graphics_clock>\n"
        for mhz in range(gpu.sm_mhz, 300, -15)
    )
    return (
        f"\t\t<supported_clocks>\n\t\t\t<supported_mem_clock>\n\t\t\t\t<value>{gpu.memory_mhz} MHz</value>\n{steps}"
        "\t\t\t</supported_mem_clock>\n\t\t</supported_clocks>\n"
    )
