"""CPU vulnerabilities, nested virtualisation and how far the kernel is hardened."""

from __future__ import annotations

from typing import Literal

from msgspec import field

from assay.facts.source import source
from assay.facts.stat import PathState, path_states
from assay.model import Fact, Files, Missing, Probe, RawFact, Stat

VULNERABILITIES = "/sys/devices/system/cpu/vulnerabilities/"
SECURE_BOOT = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
State = Literal["not-affected", "mitigated", "partly", "vulnerable", "unknown"]


class CpuSecurity(Fact, frozen=True):
    """The kernel's own words on CPU vulnerabilities, and what lets this machine run guests.

    `nested` = a guest of this machine may run guests itself; `virt_flag` = vmx or svm, "" when the CPU shows neither.
    """

    vulnerabilities: dict[str, str] = field(default_factory=dict)
    nested: bool | None = None
    virt_flag: str | None = None
    kvm: PathState | None = None


class KernelHardening(Fact, frozen=True):
    """Sysctls by dotted name, active security modules, lockdown and secure boot; None = the kernel does not say."""

    sysctls: dict[str, str] = field(default_factory=dict)
    lsm: tuple[str, ...] | None = None
    lockdown: str | None = None
    secure_boot: bool | None = None


@source(
    Probe(
        "cpu.security",
        (
            Files("vulnerabilities", (VULNERABILITIES + "*",)),
            Files("nested", ("/sys/module/kvm_intel/parameters/nested", "/sys/module/kvm_amd/parameters/nested")),
            Files("cpuinfo", ("/proc/cpuinfo",), cap=1 << 14),
            Stat("kvm", ("/dev/kvm",)),
        ),
    )
)
def cpu_security(raw: RawFact) -> CpuSecurity | Missing:
    """Sysfs as it stands; nothing is opened or asked."""
    texts = raw.files("vulnerabilities")
    return CpuSecurity(
        vulnerabilities={path.rsplit("/", 1)[-1]: text.strip() for path, text in texts.items()},
        nested=_nested(raw.files("nested")),
        virt_flag=_virt_flag(raw.out("cpuinfo")),
        kvm=next(iter(path_states(raw.files("kvm"))), None),
    )


def vulnerability_state(text: str) -> State:
    """How the kernel judges one vulnerability; "partly" = mitigated, but one of its parts is called vulnerable."""
    first = text.removeprefix("KVM: ")
    if first.startswith(("Vulnerable", "Processor vulnerable")):
        return "vulnerable"
    if first == "Not affected":
        return "not-affected"
    if first.startswith("Mitigation"):
        return "partly" if ": Vulnerable" in first else "mitigated"
    return "unknown"


def _nested(files: dict[str, str]) -> bool | None:
    words = [{"y": True, "1": True, "n": False, "0": False}.get(text.strip().lower()) for text in files.values()]
    return True if True in words else next(iter(words), None)


def _virt_flag(cpuinfo: str) -> str | None:
    for line in cpuinfo.splitlines():
        if line.startswith("flags"):
            flags = line.split()
            return next((flag for flag in ("vmx", "svm") if flag in flags), "")
    return None


_SYSCTLS = (
    "kernel/unprivileged_bpf_disabled", "kernel/kptr_restrict", "kernel/randomize_va_space", "kernel/dmesg_restrict",
    "kernel/yama/ptrace_scope", "kernel/unprivileged_userns_clone", "kernel/apparmor_restrict_unprivileged_userns",
    "kernel/kexec_load_disabled", "user/max_user_namespaces", "fs/protected_symlinks", "fs/protected_hardlinks",
    "fs/suid_dumpable",
)  # fmt: skip


@source(
    Probe(
        "kernel.hardening",
        (
            Files("sysctls", tuple("/proc/sys/" + name for name in _SYSCTLS), cap=256),
            Files("lsm", ("/sys/kernel/security/lsm",)),
            Files("lockdown", ("/sys/kernel/security/lockdown",)),
            Files("secure-boot", (SECURE_BOOT,), cap=64),
        ),
    )
)
def kernel_hardening(raw: RawFact) -> KernelHardening | Missing:
    """/proc/sys, securityfs and the SecureBoot variable of EFI (its fifth byte)."""
    lsm, lockdown, boot = raw.out("lsm").strip(), raw.out("lockdown"), raw.out("secure-boot")
    return KernelHardening(
        sysctls={_dotted(path): text.strip() for path, text in raw.files("sysctls").items()},
        lsm=tuple(lsm.split(",")) if lsm else None,
        lockdown=lockdown.partition("[")[2].partition("]")[0] or None,
        secure_boot={"\x00": False, "\x01": True}.get(boot[4]) if len(boot) == 5 else None,
    )


def _dotted(path: str) -> str:
    return path.removeprefix("/proc/sys/").replace("/", ".")
