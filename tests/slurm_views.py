"""Neutral names of facts about Slurm's nodes, jobs, partitions and reservations."""

import re
from collections import Counter
from typing import Any

from assay.slurm.envelope import Envelope
from assay.slurm.gres import Gres, by_type, total
from assay.slurm.job import SlurmJob, SlurmJobs
from assay.slurm.license import SlurmLicenses
from assay.slurm.node import SlurmNode, SlurmNodes
from assay.slurm.partition import SlurmPartitions
from assay.slurm.reservation import SlurmReservations
from assay.slurm.state import JobState, NodeState
from assay.slurm.times import epoch
from slurm_field import Alt, Lazy, View

CODES = {"PENDING": "PD", "RUNNING": "R", "CONFIGURING": "CF", "COMPLETING": "CG", "SUSPENDED": "S"}


def indexes(found: tuple[Gres, ...] | None, name: str = "gpu") -> list[int] | None:
    listed = [i for g in found or () if g.name == name for i in g.indices or ()]
    return listed if found else None


def tres_names(found: dict[str, Any] | None) -> View | None:
    if found is None:
        return None
    names = {"mem": "mem_mib", "gres/gpu": "gpu", "gres/shard": "shard"}
    return {names.get(k, k): v for k, v in found.items()} | found


def state_view(state: NodeState | None, word: str | None = None) -> View:
    if state is None:
        return {"state": None}
    bare = word.rstrip("*~#!%$@^-") if word else state.base.lower()
    return {
        "state": Alt((bare, word, state.base, state.base.lower(), str(state), [state.base, *state.flags])),
        "base": state.base,
        "flags": list(state.flags),
        "responding": state.responding,
        "planned": "PLANNED" in state.flags,
        "drain": state.drain,
        "usable": state.usable,
    }


def node_view(n: SlurmNode, word: str | None = None) -> View:
    types = by_type(n.gres or ())
    used = total(n.gres_used)
    tres = n.alloc_tres or {}
    return {
        **{name: getattr(n, name) for name in n.__struct_fields__ if name != "state"},
        **state_view(n.state, word),
        "user": n.reason_user, "time": n.reason_at, "reason_time": n.reason_at,
        "reason": Alt((n.reason, n.reason and n.reason.rstrip())),
        "reason_changed_epoch": epoch(n.reason_at) if n.reason_at else None,
        "cpus_total": n.cpus, "mem_alloc_mib": n.alloc_memory_mib, "mem_total_mib": n.real_memory_mib,
        "real_mem_mib": n.real_memory_mib, "free_mem_mib": n.free_memory_mib, "free_mib": n.free_memory_mib,
        "cpu_load_known": n.cpu_load is not None, "free_mem_known": n.free_memory_mib is not None,
        "gpus": n.gpus, "gpus_registered": n.gpus, "gpus_configured": n.gpus_configured,
        "gpus_alloc": n.gpus_alloc, "gpus_used": used if used is not None else n.gpus_alloc,
        "gpu_type": next((t for t in types if t), None), "gpu_types": types, "gpu_indexes": indexes(n.gres_used),
        "shards": total(n.gres, "shard"), "shards_alloc": tres.get("gres/shard", total(n.gres_used, "shard")),
        "alloc_tres": tres_names(n.alloc_tres), "cfg_tres": tres_names(n.cfg_tres),
        "gres": n.gres or "", "gres_used": n.gres_used or "",
        "extra_is_json": (n.extra or "").strip().startswith("{"), "partitions": list(n.partitions),
    }  # fmt: skip


def envelope_view(found: Envelope | None) -> View:
    if found is None:
        return {}
    first = found.errors[0] if found.errors else None
    return {
        "release": found.release, "api": found.api, "has_errors": bool(found.errors),
        "error_number": first.number if first else None, "description": first.description if first else None,
        "source": first.source if first else None, "error": first.error if first else None,
    }  # fmt: skip


def _each(values: Any) -> Any:
    """The value that all share, or None."""
    distinct = set(values)
    return distinct.pop() if len(distinct) == 1 else None


def nodes_view(found: SlurmNodes, text: str = "") -> View:
    every = found.nodes
    by_name = {n.name: node_view(n) for n in every}
    counts = {n.name: n.gpus or 0 for n in every}
    single = node_view(every[0]) if len(every) == 1 else {}
    bases = sorted({n.state.base.lower() for n in every})
    known: View = {
        **single,
        **by_name,
        "nodes": Alt((len(every), by_name)), "node_count": len(every),
        "base": _each(n.state.base for n in every),
        "gpus_total": sum(counts.values()),
        "gpus_by_node": {k: v for k, v in counts.items() if v},
        "gpus_per_node": _each(counts.values()),
        "shards_per_node": _each(total(n.gres, "shard") for n in every),
        "states": Alt(({n.name: [n.state.base, *n.state.flags] for n in every}, bases)),
        "reasons": {n.name: n.reason for n in every if n.reason},
        "free_mem_known": Alt(({n.name: n.free_memory_mib is not None for n in every}, single.get("free_mem_known"))),
        "first": by_name[every[0].name] if every else None,
        "first_nodes_in_order": [n.name for n in every[:3]],
        "cfg_tres_has_gpu": any("gres/gpu" in (n.cfg_tres or {}) for n in every),
        "cloud_nodes_listed": [n.name for n in every if "CLOUD" in n.state.flags],
        "new_field": Alt({key for n in every for key in n.other}),
        "error_lines": len(found.unread),
        "glued_line_present": bool(re.search(r"NodeAddr=\S+NodeHostName=", text)),
        **envelope_view(found.envelope),
    }  # fmt: skip
    if len(every) != 1:
        known["gpus"] = Alt((counts, {n.name: n.gres for n in every}))
        known["gpus_used"] = {n.name: total(n.gres_used) for n in every}

    def more(name: str) -> Any:
        for node in every:
            for field in (name.removesuffix(f"_of_{node.name}"), name.removesuffix(f"_{node.name}")):
                if field != name:
                    return by_name[node.name][field]
        raise KeyError(name)

    return Lazy(known, more)


