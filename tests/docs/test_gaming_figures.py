"""How worlds with and without a trick are compared, and that the page has every trick."""

from __future__ import annotations

import importlib.util
import json
from types import ModuleType
from typing import Any

import pytest
from pages import ROOT, rows, text_of

from tenure.reports.behaviour_tables import spread
from tenure.reports.behaviours import compared
from tenure.sim.researchers import TRICKS


@pytest.fixture(scope="module")
def gaming() -> ModuleType:
    spec = importlib.util.spec_from_file_location("gaming_figures", ROOT / "docs/evidence/gaming.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def world(useful: list[float], m1: list[float], tries: float) -> dict[str, Any]:
    """Two people of ``a``, of whom the first games, and one of ``b``."""
    where = [("ann", "a", True), ("bob", "a", False), ("cat", "b", False)]
    people = {
        name: {"budget": budget, "counted": games, "useful": hours, "asked": 2 * hours if name == "bob" else 250.0}
        for (name, budget, games), hours in zip(where, useful, strict=True)
    }
    return {
        "seed": 3,
        "people": people,
        "per_budget": [{"budget": name, "m1_delivered": value} for name, value in zip("ab", m1, strict=True)],
        "tries_p90_s": {"gamers": tries, "rest": 10.0, "colleagues": 10.0, "others": None},
    }


def test_a_pair_tells_who_gains_and_which_budget_pays(gaming: ModuleType) -> None:
    pair = compared(world([110.0, 190.0, 297.0], [0.9, 0.98], 5.0), world([100.0, 200.0, 300.0], [1.0, 1.0], 9.0))
    assert (pair["gamers_without"], pair["gamers_with"]) == (100.0, 110.0)
    assert pair["gamers"] == pytest.approx(0.1) and pair["median_person"] == pytest.approx(0.1)
    assert pair["colleagues"] == pytest.approx(-0.05) and pair["others"] == pytest.approx(-0.01)
    assert pair["loss_other_budget"] == pytest.approx(0.02) and pair["loss_any_budget"] == pytest.approx(0.1)
    assert pair["gamers_served"] == pytest.approx(0.1) and pair["colleagues_served"] == pytest.approx(0.0)
    assert spread([pair["gamers"]]) == "+10.0 %"
    assert spread([0.01, 0.03, -0.02]) == "+1.0 % (-2.0 to +3.0)"
    assert gaming.waits([pair], "gamers") == "9 -> 5"
    assert "| high | 100 -> 110 | +10.0 % | +10.0 % | +10.0 % |" in gaming.table({"high": [pair]})


def test_the_page_describes_every_trick() -> None:
    described = {row[0].strip("`") for row in rows(text_of("docs/gaming.md")) if row[0].startswith("`")}
    assert described >= set(TRICKS)
    text = text_of("docs/behaviours.md")
    assert all(f"`{trick}`" in text for trick in TRICKS)


def test_the_table_over_policies_has_the_figures_that_are_kept() -> None:
    found = json.loads((ROOT / "docs/evidence/behaviours.json").read_text("utf-8"))
    cells = {row[0]: row[1:] for row in rows(text_of("docs/behaviours.md")) if len(row) == 1 + len(found["policies"])}
    assert found["about"] in text_of("docs/behaviours.md")
    assert len(found["behaviours"]) > 10
    for one in found["behaviours"]:
        name = "late (chance)" if one["behaviour"] == "late" else one["behaviour"]
        middle = one["figures"]["gamers_served"]["median"]
        assert cells[name][found["policies"].index(one["policy"])].startswith(f"{100 * middle:+.1f} %")
