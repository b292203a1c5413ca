"""What the node is: bare metal, a virtual machine, a container."""

from __future__ import annotations

from typing import Literal

from assay.facts.source import source
from assay.model import Env, Fact, Files, Missing, Probe, RawFact, Stat

DMI = "/sys/class/dmi/id/"
# DMI words (vendor and product in one string, lower case) of machines that only exist as guests.
_HYPERVISORS = (
    ("qemu", "kvm"), ("kvm", "kvm"), ("standard pc (", "kvm"), ("openstack", "kvm"), ("ovirt", "kvm"), ("rhev", "kvm"),
    ("kubevirt", "kvm"), ("firecracker", "firecracker"), ("cloud hypervisor", "cloud-hypervisor"),
    ("vmware", "vmware"), ("virtualbox", "virtualbox"), ("innotek", "virtualbox"), ("hvm domu", "xen"),
    ("bhyve", "bhyve"), ("parallels", "parallels"), ("nutanix", "ahv"), ("apple virtualization", "apple"),
    ("microsoft corporation virtual machine", "hyper-v"),
)  # fmt: skip
# Clouds that put their own name there, on guests and on their bare-metal shapes alike.
_CLOUDS = (
    ("amazon ec2", "aws"), ("google", "gcp"), ("microsoft corporation", "azure"), ("alibaba cloud", "alibaba"),
    ("digitalocean", "digitalocean"), ("scaleway", "scaleway"), ("hetzner", "hetzner"), ("akamai", "akamai"),
    ("linode", "akamai"), ("vultr", "vultr"), ("upcloud", "upcloud"), ("ovhcloud", "ovh"), ("tencent", "tencent"),
    ("huawei cloud", "huawei"), ("oraclecloud", "oci"), ("nebius", "nebius"),
)  # fmt: skip
_MAKERS = (
    "supermicro", "dell", "hewlett", "hpe", "lenovo", "nvidia", "quanta", "qct", "wiwynn", "foxconn", "ingrasys",
    "gigabyte", "giga computing", "asus", "asrock", "inspur", "aivres", "inventec", "pegatron", "oracle corporation",
    "cisco", "fujitsu", "intel", "mitac", "tyan", "zt systems", "penguin", "bull", "atos", "eviden", "ampere", "hyve",
    "celestica", "jabil", "micro-star", "sugon", "h3c", "xfusion",
)  # fmt: skip
_CONTAINER_FILES = {"/.dockerenv": "docker", "/run/.containerenv": "podman", "/.singularity.d": "apptainer"}
_CONTAINER_NAMES = {
    "KUBERNETES_SERVICE_HOST": "kubernetes",
    "SINGULARITY_CONTAINER": "apptainer",
    "APPTAINER_CONTAINER": "apptainer",
}


class Virtualisation(Fact, frozen=True):
    """`machine` is None when the evidence contradicts itself or does not suffice; `evidence` says what was seen.

    `container` = the reader ran in one (`container_kind` names it); the machine below it is judged apart.
    """

    machine: Literal["bare-metal", "vm"] | None = None
    hypervisor: str = ""
    cloud: str = ""
    container: bool = False
    container_kind: str = ""
    vendor: str = ""
    product: str = ""
    evidence: tuple[str, ...] = ()


@source(
    Probe(
        "host.virtualisation",
        (
            Files("dmi", (DMI + "sys_vendor", DMI + "product_name", DMI + "bios_vendor", DMI + "chassis_asset_tag")),
            Files("cpuinfo", ("/proc/cpuinfo",), cap=1 << 14),
            Files("xen", ("/sys/hypervisor/type",)),
            Files("systemd", ("/run/systemd/container",)),
            Stat("marks", tuple(_CONTAINER_FILES)),
            Env("names", ("container", *_CONTAINER_NAMES)),
        ),
    )
)
def virtualisation(raw: RawFact) -> Virtualisation | Missing:
    """Weighs the CPU's hypervisor flag, the DMI names and the marks that container engines leave."""
    dmi = {path.rsplit("/", 1)[-1]: text.strip() for path, text in raw.files("dmi").items()}
    vendor, product = dmi.get("sys_vendor", ""), dmi.get("product_name", "")
    words = " ".join((vendor, product, dmi.get("bios_vendor", ""), dmi.get("chassis_asset_tag", ""))).lower()
    flag = hypervisor_flag(raw.out("cpuinfo"))
    hypervisor = _named(_HYPERVISORS, words) or ("xen" if "xen" in raw.out("xen") else "")
    container = _container(raw)
    return Virtualisation(
        machine=_machine(flag=flag, hypervisor=hypervisor, vendor=vendor.lower(), words=words),
        hypervisor=hypervisor,
        cloud=_named(_CLOUDS, words),
        container=bool(container),
        container_kind=container,
        vendor=vendor,
        product=product,
        evidence=_evidence(raw.out("cpuinfo"), f"{vendor} {product}".strip(), container),
    )


def hypervisor_flag(cpuinfo: str) -> bool | None:
    """The hypervisor bit of the first CPU; None where the architecture has no such bit."""
    for line in cpuinfo.splitlines():
        if line.startswith("flags"):
            return "hypervisor" in line.split()
    return None


def _machine(*, flag: bool | None, hypervisor: str, vendor: str, words: str) -> Literal["bare-metal", "vm"] | None:
    """None where flag and names disagree, or where neither speaks."""
    maker = vendor.startswith(_MAKERS) and not hypervisor
    if flag is None:  # not x86: only the names speak
        return "vm" if hypervisor else "bare-metal" if maker or "metal" in words else None
    if flag:
        return None if maker else "vm"
    return None if hypervisor or not words.strip() else "bare-metal"


def _named(table: tuple[tuple[str, str], ...], words: str) -> str:
    return next((name for word, name in table if word in words), "")


def _container(raw: RawFact) -> str:
    """Which engine left its mark, "" for none."""
    if named := raw.out("systemd").strip() or raw.files("names").get("container", ""):
        return named
    marks = [_CONTAINER_FILES[p] for p in raw.files("marks") if p in _CONTAINER_FILES]
    names = [kind for name, kind in _CONTAINER_NAMES.items() if name in raw.files("names")]
    return next(iter(names + marks), "")


def _evidence(cpuinfo: str, names: str, container: str) -> tuple[str, ...]:
    flag = hypervisor_flag(cpuinfo)
    bit = None if flag is None else "CPU hypervisor flag" if flag else "no CPU hypervisor flag"
    seen = (f"DMI {names}" if names else "no DMI names", bit, f"container: {container}" if container else None)
    return tuple(text for text in seen if text)
