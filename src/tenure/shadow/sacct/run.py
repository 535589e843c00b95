"""The sides of a report, run one after the other, and what is found when they are put beside each other."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tenure.core.model import SECOND
from tenure.reports.compare import write_comparison
from tenure.reports.html import write_report
from tenure.reports.metrics import summary
from tenure.reports.sides import Side, compare_sides
from tenure.reports.sides_files import report as compared
from tenure.reports.sides_files import write_sides
from tenure.reports.sides_words import sentences
from tenure.reports.tables import write_run
from tenure.shadow import replay
from tenure.shadow.gains import gains
from tenure.shadow.replay import Then
from tenure.shadow.sacct import notes
from tenure.shadow.sacct.report import Report
from tenure.shadow.sacct.truth import said, truth
from tenure.sim.settings import TENURE, Pairs, SettingError, heeds

WAS, MODEL, OURS = "as it was", "model of Slurm", "Tenure"
_PHRASES = {WAS: WAS, MODEL: "in the model of Slurm", OURS: "under Tenure"}
_FOLDERS = {WAS: "as-it-was", MODEL: "slurm-model", OURS: "tenure"}
Moved = Callable[[str, float], None]
"""Called now and then with the side that runs and how much of it is done, 0 to 1."""


@dataclass(frozen=True, slots=True)
class Order:
    """A side to run. ``then``: None for what really was."""

    label: str
    then: Then | None


@dataclass(frozen=True, slots=True)
class Result:
    """``found``: everything, JSON-ready. ``sides``: the runs that it was found in."""

    found: dict[str, Any]
    sides: tuple[Side, ...]


def orders(report: Report, policies: Sequence[str], pairs: Pairs) -> list[Order]:
    """As it was, the policies that were asked for, and the model of Slurm. Raises SettingError."""
    model, _ = notes.model(report)
    # The model itself is a side anyhow.
    named = [policy for policy in policies if policy != model.policy or pairs]
    for name, _ in pairs:
        if not any(heeds(policy, name) for policy in named):
            raise SettingError(f"{name}: it changes nothing under {', '.join(named)}")
    made = [Order(WAS, None)]
    for policy in named:
        heeded = tuple(pair for pair in pairs if heeds(policy, pair[0]))
        label = OURS if policy == TENURE else policy
        options = model.options if policy == model.policy else {}
        made.append(Order(label, Then(policy, options, heeded)))
    return [*made, Order(MODEL, model)]


def run(report: Report, asked: Sequence[Order], moved: Moved, done: Callable[[Side], None] | None = None) -> Result:
    """``done`` gets each side when it is over. Raises SettingError."""
    made: dict[str, replay.Side] = {}
    sides: list[Side] = []
    for order in asked:
        began = time.perf_counter()
        made[order.label] = one = _one(report, order, moved)
        one.tables.wall_s = round(time.perf_counter() - began, 3)
        one.tables.workload = report.reading.path
        sides.append(_side(order.label, one))
        if done is not None:
            done(sides[-1])
    return Result(_found(report, made, sides), tuple(sides))


def _one(report: Report, order: Order, moved: Moved) -> replay.Side:
    record, terms, span = report.record, report.terms, report.span

    def tell(at: int, _: int) -> bool:
        moved(order.label, (at - span.start) / (span.end - span.start))
        return True

    if order.then is None:
        return replay.as_it_was(record, terms, span, tell)
    return replay.under(record, terms, span, order.then, tell)


def _side(label: str, one: replay.Side) -> Side:
    """Under Slurm a job that was requeued has several rows, and elsewhere one."""
    keys = {job_id: piece.life.key for job_id, piece in one.jobs.items()}
    since: dict[str, int] = {}
    lengths: dict[str, int | None] = {}
    for piece in one.jobs.values():
        life = piece.life
        waits_from = max(life.submitted, life.eligible)
        since[life.key] = min([waits_from, *(run.started for run in life.runs)]) * SECOND
        known = life.over and life.runs and not life.running
        lengths[life.key] = sum(run.ended - run.started for run in life.runs) * SECOND if known else None
    return Side(label, one.tables, keys, since, phrase_of(label), lengths)


def phrase_of(label: str) -> str:
    """How sentences say where something happens."""
    return _PHRASES.get(label, f"under {label}")


def _found(report: Report, made: dict[str, replay.Side], sides: Sequence[Side]) -> dict[str, Any]:
    was, *others, model = sides
    true = truth(was, model)
    ours = made.get(OURS)
    of_ours = None if ours is None else gains(made[WAS], ours, report.span)
    told = list(notes.of_report(report, made[WAS], of_ours))
    for side in sides:
        side.run.notes = [*side.run.notes, *told]
    more = {
        "model": true,
        "model_said": said(true),
        "rows": dict(notes.rows(report.reading)),
        "not_carried_over": list(report.record.site["notes"]),
    }
    found = compared(sides, told, more)
    found["said"][MODEL] = [found["model_said"], *found["said"][MODEL]]
    if others:
        beside = compare_sides([model, *others])
        found["also"] = [
            {"heading": f"{label} against the {MODEL}", "said": sentences(beside, label)}
            for label in beside["sides"][1:]
        ]
    return found


def write(result: Result, folder: Path, title: str, *, pages: bool) -> list[Path]:
    """The report, and with ``pages`` a comparison and a page for each side. Raises OSError."""
    files = write_sides(result.found, folder, title)
    write_comparison([summary(side.run) for side in result.sides], folder, png=False)
    if pages:
        for side in result.sides:
            write_report(side.run, folder / folder_of(side.label), png=False)
    return files


def write_tables(side: Side, folder: Path) -> None:
    """A side's own tables, in a folder of its own. Raises OSError."""
    write_run(side.run, folder / folder_of(side.label))


def folder_of(label: str) -> str:
    """Named as folders of simulations are, so that `tenure simulate report` and `compare` take them."""
    return f"{_FOLDERS.get(label, label)}-seed0"
