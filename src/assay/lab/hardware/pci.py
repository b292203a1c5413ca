"""The PCI part of sysfs and what lspci says of the bridges."""

from __future__ import annotations

from collections.abc import Iterable

from assay.lab.hardware.layout import Device
from assay.lab.parts import Parts
from assay.lab.virtual import Output, Tool, VirtualHost

_COUNTED = ("pcieport", "nvidia", "amdgpu", "mlx5_core", "nvme")
_NAMES = {
    ("8086", "352a"): "Intel Corporation Device 352a (rev 30)",
    ("1022", "153b"): "Advanced Micro Devices, Inc. [AMD] Turin PCIe Dummy Host Bridge (rev 01)",
    ("10de", "22b1"): "NVIDIA Corporation Device 22b1",
    ("1000", "c030"): "Broadcom / LSI PEX890xx PCIe Gen 5 Switch (rev b0)",
    ("1b36", "000c"): "Red Hat, Inc. QEMU PCIe Root port",
}
_PORTS = {"root": "Root Port (Slot+)", "upstream": "Upstream Port", "downstream": "Downstream Port (Slot+)"}
_CTL_ON = "SrcValid+ TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans-"
_CTL_OFF = "SrcValid- TransBlk- ReqRedir- CmpltRedir- UpstreamFwd- EgressCtrl- DirectTrans-"


def sysfs(found: Iterable[Device]) -> Parts:
    """/sys/bus/pci and the devices behind it."""
    parts = Parts()
    for device in found:
        _device(parts, device)
    return parts


def _device(parts: Parts, d: Device) -> None:
    home = f"/sys/{d.path}"
    parts.put(
        home,
        {
            "vendor": f"0x{d.vendor}", "device": f"0x{d.device.lower()}", "class": f"0x{d.code}", "numa_node": d.numa,
            "current_link_speed": d.speed, "current_link_width": d.width, "max_link_speed": d.speed,
            "max_link_width": d.width,
        },
    )  # fmt: skip
    parts.files[f"{home}/uevent"] = _uevent(d)
    parts.links[f"/sys/bus/pci/devices/{d.address}"] = f"../../../{d.path}"
    if d.driver:
        up = "../" * (d.path.count("/") + 1)
        parts.links[f"{home}/driver"] = f"{up}bus/pci/drivers/{d.driver}"
        parts.links[f"/sys/bus/pci/drivers/{d.driver}/{d.address}"] = f"../../../../{d.path}"
    if d.driver in _COUNTED:
        for severity, name in (("correctable", "COR"), ("nonfatal", "NONFATAL"), ("fatal", "FATAL")):
            parts.files[f"{home}/aer_dev_{severity}"] = _errors(severity, name)


def _uevent(d: Device) -> str:
    driver = f"DRIVER={d.driver}\n" if d.driver else ""
    ids = f"PCI_ID={d.vendor}:{d.device}\nPCI_SUBSYS_ID={d.vendor}:{d.subsystem}\n".upper()
    return f"{driver}PCI_CLASS={d.code.lstrip('0').upper()}\n{ids}PCI_SLOT_NAME={d.address}\n"


def _errors(severity: str, name: str) -> str:
    kinds = (
        ("RxErr", "BadTLP", "BadDLLP", "Rollover", "Timeout", "NonFatalErr")
        if severity == "correctable"
        else ("DLP", "SDES", "TLP", "FCP", "CmpltTO", "UnxCmplt", "ECRC")
    )
    return "".join(f"{kind} 0\n" for kind in kinds) + f"TOTAL_ERR_{name} 0\n"


def lspci(found: Iterable[Device], *, acs: bool) -> Tool:
    """`lspci -D -vvv -d ::0604`; the extended capabilities are for root only."""
    bridges = [d for d in found if d.kind == "bridge"]

    def tool(argv: tuple[str, ...], host: VirtualHost) -> Output:
        if argv[1:] != ("-D", "-vvv", "-d", "::0604"):
            raise LookupError(f"lspci {argv[1:]}")
        return Output("\n".join(_bridge(d, acs=acs, root=host.uid == 0) for d in bridges) + "\n")

    return tool


def _bridge(d: Device, *, acs: bool, root: bool) -> str:
    name = _NAMES.get((d.vendor, d.device), f"Device {d.vendor}:{d.device}")
    head = f"{d.address} PCI bridge: {name} (prog-if 00 [Normal decode])\n"
    head += "\tControl: I/O- Mem+ BusMaster+ SpecCycle- MemWINV- VGASnoop- ParErr+ Stepping- SERR+ FastB2B- DisINTx+\n"
    if d.numa >= 0:
        head += f"\tNUMA node: {d.numa}\n"
    if not root:
        return head + "\tCapabilities: <access denied>\n\tKernel driver in use: pcieport\n"
    speed = d.speed.removesuffix(" PCIe").replace(".0", "").replace(" ", "")
    head += f"\tCapabilities: [68] Express (v2) {_PORTS[d.express]}, MSI 00\n"
    head += f"\t\tLnkSta:\tSpeed {speed}, Width x{d.width}\n"
    if d.express != "upstream":
        head += "\tCapabilities: [170 v1] Access Control Services\n"
        head += "\t\tACSCap:\tSrcValid+ TransBlk+ ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans+\n"
        head += f"\t\tACSCtl:\t{_CTL_ON if acs else _CTL_OFF}\n"
    return head + "\tKernel driver in use: pcieport\n"
