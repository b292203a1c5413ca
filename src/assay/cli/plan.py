"""`assay plan`."""

from __future__ import annotations

import click
import msgspec

from assay.audit.plan import Plan, make_plan
from assay.audit.select import Selection
from assay.cli.output import json_option
from assay.cli.target import chosen_target, method_profiles, selection_options
from assay.model import Clock, Env, Exec, Step, Which


@click.command(name="plan")
@click.argument("target", required=False)
@selection_options
@json_option
def command(target: str | None, selection: Selection, method: str | None, as_json: bool) -> None:
    """Print what `assay audit TARGET` would read: every command and file, on which nodes, with what rights."""
    plan = make_plan(chosen_target(target, yes=True), selection, method_profiles(method))
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(plan), indent=1).decode())
    else:
        click.echo("\n".join(_lines(plan)))


def _lines(plan: Plan) -> list[str]:
    target = plan.target
    lines = [
        f"target   {target.name} ({target.kind})",
        f"nodes    {len(plan.nodes)}: {', '.join(plan.nodes[:8])}{', ...' if len(plan.nodes) > 8 else ''}",
        f"effect   read: changes nothing, starts nothing, sends nothing{'; as root by sudo -n' if target.sudo else ''}",
        f"time     a few seconds, at most {target.timeout_s:.0f} s a node, {target.fanout} nodes at once",
        f"checks   {len(plan.checks)} by method {plan.method}",
        f"plan id  {plan.id}",
        "",
    ]
    for probe in plan.probes:
        lines.append(f"{probe.name}{f'  (root: {probe.root})' if probe.root else ''}")
        lines += [f"    {_step(step)}" for step in probe.steps]
    return lines


def _step(step: Step) -> str:
    if isinstance(step, Exec):
        each = f"  for each {' '.join(step.each)}" if step.each else ""
        return f"run   {' '.join(step.argv)}{each}"
    if isinstance(step, Env):
        return f"env   {' '.join(step.names)}"
    if isinstance(step, Which):
        return f"find  {' '.join(step.names)}"
    if isinstance(step, Clock):
        return "clock adjtimex, reading only"
    return f"{type(step).__name__.lower():<5} {' '.join(step.paths)}"
