"""``docs/scenarios.md``: the scenario table as a page, one example of every reason in words."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

from support.scenario import Scenario, Step, load
from tenure import units
from tenure.core.reasons import Reason

TABLE = Path(__file__).parents[1] / "scenarios"
WIDTH = 116
SECTIONS = {
    "starts": "Starts",
    "waits": "Waits",
    "evictions": "Evictions and other stops",
    "reservations": "Ends of reservations",
    "ends": "Ends of attempts and jobs",
    "refusals": "Refusals",
    "other_policies": "Under other policies",
}
_HEAD = """\
# Scenarios

Every [reason](reasons.md) by example: hosts, budgets and jobs, what happens, what is decided, and what is said. The
scenarios are those of `tests/scenarios`, which the test suite plays through the scheduler; every number in them is
recomputed there from the spans by a second, plain program. This page is written by `python docs/cases/scenarios.py`.

Hosts have 8 GPUs, 64 CPUs and 512G of memory unless it says otherwise. Time is counted from midnight, 15 January 2027.
Under each moment stands what is decided then, and under that, what is said about it. Jobs have the ids 1, 2, 3 in the
order of their submission; 1.1 is the first attempt of job 1.
"""


def page() -> str:
    """The whole page."""
    found = {name: load(TABLE / f"{name}.yaml") for name in SECTIONS}
    parts = [_HEAD, _index([one for scenarios in found.values() for one in scenarios])]
    for name, title in SECTIONS.items():
        parts.append(f"## {title}\n")
        parts += [_scenario(one) for one in found[name]]
    return "\n".join(parts)


def _index(scenarios: list[Scenario]) -> str:
    """Each reason and the scenarios that show it."""
    rows = ["| code | shown by |", "|---|---|"]
    for reason in Reason:
        named = [f"[{one.name}](#{_anchor(one.name)})" for one in scenarios if reason.value in one.shows]
        rows.append(f"| `{reason.value}` | {'; '.join(named)} |")
    return "\n".join(rows) + "\n"


def _anchor(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def _scenario(one: Scenario) -> str:
    lines = [f"### {one.name}", "", _setting(one), "", "```text"]
    for step in one.steps:
        lines += _step(step)
    return "\n".join([*lines, "```", ""])


def _setting(one: Scenario) -> str:
    """Hosts, budgets and settings in a sentence."""
    clusters = one.clusters if len(one.clusters) > 1 else ()
    hosts = ", ".join(f"{len(c.hosts)} in {c.name}" for c in clusters) or str(len(one.clusters[0].hosts))
    single = not clusters and len(one.clusters[0].hosts) == 1
    parts = [
        f"{hosts} host{'' if single else 's'}",
        ", ".join(f"`{path}` {share}" for path, share in one.budgets.items()),
    ]
    for key in ("policy", "cluster"):
        parts += [f"`{name} = {value}`" for name, value in one.settings.get(key, {}).items()]
    parts += [f"members of `{path}`: {', '.join(who)}" for path, who in one.settings.get("members", {}).items()]
    if one.under:
        parts.append(f"under the policy `{one.under}`")
    if one.manual:
        parts.append("what is started comes up by itself only where it says so")
    return "; ".join(parts) + "."


def _step(step: Step) -> Iterator[str]:
    """What happens at a moment, then what is decided and said."""
    shown = set()
    clock = units.format_duration(step.at, exact=True)
    for line in step.do or ("time passes",):
        yield f"{clock:<8} {line}"
        clock = ""
        shown.add(line)
        yield from _said(step, line)
    for line in step.then:
        shown.add(line)
        yield f"{'':8} -> {line}"
        yield from _said(step, line)
    for about in step.says:
        if about not in shown:
            yield f"{'':8} -> {about} is told"
            yield from _said(step, about)


def _said(step: Step, about: str) -> Iterator[str]:
    said = step.says.get(about)
    if said is not None:
        text = f"{said.text} {said.field} = {said.value}: {said.fix}" if said.field else said.text
        lead = f"{'':14}{said.code}: "
        yield from textwrap.wrap(text, WIDTH, initial_indent=lead, subsequent_indent=" " * 16)
