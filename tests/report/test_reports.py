"""Reports are made of foreign text: whatever a node says, the page stays a page and the terminal a terminal."""

import json
import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser

import pytest
from hypothesis import given, strategies as st

from assay.audit.judgement import Grant, NotLookedAt
from assay.model import Bar, Status
from assay.report import html as page, junit, markdown, text
from assay.report.clean import clean, one_line
from assay.report.fold import by_cause
from judgements import EVIDENCE, finding, judgement

EVIL = [
    "<script>alert(1)</script>",
    "</script><img src=x onerror=alert(1)>",
    "\x1b[31mred\x1b[0m \x1b]8;;http://evil\x07link\x1b]8;;\x07",
    "bell\x07 null\x00 delete\x7f csi\x9b31m",
    "right \u202eto left",
    "]]> & < > \" '",
    "{{ 7*7 }} {% raw %}",
    "| pipe | `tick` [x](javascript:1)",
    "lone \ud800 surrogate",
]


class Tags(HTMLParser):
    """Elements and attributes of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.ids: list[str] = []
        self.handlers: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [v or "" for k, v in attrs if k in ("href", "src")]
        self.ids += [v or "" for k, v in attrs if k == "id"]
        self.handlers += [k for k, _ in attrs if k.startswith("on")]


def parsed(text_: str) -> Tags:
    tags = Tags()
    tags.feed(text_)
    return tags


def hostile(word: str) -> str:
    made = judgement(
        finding(message=word, subject=word, fix=f"run `{word}`", bar=Bar(word, word)),
        finding(Status.UNKNOWN, message=word, reason="unparsable"),
        target=word,
        system=word,
        not_looked_at=[NotLookedAt(word, word)],
        not_granted=[Grant("p", word, word, (word,))],
        problems=[word],
        identities={word: word},
    )
    return page.render(made, [page.Excerpt(EVIDENCE, word, "p", "now", 0, word, cut=True)])


@pytest.mark.parametrize("word", EVIL)
def test_html_is_never_more_than_text(word: str) -> None:
    tags = parsed(hostile(word))
    assert tags.tags.count("script") == 1
    assert "img" not in tags.tags
    assert tags.handlers == []
    assert all(link.startswith("#") for link in tags.links), "the page fetches nothing"
    assert "49" not in hostile("{{ 7*7 }}").split("<body>")[1].split("<nav")[0]


@pytest.mark.parametrize("word", EVIL)
def test_the_embedded_data_is_json(word: str) -> None:
    (data,) = re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', hostile(word), re.DOTALL)
    assert json.loads(data)["findings"][0]["check"] == "os.release.uniform"


@pytest.mark.parametrize("word", EVIL)
def test_terminal_text_has_no_escapes(word: str) -> None:
    out = text.render(judgement(finding(message=word, subject=word), target=word), verbose=2)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", out)
    assert len(out.splitlines()) == len(text.render(judgement(finding()), verbose=2).splitlines())


@pytest.mark.parametrize("word", EVIL)
def test_junit_is_xml(word: str) -> None:
    made = judgement(finding(message=word, subject=word), finding(Status.SKIP, message=word), target=word)
    root = ET.fromstring(junit.render(made))  # noqa: S314 - written just now
    assert root.find(".//failure") is not None


@pytest.mark.parametrize("word", EVIL)
def test_markdown_rows_stay_rows(word: str) -> None:
    lines = markdown.render(judgement(finding(message=word, subject=word))).splitlines()
    rows = [line for line in lines if line.startswith("| ✕")]
    assert len(rows) == 1
    assert len(re.findall(r"(?<!\\)\|", rows[0])) == 5
    assert "<script" not in rows[0]


@given(st.text())
def test_clean_leaves_nothing_that_acts(word: str) -> None:
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", clean(word))
    assert "\n" not in one_line(word)


def test_every_link_on_the_page_has_a_target() -> None:
    made = judgement(finding(), finding(Status.PASS))
    tags = parsed(page.render(made, [page.Excerpt(EVIDENCE, "n1", "p", "now", 0, "text", cut=False)]))
    assert {link[1:] for link in tags.links} <= set(tags.ids) | {""}
    assert len(tags.ids) == len(set(tags.ids))


def test_commands_in_backticks_become_code() -> None:
    made = page.render(judgement(finding(fix="run `a < b` now, not a lone ` tick")), [])
    assert "run <code>a &lt; b</code> now, not a lone ` tick" in made


def test_worst_comes_first_and_passes_are_folded() -> None:
    made = judgement(
        finding(Status.FAIL, check="a.a"), finding(Status.PASS, check="b.b"), finding(Status.SKIP, check="c.c")
    )
    out = text.render(made)
    assert "a.a" in out
    assert "b.b" not in out
    assert "1 fail, 0 warn, 0 unknown, 0 error, 1 pass, 1 skip on 1 node" in out
    assert "b.b" in text.render(made, verbose=1)
    assert "assay explain a.a" in out


def test_unknowns_are_never_folded_away_only_counted_by_cause() -> None:
    silent = [finding(Status.UNKNOWN, check=f"x.{i}", message="n1: no route", reason="unreachable") for i in range(9)]
    other = finding(Status.UNKNOWN, check="y", message="odd value", reason="unrecognised")
    folded = list(by_cause([*silent, other]))
    assert [f.check for f in folded] == ["9 checks", "y"]
    assert "9 checks" in text.render(judgement(*silent, other))
    assert "x.8" in text.render(judgement(*silent, other), verbose=1)


def test_lines_fit_a_narrow_terminal() -> None:
    made = judgement(finding(message="word " * 60))
    rows = [line for line in text.render(made, width=80).splitlines() if "word" in line]
    assert len(rows) > 3
    assert max(map(len, rows)) <= 80
    assert len([line for line in text.render(made).splitlines() if "word" in line]) == 1


def test_emulated_runs_say_so_everywhere() -> None:
    made = judgement(finding(), emulated=True)
    assert "EMULATED" in text.render(made).splitlines()[0]
    assert "emulated hardware" in page.render(made, [])
    assert "Emulated hardware" in markdown.render(made)


def test_ascii_terminals_get_ascii_glyphs() -> None:
    assert text.render(judgement(finding()), ascii_only=True).isascii()
