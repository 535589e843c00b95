"""`tenure simulate` as people type it: results, errors that say what would do, Ctrl-C."""

from __future__ import annotations

import csv
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tenure.cli.errors import CliError
from tenure.cli.simulation import completion
from tenure.cli.simulation.folders import check_folder, ready_folder
from tenure.cli.simulation.options import RunOptions, days_ms
from tenure.cli.simulation.running import timed
from tenure.policies import NAMES
from tenure.sim.months import month_of
from tenure.sim.traces import READERS

ASKED = (
    "policy seed gpus days jobs events wall_s m1_delivered m1_strict m1_worst m1_worst_week m3_delivered budgets_at_95 "
    "budgets occupancy unallocated_share demand_over_supply debug_wait_p50_s debug_wait_p90_s mid_wait_p90_s "
    "mid_wait_p99_s wait_p50_s wait_p90_s large_wait_p90_s evictions_per_charged_job evictions_per_mid_job lost_share"
).split()
"""What every summary has at least."""
HANGS = 240

SWF = """; Version: 2.2
; MaxProcs: 16
1 0 -1 3600 8 -1 -1 8 7200 -1 1 1 1 -1 1 -1 -1 -1
2 60 -1 1800 4 -1 -1 4 3600 -1 1 2 2 -1 1 -1 -1 -1
3 120 -1 86400 16 -1 -1 16 90000 -1 1 1 1 -1 1 -1 -1 -1
4 180 -1 oops 16 -1 -1 16 90000 -1 1 1 1 -1 1 -1 -1 -1
"""


def simulate(*words: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tenure", "simulate", *map(str, words)]
    environment = {**os.environ, "COLUMNS": "160", "NO_COLOR": "1"}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=HANGS, check=False)


def one_line(text: str) -> str:
    return " ".join(text.replace("│", " ").split())


def summaries(folder: Path) -> list[dict[str, Any]]:
    found = json.loads((folder / "summary.json").read_text())
    assert isinstance(found, list)
    return found


def test_a_month_compares_policies_over_seeds_and_leaves_all_of_it(tmp_path: Path) -> None:
    out = tmp_path / "results"
    words = "month --gpus 32 --days 0.4 --warmup 1h --mix saturated --seeds 2 --policy budgets,priority --out"
    done = simulate(*words.split(), out, "--no-report")
    assert done.returncode == 0, done.stderr
    assert "delivered of what was owed" in done.stdout and "budgets" in done.stdout and "priority" in done.stdout
    found = summaries(out)
    assert [(one["policy"], one["seed"]) for one in found] == [
        ("budgets", 0),
        ("budgets", 1),
        ("priority", 0),
        ("priority", 1),
    ]
    for one in found:
        assert [key for key in ASKED if key not in one] == []
        assert one["gpus"] == 32 and one["days"] == 0.4 and one["complete"] is True
        assert one["large_wait_p90_s"] is None  # nobody has 128 GPUs here
        assert 0 <= one["m1_strict"] <= one["m1_delivered"] <= 1
        folder = out / f"{one['policy']}-seed{one['seed']}"
        with (folder / "jobs.csv").open() as rows:
            assert sum(1 for _ in csv.DictReader(rows)) == one["jobs"] > 50

    again = simulate(*words.split(), out)
    assert again.returncode == 2 and "add --force" in again.stderr
    assert summaries(out) == found


def test_one_seed_alone_gives_the_same_figures_again(tmp_path: Path) -> None:
    words = "month --gpus 32 --days 0.4 --first-seed 7 --no-report --json --out".split()
    first, second = (json.loads(simulate(*words, tmp_path / name).stdout) for name in ("a", "b"))
    for one in (*first, *second):
        del one["wall_s"], one["peak_mib"]
    assert first == second and first[0]["seed"] == 7
    for name in ("jobs.csv", "attempts.csv", "evictions.csv", "hours.csv", "budget_hours.csv"):
        one, other = ((tmp_path / folder / "budgets-seed7" / name).read_bytes() for folder in ("a", "b"))
        assert one == other


