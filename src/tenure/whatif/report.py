"""Runs of one course as a report: who gains and who loses, how far that can be believed, and what was assumed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tenure.config.diff import diff
from tenure.reports.compare import write_comparison
from tenure.reports.html import write_report
from tenure.reports.metrics import summary
from tenure.reports.records import Run
from tenure.reports.sides import Side
from tenure.reports.sides_files import report, write_sides
from tenure.reports.tables import write_run
from tenure.whatif.change import BUDGETS, Places, Variant
from tenure.whatif.course import Course
from tenure.whatif.honesty import Honesty, honesty
from tenure.whatif.rerun import Rerun
from tenure.whatif.runs import Reruns

_MOST = 15
"""Lines of a change that are told; the file has all."""


@dataclass(frozen=True, slots=True)
class Report:
    """``found``: all of it, JSON-ready: what ``reports.sides_files.report`` says, with ``honesty``, ``changes`` and
    ``refused``. ``runs``: the run as it is, then one for each variant.
    """

    found: dict[str, Any]
    runs: tuple[Run, ...]
    honesty: Honesty | None


def make(reruns: Reruns, *, whole: bool = True) -> Report:
    """``whole``: they came to the end of their course."""
    course, sides_of = reruns.course, reruns.sides
    runs = tuple(one.finish() for one in sides_of)
    honest = honesty(course.real, runs[0]) if course.real is not None else None
    chance = honesty(runs[0], reruns.later.finish(), net=True)
    changes = {one.variant.label: changes_of(one) for one in reruns.changed}
    notes = [*([] if whole else ["The run was broken off: all figures are up to that moment."])]
    for label, lines in changes.items():
        notes += [f"{label}: {line}" for line in lines[:_MOST]]
        if len(lines) > _MOST:
            notes.append(f"{label}: and {len(lines) - _MOST} more changes, in sides.json.")
    notes += course.notes
    told = {one.variant.label: one.lines() for one in sides_of}
    notes += [f"{label}: {line}." for label, lines in told.items() for line in (each.rstrip(".") for each in lines)]
    places = _places(reruns, runs[0])
    notes += [
        f"{old} is called {new} in the changed tree, and so in what it has as it is." for old, new in places.items()
    ]
    notes += assumed([one.variant for one in reruns.changed], course)
    sides = [
        Side(
            one.variant.label,
            run,
            {row.id: one.label(row.id) for row in run.jobs if row.id not in one.turned_away},
            phrase=_phrase(one.variant),
            places={} if one.variant.changes else places,
        )
        for one, run in zip(sides_of, runs, strict=True)
    ]
    more = {
        "honesty": honest.plain() if honest is not None else None,
        "chance": chance.plain(),
        "changes": changes,
        "refused": {one.variant.label: {what: list(jobs) for what, jobs in one.told.jobs.items()} for one in sides_of},
    }
    found = report(sides, notes, more)
    first = [honest.line()] if honest is not None else []
    found["said"] = {
        label: [*first, *chance.chance(_gained(found, label), honest), *said] for label, said in found["said"].items()
    }
    for run in runs:
        run.notes = list(notes)
    return Report(found, runs, honest)


def _places(reruns: Reruns, run: Run) -> dict[str, str]:
    """Budget of the run as it is -> what it is called in the changed tree, where that is another name."""
    wanted = next((one.variant for one in reruns.changed if one.variant.wanted is not None), None)
    if wanted is None or wanted.wanted is None:
        return {}
    places = Places(wanted.wanted.budgets, wanted.wanted.clusters, wanted.moves)
    paths = sorted({*(budget.path for budget in run.budgets), *(row.budget for row in run.jobs)})
    return {path: new for path in paths if (new := places.of(path)) not in (None, path)}


def _gained(found: dict[str, Any], label: str) -> dict[str, float]:
    """Budget without others below it -> GPU-hours that it gets more than as it is."""
    inner = {row["budget"].rpartition("/")[0] for row in found["budgets"]}
    return {
        row["budget"]: row["changes"][label]["net_gpu_hours"] for row in found["budgets"] if row["budget"] not in inner
    }


def _phrase(variant: Variant) -> str:
    if not variant.changes:
        return "as it is"
    return "with the change" if variant.policy == BUDGETS else f"under {variant.label}"


def changes_of(one: Rerun) -> list[str]:
    """What the variant changes of the configuration, in lines."""
    if not one.variant.changes:
        return []
    variant, said = one.variant, list[str]()
    if variant.policy != BUDGETS:
        said = [f"policy: {BUDGETS} -> {variant.policy}", *(f"{name} = {value}" for name, value in variant.settings)]
        variant = replace(variant, policy=BUDGETS, settings=())  # what it does without is no change of anybody's
    return [*said, *(change.line for change in diff(one.config, variant.configuration(one.config)))]


def assumed(variants: Sequence[Variant], course: Course) -> list[str]:
    """What nobody knows, and is taken to be so."""
    said = [
        "A change holds from the beginning of the run on: what budgets had used and were entitled to before stays as "
        "it was, so a new share takes a whole lookback to have its full effect.",
        "A job that can resume keeps what it did until it is warned, if it has time to save; one that cannot begins "
        "anew. Starting again costs what the start itself takes.",
    ]
    if course.real is not None:
        said.append(
            "People submit, hold and cancel when they really did, whatever became of their jobs here. What a job "
            "waited for that had ended when it was submitted is not known any more."
        )
    if any(variant.wanted is not None for variant in variants):
        said.append(
            "M1 is of what a budget is owed by the shares of its own side: one whose share falls is owed less, and may "
            "have more of that."
        )
    if any(variant.policy != BUDGETS for variant in variants):
        said.append("Under other policies people sign what they signed, and what those remember begins empty.")
    return said


def write(made: Report, folder: Path, title: str) -> list[Path]:
    """Words, figures, tables and web pages. Returns the main files. Raises OSError."""
    files = write_sides(made.found, folder, title)
    for label, run in zip(made.found["sides"], made.runs, strict=True):
        inner = folder / label.replace(" ", "-")
        write_run(run, inner)
        write_report(run, inner, png=False)
    write_comparison([summary(run) for run in made.runs], folder, png=False)
    return files
