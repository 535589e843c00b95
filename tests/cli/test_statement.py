"""How a statement reads: times in people's words, the bar, narrow terminals, short lookbacks."""

from __future__ import annotations

import io
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest
from rich.console import Console

from support.world import T0, World, hosts
from tenure import balance
from tenure.api.balance_models import BalanceView
from tenure.api.balance_views import Called, balance_view_of
from tenure.cli import statement
from tenure.core.model import DAY, HOUR, MINUTE, SECOND

NOON = T0 + 4 * HOUR
"""Friday, 15 January 2027, 12:00 UTC."""


@pytest.fixture(autouse=True)
def zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patched:
        patched.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


def view_of(world: World, path: str) -> BalanceView:
    facts = balance.gather(world.state, "main", path, world.now)
    of_jobs = balance.jobs(facts, [span for _, span in world.spans])
    return balance_view_of(
        path, world.now, world.policy.lookback, {"main": (facts, of_jobs)}, lambda job: Called(str(job), "a [red] one")
    )


def printed(view: BalanceView, *, width: int = 120, encoding: str = "utf-8") -> list[str]:
    file = io.TextIOWrapper(io.BytesIO(), encoding, write_through=True)
    statement.show(Console(file=file, width=width, highlight=False), view)
    file.seek(0)
    return [line.rstrip() for line in file.read().splitlines()]


@pytest.mark.parametrize(
    ("after", "said"),
    [
        (0, "today 12:00:00"),
        (90 * SECOND, "today 12:01:30"),
        (2 * HOUR, "today 14:00"),
        (-13 * HOUR, "yesterday 23:00"),
        (12 * HOUR, "tomorrow 00:00"),
        (4 * DAY, "Tue 12:00"),
        (6 * DAY, "Thu 12:00"),
        (7 * DAY, "Fri Jan 22 12:00"),
        (-2 * DAY, "Wed Jan 13 12:00"),
    ],
)
def test_moments_in_peoples_words(after: int, said: str) -> None:
    assert statement.when(NOON + after, NOON) == said


@pytest.mark.parametrize(
    ("value", "said"),
    [(0.0, "0.0"), (0.01, "<0.1"), (-0.01, "-<0.1"), (1234.56, "1,234.6"), (-512.0, "-512.0")],
)
def test_amounts(value: float, said: str) -> None:
    assert statement.amount(value) == said


def over(hours: int = 60) -> World:
    world = World(hosts(1), {"lab/a": 0.25, "lab/b": 0.75})
    world.submit("lab/a", 8)
    world.advance(hours * HOUR, tick=DAY)
    return world


def test_the_bar_shows_what_is_over_behind_a_mark() -> None:
    # 336 owed of 480: 42 of 60 cells.
    bar = next(line.strip() for line in printed(view_of(over(), "lab/a"), encoding="ascii") if "##" in line)
    assert bar == "#" * 42 + "|" + "#" * 18
    bar = next(line.strip() for line in printed(view_of(over(21), "lab/a")) if "██" in line)
    assert bar == "█" * 30 + "░" * 30  # 168 of 336


def test_when_it_is_back_is_said_for_both_cases() -> None:
    said = " ".join(printed(view_of(over(), "lab/a")))
    assert "Over by 144.0 GPU-hours. If nothing new is charged, it is back at 1.0 on " in said
    assert "if what runs stops at the end of its protection, and not within 7d if it goes on." in said
    world = over()
    world.finish(1)
    assert any(line.endswith("it is back at 1.0 on Sat 02:00.") for line in printed(view_of(world, "lab/a")))


def test_numbers_are_never_cut_off_and_names_are_text() -> None:
    lines = printed(view_of(over(), "lab/a"), width=54)
    assert len([line for line in lines if " 480.0 " in line and line.endswith(" 100%")]) == 2
    assert any("a [red] one" in line for line in printed(view_of(over(), "lab/a")))


def test_a_short_lookback_has_its_times_in_full() -> None:
    world = World(hosts(1), policy=replace(World().policy, lookback=MINUTE, recent=20 * SECOND))
    lines = printed(view_of(world, "lab/a"))
    head = next(line for line in lines if line.startswith("FROM"))
    assert "BACK BY" in head and "IF IT RUNS ON" not in head
    rows = lines[lines.index(head) + 1 : lines.index("", lines.index(head))]
    assert [row.split()[1] for row in rows] == [
        f"{t}" for t in ("07:59:00", "07:59:10", "07:59:20", "07:59:30", "07:59:40", "07:59:50")
    ]
    assert any("8h of that" in line for line in lines)  # the floor is above what a minute brings


def test_a_budget_of_nobody() -> None:
    world = World(hosts(1), {"lab/a": 0.0, "lab/b": 1.0})
    lines = printed(view_of(world, "lab/a"))
    assert any("nothing owed, nothing used" in line for line in lines) and any("nobody" in line for line in lines)
    assert "ratio -, - over the last day" in " ".join(lines)


def test_parts_that_are_gone_are_told_apart() -> None:
    world = World(hosts(1), {"lab/a": 0.5, "lab/b": 0.5})
    world.submit("lab/a", 8)
    world.advance(5 * HOUR, tick=DAY)
    world.finish(1)
    world.configure({"lab/a": 0.5, "lab/a/x": 0.5, "lab/b": 0.5})
    world.submit("lab/a/x", 8)
    world.advance(HOUR, tick=DAY)
    world.finish(2)
    world.configure({"lab/a": 0.5, "lab/a/y": 0.5, "lab/b": 0.5})
    lines = printed(view_of(world, "lab/a"))
    assert any(line.startswith("(before it had children)") and " 40.0 " in line for line in lines)
    assert any(line.startswith("x (is no more)") and " 8.0 " in line for line in lines)
