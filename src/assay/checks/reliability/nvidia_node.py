"""NVIDIA GPUs of one node: alike, set up alike, and joined to their NVLink fabric."""

from __future__ import annotations

from collections import Counter

from assay.checks.nvidia_gpus import told, where
from assay.checks.registry import check
from assay.checks.verdict import fail, ok, skip, some, unknown, warn
from assay.facts.nvidia import Fabric, NvidiaGpu, NvidiaSmi
from assay.model import Verdict

_NONE = frozenset({None, "N/A", "", "Not Supported"})
_PENDING = frozenset({"In Progress", "Not Started"})


@check(
    "nvidia.gpus.alike",
    category="reliability",
    severity="medium",
    why="Another product or firmware on one GPU of a node makes its speed and its faults differ from the others.",
    fix="Bring all GPUs to the same VBIOS, and ask why one board was swapped.",
)
def alike(smi: NvidiaSmi) -> Verdict:
    """Fails when the GPUs of a node differ in product or memory size, warns when only the VBIOS differs."""
    if len(smi.gpus) < 2:
        return skip("fewer than two NVIDIA GPUs")
    products = Counter((gpu.name, gpu.memory_total_mib) for gpu in smi.gpus if gpu.name)
    if not products:
        return unknown("nvidia-smi gives no product names", "too-little")
    if len(products) > 1:
        kinds = [f"{n} x {name} with {mib or 0:.0f} MiB" for (name, mib), n in products.most_common()]
        return fail(f"different GPUs: {some(kinds)}", seen=kinds)
    images = Counter(gpu.vbios for gpu in smi.gpus if gpu.vbios)
    if len(images) > 1:
        kinds = [f"{n} x {name}" for name, n in images.most_common()]
        return warn(f"different VBIOS: {some(kinds)}", seen=kinds)
    return ok(f"{len(smi.gpus)} GPUs alike: {next(iter(products))[0]}", seen=sorted(images))


@check(
    "nvidia.fabric",
    category="reliability",
    severity="critical",
    criteria=("life-fabric-driver-ready",),
    why="A GPU that is not registered in its NVLink fabric cannot start CUDA, or falls back to slow paths.",
    fix="`systemctl status nvidia-fabricmanager` (HGX) or the NMX controller (NVL72); then reset all GPUs.",
)
def fabric(smi: NvidiaSmi) -> Verdict:
    """Fails when the fabric state is not Completed with Success, its health is bad, or GPUs are in different cliques.

    "N/A" (A100, PCIe cards) means that there is no such registration.
    """
    joined = [(gpu, gpu.fabric) for gpu in smi.gpus if gpu.fabric and gpu.fabric.state not in _NONE]
    if not joined:
        return skip("no NVLink fabric is reported")
    if bad := [f"{gpu.pci}: {text}" for gpu, one in joined if (text := _broken(one))]:
        return fail(f"NVLink fabric: {some(bad)}", seen=bad)
    cliques = {(one.cluster_uuid, one.clique_id) for _, one in joined}
    if len(joined) < len(smi.gpus) or len(cliques) > 1:
        text = f"{len(joined)} of {len(smi.gpus)} GPUs registered in {len(cliques)} cliques"
        return fail(f"NVLink fabric: {text}", seen=sorted(map(str, cliques)))
    if weak := [gpu.pci for gpu, one in joined if one.health == "Limited Capacity"]:
        return warn(f"NVLink fabric: limited capacity on {some(weak)}", seen=weak)
    if strange := sorted({text for _, one in joined if (text := _strange(one))}):
        return unknown(f"NVLink fabric: unfamiliar {some(strange)}", seen=strange)
    return ok(f"{len(joined)} GPUs registered in the NVLink fabric")


def _broken(fabric: Fabric) -> str | None:
    if fabric.state in _PENDING:
        return f"state {fabric.state}"
    if fabric.state == "Completed" and fabric.status not in _NONE | {"Success"}:
        return f"completed with status {fabric.status}"
    if fabric.health == "Unhealthy":
        return "unhealthy"
    if fabric.bandwidth not in _NONE | {"Full"}:
        return f"bandwidth {fabric.bandwidth}"
    return "a route is unhealthy" if fabric.route_unhealthy in ("True", "Yes") else None


def _strange(fabric: Fabric) -> str | None:
    if fabric.state != "Completed":
        return f"state {fabric.state}"
    if fabric.status in _NONE:
        return f"status {fabric.status or 'not told'}"
    return f"health {fabric.health}" if fabric.health not in _NONE | {"Healthy", "Limited Capacity"} else None


@check(
    "nvidia.persistence",
    category="reliability",
    severity="low",
    criteria=("life-fabric-driver-ready",),
    why="Without persistence mode the driver sets up a GPU anew for each job: slow starts and lost ECC state.",
    fix="`systemctl enable --now nvidia-persistenced`.",
)
def persistence(smi: NvidiaSmi) -> Verdict:
    """Warns when persistence mode is off on any GPU."""
    known = [gpu for gpu in smi.gpus if gpu.persistence is not None]
    if not known:
        return skip("no GPU reports a persistence mode")
    if off := [gpu for gpu in known if not gpu.persistence]:
        return warn(f"persistence mode is off on {where(off, smi)}", seen=[gpu.pci for gpu in off])
    return ok(f"persistence mode is on for {len(known)} GPUs")


