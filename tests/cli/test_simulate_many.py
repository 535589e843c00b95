"""`tenure simulate` with many policies: what it prints fits, says how far it is, and `all` names every one."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from tenure.cli import render
from tenure.cli.errors import CliError
from tenure.cli.simulation import completion, named, view
from tenure.cli.simulation.changes import Changes
from tenure.policies import DESCRIPTIONS, NAMES


def simulate(*words: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tenure", "simulate", *map(str, words)]
    environment = {**os.environ, "NO_COLOR": "1"}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240, check=False)


def shown(monkeypatch: pytest.MonkeyPatch, width: int, policies: int, seeds: int = 1) -> list[str]:
    """The lines that a terminal of this width gets for so many policies."""
    console = Console(file=io.StringIO(), force_terminal=True, width=width, no_color=True, highlight=False)
    monkeypatch.setattr(render, "output", lambda: console)
    found = [
        {"policy": policy, "seed": seed, "m1_delivered": 0.9 + seed / 100, "m1_worst": 0.5, "mid_wait_p90_s": 7384}
        for policy in NAMES[:policies]
        for seed in range(seeds)
    ]
    view.show(found, None)
    assert isinstance(console.file, io.StringIO)
    return re.sub(r"\x1b\[[0-9;]*m", "", console.file.getvalue()).splitlines()


@pytest.mark.parametrize("width", [60, 80, 120])
def test_many_policies_get_a_row_each_that_fits_the_terminal(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    lines = shown(monkeypatch, width, len(NAMES), seeds=3)
    assert all(len(line) <= width for line in lines)
    rows = [line.split() for line in lines if line.startswith(NAMES)]
    assert [row[0] for row in rows] == list(NAMES)
    assert all(row[1:6] == ["91.0", "%", "50.0", "%", "2h3m4s"] for row in rows)  # the median, unbroken
    assert f" of {len(view.ROWS)} figures; medians of the seeds; all are in --json" in " ".join(lines)


def test_a_wider_terminal_has_more_figures_and_a_fitting_table_a_column_each(monkeypatch: pytest.MonkeyPatch) -> None:
    narrow, wide = (shown(monkeypatch, width, len(NAMES)) for width in (60, 120))
    assert "occupancy" not in "\n".join(narrow) and "occupancy" in "\n".join(wide)
    few = shown(monkeypatch, 80, 2)
    assert few[0].split() == ["budgets", "priority"] and few[1].startswith("delivered of what was owed")
    assert len(few) == 1 + len(view.ROWS)


def test_all_runs_every_policy_and_says_how_far_it_is_where_nobody_looks() -> None:
    done = simulate(*"month --gpus 16 --days 0.05 --people 15 --policy all --no-report --json".split())
    assert done.returncode == 0, done.stderr
    assert [one["policy"] for one in json.loads(done.stdout)] == list(NAMES)  # and nothing else on stdout
    told = re.findall(r"^(\d+) of (\d+): (\S+)-seed0, [\d.]+ (?:s|min)$", done.stderr, re.MULTILINE)
    assert [(int(count), int(total)) for count, total, _ in told] == [(i + 1, len(NAMES)) for i in range(len(NAMES))]
    assert sorted(policy for _, _, policy in told) == sorted(NAMES)


def test_all_names_every_policy_after_those_that_were_named() -> None:
    assert named.policies(["all"]) == list(NAMES)
    others = [name for name in NAMES if name != "kai"]
    assert named.policies(["kai, all", "kai"]) == ["kai", *others]
    assert named.policies([" ,"]) == []
    Changes(None, None, (), ("all",), ()).check()
    with pytest.raises(CliError, match=f"there are {', '.join(NAMES)}; all stands for every one"):
        named.policies(["budgets", "best"])
    assert completion.policies("budgets,al") == ["budgets,all"]


def test_policies_are_listed_in_one_order_and_in_line() -> None:
    assert list(DESCRIPTIONS) == list(NAMES)
    lines = simulate("policies").stdout.splitlines()
    begins = {line.index(description) for line, description in zip(lines, DESCRIPTIONS.values(), strict=True)}
    assert begins == {max(map(len, NAMES)) + 2}


def test_a_small_cluster_is_said_to_be_crowded_unless_people_are_given(tmp_path: Path) -> None:
    words = "month --gpus 64 --days 0.05 --no-report --out".split()
    done = simulate(*words, tmp_path / "usual")
    (usual,) = json.loads((tmp_path / "usual" / "summary.json").read_text())
    (note,) = (note for note in usual["notes"] if "people" in note)
    assert note == (
        "150 people on 64 GPUs: 4 times as many for each GPU as on 256; --people 38 makes it as crowded as there"
    )
    assert note in " ".join(done.stderr.split())
    assert note in (tmp_path / "usual" / "notes.txt").read_text()
    simulate(*words, tmp_path / "fewer", "--people", "38")
    (fewer,) = json.loads((tmp_path / "fewer" / "summary.json").read_text())
    assert not any("people" in note for note in fewer["notes"])
    assert "4 times" in " ".join(simulate("month", "--help").stdout.replace("│", " ").split())


def test_budgets_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    config, strange = tmp_path / "tenure.toml", tmp_path / "latin.toml"
    config.write_text("")
    strange.write_bytes(b"\xe9")
    from tenure.cli.simulation.changes import _with_budgets

    missing = tmp_path / "nofile.toml"
    for tree, why in ((missing, "No such file or directory"), (strange, "save it as UTF-8")):
        with pytest.raises(CliError) as raised:
            _with_budgets(config, tree)
        assert str(raised.value) == f"budgets = {tree}: cannot be read: {why}"
    with pytest.raises(CliError) as raised:
        _with_budgets(missing, config)
    assert str(raised.value) == f"config = {missing}: cannot be read: No such file or directory"
