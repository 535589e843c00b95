"""How one person wants to be told, and when: pure functions of the time given."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from tenure import units
from tenure.core.model import DAY, MINUTE
from tenure.notice.kinds import LEAST, URGENT, Channel, Kind
from tenure.units import UnitError

if TYPE_CHECKING:  # clients check addresses, too, and have no use for a database
    from tenure.store.rows import NoticePersonRow

MAX_DIGEST = 7 * DAY
_QUIET = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])-([01][0-9]|2[0-3]):([0-5][0-9])")
_QUIET_FIX = "write it like 22:00-07:00, or '' for none"
_ADDRESS = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9-]{1,63}(\.[A-Za-z0-9-]{1,63})*")
_LOCAL_PART = re.compile(r"[A-Za-z0-9._+-]{1,64}")
_SEARCHED = 3 * DAY
"""Longer than any quiet hours with a change of clocks in them."""


@dataclass(frozen=True, slots=True)
class Person:
    """``digest`` in ms, 0: each notice at once. ``quiet``: minutes of the day, from and to, in ``zone`` ('': UTC)."""

    user: str
    email: str = ""
    webhook: str = ""
    salt: str = ""
    kinds: frozenset[str] = frozenset()
    through: frozenset[str] = frozenset()
    digest: int = 0
    quiet: tuple[int, int] | None = None
    zone: str = ""
    since: int = 0

    def channels(self) -> list[Channel]:
        """The ways to reach them."""
        there = ((Channel.EMAIL, self.email), (Channel.WEBHOOK, self.webhook))
        return [channel for channel, address in there if address]


def person_of(row: NoticePersonRow) -> Person:
    quiet = parse_quiet(row.quiet) if row.quiet else None
    kinds, through = frozenset(json.loads(row.kinds)), frozenset(json.loads(row.through))
    return Person(row.user, row.email, row.webhook, row.salt, kinds, through, row.digest, quiet, row.zone, row.since)


def by_default(user: str, domain: str) -> Person | None:
    """Who has said nothing gets the least, by e-mail, where the operator has named a domain."""
    if not domain or not _LOCAL_PART.fullmatch(user):
        return None
    return Person(user, email=f"{user}@{domain}", kinds=frozenset(LEAST), through=frozenset(URGENT))


def due_at(at: int, kind: str, person: Person) -> int:
    """When somebody is to be told what happened at ``at``: at the end of the digest's period and of quiet hours.

    Periods are counted from midnight UTC, 1 January 1970, so that all of one period go together.
    """
    if kind in person.through:
        return at
    due = at if not person.digest else (at // person.digest + 1) * person.digest
    if person.quiet is None:
        return due
    return quiet_end(due, *person.quiet, person.zone)


def quiet_end(at: int, start: int, end: int, zone: str) -> int:
    """The first moment from ``at`` on (ms) that is not in the quiet hours: ``at`` itself when it is not."""
    minute = at - at % MINUTE
    found = _first_loud(minute, start, end, zone)
    return at if found == minute else found


@lru_cache(maxsize=4096)
def _first_loud(minute: int, start: int, end: int, zone: str) -> int:
    """Minute by minute, since a change of clocks may skip the end of quiet hours, or have it twice."""
    where = _zone(zone)
    for at in range(minute, minute + _SEARCHED, MINUTE):
        if not is_quiet(at, start, end, where):
            return at
    return minute


def is_quiet(at: int, start: int, end: int, where: ZoneInfo) -> bool:
    """Whether the clock on the wall shows a time from ``start`` up to ``end``, which may be on the next day."""
    local = datetime.fromtimestamp(at // 1000, where)
    now = 60 * local.hour + local.minute
    return start <= now < end if start < end else now >= start or now < end


def _zone(name: str) -> ZoneInfo:
    """A zone that this machine does not know any more counts as UTC."""
    try:
        return ZoneInfo(name or "UTC")
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return ZoneInfo("UTC")


# ---- what people write


def parse_quiet(text: str) -> tuple[int, int]:
    """Minutes of the day in ``22:00-07:00``. Raises UnitError."""
    match = _QUIET.fullmatch(text.strip())
    if match is None:
        raise UnitError(text, _QUIET_FIX)
    first, second = 60 * int(match[1]) + int(match[2]), 60 * int(match[3]) + int(match[4])
    if first == second:
        raise UnitError(text, f"these are all hours of the day or none; {_QUIET_FIX}")
    return first, second


def parse_zone(text: str) -> str:
    """The name of a time zone that this machine knows. Raises UnitError."""
    name = text.strip()
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise UnitError(text, "name a time zone as in the IANA list, like Europe/Berlin or America/New_York") from None
    return name


def parse_digest(text: str) -> int:
    """ms; 0: each notice at once. Raises UnitError."""
    value = units.parse_duration(text)
    if value and not MINUTE <= value <= MAX_DIGEST:
        raise UnitError(text, "from 1m to 7d, or 0 for each notice at once")
    return value


def parse_email(text: str) -> str:
    """A plain address in ASCII, as it stands between < and >. Raises UnitError."""
    address = text.strip()
    if len(address) > 254 or not _ADDRESS.fullmatch(address):
        raise UnitError(text, "write a plain address, like ann@lab.example")
    return address


def parse_kinds(names: Iterable[str]) -> tuple[str, ...]:
    """Kinds in their own order, each once. Raises UnitError for one that there is not."""
    wanted = {name.strip() for name in names}
    unknown = sorted(wanted - {kind.value for kind in Kind})
    if unknown:
        raise UnitError(unknown[0], f"known are {', '.join(Kind)}")
    return tuple(kind.value for kind in Kind if kind.value in wanted)
