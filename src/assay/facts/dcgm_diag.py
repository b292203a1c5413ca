"""`dcgmi diag` in its four layouts: text before and since 4.x, JSON before and since 4.x."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from typing import Any, Literal

from msgspec import Struct

from assay.facts.text import plain

Status = Literal["fail", "warn", "skip", "pass", "unknown"]
WORST_FIRST: tuple[Status, ...] = ("fail", "warn", "unknown", "skip", "pass")
_WORDS: dict[str, Status] = {"fail": "fail", "warn": "warn", "skip": "skip", "pass": "pass"}
_ROOTS = ("DCGM GPU Diagnostic", "DCGM Diagnostic")
_CATEGORY = re.compile(r"^[|+]-{3,}\s+(\w[\w ]*?)\s+-{2,}\+-+[|+]$")
_ENTITY = re.compile(r"^(?:GPU|CPU|NIC|ConnectX|Entity)\s*:?\s*(\d+)\s*:\s*(\w+)", re.IGNORECASE)
_SHARED = re.compile(r"^(\w+) - GPUs?:\s*(\d[\d, ]*)$")
_WARNING = re.compile(r"^Warning(?:s)?(?::\s*(?:GPU|CPU)\s*(\d+))?$", re.IGNORECASE)
_INFO = re.compile(r"^Info(?::\s*(?:GPU|CPU)\s*(\d+))?$", re.IGNORECASE)
_NAMED = re.compile(r"GPU (\d+)\b")
_IDS = re.compile(r"[0-9a-fA-F]{4}\b")
_METADATA = {"DCGM Version": "dcgm", "Driver Version Detected": "driver", "GPU Device IDs Detected": "ids"}


class DiagWarning(Struct, frozen=True, kw_only=True):
    """One warning; ids are None before 4.x. Severity 5 of 4.x is about configuration, not about a broken GPU."""

    text: str
    error_id: int | None = None
    category: int | None = None
    severity: int | None = None


class DiagResult(Struct, frozen=True, kw_only=True):
    """One test on one entity. `entity` is None where the result is for all of them."""

    status: Status
    entity: int | None = None
    group: str = "GPU"
    word: str = ""
    warnings: tuple[DiagWarning, ...] = ()
    info: tuple[str, ...] = ()


class DiagTest(Struct, frozen=True, kw_only=True):
    """One test; `word` = its status as printed. `summary` = 4.x's own verdict, which hides skipped GPUs."""

    category: str
    name: str
    results: tuple[DiagResult, ...] = ()
    word: str = ""
    summary: Status | None = None

    @property
    def status(self) -> Status:
        """The worst of its results."""
        return worst((*(r.status for r in self.results), *((self.summary,) if self.summary else ())))

    @property
    def warnings(self) -> tuple[DiagWarning, ...]:
        """Warnings over all entities."""
        return tuple(w for r in self.results for w in r.warnings)


class Diag(Struct, frozen=True, kw_only=True):
    """One run of dcgmi diag. `complete` = the output reached its end; a cut one has no overall verdict of its own."""

    tests: tuple[DiagTest, ...] = ()
    root: str | None = None
    dcgm_version: str | None = None
    driver_version: str | None = None
    device_ids: tuple[str, ...] = ()
    gpus: int | None = None
    complete: bool = True
    error: str = ""

    @property
    def overall(self) -> Status | Literal["incomplete"]:
        """Fail over warn over everything that was not run ("incomplete"); pass only when every test ran and passed."""
        status = worst(t.status for t in self.tests) if self.tests else "unknown"
        if self.error and status != "fail":
            return "incomplete"
        if status in {"fail", "warn"}:
            return status
        return "pass" if status == "pass" and self.complete else "incomplete"

    def named(self, status: Status) -> tuple[str, ...]:
        """Names of the tests with this status."""
        return tuple(t.name for t in self.tests if t.status == status)


def worst(statuses: Iterable[Status]) -> Status:
    """The gravest; nothing at all is unknown."""
    return min(statuses, key=WORST_FIRST.index, default="unknown")


def status_of(word: str) -> Status:
    """The status in words like "Fail - All" or "PASS"; a word that is none of the four is unknown, never pass."""
    return _WORDS.get(word.strip().split(" ")[0].rstrip(":").lower(), "unknown")


# ---- JSON ---------------------------------------------------------------------------------------------------


