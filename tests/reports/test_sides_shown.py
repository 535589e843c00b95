"""Who is evicted, what the figures of a report are, and what of it a terminal has room for."""

from __future__ import annotations

import re
from dataclasses import replace
from html import unescape
from io import StringIO
from pathlib import Path

import pytest
from by_hand import eviction
from fake_runs import T0
from rich.console import Console
from test_sides import attempt, before, job, made, row, three

from tenure.cli.simulation.sides import fitting
from tenure.core.model import HOUR
from tenure.reports.evicted import evicted
from tenure.reports.evicted import said as evictions_said
from tenure.reports.records import Run
from tenure.reports.sides import Side, compare_sides
from tenure.reports.sides_files import report, tables_of, write_sides
from tenure.reports.sides_words import sentences


def hit_often() -> Run:
    """Ann's charged job is evicted three times, Eve's unallocated ones twice and once; each time an hour is lost."""
    ann = job(1, "ann@lab/a", started=0)
    eves = [job(number, "eve@lab/b", started=0, funded=False) for number in (2, 3)]
    run = made([ann, *eves], [])
    for one, times in ((ann, 3), (eves[0], 2), (eves[1], 1)):
        run.attempts += [replace(attempt(one, n, n + 1, lost=1), id=f"{one.id}.{n}") for n in range(times)]
        run.evictions += [eviction(one, (n + 1) * HOUR) for n in range(times)]
    return run


def test_who_is_evicted_and_what_it_costs() -> None:
    sides = report([Side("was", before()), Side("is", hit_often(), {1: "a#2", 2: "b", 3: "c"})])
    assert sides["evicted"]["is"] == {
        "evictions": 6, "charged": 3, "unallocated": 3, "jobs": 3, "most": 3, "jobs_most_often": 1,
        "most_often": [{"job": "a#2", "user": "ann", "budget": "lab/a"}],
        "lost_gpu_hours": 48.0, "lost_charged_gpu_hours": 24.0, "lost_unallocated_gpu_hours": 24.0,
    }  # fmt: skip
    assert sides["evicted"]["was"]["evictions"] == 0 and sides["evicted"]["was"]["most_often"] == []
    assert row(sides["budgets"], "budget", "lab")["figures"]["is"]["evictions_of_charged"] == 3
    assert (
        "6 evictions under is, 3 of charged jobs and 3 of unallocated ones: 3 jobs are hit, most often job a#2 of ann "
        "(lab/a), 3 times. Restarts and work done again cost 48.0 GPU-hours, 24.0 of them in charged jobs."
    ) in sides["said"]["is"]
    (shown,) = [table for table in tables_of(sides) if table.title == "Evictions"]
    assert ["of charged jobs", "0", "3"] in shown.rows and ["most evictions of one job", "0", "3"] in shown.rows
    assert shown.rows[-1] == ["that job, or one of them", "-", "a#2 of ann, lab/a"]


def test_evictions_before_measuring_began_are_none_here() -> None:
    run = hit_often()
    run.warmup = 2 * HOUR
    found = evicted(run, None)
    assert (found["evictions"], found["charged"], found["jobs"], found["most"]) == (3, 2, 2, 2)
    run.evictions = [one for one in run.evictions if one.job_id > 1 and one.at == T0 + HOUR]
    assert evicted(run, None)["evictions"] == 0
    run.warmup = 0
    assert "2 evictions here, all of unallocated jobs: 2 jobs are hit, each once." in evictions_said(
        evicted(run, None), "here"
    )


def test_every_figure_of_the_page_is_explained_in_words_that_the_page_has(tmp_path: Path) -> None:
    write_sides(three(), tmp_path, "Who gains")
    page = re.sub(r"<(script|style).*?</\1>", "", (tmp_path / "sides.html").read_text(), flags=re.DOTALL)
    for table in tables_of(three()):
        assert table.about, table.title
        for line in table.about:
            assert line in unescape(page)
    shown = unescape(page)
    for name in ("M1 is delivered of what was owed", "M3 has a stricter measure", "Charged jobs count against"):
        assert name in shown
    for word in ("funded", "water-filled", "p50", "p90", "GPU-h<", "jobs that waited"):
        assert word not in shown, word


def test_one_person_is_named_and_nobody_is_no_number() -> None:
    runs = [made([job(1, "ann@lab/a", started=start, ended=9)], []) for start in (0, 4)]
    (one,) = [
        line for line in sentences(compare_sides([Side("a", runs[0]), Side("b", runs[1])]), "b") if "person" in line
    ]
    assert one == "The only person, ann, loses."
    same = sentences(compare_sides([Side("a", runs[0]), Side("b", runs[0])]), "b")
    assert "The only person, ann, neither gains nor loses anything that matters." in same
    assert "For none of 2 people anything changes that matters." in sentences(
        compare_sides([Side("one", before()), Side("two", before())]), "two"
    )


@pytest.mark.parametrize("width", [60, 80, 100, 140, 240])
def test_a_terminal_breaks_no_figure_in_the_middle(width: int) -> None:
    told = three()
    for one in told["budgets"]:
        for figures in one["figures"].values():
            figures["net_gpu_hours"] += 1_000_000
    for table in tables_of(told):
        if table.title in ("Work", "Evictions"):
            continue
        shown, left_out = fitting(table, table.rows, width)
        console = Console(width=width, file=StringIO())
        console.print(shown)
        assert isinstance(console.file, StringIO)
        text = console.file.getvalue()
        assert all(len(line.rstrip()) <= width for line in text.splitlines())
        kept = len(shown.columns)
        assert kept == len(table.head) or left_out
        assert kept >= 3
        places = [place for place, head in enumerate(table.head) if head in {str(c.header) for c in shown.columns}]
        for cells in table.rows:
            assert all(cells[place] in text for place in places[1:]), text
