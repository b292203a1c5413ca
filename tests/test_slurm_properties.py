"""What holds for any text that claims to come from Slurm."""

import json
import pathlib
import re
import time

import msgspec
import pytest
from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet
from hypothesis import given, settings, strategies as st

from assay.facts.formats import formats
from assay.slurm import gres, hostlist, state, times, tres
from assay.slurm.conf import nodes_of, slurm_conf
from assay.slurm.node import show_node
from assay.slurm.sacct import sacct_rows
from assay.slurm.sinfo import NODES_FORMAT, sinfo_fields, sinfo_o
from assay.slurm.squeue import squeue_fields, squeue_o

FORMATS = formats("assay.slurm")
SAMPLES = [
    (case["format"], "\n".join(case["text"]))
    for case in (json.loads(p.read_text()) for p in sorted((pathlib.Path(__file__).parent / "slurm").glob("*/*.json")))
]
NOISE = st.text(alphabet=st.sampled_from("=[](){},|:+*~-/\\\"'\n\t \x1f\x00\ufffd%@#0aZ"), max_size=40)
WORDS = sorted(state._BASES | set(state._WORDS))


def harmless(reader: object, text: str) -> None:
    """It answers, in something JSON can hold, or says ValueError."""
    try:
        found = reader(text)  # type: ignore[operator]
    except ValueError:
        return
    msgspec.json.encode(found)


@pytest.mark.parametrize("name", sorted(FORMATS))
@given(text=st.one_of(st.text(max_size=200), NOISE))
@settings(max_examples=40, deadline=None)
def test_garbage_is_a_value_error(name: str, text: str) -> None:
    harmless(FORMATS[name], text)


@given(sample=st.sampled_from(SAMPLES), data=st.data())
@settings(max_examples=400, deadline=None)
def test_damaged_output_does_no_harm(sample: tuple[str, str], data: st.DataObject) -> None:
    name, text = sample
    begin = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(begin, len(text)))
    harmless(FORMATS[name], text[:begin] + data.draw(NOISE | st.just("9" * 400)) + text[end:])
    harmless(FORMATS[name], text[:begin])


