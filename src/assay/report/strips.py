"""Strips drawn by hand as SVG: presentation attributes only, so that every renderer and printer agrees."""

from __future__ import annotations

from collections.abc import Mapping

from markupsafe import Markup, escape

COLOURS = {
    "fail": "#9b0f2e",
    "warn": "#c77700",
    "unknown": "#111827",
    "error": "#111827",
    "denied": "#737b87",
    "not-asked": "#b9bfc9",
    "pass": "#0b6e99",
}
_WIDTH = 320.0
_HEIGHT = 14


def outcome_strip(label: str, outcomes: Mapping[str, int]) -> Markup:
    """One bar, split by outcome, worst first; an empty one is drawn hollow. Unknown is hatched, not only dark."""
    total = sum(outcomes.values())
    words = ", ".join(f"{n} {name}" for name, n in outcomes.items()) or "nothing judged"
    x = 0.0
    parts = []
    for name, colour in COLOURS.items():
        if n := outcomes.get(name, 0):
            width = _WIDTH * n / total
            fill = "url(#hatch)" if name in ("unknown", "error") else colour
            parts.append(f'<rect x="{x:.2f}" width="{max(width - 1, 0.5):.2f}" height="{_HEIGHT}" fill="{fill}"/>')
            x += width
    if not total:
        parts.append(
            f'<rect x=".5" y=".5" width="{_WIDTH - 1:.0f}" height="{_HEIGHT - 1}" fill="none" stroke="#c4c9d1"/>'
        )
    body = "".join(parts)
    return Markup(  # noqa: S704 - numbers and constants, the label escaped
        f'<svg class="strip" viewBox="0 0 {_WIDTH:.0f} {_HEIGHT}" role="img" preserveAspectRatio="none">'
        f"<title>{escape(label)}: {escape(words)}</title>{body}</svg>"
    )
