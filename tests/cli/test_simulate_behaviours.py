"""`tenure simulate behaviours` and `month --behave` as people type them."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import pytest
from test_simulate import one_line, simulate, summaries

from tenure.cli.errors import CliError
from tenure.cli.simulation import completion
from tenure.cli.simulation.behaving import Behaving


def test_a_month_that_some_game_says_who_and_is_other_work(tmp_path: Path) -> None:
    words = "month --gpus 32 --days 0.2 --warmup 0 --no-report --out"
    done = simulate(*words.split(), tmp_path, "--behave", "declare-0=20%")
    assert done.returncode == 0, done.stderr
    (one,) = summaries(tmp_path)
    assert one["workload"] == "published (days=0.2, behave=declare-0=20%)"
    (note,) = [line for line in (tmp_path / "notes.txt").read_text().splitlines() if line.startswith("seed")]
    says, _, names = note.partition("done by ")
    assert says == "seed 0: declare-0 is " and len(names.split(", ")) == 30  # of 150
    with (tmp_path / "budgets-seed0" / "jobs.csv").open() as rows:
        charged = {row["user"] for row in csv.DictReader(rows) if row["min_runtime"] != "0"}
    assert charged and not charged & set(names.split(", "))


@pytest.mark.parametrize(
    ("behave", "look_every", "says"),
    [
        ("beg", "7d", "behave = beg: there are squat, idle-loop,"),
        ("split=20", "7d", "behave = 20: a share is between 0 and 1"),
        ("split=60%,high=50%", "7d", "behave = split=60%,high=50%: that is more than all people"),
        ("split,split=5%", "7d", "name split once"),
        ("adaptive=10%", "7d", "write adaptive alone"),
        (None, "2d", "only adaptive people look"),
        ("adaptive", "1m", "it takes at least 1h"),
    ],
)
def test_what_cannot_be_read_names_the_word_and_what_would_do(behave: str | None, look_every: str, says: str) -> None:
    with pytest.raises(CliError, match=re.escape(says)):
        Behaving.read(behave, "0", look_every)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("month --behave split=60%,high=50%", "behave = split=60%,high=50%: that is more than all people"),
        ("month --behave every-cluster", "behave = every-cluster: it takes a second cluster"),
        ("behaviours beg", "behave = beg: there are squat,"),
        ("behaviours every-cluster", "every-cluster: it takes a second cluster"),
        ("behaviours --share 0%", "share = 0%: somebody has to do it"),
        ("behaviours --vary cap_percent=1,2 --policy priority", "vary: every world has the same settings"),
    ],
)
def test_errors_name_the_behaviour_and_what_would_do(words: str, says: str) -> None:
    done = simulate(*words.split())
    assert done.returncode == 2, done.stdout
    assert says in one_line(done.stderr)


def test_behaviours_are_put_beside_honest_worlds_under_each_policy(tmp_path: Path) -> None:
    words = "behaviours high adaptive --gpus 16 --days 0.3 --warmup 1h --look-every 1h --policy budgets,fifo -j 2 --out"
    done = simulate(*words.split(), tmp_path, "--no-report")
    assert done.returncode == 0, done.stderr
    worlds = [(one["policy"], one["settings"]["behave"]) for one in summaries(tmp_path)]
    assert worlds == [
        *[(policy, "honest") for policy in ("budgets", "fifo")],
        ("budgets", "high"),
        *[(policy, name) for name in ("adaptive", "late") for policy in ("budgets", "fifo")],
    ]
    found = json.loads((tmp_path / "behaviours.json").read_text())
    assert found["changes_nothing"] == [["fifo", "high"]]
    assert [(one["policy"], one["behaviour"]) for one in found["behaviours"]] == [
        ("budgets", "high"),
        ("budgets", "late"),
        ("fifo", "late"),
    ]
    learnt = {one["policy"]: one["drift"][-1] for one in found["adaptive"]}
    assert set(learnt["budgets"]) == {"honest", "high"} and "declare-8h" not in learnt["fifo"]
    assert "changes nothing" in done.stdout and "late (chance)" in done.stdout
    assert {path.name for path in tmp_path.iterdir()} == {
        "summary.json",
        *(f"behaviours.{e}" for e in ("json", "md", "html")),
    }
    again = simulate(*words.split(), tmp_path)
    assert again.returncode == 2 and "add --force" in again.stderr


def test_a_month_of_adaptive_people_says_what_they_came_to_do(tmp_path: Path) -> None:
    words = "month --gpus 16 --people 20 --days 1 --behave adaptive,squat=20% --look-every 1h --reap-idle 1h --out"
    done = simulate(*words.split(), tmp_path, "--no-report")
    assert done.returncode == 0, done.stderr
    (one,) = summaries(tmp_path)
    assert one["workload"] == ("published (people=20, days=1, behave=squat=20%+adaptive, look-every=1h, reap-idle=1h)")
    assert one["drift"][0]["squat"] == 4 and sum(one["moves"].values()) > 0
    assert "people at the end: honest" in done.stdout


def test_the_shell_completes_behaviours() -> None:
    assert completion.behaviours("squat,declare") == ["squat,declare-8h", "squat,declare-15m", "squat,declare-0"]
    assert completion.behaviours("ad") == ["adaptive"]
