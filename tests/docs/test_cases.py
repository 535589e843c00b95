"""Case pages quote actual runs: every quoted line and every number between the markers is in the run's output."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from functools import cache

import pytest
from pages import ROOT, blocks, prose, text_of

CASES = ROOT / "docs/cases"
PAGES = ("docs/concepts.md", "docs/operator.md", "docs/balance.md")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_MARKED = re.compile(r"<!-- numbers: (\S+) -->(.*?)<!-- end -->", re.DOTALL)
_HEAD = re.compile(r"^== (\S+)$", re.MULTILINE)


@cache
def recorded() -> dict[str, str]:
    """Output by case: of the runs that a script repeats, and of the one of the demo (without its raw record)."""
    found: dict[str, str] = {}
    for name in ("run-cases.txt", "balance.txt"):
        parts = _HEAD.split((CASES / name).read_text("utf-8"))[1:]
        found |= dict(zip(parts[::2], parts[1::2], strict=True))
    found["demo-run"] = re.split(r"^=+$", (CASES / "demo-run.txt").read_text("utf-8"), flags=re.MULTILINE)[0]
    return found


def test_the_cases_come_out_as_recorded(tmp_path_factory: pytest.TempPathFactory) -> None:
    # A changed rule changes these: run `python docs/cases/run_cases.py --write`, then see what the pages say.
    directory = tmp_path_factory.mktemp("cases")
    done = subprocess.run(
        [sys.executable, CASES / "run_cases.py", "--write", directory],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        check=True,
        text=True,
    )
    assert done.stdout == (CASES / "run-cases.txt").read_text("utf-8")
    pictures = {path.name: path.read_text("utf-8") for path in CASES.glob("*.svg")}
    assert {path.name: path.read_text("utf-8") for path in directory.glob("*.svg")} == pictures


def test_the_statements_come_out_as_recorded() -> None:
    done = subprocess.run(
        [sys.executable, CASES / "run_balance.py"],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUTF8": "1"},
        capture_output=True,
        check=True,
        encoding="utf-8",
    )
    assert done.stdout == (CASES / "balance.txt").read_text("utf-8")


@pytest.mark.parametrize("page", PAGES)
def test_quoted_lines_are_in_the_run_in_this_order(page: str) -> None:
    quoted = [block for block in blocks(text_of(page)) if "case=" in block.info]
    assert quoted
    for block in quoted:
        lines = iter(recorded()[block.info.partition("case=")[2]].splitlines())
        for line in block.text.splitlines():
            assert line in lines, f"{page}: the run did not print, or printed earlier: {line}"


@pytest.mark.parametrize("page", PAGES)
def test_numbers_in_the_text_are_in_the_run(page: str) -> None:
    marked = _MARKED.findall(text_of(page))
    assert marked
    for case, text in marked:
        known = set(_NUMBER.findall(recorded()[case]))
        for number in _NUMBER.findall(re.sub(r"\]\([^)]*\)", "]", prose(text))):
            assert number.rstrip(".,") in known, f"{page}: {number} is not in the run {case}"


def test_every_quote_stands_between_its_markers() -> None:
    for page in PAGES:
        text = text_of(page)
        inside = "".join(part for _, part in _MARKED.findall(text))
        for block in blocks(text):
            assert "case=" not in block.info or block.text in inside
