"""What the CPU and the kernel leave open between users, guests and host."""

from __future__ import annotations

from assay.checks.place import not_the_host
from assay.checks.registry import check
from assay.checks.verdict import ok, skip, some, unknown, warn
from assay.facts.cpu_security import CpuSecurity, KernelHardening, vulnerability_state
from assay.facts.stat import PathState
from assay.facts.virtualisation import Virtualisation
from assay.model import Missing, Verdict
from assay.profiles.access import Access

_OPEN = frozenset({"vulnerable", "partly"})


@check(
    "cpu.vulnerabilities",
    category="security",
    severity="medium",
    why="Unmitigated CPU faults let one process, container or guest read another one's memory.",
    fix="Install the kernel and microcode updates and reboot; look for mitigations=off in /proc/cmdline. In a guest "
    "the provider's host has to pass the mitigation on.",
    refs=("https://docs.kernel.org/admin-guide/hw-vuln/",),
)
def vulnerabilities(cpu: CpuSecurity, place: Virtualisation | Missing) -> Verdict:
    """Warns for every vulnerability that the kernel calls vulnerable, in whole or in part; its own words decide."""
    states = {name: vulnerability_state(text) for name, text in cpu.vulnerabilities.items()}
    if not states:
        return unknown("the kernel lists no CPU vulnerabilities", "too-little")
    guest = " (in a virtual machine)" if isinstance(place, Virtualisation) and place.machine == "vm" else ""
    if bad := sorted(n + (" in part" if s == "partly" else "") for n, s in states.items() if s in _OPEN):
        return warn(f"vulnerable: {some(bad, 8)}{guest}", seen={n: cpu.vulnerabilities[n.split()[0]] for n in bad})
    if unclear := sorted(name for name, state in states.items() if state == "unknown"):
        return unknown(f"the kernel cannot tell: {some(unclear, 8)}{guest}", "unrecognised", seen=unclear)
    mitigated = sum(state == "mitigated" for state in states.values())
    return ok(f"{mitigated} mitigated, {len(states) - mitigated} do not affect this CPU{guest}")


@check(
    "virt.nested",
    category="security",
    severity="medium",
    criteria=("sec-nested-virt-boundary",),
    why="Faults of nested virtualisation lead from a guest into its host; only who needs it should reach it.",
    fix="On a host: set the option nested=0 of kvm_intel or kvm_amd and keep /dev/kvm to the group kvm (0660). In a "
    "guest: ask the provider to hide vmx or svm.",
)
def nested(cpu: CpuSecurity, place: Virtualisation) -> Verdict:
    """Warns in a guest that is shown vmx or svm, and on a host that nests and opens /dev/kvm to everyone."""
    kvm = cpu.kvm
    if place.container and kvm and kvm.access:
        return warn(f"{kvm.path} is usable in this container", seen=kvm)
    if cpu.virt_flag is None:
        return skip("not an x86 CPU: nesting is off unless the kernel was booted for it")
    if place.machine == "vm":
        return _guest(cpu)
    if kvm is None and place.machine is None:
        return unknown("no /dev/kvm, and whether this is a guest is not known", "too-little")
    return _host(cpu, kvm) if kvm else ok("no /dev/kvm")


def _guest(cpu: CpuSecurity) -> Verdict:
    if not cpu.virt_flag:
        return ok("this guest is shown neither vmx nor svm")
    device = "no /dev/kvm" if cpu.kvm is None else "/dev/kvm " + ("open to all" if cpu.kvm.open_to_all else "limited")
    return warn(f"this guest is shown {cpu.virt_flag}; {device}", seen=cpu.kvm)


def _host(cpu: CpuSecurity, kvm: PathState) -> Verdict:
    if cpu.nested is False:
        return ok("nesting is off", seen=kvm)
    if not kvm.open_to_all:
        return ok(f"/dev/kvm is {kvm.mode:04o}: not for every user", seen=kvm)
    if cpu.nested is None:
        return unknown("/dev/kvm is open to all; whether KVM nests is not known", "too-little", seen=kvm)
    return warn("/dev/kvm is open to all users and KVM nests", seen=kvm)


@check(
    "kernel.hardening",
    category="security",
    severity="low",
    criteria=("sec-container-escape-protection",),
    why="Each of these settings closes a known way from an ordinary user to root; distributions ship them on.",
    fix="Set them in /etc/sysctl.d/90-hardening.conf and run: sysctl --system.",
    refs=("https://docs.kernel.org/admin-guide/sysctl/",),
)
def hardening(kernel: KernelHardening, place: Virtualisation | Missing, bars: Access) -> Verdict:
    """Warns with a list of sysctls weaker than distributions ship; what profilers and MPI need is not judged."""
    if elsewhere := not_the_host(place, "kernel settings"):
        return elsewhere
    known = [(s, kernel.sysctls[s.name]) for s in bars.sysctls if s.name in kernel.sysctls]
    weak = [f"{s.name}={value} ({s.why})" for s, value in known if value not in s.good]
    if not known:
        return unknown("none of the settings was readable", "too-little")
    seen = {"sysctls": kernel.sysctls, "lsm": kernel.lsm, "lockdown": kernel.lockdown, "boot": kernel.secure_boot}
    bar = bars.sysctls[0].cited("what distributions ship")
    if weak:
        return warn("; ".join(weak), seen=seen, bar=bar)
    return ok(f"{len(known)} settings as distributions ship them", seen=seen, bar=bar)
