"""`assay plan`."""

from __future__ import annotations

import shlex

import click

from assay.audit.plan import Plan, make_plan
from assay.audit.select import Selection
from assay.audit.trial import AT_MOST
from assay.cli.load import EFFECT, check_load, load_option, place_words
from assay.cli.output import json_option, say_json
from assay.cli.target import chosen_target, method_profiles, selection_options, wait_options
from assay.launch.nodes import fold
from assay.model import Clock, Env, Exec, Step, Which


@click.command(name="plan")
@click.argument("target", required=False)
@selection_options
@wait_options
@load_option
@json_option
def command(
    target: str | None, selection: Selection, method: str | None, wait_s: float, load: bool, as_json: bool
) -> None:
    """Print what `assay audit TARGET` would read: every command and file, on which nodes, with what rights.

    Of a Slurm cluster it reads what the scheduler says of its nodes, and prints the jobs that would be asked for.
    """
    chosen = chosen_target(target, yes=True)
    check_load(chosen, load=load, yes=True)
    plan, _ = make_plan(chosen, selection, method_profiles(method), wait_s, load=load)
    if as_json:
        say_json(plan)
    else:
        click.echo("\n".join(_lines(plan)))


def _lines(plan: Plan) -> list[str]:
    target = plan.target
    lines = [
        f"target   {target.name} ({target.kind}{', emulated' if target.emulated else ''})",
        *_nodes(plan),
        *_effect(plan),
        *_load(plan),
        f"checks   {len(plan.checks)} by method {plan.method}",
        f"plan id  {plan.id}",
    ]
    for place in ("scheduler", "node"):
        found = [probe for probe in plan.probes if probe.place == place]
        lines += (
            ["", f"on the login node{', by ' + ' '.join(target.via) if target.via else ''}:"]
            if found and place == "scheduler"
            else []
        )
        lines += ["", "on every node:"] if found and place == "node" else []
        for probe in found:
            lines.append(f"{probe.name}{f'  (root: {probe.root})' if probe.root else ''}")
            lines += [f"    {_step(step)}" for step in probe.steps]
    return lines


def _nodes(plan: Plan) -> list[str]:
    if plan.target.kind != "slurm":
        return [f"nodes    {len(plan.nodes)}: {', '.join(plan.nodes[:8])}{', ...' if len(plan.nodes) > 8 else ''}"]
    states: dict[str, list[str]] = {}
    for node in plan.nodes:
        states.setdefault(plan.states.get(node, ""), []).append(node)
    lines = [f"nodes    {len(plan.nodes)}"]
    lines += [f"         {fold(nodes)}: {state}" for state, nodes in states.items()]
    return lines + [f"left out {left.nodes}: {left.why}" for left in plan.left_out]


def _effect(plan: Plan) -> list[str]:
    root = "; as root by sudo -n" if plan.target.sudo else ""
    limit_s = plan.target.timeout_s
    if plan.target.kind != "slurm":
        return [
            f"effect   read: changes nothing, starts nothing, sends nothing{root}",
            f"time     a few seconds, at most {limit_s:.0f} s a node, {plan.target.fanout} nodes at once",
        ]
    return [
        f"effect   job: reads only, but through the scheduler, whose prolog and epilog may act{root}",
        f"time     a few seconds once the nodes are given, at most {limit_s:.0f} s; all GPUs of the nodes are taken",
        *(f"job      {launch[-1] if launch[0] == 'sbatch' else shlex.join(launch)}" for launch in plan.launches),
    ]


def _load(plan: Plan) -> list[str]:
    if not any(probe.place == "pair" for probe in plan.probes):
        return []
    ssh = ["         and each goes to the other by ssh"] if plan.target.slurm.try_ssh else []
    return [
        f"effect   {EFFECT}",
        "         two of the nodes, one job more, after a question, in these directories and in what other shared",
        f"         file systems the nodes have, {AT_MOST} at most:",
        *(f"         {place_words(place)}" for place in plan.trial),
        *ssh,
    ]


def _step(step: Step) -> str:
    if isinstance(step, Exec):
        each = f"  for each {' '.join(step.each)}" if step.each else ""
        return f"run   {_visible(' '.join(step.argv))}{each}"
    if isinstance(step, Env):
        return f"env   {' '.join(step.names)}"
    if isinstance(step, Which):
        return f"find  {' '.join(step.names)}"
    if isinstance(step, Clock):
        return "clock adjtimex, reading only"
    return f"{type(step).__name__.lower():<5} {' '.join(step.paths)}"


def _visible(text: str) -> str:
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
