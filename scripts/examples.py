"""Write the example runs of invented hosts to examples/, and with --golden what the checks say of them.

The same code gives the same runs: times, ids and answers are fixed, nothing of this machine is in them.
"""

import argparse
import json
import tempfile
from pathlib import Path

from assay import __version__
from assay.audit.judge import judge_run
from assay.facts.source import sources
from assay.lab.hosts import EXAMPLES, NOW, hosts
from assay.lab.virtual import answer
from assay.launch.nodes import folder
from assay.model import RunInfo, Status, Target
from assay.profiles import Profiles
from assay.profiles.method import Method
from assay.run import chain
from assay.run.archive import export, unpack
from assay.run.record import Answered, Finished, Opened, Record, encode, pack
from assay.run.store import Run

ROOT = Path(__file__).resolve().parents[1]
PACKED = ROOT / "examples"
GOLDEN = ROOT / "tests" / "examples"
LOUD = (Status.FAIL, Status.WARN, Status.UNKNOWN, Status.ERROR)


def record(name: str, directory: Path) -> Run:
    """The run of one example, recorded in `directory`."""
    machines = hosts(name)
    nodes = tuple(host.name for host in machines)
    known = {name: source for name, source in sources().items() if source.probe.place == "node"}
    info = RunInfo(
        id=f"20261102T090000Z-{name}",
        target=Target(name=name, kind="ssh", nodes=",".join(nodes), sudo=all(host.uid == 0 for host in machines)),
        started=NOW,
        tool_version=__version__,
        method=Profiles().get(Method).version,
        emulated=True,
        nodes=nodes,
        probes=tuple(known),
    )
    run = Run.create(directory, info)
    records: list[Record] = [Opened("audit", NOW, "example", 1, "0", __version__)]
    for host in machines:
        records += [pack(answer(host, source.probe)) for source in known.values()]
        records.append(Answered(host.name, NOW + 3, None, host.uid))
    records.append(Finished(NOW + 3, "complete"))
    segment = run.path / "segments" / "0000-audit-0000.jsonl"
    segment.write_bytes(b"".join(encode(entry) + b"\n" for entry in records))
    chain.seal(run.path)
    return run


def verdicts(run: Run) -> dict[str, object]:
    """Number of findings by status, every loud one, and what was not granted."""
    judgement = judge_run(run, Profiles(), fold=folder("ssh"))
    loud = [[f.check, f.status.value, f.subject, f.message] for f in judgement.findings if f.status in LOUD]
    granted = [[grant.probe, grant.subject, list(grant.reads)] for grant in judgement.not_granted]
    return {"counts": judgement.counts, "loud": loud, "not_granted": granted}


def golden_text(verdict: dict[str, object]) -> str:
    """The text of a golden file: one finding a line."""
    parts = []
    for key, value in verdict.items():
        rows = ",\n".join(f"  {json.dumps(row)}" for row in value) if isinstance(value, list) else ""
        parts.append(f' "{key}": [\n{rows}\n ]' if rows else f' "{key}": {json.dumps(value)}')
    return "{\n" + ",\n".join(parts) + "\n}\n"


def main() -> None:
    """Write what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--golden", action="store_true", help="judge the written examples and rewrite tests/examples/*.json"
    )
    parser.add_argument("names", nargs="*", help="only these examples")
    asked = parser.parse_args()
    for name in asked.names or EXAMPLES:
        with tempfile.TemporaryDirectory() as directory:
            packed = PACKED / f"{name}.assay"
            export(record(name, Path(directory)), packed)
            line = f"{packed.relative_to(ROOT)}: {packed.stat().st_size / 1024:.0f} KiB"
            if asked.golden:
                verdict = verdicts(unpack(packed, Path(directory) / "unpacked"))
                (GOLDEN / f"{name}.json").write_text(golden_text(verdict), encoding="utf-8")
                line += f", {verdict['counts']}"
            print(line)


if __name__ == "__main__":
    main()
