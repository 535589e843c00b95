"""What may be varied, and what is said about what may not."""

from __future__ import annotations

import pytest
from sim_kit import setup_of

from tenure.core.model import DAY, HOUR, MINUTE
from tenure.sim.settings import SETTINGS, SettingError, parse_assignment, varied, with_setting

BASE = setup_of([])


def test_every_setting_changes_what_it_names() -> None:
    for name in SETTINGS:
        value = "7" if name == "evictions_per_minute" else "7m"
        changed = with_setting(BASE, name, value)
        assert changed != BASE
        assert (changed.scheduling == BASE.scheduling) != (changed.clusters == BASE.clusters)


def test_settings_reach_the_core_in_its_units() -> None:
    changed = with_setting(with_setting(BASE, "lookback", "14d"), "max_min_runtime", "4h")
    assert changed.scheduling.lookback == 14 * DAY
    assert changed.clusters[0].min_runtime_max == 4 * HOUR
    assert with_setting(BASE, "grace", "1m").clusters[0].max_grace == MINUTE
    assert with_setting(BASE, "preemption_margin", "0").scheduling.preemption_margin == 0


def test_every_combination_is_tried_and_named() -> None:
    made = list(varied(BASE, [("lookback", ("3d", "7d")), ("grace", ("0", "5m"))]))
    assert [setup.settings for setup in made] == [
        (("lookback", "3d"), ("grace", "0")),
        (("lookback", "3d"), ("grace", "5m")),
        (("lookback", "7d"), ("grace", "0")),
        (("lookback", "7d"), ("grace", "5m")),
    ]
    assert made[1].label == "budgets-lookback=3d-grace=5m-seed0"
    assert list(varied(BASE, [])) == [BASE]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("lookback", "write NAME=VALUE"),
        ("lookback=", "write NAME=VALUE"),
        ("lookbak=3d", "there is no setting lookbak; there are: lookback"),
    ],
)
def test_what_is_no_assignment_is_refused(text: str, says: str) -> None:
    with pytest.raises(SettingError, match=says):
        parse_assignment(text)


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("lookback", "7", "lookback = 7: say the unit"),
        ("lookback", "0", "lookback = 0: must be more than 0"),
        ("evictions_per_minute", "0", "whole number, at least 1"),
        ("evictions_per_minute", "x", "whole number, at least 1"),
        ("grace", "-1m", "cannot be negative"),
    ],
)
def test_bad_values_name_the_setting(name: str, value: str, says: str) -> None:
    with pytest.raises(SettingError, match=says):
        with_setting(BASE, name, value)