def _codes(state: JobState | None) -> Any:
    if state is None:
        return None
    return Alt((state.base, CODES.get(state.base), [state.base, *state.flags], str(state)))


def exit_word(code: int | None, signal: int | None) -> str | None:
    return "SIGNALED" if signal else {None: None, 0: "SUCCESS"}.get(code, "ERROR")


def job_view(j: SlurmJob) -> View:
    per_node = j.gpus_per_node or ((j.gpus // j.node_count,) if j.gpus and j.node_count else ())
    tres = j.tres_alloc if j.tres_alloc is not None else j.tres_req
    return {
        **{name: getattr(j, name) for name in j.__struct_fields__ if name != "state"},
        "state": _codes(j.state),
        "nodes": Alt((j.node_count, j.nodes)), "node_list": j.nodes or "",
        "gpus": j.gpus, "gpus_total": j.gpus, "gpus_per_node": Alt((list(per_node), _each(per_node))),
        "tres": tres_names(tres), "tres_alloc_has_gpu": "gres/gpu" in (j.tres_alloc or {}),
        "tres_per_job": j.gres_per_job, "job_name": j.name, "partitions": list(j.partitions),
        "return_code": j.exit_code, "exit_status": exit_word(j.exit_code, j.signal),
        "signal": Alt((j.signal, j.signal or None)),
        "time_limit": None if j.time_limit_s == "UNLIMITED" else j.time_limit_s, "time_left": j.time_left_s,
        "array_task_id": int(j.array_task) if (j.array_task or "").isdecimal() else j.array_task,
    }  # fmt: skip


def jobs_view(found: SlurmJobs, data: bytes = b"") -> View:
    every = found.jobs
    states = Counter(j.state.base for j in every if j.state)
    first = job_view(every[0]) if every else {}
    waiting = [j for j in every if j.state and j.state.base == "PENDING"]
    known: View = {
        **(first if len({j.array_job_id or j.job_id for j in every}) == 1 else {}),
        **states,
        "jobs": len(every), "rows": len(every), "records": len(every), "lines": len(every),
        "states": Alt((states, {str(j.job_id): [j.state.base, *j.state.flags] for j in every if j.state},
                       [j.state.base for j in every if j.state])),
        "by_state": states, "states_present": sorted(states),
        **{s.lower(): n for s, n in states.items()},
        "first_job_id": first.get("job_id"), "job": first.get("label"),
        "array_pending": next((j.label for j in waiting if j.array_task), None),
        "pending_tasks": next((j.array_task for j in waiting if j.array_task), None),
        "running_tasks": sorted(int(j.array_task or -1) for j in every if j.array_task and j not in waiting),
        "throttle": next((j.array_throttle for j in every if j.array_throttle), None),
        "het": sorted(j.label or "" for j in every if j.het_offset is not None),
        "array_task_id": next((job_view(j)["array_task_id"] for j in every if j.array_task), None),
        "time_left_of_last": every[-1].time_left_s if every else None,
        "bad_lines": len(found.unread), "is_valid_utf8": _valid(data),
        **envelope_view(found.envelope),
    }  # fmt: skip

    def more(name: str) -> Any:
        parts = re.fullmatch(r"job_(\d+)(?:_(.+))?", name)
        job = next((j for j in every if parts and (str(j.job_id) == parts[1] or j.label == parts[1])), None)
        if not parts or job is None:
            raise KeyError(name)
        return job_view(job)[parts[2]] if parts[2] else job_view(job)

    return Lazy(known, more)


def _valid(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def partitions_view(found: SlurmPartitions) -> View:
    every = {
        p.name: {
            **{name: getattr(p, name) for name in p.__struct_fields__},
            "nodes": Alt((p.node_count, p.nodes)), "gpus": p.gpus, "tres": tres_names(p.tres),
            "max_nodes": Alt((p.max_nodes, None if p.max_nodes == "UNLIMITED" else p.max_nodes)),
            "max_time_s": Alt((p.max_time_s, None if p.max_time_s == "UNLIMITED" else p.max_time_s)),
        }
        for p in found.partitions
    }  # fmt: skip
    default = found.default()
    return {
        **(next(iter(every.values())) if len(every) == 1 else {}),
        **every,
        **{f"{p.name}_state": p.state for p in found.partitions},
        **{f"{p.name}_nodes": p.node_count for p in found.partitions},
        "partitions": Alt((len(every), list(every))),
        "names": list(every),
        "states": {p.name: p.state for p in found.partitions},
        "default": default.name if default else None,
        "all_nodes_incl_future": max((p.node_count or 0 for p in found.partitions), default=0),
        **envelope_view(found.envelope),
    }


def reservations_view(found: SlurmReservations, text: str = "") -> View:
    every = {r.name: {name: getattr(r, name) for name in r.__struct_fields__} for r in found.reservations}
    return {
        **(next(iter(every.values())) if len(every) == 1 else {}),
        **every,
        "reservations": len(found.reservations),
        "names": list(every),
        "text": text.strip(),
        "absolute_time_stamps": all(r.start_at and r.end_at for r in found.reservations),
        **envelope_view(found.envelope),
    }


def licenses_view(found: SlurmLicenses) -> View:
    every = {one.name: {name: getattr(one, name) for name in one.__struct_fields__} for one in found.licenses}
    first = next(iter(every.values()), {})
    return {**first, **every, "licenses": Alt((len(every), list(every))), **envelope_view(found.envelope)}
