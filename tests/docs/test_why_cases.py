"""The page of twenty cases is what the simulated days give."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from pages import ROOT, text_of

SCRIPT = ROOT / "docs/cases/why_cases.py"


@pytest.mark.slow
def test_the_cases_come_out_as_told() -> None:
    # A changed rule or sentence changes these: run `python docs/cases/why_cases.py`, then read what it says.
    done = subprocess.run(
        [sys.executable, SCRIPT, "--print"],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        check=True,
        text=True,
    )
    assert done.stdout == text_of("docs/concepts-cases.md")


def test_there_are_twenty() -> None:
    text = text_of("docs/concepts-cases.md")
    assert [f"## {n}. " in text for n in range(1, 22)] == [True] * 20 + [False]
