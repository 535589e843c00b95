"""When somebody is told: digests, quiet hours and changes of clocks, as functions of the time given."""

from __future__ import annotations

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.core.model import DAY, HOUR, MINUTE
from tenure.notice.kinds import Kind
from tenure.notice.person import (
    Person,
    due_at,
    is_quiet,
    parse_digest,
    parse_email,
    parse_kinds,
    parse_quiet,
    parse_zone,
    quiet_end,
)
from tenure.units import UnitError, format_time, parse_time

ZONES = ["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu", "America/Sao_Paulo"]
NIGHT = (22 * 60, 7 * 60)


def person(**more: object) -> Person:
    return Person("ann", "ann@lab.example", **more)  # type: ignore[arg-type]


def told(at: str, **more: object) -> str:
    return format_time(due_at(parse_time(at), Kind.PREEMPTED, person(**more)))


def test_by_default_at_once() -> None:
    assert told("2026-11-30T23:59:59Z") == "2026-11-30T23:59:59Z"


@pytest.mark.parametrize(
    ("digest", "at", "due"),
    [
        (HOUR, "2026-11-30T10:00:00Z", "2026-11-30T11:00:00Z"),
        (HOUR, "2026-11-30T10:59:59Z", "2026-11-30T11:00:00Z"),
        (DAY, "2026-11-30T10:59:59Z", "2026-12-01T00:00:00Z"),
    ],
)
def test_a_digest_ends_with_its_period(digest: int, at: str, due: str) -> None:
    assert told(at, digest=digest) == due


@pytest.mark.parametrize(
    ("at", "due"),
    [
        ("2026-11-30T20:59:59Z", "2026-11-30T20:59:59Z"),  # 21:59:59 in Berlin
        ("2026-11-30T21:00:00Z", "2026-12-01T06:00:00Z"),
        ("2026-12-01T05:59:59Z", "2026-12-01T06:00:00Z"),
        ("2026-12-01T06:00:00Z", "2026-12-01T06:00:00Z"),
    ],
)
def test_quiet_hours_over_midnight(at: str, due: str) -> None:
    assert told(at, quiet=NIGHT, zone="Europe/Berlin") == due


def test_a_digest_that_ends_in_quiet_hours_comes_after_them() -> None:
    late = told("2026-11-30T21:30:00Z", digest=HOUR, quiet=NIGHT, zone="UTC")
    assert late == "2026-12-01T07:00:00Z"


def test_what_is_urgent_waits_for_neither() -> None:
    at = parse_time("2026-12-01T02:00:00Z")
    someone = person(digest=DAY, quiet=NIGHT, zone="UTC", through=frozenset({"will_be_preempted"}))
    assert due_at(at, Kind.WILL_BE_PREEMPTED, someone) == at
    assert due_at(at, Kind.PREEMPTED, someone) > at


@pytest.mark.parametrize(
    ("quiet", "zone", "at", "due"),
    [
        # Clocks skip from 2:00 to 3:00 at 1:00 UTC: quiet hours that would end at 2:30 end then.
        ("00:00-02:30", "Europe/Berlin", "2026-03-29T00:30:00Z", "2026-03-29T01:00:00Z"),
        # 2:30 comes twice, at 0:30 and at 1:30 UTC: between 1:00 and 1:30 UTC it is quiet again.
        ("00:00-02:30", "Europe/Berlin", "2026-10-24T23:30:00Z", "2026-10-25T00:30:00Z"),
        ("00:00-02:30", "Europe/Berlin", "2026-10-25T00:45:00Z", "2026-10-25T00:45:00Z"),
        ("00:00-02:30", "Europe/Berlin", "2026-10-25T01:10:00Z", "2026-10-25T01:30:00Z"),
        ("22:00-07:00", "Europe/Berlin", "2026-10-24T21:00:00Z", "2026-10-25T06:00:00Z"),
        ("22:00-07:00", "Europe/Berlin", "2026-03-28T22:00:00Z", "2026-03-29T05:00:00Z"),
        # Clocks that change by half an hour.
        ("01:00-02:15", "Australia/Lord_Howe", "2026-10-03T15:00:00Z", "2026-10-03T15:30:00Z"),
    ],
)
def test_quiet_hours_when_clocks_change(quiet: str, zone: str, at: str, due: str) -> None:
    start, end = parse_quiet(quiet)
    assert format_time(quiet_end(parse_time(at), start, end, zone)) == due


@given(
    at=st.integers(1_700_000_000_000, 1_900_000_000_000),
    start=st.integers(0, 1439),
    end=st.integers(0, 1439),
    zone=st.sampled_from(ZONES),
)
def test_it_is_the_first_moment_that_is_not_quiet(at: int, start: int, end: int, zone: str) -> None:
    if start == end:
        return
    where = ZoneInfo(zone)
    found = quiet_end(at, start, end, zone)
    assert found >= at and not is_quiet(found, start, end, where)
    assert (found == at) == (not is_quiet(at, start, end, where))
    # Against the calendar: no candidate that is earlier is outside.
    local = datetime.fromtimestamp(at / 1000, where).date()
    for day in range(-1, 3):
        for fold in (0, 1):
            clock = datetime(local.year, local.month, local.day, end // 60, end % 60, tzinfo=where, fold=fold)
            other = int((clock + timedelta(days=day)).timestamp() * 1000)
            if at < other < found:
                assert is_quiet(other, start, end, where)
    if found > at:
        assert is_quiet(found - MINUTE, start, end, where) and found % MINUTE == 0
        assert found - at <= 2 * DAY + 2 * HOUR


@given(at=st.integers(1_700_000_000_000, 1_900_000_000_000), more=st.integers(0, DAY))
def test_who_comes_later_is_not_told_earlier(at: int, more: int) -> None:
    someone = person(digest=3 * HOUR, quiet=NIGHT, zone="Europe/Berlin")
    assert due_at(at, "ended", someone) <= due_at(at + more, "ended", someone)


@pytest.mark.parametrize("text", ["", "22-7", "24:00-07:00", "22:60-07:00", "07:00-07:00", "22:00", "22:00-07:00 UTC"])
def test_quiet_hours_that_are_none(text: str) -> None:
    with pytest.raises(UnitError, match="22:00-07:00"):
        parse_quiet(text)


@pytest.mark.parametrize("text", ["Berlin", "../../etc/passwd", "/etc/passwd", "", "Europe/Berlin\n\n", "\0"])
def test_zones_that_are_none(text: str) -> None:
    if text.strip() == "Europe/Berlin":
        assert parse_zone(text) == "Europe/Berlin"
        return
    with pytest.raises(UnitError, match="Europe/Berlin"):
        parse_zone(text)


@pytest.mark.parametrize("text", ["ann", "ann@", "@lab", "a@b\nBcc: c@d", "a@b, c@d", "<a@b>", "a b@c", "ä@b", "a@b>"])
def test_addresses_that_are_none(text: str) -> None:
    with pytest.raises(UnitError, match="plain address"):
        parse_email(text)


def test_kinds_and_digests() -> None:
    assert parse_kinds(["failed", "started", "failed"]) == ("started", "failed")
    with pytest.raises(UnitError, match="known are started, exposed"):
        parse_kinds(["fialed"])
    assert parse_digest("0") == 0 and parse_digest("1h") == HOUR
    for text in ("59s", "8d", "-1h", "often"):
        with pytest.raises(UnitError):
            parse_digest(text)
