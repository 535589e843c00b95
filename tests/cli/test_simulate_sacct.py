"""`tenure simulate --from-sacct` as people type it: files in, a report out, and errors that say what would do."""

from __future__ import annotations

import gzip
import json
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from test_simulate import HANGS, one_line, simulate

from support.sacct import ASSOCIATIONS, CONFIG, NODES, H, month, row, text

DOCS = Path(__file__).resolve().parents[2] / "docs"

FILES = {"report.txt": text(month()), "associations.txt": ASSOCIATIONS, "config.txt": CONFIG, "nodes.txt": NODES}


@pytest.fixture
def given(tmp_path: Path) -> list[str]:
    """The options that name the files of the site, after the report."""
    for name, content in FILES.items():
        (tmp_path / name).write_text(content)
    options = {"associations": "associations.txt", "slurm-config": "config.txt", "nodes": "nodes.txt"}
    more = [word for name, file in options.items() for word in (f"--{name}", str(tmp_path / file))]
    return [str(tmp_path / "report.txt"), *more]


def test_the_example_of_the_documentation(given: list[str], tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = simulate("--from-sacct", *given, "--since", "2026-06-01", "--out", out)
    assert done.returncode == 0, done.stderr
    page = (DOCS / "from-sacct.md").read_text()
    example = re.findall(r"```console\n(.*?)```", page, re.DOTALL)[-1].splitlines()
    shown = [line for line in example[1:] if line and line != "..."]
    assert len(shown) > 8
    for line in shown:
        assert line in done.stdout, line
    found = json.loads((out / "sides.json").read_text())
    limits = "limits of associations and QOS (GrpTRES, MaxJobs, ...)"
    for shown_in in (done.stdout, *((out / f"sides.{kind}").read_text() for kind in ("html", "json"))):
        assert f"Not carried over from Slurm as it is there: {limits}" in shown_in
        assert "7 evictions under Tenure, all of charged jobs: 2 jobs are hit" in shown_in
    for one in found["not_carried_over"]:
        assert any(one.rstrip(".") in note for note in found["notes"]), one
    assert found["sides"] == ["as it was", "Tenure", "model of Slurm"]
    # "... 7 evictions under Tenure", and 3 sides with a page each.
    assert {path.parent.name for path in out.glob("*/report.html")} == {
        "as-it-was-seed0", "tenure-seed0", "slurm-model-seed0"
    }  # fmt: skip
    again = simulate("compare", out, "--out", tmp_path / "compared")
    assert again.returncode == 0, again.stderr
    assert "it has an earlier simulation" in simulate("from-sacct", *given, "--out", out).stderr


def test_both_spellings_say_the_same_and_packed_files_are_read(given: list[str], tmp_path: Path) -> None:
    packed = tmp_path / "report.txt.gz"
    packed.write_bytes(gzip.compress(FILES["report.txt"].encode()))
    words = ["--gpus", "16", "--policy", "fifo", "--json"]
    done = simulate("from-sacct", given[0], *words)
    plain = json.loads(done.stdout)
    over = [line for line in done.stderr.splitlines() if " of 3: " in line]
    assert over == ["1 of 3: as it was", "2 of 3: fifo", "3 of 3: model of Slurm"]
    other = json.loads(simulate(f"--from-sacct={packed}", *words).stdout)
    assert plain["sides"] == ["as it was", "fifo", "model of Slurm"]
    assert plain["all"] == other["all"]
    assert plain["rows"] == {"rows": 28, "kept": 28, "left_out": {}, "odd": {}, "bad": {}, "examples": []}


def test_files_that_windows_has_saved_say_the_same(given: list[str], tmp_path: Path) -> None:
    """With a byte order mark, which hid the first column of associations and the first node, and other line ends."""
    words = ["--since", "2026-06-01", "--json"]
    plain = json.loads(simulate("from-sacct", *given, *words).stdout)
    for name, content in FILES.items():
        (tmp_path / name).write_bytes(b"\xef\xbb\xbf" + content.replace("\n", "\r\n").encode())
    other = json.loads(simulate("from-sacct", *given, *words).stdout)
    assert plain["gpus"] == 16
    assert other == plain


def test_a_title_says_what_is_beside_what_was(given: list[str], tmp_path: Path) -> None:
    for policy, title in (("fifo", "under fifo"), ("budgets,fifo", "under Tenure, under fifo")):
        words = ["--policy", policy, "--no-report", "--force", "--out", tmp_path / "out"]
        assert simulate("from-sacct", *given, *words).returncode == 0
        assert f"# report.txt: as it was, and {title}\n" in (tmp_path / "out" / "sides.md").read_text()


def test_what_is_left_out_is_said(given: list[str], tmp_path: Path) -> None:
    rows = [*month(), row("1", gpus=0), row("2.batch"), row("x"), row("3", state="ODD"), "short|row"]
    (tmp_path / "report.txt").write_text(text(rows))
    done = simulate("from-sacct", *given)
    assert done.returncode == 0, done.stderr
    for line in ("left out: 1 x no GPUs", "left out: 1 x a step of a job", "bad: 1 x State is unknown", "bad row: "):
        assert line in done.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--gpus", "12"], "gpus = 12: hosts have 8 GPUs, so write a multiple of 8"),
        (["--policy", "nobody"], "policy = nobody: there are budgets"),
        (["--since", "soon"], "since = soon:"),
        (["--since", "2026-06-02", "--until", "2026-06-01"], "nothing lies between it and the end"),
        (["--rule", "8,1h,15m,maybe"], "write GPUS,RUNTIME,MIN_RUNTIME,yes|no"),
        (["--rule", "8,1h,15m,yes"], "the last one must match every job; add one like -,-,2h,yes"),
        (["--warmup", "9d"], "the report is shorter than that"),
        (["--associations", "/nowhere"], "associations = /nowhere: cannot be read: No such file"),
        (["--set", "half_life=7d"], "half_life: it changes nothing under budgets"),
        (["--set", "lookback=7d,8d"], "set lookback = 7d,8d: one value"),
        (["--partition", "cpu"], "Slurm has no such partition; there are: gpu, short"),
        (["--cluster", "west"], "cluster = west: the associations are of site"),
        (["--out", "/dev/null/x"], "out = /dev/null/x: Not a directory; name a directory that can be made"),
    ],
)
def test_errors_name_the_option_the_value_and_what_would_do(given: list[str], words: list[str], said: str) -> None:
    done = simulate("from-sacct", *given, *words)
    assert done.returncode == 2
    assert said in one_line(done.stderr)