def diag_json(text: str) -> Diag:
    """`dcgmi diag -j` of 2.x to 4.x; lines before the first brace (a wrapper's) are ignored."""
    document, end = _document(text)
    root = next((r for r in _ROOTS if isinstance(document.get(r), dict)), None)
    error = _runtime_error(document)
    if root is None and not error:
        raise ValueError("no DCGM diagnostic in this JSON")
    body: dict[str, Any] = document[root] if root else {}
    metadata = next((m for m in (document.get("metadata"), body.get("metadata")) if isinstance(m, dict)), {})
    tests = tuple(_json_test(c, t) for c in _list(body, "test_categories") for t in _list(c, "tests") if t.get("name"))
    groups = _list(document, "entity_groups")
    devices = tuple(
        str(e.get("device_id", "")) for g in groups if g.get("entity_group") == "GPU" for e in _list(g, "entities")
    )
    return Diag(
        tests=tests,
        root=root,
        dcgm_version=metadata.get("version") or metadata.get("DCGM Version"),
        driver_version=metadata.get("Driver Version Detected"),
        device_ids=devices
        or _device_ids(metadata.get("GPU Device IDs Detected") or metadata.get("GPU Device IDs") or ""),
        gpus=len(devices) or _entities(tests),
        error=error,
        complete=not error and not text[end:].strip().startswith("{"),
    )


def _document(text: str) -> tuple[dict[str, Any], int]:
    """The first JSON object and where it ends."""
    start = text.find("{")
    try:
        document, end = json.JSONDecoder().raw_decode(text, start) if start >= 0 else ({}, 0)
    except json.JSONDecodeError as e:
        raise ValueError(f"not the JSON of dcgmi diag: {e}") from e
    return document, end


def _list(value: Any, key: str) -> list[dict[str, Any]]:
    items = value.get(key) if isinstance(value, dict) else None
    return [i for i in items if isinstance(i, dict)] if isinstance(items, list) else []


def _runtime_error(document: dict[str, Any]) -> str:
    """4.x and some 3.x answer {"runtime_error": text} (or nested) when the diagnostic could not run."""
    for value in (document, *(document.get(r) for r in _ROOTS)):
        if isinstance(value, dict) and value.get("runtime_error"):
            error = value["runtime_error"]
            return error if isinstance(error, str) else json.dumps(error)
    return ""


def _json_test(category: dict[str, Any], test: dict[str, Any]) -> DiagTest:
    results = tuple(_json_result(r) for r in _list(test, "results"))
    summary = test.get("test_summary")
    word = summary.get("status") if isinstance(summary, dict) else None
    return DiagTest(
        category=str(category.get("category", "")),
        name=str(test.get("name", "")),
        results=results,
        word=str(word or next((r.word for r in results), "")),
        summary=status_of(str(word)) if word else None,
    )


def _json_result(result: dict[str, Any]) -> DiagResult:
    entity = result.get("entity_id", result.get("gpu_id", result.get("gpu_ids")))
    warnings = result.get("warnings", result.get("warning", []))
    info = result.get("info", [])
    word = str(result.get("status", ""))
    return DiagResult(
        status=status_of(word),
        word=word,
        entity=_integer(entity),
        group=str(result.get("entity_group", "GPU")),
        warnings=tuple(_json_warning(w) for w in (warnings if isinstance(warnings, list) else [warnings])),
        info=tuple(map(str, info if isinstance(info, list) else [info])),
    )


def _json_warning(warning: Any) -> DiagWarning:
    if not isinstance(warning, dict):
        return DiagWarning(text=str(warning))
    return DiagWarning(
        text=str(warning.get("warning", "")),
        error_id=_integer(warning.get("error_id")),
        category=_integer(warning.get("error_category")),
        severity=_integer(warning.get("error_severity")),
    )


def _integer(value: Any) -> int | None:
    return int(value) if isinstance(value, int) or str(value).isdigit() else None


def _entities(tests: Iterable[DiagTest]) -> int | None:
    return len({r.entity for t in tests for r in t.results if r.entity is not None and r.group == "GPU"}) or None


def _device_ids(text: Any) -> tuple[str, ...]:
    return tuple(map(str, text)) if isinstance(text, list) else tuple(_IDS.findall(str(text)))


# ---- text ---------------------------------------------------------------------------------------------------


def diag_text(text: str) -> Diag:
    """The box that `dcgmi diag` draws. Long cells are wrapped inside words: they are joined without a blank."""
    table = _Table()
    for line in plain(text).splitlines():
        table.read(line.rstrip())
    if not table.begun or not (table.tests or table.metadata):
        raise ValueError("no table of dcgmi diag in it")
    tests = tuple(t.done() for t in table.tests)
    ids = _device_ids(table.metadata.get("ids", ""))
    return Diag(
        tests=tests,
        dcgm_version=table.metadata.get("dcgm"),
        driver_version=table.metadata.get("driver"),
        device_ids=ids,
        gpus=len(ids) or _entities(tests),
        complete=table.closed,
    )


