"""Policies by their names, with settings."""

from __future__ import annotations

import re

import pytest

from tenure.policies import DESCRIPTIONS, NAMES, by_name
from tenure.policies.backfill import Backfill
from tenure.policies.priority import PriorityCaps


@pytest.mark.parametrize("name", NAMES)
def test_every_policy_has_its_name_and_a_description(name: str) -> None:
    assert by_name(name).name == name
    assert DESCRIPTIONS[name]


def test_settings_are_passed_on() -> None:
    priority = by_name("priority", cap_percent=150)
    assert isinstance(priority, PriorityCaps) and (priority.cap_percent, priority.cap_least) == (150, 8)
    backfill = by_name("backfill", default_limit=7)
    assert isinstance(backfill, Backfill) and backfill.default_limit == 7


@pytest.mark.parametrize(
    ("name", "settings", "says"),
    [
        ("loudest", {}, f"policy = loudest: there are {', '.join(NAMES)}"),
        ("fifo", {"cap": 1}, "policy fifo has no setting cap; it has none"),
        ("priority", {"caps": 1}, "policy priority has no setting caps; it has cap_percent, cap_least"),
        ("priority", {"cap_percent": -1}, "cap_percent = -1: must be 0 or more"),
    ],
)
def test_what_is_unknown_is_refused_with_what_there_is(name: str, settings: dict[str, int], says: str) -> None:
    with pytest.raises(ValueError, match=re.escape(says)):
        by_name(name, **settings)