def test_a_sweep_names_what_it_varied(tmp_path: Path) -> None:
    words = "month --gpus 16,32 --days 0.1 --vary max_min_runtime=1h,8h --no-report --out".split()
    done = simulate(*words, tmp_path / "sweep")
    assert done.returncode == 0, done.stderr
    assert [one["settings"] for one in summaries(tmp_path / "sweep")] == [
        {"gpus": gpus, "max_min_runtime": longest} for gpus in ("16", "32") for longest in ("1h", "8h")
    ]
    assert (tmp_path / "sweep" / "budgets-gpus=16-max_min_runtime=1h-seed0" / "run.json").is_file()


def test_queues_of_kai_have_their_own_minimum_runtimes(tmp_path: Path) -> None:
    own = ("lab/language:4h+lab/science:0", "lab:30m")
    words = "month --gpus 16 --days 0.1 --policy kai --set reclaim_min_runtime=1h --no-report".split()
    done = simulate(*words, "--vary", f"reclaim_min_runtime_of={','.join(own)}", "--out", tmp_path / "own")
    assert done.returncode == 0, done.stderr
    assert [one["settings"] for one in summaries(tmp_path / "own")] == [
        {"reclaim_min_runtime": "1h", "reclaim_min_runtime_of": value} for value in own
    ]
    assert (tmp_path / "own" / "kai-reclaim_min_runtime_of=lab:30m-seed0" / "run.json").is_file()


def test_a_trace_is_replayed_and_its_bad_rows_are_told(tmp_path: Path) -> None:
    log = tmp_path / "tiny.swf"
    log.write_text(SWF)
    out = tmp_path / "out"
    done = simulate(
        "trace", log, "--gpus", "16", "--policy", "budgets,fifo,backfill,slurm", "--out", out, "--no-report"
    )
    assert done.returncode == 0, done.stderr
    assert "bad row" in done.stderr and "oops" in done.stderr
    assert "oops" in (out / "notes.txt").read_text()
    assert "oops" not in done.stdout  # it was told before
    assert all(any("oops" in note for note in one["notes"]) for one in summaries(out))
    assert [(one["policy"], one["jobs"]) for one in summaries(out)] == [
        ("budgets", 3),
        ("fifo", 3),
        ("backfill", 3),
        ("slurm", 3),
    ]


def test_reports_open_offline_compare_and_are_drawn_again(tmp_path: Path) -> None:
    out = tmp_path / "both"
    words = "month --gpus 16 --days 0.2 --policy budgets,fifo --out".split()
    done = simulate(*words, out)
    assert done.returncode == 0, done.stderr
    for folder in (out / "budgets-seed0", out / "fifo-seed0"):
        report = (folder / "report.html").read_text()
        assert not re.search(r"""(?:src|href)=["']?(?:https?:)?//""", report)
        assert (folder / "charts" / "timeline.png").read_bytes().startswith(b"\x89PNG")
    assert "fifo against budgets" in (out / "comparison.md").read_text()
    assert (out / "comparison.html").is_file()
    compared = simulate("compare", out / "budgets-seed0", out / "fifo-seed0", "--out", tmp_path / "again")
    assert compared.returncode == 0, compared.stderr
    assert "fifo against budgets\n- " in compared.stdout and "without a spread to compare with" in compared.stdout
    assert "delivered of what was owed" in compared.stdout and "|" not in compared.stdout
    assert json.loads(simulate("compare", out, "--out", tmp_path / "again", "--json").stdout)["findings"]
    whole = (out / "fifo-seed0" / "report.html").read_text()
    drawn = simulate("report", out / "fifo-seed0", "--window", "1h..3h", "--hosts", "1")
    assert drawn.returncode == 0, drawn.stderr
    part = (out / "fifo-seed0" / "report.html").read_text()
    assert "2 hosts, 16 GPUs" in whole and "2 hosts, 16 GPUs" not in part


