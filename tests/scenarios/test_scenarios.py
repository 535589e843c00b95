"""The scenario table: what is decided and said, to the number and the letter, for every reason there is.

Each step's numbers are also recounted from the log of events and decisions by ``support.recount``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.play import Play, as_said
from support.scenario import Scenario, load, missing
from tenure.core.explain import OTHER_POLICIES
from tenure.core.reasons import Because, Reason
from tenure.store.store import Store

SCENARIOS = [one for path in sorted(Path(__file__).parent.glob("*.yaml")) for one in load(path)]
REASONS = Path(__file__).parents[2] / "docs" / "reasons.md"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """An empty history: no job of it has ever been."""
    opened = Store.open(f"sqlite:///{tmp_path_factory.mktemp('scenarios') / 'tenure.db'}")
    yield opened
    opened.close()


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: re.sub(r"\W+", "-", scenario.name))
def test_it_comes_out_as_told(scenario: Scenario, store: Store) -> None:
    play, shown, rows = Play(scenario, store), set(), _rows()
    for step in scenario.steps:
        found, said = play.step(step)
        assert tuple(found) == step.then, f"at {step.at}"
        for one in said.values():
            if isinstance(one, Because) and one.reason not in _OF_OTHERS:
                unknown = [key for key in one.numbers if f"`{key}`" not in rows[one.reason]]
                assert not unknown, f"docs/reasons.md: {one.reason} does not name {unknown}"
        for about, expected in step.says.items():
            assert about in said, f"at {step.at}: nothing is said about {about}"
            assert as_said(said[about]) == expected, f"at {step.at}: {about}"
            shown.add(expected.code)
    assert set(scenario.shows) <= shown, "it does not show what it says it shows"


def test_every_reason_has_a_scenario() -> None:
    assert not missing(SCENARIOS), "write a scenario in tests/scenarios for each of these"


def test_names_are_told_apart_and_reasons_of_other_policies_run_under_those() -> None:
    names = [scenario.name for scenario in SCENARIOS]
    assert len(set(names)) == len(names)
    others = {code for scenario in SCENARIOS if scenario.under for code in scenario.shows}
    assert {reason.value for reason in OTHER_POLICIES} | {Reason.EVICTED_LEVEL.value} <= others


def _rows() -> dict[str, str]:
    """The rows of the reference, by the code."""
    lines = REASONS.read_text("utf-8").splitlines()
    return {line.split("`")[1]: line for line in lines if line.startswith("| `")}


_OF_OTHERS = {Reason.CLAIM_DROPPED, Reason.PREEMPTED}
"""Reasons that bring along the numbers of what they are about."""