@given(spec=st.one_of(NOISE, st.from_regex(r"(%\.?[0-9]{0,3}[A-Za-z][|, ]?){1,6}", fullmatch=True)), text=NOISE)
@settings(max_examples=150, deadline=None)
def test_any_format_does_no_harm(spec: str, text: str) -> None:
    for reader in (sinfo_o, sinfo_fields, squeue_o, squeue_fields):
        harmless(lambda t, reader=reader: reader(spec, t), text)
    harmless(lambda t: sacct_rows(t, ("JobID", "JobName", "State"), "|"), text)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["set", "number", "infinite", "name", "state", "time", "nodes", "jobs", "list", "id", "count"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(key=st.sampled_from(["nodes", "jobs", "sinfo", "partitions", "reservations", "licenses", "statistics", "pings",
                            "errors", "meta"]), value=JSON, more=JSON)  # fmt: skip
@settings(max_examples=300, deadline=None)
def test_json_of_another_shape_is_a_value_error(key: str, value: object, more: object) -> None:
    for doc in (
        {key: value},
        {key: [value, {"state": more, "job_state": more, "name": "x", "time": {}}], "meta": more},
    ):
        text = json.dumps(doc)
        for name, reader in FORMATS.items():
            if "json" in name or name == "slurmrestd":
                harmless(reader, text)


# ---- states


@given(base=st.sampled_from(WORDS), flags=st.lists(st.from_regex(r"[A-Z][A-Z_]{1,15}", fullmatch=True), max_size=4))
def test_a_state_survives_its_own_spelling(base: str, flags: list[str]) -> None:
    read = state.node_state("+".join((base, *flags)))
    assert state.node_state(str(read)) == read
    assert state.node_state(str(read).lower()) == read


@given(base=st.sampled_from(["IDLE", "MIXED", "ALLOCATED", "DOWN"]), flags=st.sets(st.sampled_from(sorted(state._BAD))))
def test_json_and_text_say_the_same_state(base: str, flags: set[str]) -> None:
    ordered = sorted(flags)
    text = state.node_state("+".join((base, *ordered)))
    assert text == state.node_state_of([base, *ordered]) == state.node_state_of(base.lower(), ordered)
    assert text.usable == (base != "DOWN" and not flags)


@pytest.mark.parametrize(
    ("spelled", "usable", "drain", "asleep", "failed"),
    [
        ("idle", True, "", False, False),
        ("mix-", True, "", False, False),
        ("ALLOCATED+COMPLETING", True, "", False, False),
        ("IDLE+RESERVED", True, "", False, False),
        ("idle*", False, "", False, True),
        ("idle~", False, "", True, False),
        ("IDLE+CLOUD+POWERED_DOWN", False, "", True, False),
        ("MIXED+CLOUD+NOT_RESPONDING+POWERING_UP", False, "", True, False),
        ("DOWN+CLOUD+POWERED_DOWN", False, "", False, True),
        ("drain", False, "drained", False, False),
        ("drng", False, "draining", False, False),
        ("IDLE+DRAIN", False, "drained", False, False),
        ("MIXED+DRAIN", False, "draining", False, False),
        ("IDLE+DRAIN+COMPLETING", False, "draining", False, False),
        ("drained*", False, "drained", False, True),
        ("DOWN+INVALID_REG", False, "", False, True),
        ("maint", False, "", False, False),
        ("boot^", False, "", False, False),
        ("FUTURE", False, "", False, False),
        ("SOMETHING_NEW", False, "", False, False),
        ("IDLE+SOMETHING_NEW", True, "", False, False),
    ],
)
def test_what_a_state_means(spelled: str, usable: bool, drain: str, asleep: bool, failed: bool) -> None:  # noqa: FBT001 - a table
    found = state.node_state(spelled)
    assert (found.usable, found.drain, found.asleep, found.failed) == (usable, drain, asleep, failed)


def test_job_states() -> None:
    assert state.job_state("CANCELLED by 1001").cancelled_by == "1001"
    assert state.job_state("CANCELLED+").base == "CANCELLED"
    assert state.job_state("OOM").base == "OUT_OF_MEMORY"
    assert state.job_state_of(["RUNNING", "COMPLETING"]).flags == ("COMPLETING",)
    assert state.job_state("NF").ended


# ---- hostlists

NUMBERS = st.lists(
    st.tuples(st.integers(0, 120), st.integers(0, 12)).map(lambda p: (p[0], p[0] + p[1])), min_size=1, max_size=3
)
NAMES = st.lists(st.from_regex(r"[a-z]{1,4}[a-z-]?", fullmatch=True), min_size=1, max_size=3)


@given(prefixes=NAMES, ranges=NUMBERS, width=st.integers(1, 4), tail=st.sampled_from(["", "y", "-ib"]))
def test_hostlists_agree_with_clustershell(
    prefixes: list[str], ranges: list[tuple[int, int]], width: int, tail: str
) -> None:
    inside = ",".join(f"{a:0{width}d}-{b:0{width}d}" if b > a else f"{a:0{width}d}" for a, b in ranges)
    text = ",".join(f"{p}[{inside}]{tail}" for p in prefixes)
    theirs = NodeSet(text, resolver=RESOLVER_NOGROUP)
    assert set(hostlist.expand(text)) == {str(n) for n in theirs}
    folded = hostlist.fold(hostlist.expand(text))
    assert set(hostlist.expand(folded)) == {str(n) for n in theirs}
    assert not re.search(r"\][\w-]", folded)  # Slurm 22.05 refuses text after a bracket


@given(first=NUMBERS, second=NUMBERS)
def test_several_brackets_agree_with_clustershell(first: list[tuple[int, int]], second: list[tuple[int, int]]) -> None:
    a, b = (",".join(f"{x}-{y}" if y > x else str(x) for x, y in part) for part in (first, second))
    text = f"r[{a}]n[{b}],login1"
    assert set(hostlist.expand(text)) == {str(n) for n in NodeSet(text, resolver=RESOLVER_NOGROUP)}


def test_hostlists_keep_order_and_refuse_the_endless() -> None:
    assert hostlist.expand("w-[1,0],a[08-11],w-1") == ["w-1", "w-0", "a08", "a09", "a10", "a11", "w-1"]
    assert hostlist.expand("x-[1-3]y") == ["x-1y", "x-2y", "x-3y"]
    assert hostlist.expand("switch.1.[9-10]") == ["switch.1.9", "switch.1.10"]
    assert hostlist.fold(["g02", "g01", "login", "x-1y", "x-2y"]) == "g[01-02],login,x-1y,x-2y"
    assert hostlist.expand("(null)") == hostlist.expand("None assigned") == []
    for endless in ("n[1-999999999]", "a[1-999]b[1-999]c[1-999]", "n[3-1]", "n[", "n[1-", "a b", "n[a-c]"):
        with pytest.raises(ValueError, match=r"host|range|names"):
            hostlist.expand(endless)


# ---- resources, times


@pytest.mark.parametrize(
    ("text", "gpus"),
    [
        ("gpu:8", 8), ("gpu:h100:8(S:0-1)", 8), ("gpu:a:6(S:0-1),gpu:1g.10gb:28(S:0-1)", 34),
        ("gpu:h100:3(IDX:0,4-5),shard:4", 3), ("(null)", 0), ("gpu:(null):0(IDX:N/A)", 0), ("gres:gpu:8", 8),
        ("gres/gpu:h100:4", 4), ("gres/gpu=2", 2), ("gpu", 1), ("gpu:h100", 1), ("mps:400(S:0-1)", 0),
        ("shard:h200:0(0/4,0/4),gpu:h200:2(IDX:0-1)", 2), ("nsight:no_consume:1", 0), ("cpu:4,gres/gpu:2", 2),
    ],
)  # fmt: skip
def test_gpus_of_a_gres(text: str, gpus: int) -> None:
    assert gres.total(gres.gres(text)) == gpus


def test_gres_parts() -> None:
    (first, second) = gres.gres("gpu:a100:3(IDX:0,4-5),gpu:1g.10gb:1(S:0)")
    assert (first.indices, first.type, second.sockets, second.mig, first.mig) == ((0, 4, 5), "a100", (0,), True, False)
    assert gres.gres_or_none("gpu:h100:8,shard:h10gpu(") is None


def test_tres_is_not_summed_twice() -> None:
    assert tres.gpus(tres.tres("cpu=8,gres/gpu=8,gres/gpu:h100=8")) == 8
    assert tres.gpus(tres.tres("gres/gpu=8,gres/gpu:h100=4")) == 8  # four more of another type, or of none
    assert tres.gpus(tres.tres("cpu=8,gres/gpu:h100=4,gres/gpu:h200=2")) == 6
    assert tres.gpus(tres.tres("cpu=8")) is None
    assert tres.tres("mem=1.50T,cpu=2K,energy=00:10") == {"mem": 1572864, "cpu": 2048}
    assert (tres.tres(""), tres.tres("(null)"), tres.tres(None)) == ({}, {}, None)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("5", 300), ("1:30", 90), ("02:00:00", 7200), ("1-12", 129600), ("1-12:30", 131400), ("1-00:00:01", 86401),
        ("00:00.250", 0.25), ("31:09.458", 1869.458), ("UNLIMITED", "UNLIMITED"), ("infinite", "UNLIMITED"),
        ("INVALID", None), ("NOT_SET", None), ("Partition_Limit", None), ("None", None), ("N/A", None),
        ("300 sec", 300), ("2000 usec", 0.002), ("10 min", 600), ("NONE", None),
    ],
)  # fmt: skip
def test_durations(text: str, seconds: object) -> None:
    assert times.limit_s(text) == seconds


