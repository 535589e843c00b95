"""The page that has all policies side by side says what its figures say, of every policy there is."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tenure.policies import NAMES

DOCS = Path(__file__).resolve().parents[2] / "docs"
WORKLOADS = ("saturated", "published", "itp", "philly")


@pytest.fixture(scope="module")
def script() -> ModuleType:
    folder = DOCS / "evidence"
    found = importlib.util.spec_from_file_location("comparison", folder / "comparison.py")
    assert found is not None and found.loader is not None
    module = importlib.util.module_from_spec(found)
    sys.path.insert(0, str(folder))  # where it looks for what is beside it
    try:
        found.loader.exec_module(module)
    finally:
        sys.path.remove(str(folder))
    return module


@pytest.mark.parametrize("workload", WORKLOADS)
def test_every_policy_is_there_with_three_seeds(script: ModuleType, workload: str) -> None:
    figures = json.loads((DOCS / "evidence" / "comparison.json").read_text("utf-8"))[workload]
    assert set(figures) == set(NAMES)
    assert {len({row["seed"] for row in rows}) for rows in figures.values()} == {script.SEEDS}
    assert {row["gpus"] for rows in figures.values() for row in rows} == {script.GPUS}


@pytest.mark.parametrize("workload", WORKLOADS)
def test_tables_are_those_of_the_figures(script: ModuleType, workload: str) -> None:
    figures = json.loads((DOCS / "evidence" / "comparison.json").read_text("utf-8"))
    page = (DOCS / "comparison.md").read_text("utf-8")
    assert f"<!-- {workload} -->\n{script.table(figures[workload])}\n<!-- end of {workload} -->" in page
    assert script.settings() in page