@check(
    "nvidia.mig.consistent",
    category="reliability",
    severity="medium",
    why="A GPU cut into MIG instances takes no whole-GPU job; one in MIG mode without instances takes no job at all.",
    fix="`nvidia-smi -mig 0` (or 1) on all GPUs of the node, reset, then create the instances again.",
)
def mig(smi: NvidiaSmi) -> Verdict:
    """Warns on a MIG change that waits for a reset, on MIG without instances, and on a mix of both modes."""
    known = [gpu for gpu in smi.gpus if gpu.mig is not None]
    if not known:
        return skip("no GPU with MIG")
    if waiting := [gpu for gpu in known if gpu.mig_pending not in (None, gpu.mig)]:
        return warn(f"a change of the MIG mode waits for a reset of {where(waiting, smi)}")
    on = [gpu for gpu in known if gpu.mig]
    if empty := [gpu for gpu in on if not gpu.mig_devices]:
        return warn(f"MIG without instances on {where(empty, smi)}", seen=[gpu.pci for gpu in empty])
    if 0 < len(on) < len(known):
        return warn(f"MIG is on for {len(on)} of {len(known)} GPUs", seen=[gpu.pci for gpu in on])
    return ok(f"MIG is {'on' if on else 'off'} for {len(known)} GPUs", seen=[len(gpu.mig_devices) for gpu in on])


@check(
    "nvidia.compute-mode",
    category="reliability",
    severity="medium",
    criteria=("life-fabric-driver-ready",),
    why="In an exclusive mode a second process on the GPU fails; in the prohibited mode every process does.",
    fix="`nvidia-smi -c 0`.",
)
def compute_mode(smi: NvidiaSmi) -> Verdict:
    """Fails when a GPU takes no compute process, warns when it takes only one; the default mode passes."""
    modes = {gpu.compute_mode for gpu in smi.gpus if gpu.compute_mode}
    if not modes:
        return skip("no GPU reports a compute mode")
    if shut := [gpu for gpu in smi.gpus if gpu.compute_mode == "Prohibited"]:
        return fail(f"compute mode Prohibited on {where(shut, smi)}", seen=[gpu.pci for gpu in shut])
    if single := [gpu for gpu in smi.gpus if (gpu.compute_mode or "").startswith(("Exclusive", "E."))]:
        return warn(f"exclusive compute mode on {where(single, smi)}", seen=[gpu.pci for gpu in single])
    if modes != {"Default"}:
        return unknown(f"unfamiliar compute mode: {', '.join(sorted(modes))}", seen=sorted(modes))
    return ok(f"default compute mode on {len(smi.gpus)} GPUs")


@check(
    "nvidia.power-limit",
    category="reliability",
    severity="medium",
    why="A lowered power limit takes performance from every job, and a single lowered GPU slows its whole job.",
    fix="`nvidia-smi -pl WATTS` with the default limit; ask the provider when the rack cannot feed it.",
)
def power_limit(smi: NvidiaSmi) -> Verdict:
    """Warns when a GPU may draw less than its default, or when GPUs of one product have different limits."""
    known = [gpu for gpu in smi.gpus if gpu.power_limit_w is not None]
    if not known:
        return skip("no GPU reports a power limit")
    if low := [gpu for gpu in known if gpu.power_default_w and (gpu.power_limit_w or 0) < gpu.power_default_w - 0.5]:
        limits = sorted({f"{gpu.power_limit_w:g} of {gpu.power_default_w:g} W" for gpu in low})
        return warn(f"lowered power limit ({some(limits)}) on {where(low, smi)}", seen=limits)
    limits = sorted({f"{gpu.name} {gpu.power_limit_w:g} W" for gpu in known})
    if len(limits) > len({gpu.name for gpu in known}):
        return warn(f"different power limits: {some(limits)}", seen=limits)
    if not any(gpu.power_default_w for gpu in known):
        return unknown(f"power limits {some(limits)}; what the default is, is not told", "too-little", seen=limits)
    return ok(f"default power limits: {some(limits)}", seen=limits)


@check(
    "nvidia.application-clocks",
    category="reliability",
    severity="medium",
    why="Application clocks below the default hold every kernel back, without any trace in the job.",
    fix="`nvidia-smi -rac`.",
)
def application_clocks(smi: NvidiaSmi) -> Verdict:
    """Warns when an application clock is set below its default; recent drivers have none and are skipped."""
    if not any(gpu.app_graphics_mhz is not None and gpu.app_default_graphics_mhz is not None for gpu in smi.gpus):
        return skip("this driver has no application clocks")
    if low := told(smi, _reduced):
        return warn(f"application clocks below the default: {some(low)}", seen=low)
    return ok("application clocks at their defaults")


def _reduced(gpu: NvidiaGpu) -> str | None:
    for now, usual in (
        (gpu.app_graphics_mhz, gpu.app_default_graphics_mhz),
        (gpu.app_memory_mhz, gpu.app_default_memory_mhz),
    ):
        if now is not None and usual is not None and now < usual:
            return f"{now:g} of {usual:g} MHz"
    return None


@check(
    "nvidia.vgpu.licence",
    category="reliability",
    severity="high",
    why="A virtual GPU without a licence is throttled after some minutes, with healthy hardware.",
    fix="Set the licence server in /etc/nvidia/gridd.conf or the client token, and restart nvidia-gridd.",
)
def licence(smi: NvidiaSmi) -> Verdict:
    """Fails when the vGPU software says that it is unlicensed."""
    states = {gpu.license_status for gpu in smi.gpus if gpu.license_status}
    if not states:
        return skip("no virtual GPU")
    if bad := sorted(state for state in states if state.lower().startswith("unlicensed")):
        return fail(f"virtual GPU is {bad[0]}", seen=bad)
    if all(state.lower().startswith("licensed") for state in states):
        return ok("virtual GPUs are licensed", seen=sorted(states))
    return unknown(f"unfamiliar licence status: {', '.join(sorted(states))}", seen=sorted(states))
