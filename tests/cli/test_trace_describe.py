"""`tenure trace describe` as people type it: the screen, JSON, a report, errors that say what would do, Ctrl-C."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tarfile
from contextlib import suppress
from pathlib import Path

import pytest

from tenure.cli.trace.screen import bar, spark
from tenure.cli.trace.screen import days as span_in_days
from tenure.sim.traces import READERS

HANGS = 240
HEADER = "JobID|User|Account|State|Submit|Start|End|Elapsed|Timelimit|ReqTRES\n"


def row(number: int, day: int = 5, gpus: int = 8, name: str = "vision") -> str:
    times = f"2026-01-{day:02}T08:00:00|2026-01-{day:02}T09:00:00|2026-01-{day:02}T10:00:00"
    return f"{number}|ada|{name}|COMPLETED|{times}|01:00:00|2:00:00|gres/gpu={gpus}\n"


REPORT = "".join([HEADER, row(1), row(2, 6, 1), row(3, 7, 0), "4|broken\n"])


def command(*words: str | Path) -> list[str]:
    return [sys.executable, "-m", "tenure", "trace", "describe", *map(str, words)]


ENVIRONMENT = {**os.environ, "COLUMNS": "160", "NO_COLOR": "1"}


def describe(*words: str | Path, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*words), env=ENVIRONMENT, capture_output=True, text=True, timeout=HANGS, check=False, input=stdin
    )


@pytest.fixture
def report(tmp_path: Path) -> Path:
    path = tmp_path / "report.txt"
    path.write_text(REPORT)
    return path


def test_what_the_screen_says(report: Path) -> None:
    done = describe(report, "--gpus", "8")
    assert (done.returncode, done.stderr) == (0, "")
    for text in (
        "report.txt (sacct): 4 rows, 2 jobs",
        "2 days; submitted from 2026-01-05T08:00:00Z to 2026-01-06T08:00:00Z",
        "asks for 0.2 GPUs on average, 9 GPU-hours; 0.02 x what the 8 GPUs can do",
        "in whole hosts of 8, that is 0.02 x what 8 GPUs can do",
        "of the GPU time     2   1h   1h   1h   1h       1h",
        "5 to 8  50.0 %  ███████████               88.9 %  ███████████████████▌",
        "1 person\n1 team\n",
        "team vision     2          9   100.0 %",
        "all        2   1h   1h   1h   1h       1h",
        "0.0 % ran under 10 % of their limit; 0.0 % under half; 0.0 % to its last 5 % or beyond",
        "1  no GPUs",
        "report.txt line 5: wrong number of fields",
    ):
        assert text in done.stdout


def test_json_and_a_report(report: Path, tmp_path: Path) -> None:
    out = tmp_path / "out" / "deep"
    done = describe(report, "--cut", "2026-01-06..", "--json", "--out", out)
    assert done.returncode == 0
    data = json.loads(done.stdout)
    assert (data["jobs"], data["jobs_outside_cut"], data["complete"], data["cut"]) == (1, 1, True, "2026-01-06..")
    assert json.loads((out / "figures.json").read_text()) == data
    assert sorted(path.name for path in out.iterdir()) == ["charts", "figures.json", "report.html"]
    assert len(list((out / "charts").glob("*.png"))) == 9


def test_a_pipe_may_be_described() -> None:
    done = describe("/dev/stdin", stdin=REPORT)
    assert done.returncode == 0
    assert "stdin (sacct): 4 rows, 2 jobs" in done.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--format", "csv"], "there is no trace format 'csv'; there are:"),
        (["--out", "/dev/null"], "out = /dev/null: this is a file; name a directory"),
        (["--out", "/dev/null/x"], "out = /dev/null/x: Not a directory; name a directory that can be made"),
        (["--cut", "yesterday"], "window 'yesterday': write FROM..TO"),
        (
            ["--cut", "2020-01-01..2020-02-01"],
            "no job was submitted in the window 2020-01-01..2020-02-01, and 2 jobs outside of it",
        ),
        (["--gpus", "0"], "Invalid value for '--gpus': Input should be greater than or equal to 1"),
    ],
)
def test_errors_say_what_would_do(report: Path, words: list[str], said: str) -> None:
    done = describe(report, *words)
    assert done.returncode == 2
    assert said in " ".join(done.stderr.replace("│", " ").split())


def test_a_file_that_is_not_there_or_no_trace(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("time;gpus\n")
    for name, said in (("none.txt", "No such file or directory"), ("x.csv", "not in any format known")):
        done = describe(tmp_path / name)
        assert done.returncode == 2
        assert said in done.stderr and "Traceback" not in done.stderr
    done = describe(tmp_path / "x.csv", "--out", tmp_path / "x.csv" / "below")
    assert done.returncode == 2 and "Not a directory" in done.stderr


def test_what_formats_there_are_is_a_list(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("time;gpus\n")
    said = describe(tmp_path / "x.csv").stderr.splitlines()
    assert said[0].endswith("not in any format known: x.csv starts with 'time;gpus'. Known are:")
    assert [line.split()[0] for line in said[1:]] == sorted(READERS) and all(line[:2] == "  " for line in said[1:])


def test_a_requeued_job_and_files_of_the_same_name(tmp_path: Path) -> None:
    again = row(1).replace("T08", "T11").replace("T09", "T12").replace("T10", "T13")
    archive = tmp_path / "all.tar"
    with tarfile.open(archive, "w") as tar:
        for name, text in (("a/LICENSE", "Free"), ("b/LICENSE", "Free"), ("report.txt", HEADER + row(1) + again)):
            (tmp_path / "file").write_text(text)
            tar.add(tmp_path / "file", name)
    done = describe(archive)
    assert (done.returncode, done.stderr) == (0, "")
    for text in (
        "asks for 0.3 GPUs on average, 8 GPU-hours\n",
        "not in this: 8.0 GPU-hours that earlier runs of 1 requeued or resized job held; of each, the last run",
        "1h each",
        "Files of another kind\nLICENSE (2 files)\n",
    ):
        assert text in done.stdout
    assert json.loads(describe(archive, "--json").stdout)["files_of_another_kind"] == {"LICENSE": 2}


def test_a_trace_that_knows_people_or_teams_says_so(tmp_path: Path) -> None:
    path = tmp_path / "itp.csv"
    path.write_text("job_id,submission_time,duration,num_gpu\na,60,7200,8\n")
    assert "1 person or team (the trace does not tell the two apart)\n" in describe(path).stdout


def test_names_move_no_cursor(tmp_path: Path) -> None:
    """Of files, and of those in an archive that somebody else made."""
    path = tmp_path / "re\x1b[2Jport.txt"
    path.write_text("JobID|User\n")
    done = describe(path)
    assert done.returncode == 2 and "the report has no Submit" in done.stderr
    assert "\x1b" not in done.stdout + done.stderr


def test_ctrl_c_shows_what_was_read(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    process = subprocess.Popen(
        command(pipe),
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    with pipe.open("wb", buffering=0) as file:
        # More than the pipe and the buffers hold: when this is through, reading is under way.
        file.write((HEADER + "".join(row(number) for number in range(20_000))).encode())
        os.killpg(process.pid, signal.SIGINT)
        with suppress(BrokenPipeError):  # nobody reads to the end any more: that is the point
            file.write("".join(row(number) for number in range(20_000, 60_000)).encode())
    shown, said = process.communicate(timeout=HANGS)
    assert process.returncode == 130
    assert "broken off: the figures are of what was read by then" in shown
    assert "How long jobs ran" in shown
    assert "interrupted: the figures are of what was read by then" in said and "Traceback" not in said


@pytest.mark.parametrize(("days", "said"), [(1.0, "1 day"), (69.0, "69 days"), (1234.5, "1,234.50 days")])
def test_spans_in_days(days: float, said: str) -> None:
    assert span_in_days(days) == said


def test_bars() -> None:
    assert [bar(part, 4) for part in (0, 0.001, 0.25, 0.6, 1, 2)] == ["", "▏", "█", "██▍", "████", "████"]
    assert spark([0, 1, 4, 8]) == " ▂▅█"
    assert spark([]) == spark([0])[:0] == ""
