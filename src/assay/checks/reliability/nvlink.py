"""NVLink inside a node: every link up, at full speed, without errors."""

from __future__ import annotations

from assay.checks.registry import check
from assay.checks.verdict import fail, ok, skip, unknown, warn
from assay.facts.nvidia_nvlink import NvLinkGpu, NvLinks
from assay.model import Verdict
from assay.profiles.interconnect import Interconnect, nvlink_product

_RECOVERIES = ("recovery errors", "link recovery failed events")


@check(
    "nvlink.links.active",
    category="reliability",
    severity="critical",
    criteria=("rel-passive-suite",),
    why="With a link down, NCCL inside the node falls to PCIe or fails to start, and the job is many times slower.",
    fix="Check Fabric Manager and `dmesg | grep -i xid`; reset all GPUs of the node together, then replace the GPU.",
)
def active(nvlink: NvLinks, profile: Interconnect) -> Verdict:
    """Fails for inactive links on products whose NVLink is built in; optional bridges that are only half up warn."""
    if not nvlink.gpus:
        return skip("nvidia-smi lists no GPU")
    built_in = [g for g in nvlink.gpus if _built_in(g, profile)]
    up = [g for g in nvlink.gpus if g.total and not g.inactive]
    down = [text for g in built_in if (text := _down(g, alone=len(nvlink.gpus) == 1, peers=bool(up)))]
    if down:
        return fail(f"NVLink down: {'; '.join(down)}", seen=down)
    half = [f"GPU {g.index}" for g in nvlink.gpus if g.inactive and len(g.inactive) < g.total]
    if half:
        return warn(f"NVLink bridges partly down: {', '.join(half)}", seen=half)
    if mute := [g for g in built_in if g.state == "unknown"]:
        return unknown(f"nvidia-smi nvlink: GPU {mute[0].index}: {mute[0].reason or 'no links listed'}")
    if not up:
        return skip(
            "NVLink is not told under MIG" if any(g.state == "mig" for g in built_in) else "no NVLink in use here"
        )
    return ok(f"all NVLinks of {len(up)} GPUs are active", seen=sum(g.total for g in up))


def _built_in(gpu: NvLinkGpu, profile: Interconnect) -> bool:
    product = nvlink_product(profile, gpu.name)
    return product is not None and product.links > 0


def _down(gpu: NvLinkGpu, *, alone: bool, peers: bool) -> str:
    """What is down, in words. A GPU alone in a virtual machine has its links off by design."""
    if gpu.state == "none" and peers:
        return f"GPU {gpu.index} has none"
    if gpu.state == "all-inactive" or (gpu.total and len(gpu.inactive) == gpu.total):
        return "" if alone else f"GPU {gpu.index} all links"
    return f"GPU {gpu.index} links {', '.join(map(str, gpu.inactive))}" if gpu.inactive else ""


@check(
    "nvlink.links.full",
    category="reliability",
    severity="high",
    criteria=("rel-passive-suite",),
    why="Fewer or slower links than the product has mean less bandwidth in every collective of the node.",
    fix="Compare `nvidia-smi nvlink -s` between GPUs and nodes; reset the GPUs, then have the odd one replaced.",
)
def full(nvlink: NvLinks, profile: Interconnect) -> Verdict:
    """Compares the listed links and the speed of the active ones with the product, and the GPUs with each other."""
    known = [(g, p) for g in nvlink.gpus if g.total and (p := nvlink_product(profile, g.name)) and p.links]
    if not known:
        return skip("no product with NVLink of a known size")
    bar = profile.nvlink.cited(f"{known[0][1].links} links of at least {known[0][1].gbs:g} GB/s")
    if few := [f"GPU {g.index}: {g.total} of {p.links}" for g, p in known if g.total < p.links]:
        return fail(f"too few NVLinks: {'; '.join(few)}", seen=few, bar=bar)
    slow = [(g, min(s for s in g.speeds_gbs.values() if s), p) for g, p in known if any(g.speeds_gbs.values())]
    if low := [f"GPU {g.index}: {speed:g} of {p.gbs:g} GB/s" for g, speed, p in slow if speed < p.gbs]:
        return fail(f"slow NVLinks: {'; '.join(low)}", seen=low, bar=bar)
    speeds = {s for g, _ in known for s in g.speeds_gbs.values() if s}
    if len(speeds) > 1:
        return fail(f"NVLinks of different speed: {', '.join(f'{s:g}' for s in sorted(speeds))} GB/s", bar=bar)
    if len({g.name for g, _ in known}) == 1 and len({g.total for g, _ in known}) > 1:
        return fail("GPUs of one product list different numbers of NVLinks", seen=sorted({g.total for g, _ in known}))
    return ok(f"{known[0][0].total} NVLinks on each of {len(known)} GPUs", seen=sorted(speeds), bar=bar)


@check(
    "nvlink.errors",
    category="reliability",
    severity="medium",
    criteria=("rel-passive-suite",),
    why="Recoveries and CRC errors mean a marginal link: stalls now, a dead link and a crashed job later.",
    fix="Read `nvidia-smi nvlink -e` twice under load; reset the GPUs, replace GPU or board when it comes back.",
)
def errors(nvlink: NvLinks, profile: Interconnect) -> Verdict:
    """Warns on any link recovery and on more CRC errors than the bar, since the counters were last cleared."""
    told = [g for g in nvlink.gpus if g.errors]
    if not told:
        return skip("nvidia-smi tells no NVLink error counters", "absent")
    limit = profile.nvlink_crc_errors
    bar = limit.cited(f"no recovery, at most {limit.value:.0f} CRC errors")
    bad = [
        f"GPU {g.index} {name}: {n}"
        for g in told
        for name, n in g.errors.items()
        if (name in _RECOVERIES and n) or ("crc" in name and n > limit.value)
    ]
    if bad:
        return warn(f"NVLink errors: {'; '.join(bad)}", seen=bad, bar=bar)
    return ok(f"no NVLink recovery on {len(told)} GPUs", bar=bar)
