"""Past moments as people write them, and patience that shows only when it is needed."""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Iterator

import pytest
from rich.console import Console

from tenure.cli import moments, render
from tenure.units import parse_time

NOON = parse_time("2026-10-09T12:00:00Z")


@pytest.fixture
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("berlin")
@pytest.mark.parametrize(
    ("text", "sent"),
    [
        ("14:30", "2026-10-09T12:30:00Z"),
        (" 9:05:07 ", "2026-10-09T07:05:07Z"),
        ("2026-10-08T14:30", "2026-10-08T12:30:00Z"),
        ("2026-10-08 14:30:15", "2026-10-08T12:30:15Z"),
        ("2026-12-08", "2026-12-07T23:00:00Z"),
        ("2026-10-08T12:30:00Z", "2026-10-08T12:30:00Z"),
        ("2h30m", "2h30m"),
        ("25:99", "25:99"),
        ("yesterday", "yesterday"),
    ],
)
def test_times_without_a_zone_are_of_this_machine_and_the_rest_is_the_servers(text: str, sent: str) -> None:
    assert moments.moment(text, NOON) == sent


def test_who_waits_long_is_told_what_for_and_it_is_gone_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    monkeypatch.setattr(render, "errors", lambda: Console(file=screen, force_terminal=True))
    with moments.patience("going back"):
        pass
    assert screen.getvalue() == "", "nothing, when it is quick"
    monkeypatch.setattr(moments, "SOON_S", 0.0)
    look, deadline = threading.Event(), time.monotonic() + 60
    with moments.patience("going back"):
        while "going back" not in screen.getvalue():
            assert time.monotonic() < deadline
            look.wait(0.01)
    assert "\x1b[?25h" in screen.getvalue(), "the cursor is back"