class _Rows:
    """A test that is being read."""

    def __init__(self, category: str, name: str, word: str) -> None:
        self.category, self.name, self.word = category, name, word
        self.results: list[DiagResult] = []
        self.notes: list[list[Any]] = []  # [is a warning, entity, text]

    def done(self) -> DiagTest:
        """The finished test; a note without an entity belongs to the result of all."""
        results = self.results or [DiagResult(status=status_of(self.word), word=self.word)]
        own = {r.entity for r in results}
        notes = [
            (warning, entity if entity in own else results[0].entity, text)
            for warning, entity, text in ((w, _about(t) if e is None else e, t) for w, e, t in self.notes)
        ]
        return DiagTest(
            category=self.category,
            name=self.name,
            word=self.word,
            summary=status_of(self.word),
            results=tuple(_with_notes(r, [(w, t) for w, e, t in notes if e == r.entity]) for r in results),
        )


def _about(text: str) -> int | None:
    """The GPU that a note without one in its heading starts with."""
    found = _NAMED.match(text)
    return int(found[1]) if found else None


def _with_notes(result: DiagResult, notes: list[tuple[bool, str]]) -> DiagResult:
    return DiagResult(
        status=result.status,
        word=result.word,
        entity=result.entity,
        group=result.group,
        warnings=tuple(DiagWarning(text=text) for warning, text in notes if warning),
        info=tuple(text for warning, text in notes if not warning),
    )


class _Table:
    """The rows so far: the category, the tests and whether the box was closed."""

    def __init__(self) -> None:
        self.category = ""
        self.tests: list[_Rows] = []
        self.metadata: dict[str, str] = {}
        self.key = ""
        self.closed = False
        self.begun = False

    def read(self, line: str) -> None:
        """One line of the box."""
        if category := _CATEGORY.match(line):
            self.category, self.closed, self.begun = category[1], False, True
        elif line.startswith("+-"):
            self.closed = bool(self.tests) and not line.strip("+-")
        elif line.startswith("|") and line.count("|") >= 3:
            left, right = line.strip("|").split("|", 1)
            self.closed = False
            self.row(left.strip(), right.removeprefix(" ").rstrip())

    def row(self, left: str, right: str) -> None:
        """A metadata value, a test, a note of the last test, or the continuation of the line above."""
        if left == "Diagnostic" and right.strip() == "Result":
            self.begun = True
            return
        if self.category == "Metadata" or left in _METADATA:
            self.key = _METADATA.get(left, left) if left else self.key
            self.metadata[self.key] = (self.metadata.get(self.key, "") if not left else "") + right
        elif warning := _WARNING.match(left):
            self.note(True, warning[1], right)
        elif info := _INFO.match(left):
            self.note(False, info[1], right)
        elif left:
            self.tests.append(_Rows(self.category, left, right))
            self.tests[-1].results += _results(right)
        elif self.tests:
            self.more(right)

    def note(self, warning: bool, entity: str | None, text: str) -> None:  # noqa: FBT001 - a note is one of two kinds
        """A warning or an info row."""
        if self.tests:
            self.tests[-1].notes.append([warning, int(entity) if entity else None, text])

    def more(self, text: str) -> None:
        """A row with an empty first cell: a GPU's own result, or more of the note above it."""
        test = self.tests[-1]
        if test.notes:
            test.notes[-1][2] += text
        else:
            test.results += _results(text)


def _results(cell: str) -> list[DiagResult]:
    """Results of single GPUs: "GPU0: Pass" (4.x), "Fail - GPUs: 1, 3" (before)."""
    own, shared = _ENTITY.match(cell), _SHARED.match(cell)
    if own:
        return [DiagResult(status=status_of(own[2]), word=own[2], entity=int(own[1]))]
    numbers = shared[2].replace(",", " ").split() if shared else []
    return [DiagResult(status=status_of(cell), word=shared[1] if shared else "", entity=int(n)) for n in numbers]


def diag(text: str) -> Diag:
    """`dcgmi diag`, either form."""
    return diag_json(text) if '"test_categories"' in text or '"runtime_error"' in text else diag_text(text)


FORMATS: dict[str, Callable[[str], Any]] = {"dcgmi diag": diag, "dcgmi diag -j": diag_json}
