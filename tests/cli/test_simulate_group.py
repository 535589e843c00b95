"""Commands of ``tenure simulate`` that may be written as options."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tenure.cli.simulation.group import as_command

BOTH = ("month", "from-server", "from-sacct")


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("--from-server", "from-server"),
        ("--from-server --last 7d", "from-server --last 7d"),
        ("--from-sacct a.txt b.txt --json", "from-sacct a.txt b.txt --json"),
        ("--from-sacct=a.txt --json", "from-sacct a.txt --json"),
        ("from-server --last 7d", "from-server --last 7d"),
        ("month --from-server", "month --from-server"),
        ("--help", "--help"),
        ("--month", "--month"),
        ("", ""),
    ],
)
def test_a_leading_option_names_the_command(written: str, meant: str) -> None:
    assert as_command(written.split(), BOTH) == meant.split()


def test_what_is_no_command_here_stays_an_option() -> None:
    assert as_command(["--from-sacct", "x"], ("month", "from-server")) == ["--from-sacct", "x"]


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("tenure simulate --from-se", "--from-server"),
        ("tenure simulate from-se", "from-server"),
        ("tenure simulate --from-server --ah", "--ahead"),
    ],
)
def test_the_shell_offers_both_spellings(typed: str, offered: str) -> None:
    words = {"COMP_WORDS": typed, "COMP_CWORD": str(len(typed.split()) - 1), "_TENURE_COMPLETE": "complete_bash"}
    done = subprocess.run(
        [sys.executable, "-m", "tenure"], env={**os.environ, **words}, capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == [offered]
