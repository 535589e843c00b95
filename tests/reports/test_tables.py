"""A run survives its folder exactly, and the same run is the same bytes."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from fake_runs import CLUSTER, T0, empty_run, fake_run
from hypothesis import given, settings
from hypothesis import strategies as st

from tenure.core.model import Budget
from tenure.reports.metrics import summary
from tenure.reports.records import AttemptRow, JobRow
from tenure.reports.tables import from_slots, read_run, to_slots, write_json, write_run


def test_a_run_comes_back_as_it_was(tmp_path: Path) -> None:
    run = fake_run()
    run.budgets += (Budget("lab/x", 5, ((CLUSTER, 7),), ("ann",), ("bob", "cy"), "lab/old"),)
    run.hosts["empty"] = ()
    assert write_run(run, tmp_path) == summary(run)
    assert read_run(tmp_path) == run
    assert json.loads((tmp_path / "summary.json").read_text()) == summary(run)


def test_the_same_run_is_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_run(fake_run(), tmp_path / name)
    files = sorted(path.name for path in (tmp_path / "one").iterdir())
    assert files == [
        "attempts.csv",
        "budget_hours.csv",
        "evictions.csv",
        "hours.csv",
        "jobs.csv",
        "run.json",
        "summary.json",
    ]
    for name in files:
        first = (tmp_path / "one" / name).read_bytes()
        assert first == (tmp_path / "two" / name).read_bytes()
        assert b"\r" not in first


def test_times_are_integers_and_nothing_is_empty(tmp_path: Path) -> None:
    run = empty_run()
    run.jobs = [
        JobRow(7, "ann", "lab/a", CLUSTER, "debug", 8, 900_000, False, True, 0, True, 60_000, T0, started=T0 + 5)
    ]
    slots = (("n001", (0, 1, 2, 5)), ("n 2", (7,)))
    run.attempts = [AttemptRow("7.1", 7, "ann", "lab/a", CLUSTER, True, 5000, slots, T0 + 5)]
    write_run(run, tmp_path)
    assert (tmp_path / "jobs.csv").read_text().splitlines() == [
        "id,user,budget,cluster,kind,gpus,min_runtime,resumable,funded,priority,protected,runtime,submitted,decided,"
        "started,ended,state,attempts,evictions,occupied,lost,reservations,reserved,told_by,starts_by",
        f"7,ann,lab/a,main,debug,8,900000,false,true,0,true,60000,{T0},,{T0 + 5},,queued,0,0,0,0,0,,,",
    ]
    assert "n001:0-2,5 n%202:7" in (tmp_path / "attempts.csv").read_text()


NAMES = st.text(st.characters(exclude_categories=["Cs"]))


@settings(max_examples=40)
@given(NAMES, NAMES)
def test_any_name_survives(tmp_path_factory: pytest.TempPathFactory, name: str, other: str) -> None:
    folder = tmp_path_factory.mktemp("run")
    run = empty_run()
    run.notes, run.workload, run.settings = [name], other, {name: other}
    run.jobs = [JobRow(1, name, other, CLUSTER, name, 1, 0, True, False, 0, False, 1, T0)]
    run.attempts = [AttemptRow("1.1", 1, name, other, CLUSTER, False, 1000, ((name, (0,)),), T0, because=other)]
    if name:
        write_run(run, folder)
        assert read_run(folder) == run


@pytest.mark.parametrize("name", ["=cmd|' /C calc'!A1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "'quoted", "-h0"])
def test_no_name_is_a_formula_to_a_spreadsheet(tmp_path: Path, name: str) -> None:
    run = empty_run()
    run.jobs = [JobRow(1, name, "lab/a", CLUSTER, "k", 1, 0, True, False, -1, False, 1, T0)]
    run.attempts = [AttemptRow("1.1", 1, name, "lab/a", CLUSTER, False, 1000, ((name, (0,)),), T0)]
    write_run(run, tmp_path)
    for table in ("jobs", "attempts"):
        with (tmp_path / f"{table}.csv").open(newline="") as file:
            cells = [cell for row in csv.reader(file) for cell in row]
        assert f"'{name}" in cells
        assert not [cell for cell in cells if cell[:1] in "=+@\t\r" and cell]
        assert [cell for cell in cells if cell.startswith("-")] == (["-1"] if table == "jobs" else [])
    assert read_run(tmp_path) == run


@given(st.lists(st.tuples(NAMES.filter(bool), st.lists(st.integers(0, 99)).map(tuple))).map(tuple))
def test_any_gpus_survive(slots: tuple[tuple[str, tuple[int, ...]], ...]) -> None:
    assert to_slots(from_slots(slots)) == slots


def test_what_cannot_be_read_is_named_with_its_line(tmp_path: Path) -> None:
    write_run(fake_run(jobs=5), tmp_path)
    table = tmp_path / "jobs.csv"
    lines = table.read_text().splitlines(keepends=True)
    table.write_text("".join([*lines[:2], lines[2].replace("true", "yes"), *lines[3:]]))
    with pytest.raises(ValueError, match=r"jobs\.csv, line 3: 'yes' is neither true nor false"):
        read_run(tmp_path)
    table.write_text("id,name\n1,x\n")
    with pytest.raises(ValueError, match=r"jobs\.csv, line 1: its columns must be id, user,"):
        read_run(tmp_path)
    about = tmp_path / "run.json"
    about.write_text(about.read_text().replace('"format": 3', '"format": 2'))
    with pytest.raises(ValueError, match=r"run\.json: format 2; this version reads format 3"):
        read_run(tmp_path)
    about.unlink()
    with pytest.raises(FileNotFoundError):
        read_run(tmp_path)


def test_a_file_that_could_not_be_written_whole_is_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "summary.json"
    write_json(path, {"complete": True})
    with pytest.raises(UnicodeEncodeError):
        write_json(path, {"complete": False, "said": "\ud800"})
    assert path.read_text("utf-8") == '{\n  "complete": true\n}\n'
    assert [one.name for one in tmp_path.iterdir()] == ["summary.json"]
