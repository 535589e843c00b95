"""Writes ``docs/scenarios.md`` anew from ``tests/scenarios``: ``python docs/cases/scenarios.py``."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "src")]

from support.scenario_page import page  # noqa: E402

if __name__ == "__main__":
    (ROOT / "docs" / "scenarios.md").write_text(page(), "utf-8")
