"""Slurm's clock goes ahead of this host's, or behind: when a job of its users' own began and ended, as told here."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from tenure.executors import procs
from tenure.executors.base import Phase
from tenure.executors.files import AttemptFiles
from tenure.executors.slurm import ends, native
from tenure.executors.slurm.handling import Handling
from tenure.executors.slurm.look import Look
from tenure.executors.slurm.native import NativePlan, NativeRun, Released
from tenure.executors.slurm.rows import Row
from tenure.slurm import Commands

MINUTE_S = 60


def row(state: str, start: int, ended: int = 0) -> Row:
    return Row(
        *("12", 12, "", state, False, 1000, "ada", "language", 0, start, 0, ended, "None", 0, 0),
        *("node001", "", True, "tenure:1", ""),
    )


def look(one: Row) -> Look:
    return Look([one], {}, {1: one}, [])


@pytest.mark.parametrize("ahead_s", [MINUTE_S, 0, -MINUTE_S])
def test_nothing_ends_before_it_was_seen_to_run(tmp_path: Path, ahead_s: int) -> None:
    """``ahead_s``: of this host, so that by Slurm's times all of it was so long ago."""
    attempt = AttemptFiles(tmp_path)
    procs.write_json(tmp_path / native.RELEASED, asdict(Released(0, procs.wall_ms())))
    run = NativeRun(attempt, NativePlan("1.1", 1, "12", 0, ("node001",), 1))
    run.load()
    handling = Handling(Commands(tmp_path), "here")  # not one command is there: none is to be given
    began = procs.boottime_ms()
    there = procs.wall_ms() // 1000 - ahead_s
    running = row("RUNNING", there)
    assert run.advance(handling, look(running), nullcontext)
    run.advance(handling, look(running), nullcontext)
    assert run.advance(handling, look(replace(running, state="COMPLETED", ended=there)), nullcontext)
    report = run.report("1.1", procs.boot_id())
    assert (report.phase, report.exit_codes) == (Phase.EXITED, (0,))
    assert report.age_ms <= procs.boottime_ms() - began


def test_what_is_gone_through_late_was_so_when_it_was_asked_for(tmp_path: Path) -> None:
    """On a busy machine, or when much is to be done: since then the job may have ended long ago."""
    attempt = AttemptFiles(tmp_path)
    procs.write_json(tmp_path / native.RELEASED, asdict(Released(0, procs.wall_ms() - 60_000)))
    run = NativeRun(attempt, NativePlan("1.1", 1, "12", 0, ("node001",), 1))
    run.load()
    handling = Handling(Commands(tmp_path), "here")
    started = procs.wall_ms() // 1000 - 50
    running = row("RUNNING", started)
    run.advance(handling, replace(look(running), asked=procs.boottime_ms() - 40_000), nullcontext)
    ended = replace(running, state="COMPLETED", ended=started + 20)
    assert run.advance(handling, look(ended), nullcontext)
    before, age, after = procs.wall_ms(), run.report("1.1", procs.boot_id()).age_ms, procs.wall_ms()
    middle = (started + 20) * 1000 + 500
    assert before - middle - 10 <= age <= after - middle + 10, "the middle of that second"


@pytest.mark.parametrize(
    ("written", "ended", "age"),
    [
        (300, 99, 300),  # the nodes' files say 99.7 s, which is in that second
        (1_300, 99, 500),  # 98.7 s: freed in second 99, of which the middle is meant
        (4_000, 99, 500),
        (100, 97, 100),  # slurmctld's clock is behind
        (2_000, 160, 0),  # or ahead: not before now
        (2_000, 0, 2_000),
    ],
)
def test_gpus_are_free_when_slurm_has_freed_them(
    monkeypatch: pytest.MonkeyPatch, written: int, ended: int, age: int
) -> None:
    monkeypatch.setattr(procs, "wall_ms", lambda: 100_000)
    assert ends.released_age_ms(written, ended) == age
