"""What behaviours gain and lose, from worlds made by hand: which changes exceed chance, and what the files say."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import permutations, product
from pathlib import Path
from typing import Any

import pytest

from tenure.reports import behaviour_tables
from tenure.reports.behaviours import LEAST_SEEDS, Behaviours, beyond_chance, collect


def world(policy: str, name: str, seed: int, useful: float, **more: Any) -> dict[str, Any]:
    """Ann does it, Bob is her colleague, Cat is of another budget. Everybody asks for 1,000 GPU-hours."""
    rows = [("ann", "a", True, useful), ("bob", "a", False, 300.0), ("cat", "b", False, 500.0)]
    return {
        "policy": policy,
        "seed": seed,
        "settings": {"behave": name},
        "people": {
            person: {"budget": budget, "counted": counted, "useful": hours, "asked": 1000.0}
            for person, budget, counted, hours in rows
        },
        "per_budget": [{"budget": "a", "m1_delivered": 1.0}, {"budget": "b", "m1_delivered": 0.9}],
        "tries_p90_s": {"gamers": 60.0, "rest": 30.0, "colleagues": 30.0, "others": None},
        **more,
    }


@pytest.fixture
def found() -> Behaviours:
    """High pays under ``priority`` in every seed, and under ``budgets`` by less than being late does."""
    gains = {
        ("priority", "high"): (150.0, 140.0, 145.0),
        ("priority", "late"): (110.0, 95.0, 100.0),
        ("budgets", "high"): (104.0, 106.0, 105.0),
        ("budgets", "late"): (92.0, 105.0, 100.0),
        ("budgets", "split"): (60.0, 130.0, 95.0),
        ("budgets", "declare-0"): (5.0, 6.0, 7.0),
    }
    worlds = [world(policy, "honest", seed, 100.0) for policy in ("budgets", "priority") for seed in range(3)]
    for (policy, name), useful in gains.items():
        worlds += [world(policy, name, seed, hours) for seed, hours in enumerate(useful)]
    drift = [{"honest": 3, "high": 0}, {"honest": 2, "high": 1}, {"honest": 1, "high": 2}]
    worlds.append(world("priority", "adaptive", 0, 100.0, drift=drift, moves={"tried": 1, "imitated": 1}))
    return collect(worlds, 0.1, {("priority", "declare-8h")}, "A lab of three.")


def test_what_is_beyond_chance_is_larger_than_being_late_in_every_seed_and_of_one_sign(found: Behaviours) -> None:
    def said(policy: str, name: str) -> bool | None:
        return beyond_chance(found.pairs[policy, name], found.late(policy), "gamers_served")

    assert said("priority", "high") is True and said("budgets", "declare-0") is True
    assert said("budgets", "high") is False  # +4 and +6 %, where being late is worth 8
    assert said("budgets", "split") is False  # -40 and +30 %
    assert beyond_chance(found.pairs["budgets", "high"], [], "gamers_served") is None


def test_two_seeds_tell_nothing_from_chance_nor_does_a_yardstick_that_never_moves(found: Behaviours) -> None:
    """Two times in two of one sign and larger than late comes one time in twelve; a table has dozens of cells."""
    key, high, late = "gamers_served", found.pairs["priority", "high"], found.late("priority")
    assert beyond_chance(high[:2], late, key) is None and beyond_chance(high, late[:2], key) is None
    assert beyond_chance(high, [dict(pair, gamers_served=0.0) for pair in late], key) is None
    few = replace(found, pairs={key: pairs[:2] for key, pairs in found.pairs.items()})
    assert behaviour_tables.sentences(few)[1] == (
        "Under priority nothing can be told from chance with fewer than 3 seeds; in the middle: high +45 %, "
        "late (chance) +2 %."
    )
    assert not any("*" in cell for grid in behaviour_tables.grids(few) for row in grid.rows for cell in row)


def test_chance_alone_marks_as_few_as_is_said() -> None:
    """All orders and signs of six sizes, of which three are the change and three came of being late."""
    signs = list(product((1, -1), repeat=LEAST_SEEDS))
    marked = total = 0
    for sizes in permutations(range(1, 2 * LEAST_SEEDS + 1)):
        for sign in signs:
            pairs = [{"x": s * size} for s, size in zip(sign, sizes, strict=False)]
            marked += bool(beyond_chance(pairs, [{"x": size} for size in sizes[LEAST_SEEDS:]], "x"))
            total += 1
    assert total == 80 * marked and "one cell in 80" in behaviour_tables.RULE


def test_sentences_say_what_pays_what_costs_and_what_nobody_knows(found: Behaviours) -> None:
    assert behaviour_tables.sentences(found) == [
        "Under budgets: pays beyond chance: none; costs those who do it: declare-0 (-94 %); "
        "not to be told from chance: high (+5 %), split (-5 %).",
        "Under priority: pays beyond chance: high (+45 %); costs those who do it: none; "
        "not to be told from chance: none.",
        "Under priority, when people learn, 1 of 3 are honest at the end; most of the others do: high 2.",
    ]


def test_a_table_over_policies_one_for_each_and_what_people_learnt(found: Behaviours) -> None:
    over, budgets, priority, learnt = behaviour_tables.grids(found)
    assert over.head == ["behaviour", "budgets", "priority"]
    cells = {row[0]: row[1:] for row in over.rows}
    assert cells["high"] == ["+5.0 % (+4.0 to +6.0)", "+45.0 % (+40.0 to +50.0) *"]
    assert cells["declare-8h"] == ["-", "changes nothing"]
    assert list(cells)[-1] == "late (chance)"
    assert [row[0] for row in budgets.rows] == ["high", "split", "declare-0", "late (chance)"]
    row = dict(zip(priority.head, priority.rows[0], strict=False))
    assert row["useful GPU-h without and with it"] == "100 -> 145"
    assert row["tries p90 of those who do it"] == "60 s -> 60 s" and row["of people of other budgets"] == "- -> -"
    assert learnt.rows == [["honest", "3.0", "2.0", "1.0", "33.3 %"], ["high", "0.0", "1.0", "2.0", "66.7 %"]]


def test_the_files_hold_what_was_found_and_the_page_opens_offline(found: Behaviours, tmp_path: Path) -> None:
    told = behaviour_tables.write_behaviours(found, tmp_path, png=False)
    assert json.loads((tmp_path / "behaviours.json").read_text()) == told
    (high,) = [one for one in told["behaviours"] if (one["policy"], one["behaviour"]) == ("priority", "high")]
    assert high["figures"]["gamers_served"] == {"median": 0.45, "low": 0.4, "high": 0.5, "beyond_chance": True}
    text = (tmp_path / "behaviours.md").read_text()
    assert "| high | +5.0 % (+4.0 to +6.0) | +45.0 % (+40.0 to +50.0) \\* |" in text
    page = (tmp_path / "behaviours.html").read_text()
    assert page.count("application/json") == 2 and "changes nothing" in page and "default-src 'none'" in page


def test_worlds_without_an_honest_one_are_left_out() -> None:
    found = collect([world("fifo", "high", 0, 1.0), world("fifo", "late", 1, 1.0)], 0.1)
    assert not found.pairs and behaviour_tables.sentences(found) == []