def test_files_that_are_something_else(given: list[str], tmp_path: Path) -> None:
    (tmp_path / "other.txt").write_text("hello\n")
    done = simulate("from-sacct", tmp_path / "other.txt")
    assert done.returncode == 2
    assert "no header line with JobID" in done.stderr
    done = simulate("from-sacct", given[0], "--nodes", tmp_path / "other.txt")
    assert done.returncode == 2
    assert "no node with GPUs" in done.stderr
    header = "id_job,id_user,exit_code,state,timelimit,time_submit,time_start,time_end,tres_alloc,tres_req"
    (tmp_path / "log.csv").write_text(f"{header}\n")
    done = simulate("from-sacct", tmp_path / "log.csv")
    assert done.returncode == 2
    assert "a trace of the format supercloud" in one_line(done.stderr)
    assert f"`tenure simulate trace {tmp_path / 'log.csv'}` reads it" in one_line(done.stderr)
    done = simulate("from-sacct", tmp_path / "missing.txt")
    assert done.returncode == 2
    assert "missing.txt" in done.stderr


def test_names_of_others_cannot_write_to_the_terminal(given: list[str], tmp_path: Path) -> None:
    evil = "\x1b]0;mine\x07\u202e<script>alert(1)</script>"
    rows = [*month(), row("1", f"{evil}@{evil}", started=0, ended=H), row("2", partition=evil)]
    (tmp_path / "report.txt").write_text(text(rows))
    out = tmp_path / "out"
    done = simulate("from-sacct", *given, "--since", "2026-06-01", "--warmup", "0s", "--out", out)
    assert done.returncode == 0, done.stderr
    assert "alert(1)" in done.stdout
    written = [path.read_text() for path in out.rglob("*") if path.suffix in {".md", ".html", ".json", ".csv"}]
    for shown in (done.stdout, done.stderr, *written):
        assert not {"\x1b", "\x07", "\u202e"} & set(shown)
    assert not any("<script>alert" in page for page in written if "<!doctype html>" in page.lower())
    assert "<script>alert" not in (out / "sides.md").read_text()
    two = text([row("1", started=0, ended=H) + "|a\x1b[2J", row("2", started=0, ended=H) + "|b"])
    (tmp_path / "report.txt").write_text(two.replace("NodeList\n", "NodeList|Cluster\n", 1))
    done = simulate("from-sacct", given[0])
    assert done.returncode == 2
    assert "of several clusters (a [2J, b)" in one_line(done.stderr)


def test_ctrl_c_keeps_the_sides_that_are_done(given: list[str], tmp_path: Path) -> None:
    """The last side is not reached: it is interrupted when the first one has been written."""
    rows = [
        row(f"{day}{n:03d}", "grace@vision", submitted=day * 24 * H + n * 60, started=day * 24 * H + n * 60 + 30,
            ended=day * 24 * H + n * 60 + 600, gpus=1)
        for day in range(40) for n in range(300)
    ]  # fmt: skip
    (tmp_path / "report.txt").write_text(text(rows))
    out = tmp_path / "out"
    command = [sys.executable, "-m", "tenure", "simulate", "from-sacct", *given, "--out", str(out)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        # Written last: all other tables of the side are there, too.
        while not (out / "as-it-was-seed0" / "summary.json").exists():
            assert process.poll() is None, process.communicate()[1]
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=HANGS)
    finally:
        process.kill()
    assert process.returncode == 130
    assert f"interrupted; the sides that were done are in {out}" in one_line(said)
    assert json.loads((out / "as-it-was-seed0" / "summary.json").read_text())["complete"]
    assert not (out / "slurm-model-seed0").exists()
    shutil.rmtree(out)