def test_ctrl_c_keeps_what_was_done(tmp_path: Path) -> None:
    out = tmp_path / "broken"
    words = ["month", "--gpus", "64", "--days", "300", "--seeds", "2", "--no-report", "--out", str(out)]
    process = subprocess.Popen(
        [sys.executable, "-m", "tenure", "simulate", *words],
        env={**os.environ, "FORCE_COLOR": "1", "COLUMNS": "160", "TERM": "xterm"},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stderr is not None
    seen = ""
    while "days/s" not in seen:
        seen += process.stderr.read(64)
    os.killpg(process.pid, signal.SIGINT)
    _, rest = process.communicate(timeout=HANGS)
    assert process.returncode == 130
    assert "interrupted; what was done by then is in" in " ".join(rest.split())
    found = summaries(out)
    assert found and all(one["complete"] is False for one in found)
    assert all((out / f"budgets-seed{one['seed']}" / "jobs.csv").is_file() for one in found)


def test_ctrl_c_without_a_folder_shows_what_was_done() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "tenure", "simulate", "month", "--gpus", "64", "--days", "300"],
        env={**os.environ, "FORCE_COLOR": "1", "COLUMNS": "160", "TERM": "xterm"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stderr is not None
    seen = ""
    while "days/s" not in seen:
        seen += process.stderr.read(64)
    os.killpg(process.pid, signal.SIGINT)
    shown, rest = process.communicate(timeout=HANGS)
    assert process.returncode == 130
    assert "delivered of what was owed" in shown and "broken off before its end" in shown
    assert "interrupted" in rest and "Traceback" not in rest


def test_what_was_run_is_recorded_and_other_work_is_not_compared(tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = (
        "month --gpus 16 --days 0.1 --people 20 --cluster west=8 --host-faults 0 --set cap_percent=50 --set recent=9h"
    )
    done = simulate(*words.split(), "--policy", "budgets,priority", "--no-report", "--out", out)
    assert done.returncode == 0, done.stderr
    budgets, priority = summaries(out)
    assert budgets["workload"] == priority["workload"] == "published (west=8, people=20, days=0.1, host-faults=0)"
    assert (budgets["settings"], priority["settings"]) == ({"recent": "9h"}, {"cap_percent": "50"})
    assert sorted(path.name for path in out.glob("*/run.json")) == ["run.json"] * 2
    assert (out / "budgets-seed0").is_dir() and (out / "priority-seed0").is_dir()
    (out / "budgets-seed0" / "jobs.csv").unlink()  # tables are not needed
    twice = simulate("compare", out / "budgets-seed0", out / "budgets-seed0", "--out", tmp_path / "again")
    assert twice.returncode == 2 and "two runs of budgets with seed 0: name every run once" in one_line(twice.stderr)
    (out / "budgets-seed0" / "summary.json").unlink()
    broken = simulate("compare", out, "--out", tmp_path / "again")
    assert broken.returncode == 2 and "its summary.json is not that of a run" in one_line(broken.stderr)


def test_seeds_draw_from_a_trace_what_is_drawn(tmp_path: Path) -> None:
    rows = [f"{i} {60 * i} -1 600 4 -1 -1 4 7200 -1 1 1 {1 + i % 2} 1 -1 1 -1 -1 -1".split() for i in range(1, 41)]
    log = tmp_path / "some.swf"
    log.write_text("; Version: 2.2\n; MaxProcs: 16\n" + "".join(" ".join(row[:18]) + "\n" for row in rows))
    words: list[str | Path] = [
        "trace",
        log,
        "--seeds",
        "2",
        "--no-report",
        "--days",
        "0.2",
        "--host-faults",
        "0",
        "--out",
    ]
    done = simulate(*words, tmp_path / "half", "--thin", "0.5")
    assert done.returncode == 0, done.stderr
    jobs = [(tmp_path / "half" / f"budgets-seed{seed}" / "jobs.csv").read_text() for seed in (0, 1)]
    assert jobs[0] != jobs[1]
    first, second = summaries(tmp_path / "half")
    assert first["gpus"] == second["gpus"]
    assert first["workload"] == second["workload"] == "some.swf (thin=0.5, days=0.2, host-faults=0)"
    assert "every seed replays the same jobs" not in done.stderr

    alone = simulate(*words, tmp_path / "alone", "--thin", "0.5", "--first-seed", "1")
    assert alone.returncode == 0, alone.stderr
    assert (tmp_path / "alone" / "budgets-seed1" / "jobs.csv").read_text() == jobs[1]

    done = simulate(*words, tmp_path / "whole", "--gpus", "16")
    assert "every seed replays the same jobs" in one_line(done.stderr)


@pytest.mark.parametrize("name", ["log", "as-it-is", "slurm-preempt"])
def test_a_run_can_be_replaced_and_only_what_was_written_here(tmp_path: Path, name: str) -> None:
    earlier, run = tmp_path / "summary.json", tmp_path / name
    earlier.write_text("[]")
    run.mkdir()
    for file in ("run.json", "jobs.csv"):
        (run / file).write_text("")
    with pytest.raises(CliError, match="add --force"):
        check_folder(tmp_path, force=False)
    mine = run / "thoughts.txt"
    mine.write_text("years of work")
    with pytest.raises(CliError, match=rf"it has other files in it \({name}/thoughts.txt\)"):
        ready_folder(tmp_path, force=True)
    assert earlier.exists() and mine.exists()
    mine.unlink()
    ready_folder(tmp_path, force=True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["budgets", "charts/report.pdf", "budgets-seed0/deep/run.json", "summary.csv"])
def test_nothing_else_is_taken_away(tmp_path: Path, name: str) -> None:
    (tmp_path / "summary.json").write_text("[]")
    other = tmp_path / name
    other.parent.mkdir(parents=True, exist_ok=True)
    other.write_text("years of work")
    with pytest.raises(CliError, match="it has other files in it"):
        ready_folder(tmp_path, force=True)
    assert other.exists() and (tmp_path / "summary.json").exists()


def test_a_run_that_failed_at_once_does_not_block_its_folder(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("3 rows were bad")
    (tmp_path / "budgets-seed0").mkdir()
    ready_folder(tmp_path, force=False)
    assert list(tmp_path.iterdir()) == []


def test_results_stay_when_what_replaces_them_cannot_be_run(tmp_path: Path) -> None:
    (tmp_path / "summary.json").write_text("[]")
    for words in ("month --people 10", "month --days nan", "month --set lookback=6h"):
        done = simulate(*words.split(), "--force", "--out", tmp_path)
        assert done.returncode == 2 and (tmp_path / "summary.json").exists()


@pytest.mark.parametrize("days", [float("nan"), float("inf")])
def test_numbers_that_are_none_are_refused_whatever_the_parser_lets_through(days: float) -> None:
    with pytest.raises(CliError, match="write a number of days"):
        days_ms(days)


@pytest.mark.parametrize(
    ("given", "length", "warmup"),
    [(None, 30 * 24, 72), (None, 25, 2), (None, 9, 0), ("90m", 5, 1.5), ("24h", 25, 24)],
)
def test_warm_ups_leave_whole_hours_to_measure(given: str | None, length: float, warmup: float) -> None:
    made = timed(RunOptions(warmup=given), month_of("published", {"main": 16}), round(length * 3_600_000))
    assert (made.duration, made.warmup) == (length * 3_600_000, warmup * 3_600_000)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("month --gpus 100", "gpus = 100: hosts have 8 GPUs, so write a multiple of 8"),
        ("month --gpus many", "gpus = many: write whole numbers"),
        ("month --mix wild", "mix = wild: there are published, saturated"),
        ("month --policy budgets,best", "policy = best: there are budgets, priority, fifo, backfill, slurm"),
        ("month --set lookback=1", "lookback = 1: say the unit"),
        ("month --set colour=red", "there is no setting colour; there are: lookback"),
        ("month --set grace=1m,2m", "to try several: --vary"),
        ("month --vary lookback", "write NAME=VALUE"),
        ("month --days 1 --warmup 2d", "warmup = 2d: nothing would be left to measure"),
        ("month --days 0.1 --warmup 90m", "warmup = 90m: nothing would be left to measure of 2h24m"),
        ("month --days 0.02", "days = 0.02: nothing would be left to measure"),
        ("month --days nan", "days"),
        ("month --days inf", "days"),
        ("month --people 10", "people = 10: 10 people are too few for 15 budgets"),
        ("month --cluster West=8", "use lowercase letters"),
        ("month --cluster west=8 --cluster west=16", "give each cluster its own name"),
        ("month --set lookback=6h", "max_min_runtime = 8h: from 1s to 6h (the lookback)"),
        ("month --set kill_timeout=0", "kill_timeout = 0: from 1s to 1h"),
        ("month --policy fifo --set recent=2h", "recent: it changes nothing under fifo; it is a setting of budgets"),
        ("month --set cap_percent=150", "it is a setting of priority"),
        (
            "month --policy kai --set reclaim_min_runtime_of=lab/langage:4h",
            "reclaim_min_runtime_of = lab/langage: there is no such queue; did you mean lab/language?",
        ),
        ("month --window 5d", "window = 5d: write FROM..TO"),
        ("month --host-faults soon", "host-faults = soon"),
        ("month --cluster west", "cluster = west: write NAME=GPUS"),
        ("month --policy ,", "policy = (none)"),
        ("trace nowhere.csv", "nowhere.csv"),
        ("compare nowhere --out x", "no simulated run is there"),
        ("report nowhere", "no simulated run is there"),
        ("trace nowhere.csv --rule 8,1h", "rule = 8,1h: write GPUS,RUNTIME,MIN_RUNTIME,yes|no"),
        ("trace nowhere.csv --rule 8,1x,15m,yes", "rule = 1x:"),
        ("trace nowhere.csv --budget itp=x/y", "budget = itp=x/y: budgets of a trace are not nested"),
        ("trace nowhere.csv --budget itp=share", "budget = itp=share: share is a setting; choose another name"),
        ("trace nowhere.csv --shares a=0.5,x/y=0.5", "shares = a=0.5,x/y=0.5: budgets of a trace are not nested"),
        ("trace nowhere.csv --thin nan", "thin"),
        ("trace nowhere.csv --cut 5", "write FROM..TO"),
        ("trace nowhere.csv --shares unfair", "unfair"),
    ],
)
def test_errors_name_the_field_the_value_and_what_would_do(words: str, says: str) -> None:
    done = simulate(*words.split())
    assert done.returncode == 2, done.stdout
    assert says in one_line(done.stderr)
    assert "Traceback" not in done.stderr


def test_a_folder_with_other_files_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    done = simulate("month", "--out", tmp_path, "--force")
    assert done.returncode == 2 and "it has other files in it (thesis.tex)" in " ".join(done.stderr.split())
    assert (tmp_path / "thesis.tex").read_text() == "years of work"


def test_policies_are_listed() -> None:
    assert list(json.loads(simulate("policies", "--json").stdout)) == list(NAMES)
    assert "EASY" in simulate("policies").stdout


def test_the_shell_completes_policies_settings_and_formats() -> None:
    assert completion.policies("budgets,p") == ["budgets,priority"]
    assert completion.settings("look") == ["lookback=", "look_every="]
    assert completion.settings("cap_") == ["cap_percent=", "cap_least="]
    assert completion.mixes("sat") == ["saturated"]
    assert completion.formats("s") == ["sacct", "supercloud", "swf"]
    assert completion.formats("p") == ["pai-2020", "pai-2023", "philly", "philly-json"]


def test_the_formats_of_traces_are_told() -> None:
    told = one_line(simulate("trace", "--help").stdout)
    assert all(name in told for name in READERS)