@given(days=st.integers(0, 400), clock=st.integers(0, 86399))
def test_durations_round_trip(days: int, clock: int) -> None:
    minutes, s = divmod(clock, 60)
    h, m = divmod(minutes, 60)
    assert times.limit_s(f"{days}-{h:02}:{m:02}:{s:02}") == days * 86400 + clock


@given(st.integers(1, 1 << 33))
def test_epochs_round_trip(seconds: int) -> None:
    iso = times.from_epoch(seconds)
    assert iso is None or times.epoch(iso) == seconds


# ---- speed, and what Assay asks for itself


def test_ten_thousand_nodes_are_read_in_time() -> None:
    line = next(text for name, text in SAMPLES if "NodeName=g001" in text).strip()
    text = "\n".join(line.replace("g001", f"g{i:05}") for i in range(10_000))
    began = time.process_time()
    assert len(show_node(text).nodes) == 10_000
    assert time.process_time() - began < 1.5


def test_own_format_takes_any_reason() -> None:
    letters = [part[-1] for part in NODES_FORMAT.split("\x1f")]
    reason = 'a | b = "c" \u2713 [x@2020] %'
    cells = {
        "N": "g1",
        "n": "host1",
        "P": "gpu*",
        "T": "mixed*",
        "G": "gpu:8",
        "E": reason,
        "C": "1/7/0/8",
        "u": "root",
    }
    row = "\x1f".join(cells.get(letter, "N/A") for letter in letters)
    (node,) = sinfo_o(NODES_FORMAT, row).nodes().nodes
    assert (node.name, node.hostname, node.reason, node.gpus, node.cpus_alloc) == ("g1", "host1", reason, 8, 1)
    assert node.partitions == ("gpu",)


def test_columns_cut_at_their_width_are_not_read() -> None:
    text = f"{'g1':<20}{'gpu:h100:8,shard:h100:32':.20}{'idle':<20}"
    (row,) = sinfo_fields("NodeList,Gres,StateLong", text).rows
    assert (row.nodes, row.gres, row.cut) == ("g1", None, ("gres",))


def test_node_defaults_of_slurm_conf() -> None:
    text = "NodeName=DEFAULT RealMemory=5\nNodeName=a[1-2] CPUs=1\nNodeName=DEFAULT RealMemory=6\nNodeName=b CPUs=2"
    found = nodes_of(slurm_conf(text))
    assert {name: values["realmemory"] for name, values in found.items()} == {"a1": "5", "a2": "5", "b": "6"}
