"""Durations, memory, CPUs, shares and times as people write them, to and from the integers used inside.

Inside: milliseconds, MiB, thousandths of a CPU or GPU, parts per million (see ``core.model``). Every
``parse_*`` raises UnitError, a ValueError that says the value and what would work. Nothing is ever a float.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from fractions import Fraction

from tenure.core.model import DAY, GPU, HOUR, MINUTE, SECOND, SHARE_ONE, Array

MAX_DURATION = 36_500 * DAY
MAX_MEMORY = 1 << 30
"""MiB: one PiB."""
MAX_COUNT = 1_000_000_000
"""Thousandths of a GPU or CPU: a million of them."""

WEEK = 7 * DAY
_DURATION_UNITS = {"w": WEEK, "d": DAY, "h": HOUR, "m": MINUTE, "s": SECOND, "ms": 1}
_DURATION_WORDS = {
    **dict.fromkeys(("w", "week", "weeks"), "w"),
    **dict.fromkeys(("d", "day", "days"), "d"),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), "h"),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), "m"),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), "s"),
    "ms": "ms",
}
_NUMBER = r"[0-9]{1,12}(?:\.[0-9]{1,12})?"
_DURATION_PART = re.compile(rf"\s*({_NUMBER})\s*([a-z]+)", re.IGNORECASE)
_CLOCK = re.compile(r"(?:([0-9]{1,6})-)?([0-9]{1,6})(?::([0-9]{1,2}))?(?::([0-9]{1,2}))?")
_DURATION_FIX = "write it like 2h30m, 90s, 1d12h, 02:30:00 or 1-12:00:00"

_MEMORY_UNITS = {"k": Fraction(1, 1024), "m": Fraction(1), "g": Fraction(1024), "t": Fraction(1024 * 1024)}
_MEMORY = re.compile(rf"({_NUMBER})\s*([kmgt])(?:i?b|i)?", re.IGNORECASE)
_MEMORY_FIX = "write it like 512M, 64G or 1T (powers of 1024, as in GiB)"

_PLAIN = re.compile(_NUMBER)
_SHARE = re.compile(rf"(?:({_NUMBER})\s*(%?)|([0-9]{{1,9}})\s*/\s*([0-9]{{1,9}}))")
_SHARE_FIX = "write it like 0.35 or 35%, between 0 and 1"
_TIME = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[Tt ]([0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.([0-9]{1,9}))?"
    r"([Zz]|[+-][0-9]{2}:[0-9]{2})?"
)
_TIME_FIX = "write it like 2026-10-09T12:00:00Z or 2026-10-09T14:00:00+02:00"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LAST_TIME = 253_402_300_799_999

MAX_ARRAY = 10_000
"""Jobs of one array."""
MAX_INDEX = 4_000_000
_INDICES = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9})(?::([0-9]{1,9}))?)?")
_ARRAY_FIX = "write indices like 0-15, 0,6,16-32 or 0-15:4, and %4 behind them for at most 4 at a time"
_JOB = re.compile(r"([0-9]{1,19})(?:_([0-9]{1,9}))?")


class UnitError(ValueError):
    """``value`` (as written, shortened) does not parse; ``fix`` says what would."""

    def __init__(self, value: str, fix: str) -> None:
        self.value = value if len(value) <= 80 else value[:77] + "..."
        self.fix = fix
        super().__init__(f"{self.value!r}: {fix}")


def parse_duration(text: str) -> int:
    """Milliseconds in ``2h30m``, ``90s``, ``1d12h``, ``1.5h``, ``0``, ``HH:MM:SS`` or ``D-HH[:MM[:SS]]``.

    A bare number other than 0 is refused, since schedulers differ in what it means. Raises UnitError.
    """
    stripped = text.strip()
    if re.fullmatch(r"0+", stripped):
        return 0
    if _PLAIN.fullmatch(stripped):
        raise UnitError(text, f"say the unit: {stripped}s, {stripped}m or {stripped}h")
    if stripped.startswith("-"):
        raise UnitError(text, f"a duration cannot be negative; {_DURATION_FIX}")
    value = _from_clock(text, stripped) if set(stripped) & set(":-") else _from_parts(text, stripped)
    if value > MAX_DURATION:
        raise UnitError(text, f"at most {MAX_DURATION // DAY}d")
    return value


def _from_clock(text: str, stripped: str) -> int:
    match = _CLOCK.fullmatch(stripped)
    if match is None:
        raise UnitError(text, _DURATION_FIX)
    days, first, second, third = match.groups()
    if days is None and third is None:
        raise UnitError(text, f"hours or minutes? Write {first}h{second}m, {first}m{second}s or {stripped}:00")
    if int(second or 0) > 59 or int(third or 0) > 59 or (days is not None and int(first) > 23):
        raise UnitError(text, "hours up to 23 after days, minutes and seconds up to 59, as in 1-12:30:00")
    return int(days or 0) * DAY + int(first) * HOUR + int(second or 0) * MINUTE + int(third or 0) * SECOND


def _from_parts(text: str, stripped: str) -> int:
    position, last, total = 0, WEEK + 1, Fraction(0)
    while position < len(stripped):
        match = _DURATION_PART.match(stripped, position)
        unit = _DURATION_WORDS.get(match[2].lower()) if match else None
        if match is None or unit is None:
            raise UnitError(text, _DURATION_FIX)
        size = _DURATION_UNITS[unit]
        if size >= last:
            raise UnitError(text, f"largest unit first, each at most once; {_DURATION_FIX}")
        total += Fraction(match[1]) * size
        position, last = match.end(), size
    if not stripped:
        raise UnitError(text, _DURATION_FIX)
    if total.denominator != 1:
        raise UnitError(text, "durations are whole milliseconds; use fewer decimals")
    return total.numerator


def format_duration(ms: int, *, exact: bool = False) -> str:
    """``2h30m``; from 1 s on cut to whole seconds, unless ``exact``. The exact form parses back."""
    if ms < 0:
        return "-" + format_duration(-ms, exact=exact)
    rest = ms if exact or ms < SECOND else ms - ms % SECOND
    parts = []
    for unit, size in _DURATION_UNITS.items():
        if unit == "w":
            continue
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"


def parse_memory(text: str) -> int:
    """MiB in ``512M``, ``64G``, ``1T``, ``64GiB``; units are powers of 1024. Raises UnitError."""
    stripped = text.strip()
    if re.fullmatch(r"0+", stripped):
        return 0
    if _PLAIN.fullmatch(stripped):
        raise UnitError(text, f"say the unit: {stripped}M or {stripped}G")
    match = _MEMORY.fullmatch(stripped)
    if match is None:
        raise UnitError(text, _MEMORY_FIX)
    value = Fraction(match[1]) * _MEMORY_UNITS[match[2].lower()]
    if value.denominator != 1:
        raise UnitError(text, "memory is counted in whole MiB, for instance 512M")
    if value > MAX_MEMORY:
        raise UnitError(text, "at most 1024T")
    return value.numerator


def format_memory(mib: int) -> str:
    """``64G``: the largest unit that divides it. Parses back."""
    for unit, size in (("T", 1024 * 1024), ("G", 1024)):
        if mib and mib % size == 0:
            return f"{mib // size}{unit}"
    return f"{mib}M"


def _parse_thousandths(text: str, what: str, example: str) -> int:
    if not _PLAIN.fullmatch(text.strip()):
        raise UnitError(text, f"write {what} as a number, like {example}")
    value = Fraction(text.strip()) * 1000
    if value.denominator != 1:
        raise UnitError(text, f"{what} have at most 3 decimals")
    if value > MAX_COUNT:
        raise UnitError(text, f"at most {MAX_COUNT // 1000} {what}")
    return value.numerator


def parse_cpus(text: str) -> int:
    """Thousandths of a CPU in ``4`` or ``0.5``. Raises UnitError."""
    return _parse_thousandths(text, "CPUs", "4 or 0.5")


def format_thousandths(amount: int) -> str:
    """GPUs or CPUs: ``8``, ``0.5``. Parses back when not negative."""
    return _decimal(amount, GPU)


format_cpus = format_thousandths
format_gpus = format_thousandths


def format_gpu_hours(amount_ms: int, digits: int = 1) -> str:
    """GPU-hours with ``digits`` decimals, rounded half away from zero, from thousandths of a GPU x ms."""
    return _rounded(amount_ms, GPU * HOUR, digits)


def format_gpu_time(amount_ms: int) -> str:
    """``1.6 GPU-hours``, below one of them ``12 GPU-minutes``, from thousandths of a GPU x ms; rounded."""
    for unit, size, digits in (("hours", HOUR, 1), ("minutes", MINUTE, 0)):
        if abs(amount_ms) >= GPU * size:
            return _counted(_rounded(amount_ms, GPU * size, digits), unit)
    return _counted(_rounded(amount_ms, GPU * SECOND, 0), "seconds")


def _counted(number: str, unit: str) -> str:
    return f"{number} GPU-{unit.removesuffix('s') if number in ('1', '-1') else unit}"


def format_ratio(numerator: int, denominator: int, digits: int = 2) -> str:
    """``0.98``; ``-`` where there is nothing to compare with."""
    return _rounded(numerator, denominator, digits) if denominator else "-"


def digits_apart(*ppm: int | None) -> int:
    """As many decimals as it takes for different ratios (parts per million) to look different: 2, at most 6.

    None, and what is below 0, has no ratio.
    """
    known = {each for each in ppm if each is not None and each >= 0}
    for digits in range(2, 6):
        if len({format_ratio(each, SHARE_ONE, digits) for each in known}) == len(known):
            return digits
    return 6


def counted(number: int, what: str) -> str:
    """``1 host``, ``2 hosts``."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def parse_share(text: str) -> int:
    """Parts per million in ``0.35``, ``35%`` or an exact ``1/4``. Raises UnitError outside 0 to 1."""
    stripped = text.strip()
    match = _SHARE.fullmatch(stripped)
    if match is None:
        raise UnitError(text, _SHARE_FIX)
    number, percent, over, under = match.groups()
    if under is not None and int(under) == 0:
        raise UnitError(text, _SHARE_FIX)
    share = Fraction(int(over), int(under)) if under else Fraction(number) / (100 if percent else 1)
    if share > 1:
        hint = f"; {number}% perhaps" if not percent and not under and share <= 100 else ""
        raise UnitError(text, f"a share is between 0 and 1 (100%){hint}")
    parts = share * SHARE_ONE
    if parts.denominator != 1:
        near = _decimal(int(parts), SHARE_ONE)
        raise UnitError(text, f"shares have at most 6 decimals (4 as a percentage); write {near}")
    return parts.numerator


def format_share(share: int) -> str:
    """``35%``. Parses back."""
    return _decimal(share, SHARE_ONE // 100) + "%"


def format_fraction(share: int) -> str:
    """``0.35``, always with a point, so that it is a float in TOML and JSON. Parses back."""
    text = _decimal(share, SHARE_ONE)
    return text if "." in text else text + ".0"


def parse_time(text: str) -> int:
    """Milliseconds since the Unix epoch in an RFC 3339 time; what is below a millisecond is cut off.

    Raises UnitError, also without a zone and before 1970.
    """
    match = _TIME.fullmatch(text.strip())
    if match is None:
        raise UnitError(text, _TIME_FIX)
    day, clock, fraction, zone = match.groups()
    if zone is None:
        raise UnitError(text, f"say the zone: {day}T{clock}Z for UTC, or an offset such as +02:00")
    try:
        moment = datetime.fromisoformat(f"{day}T{clock}{zone.upper().replace('Z', '+00:00')}")
        ms = (moment - _EPOCH) // timedelta(milliseconds=1)
    except (ValueError, OverflowError) as error:
        raise UnitError(text, f"no such date or time ({error}); {_TIME_FIX}") from error
    value = ms + int(f"{fraction or 0:0<3}"[:3])
    if not 0 <= value <= _LAST_TIME:
        raise UnitError(text, "times start in 1970 and end in 9999")
    return value


def parse_moment(text: str, now: int) -> int:
    """Milliseconds since the epoch of an RFC 3339 time, or of a duration before ``now``: ``2h30m``, ``3d ago``.

    Raises UnitError, also when that is before 1970.
    """
    try:
        before = now - parse_duration(text.strip().removesuffix("ago"))
    except UnitError:
        try:
            return parse_time(text)
        except UnitError as error:
            raise UnitError(text, f"write 2h or 3d for so long ago, or {error.fix}") from error
    if before < 0:
        raise UnitError(text, "times start in 1970")
    return before


def format_time(ms: int) -> str:
    """RFC 3339 in UTC, ``2026-10-09T12:00:00Z``, with milliseconds only when there are some. Parses back."""
    moment = _EPOCH + timedelta(milliseconds=ms)
    return moment.replace(tzinfo=None).isoformat(timespec="milliseconds" if ms % SECOND else "seconds") + "Z"


def parse_indices(text: str) -> tuple[int, ...]:
    """The indices in ``0-3,8,10-20:5``, rising, each once. Raises UnitError as ``parse_array``."""
    return _indices(text)[0]


def _indices(text: str) -> tuple[tuple[int, ...], int]:
    """The indices in ``0-3,8,10-20:5``, rising, each once, and the last step that is written.

    Brackets around them do no harm. Raises UnitError, also for more than MAX_ARRAY of them and above MAX_INDEX.
    """
    found: set[int] = set()
    written = 1
    bare = text.strip()
    for part in (bare[1:-1] if bare.startswith("[") and bare.endswith("]") else bare).split(","):
        match = _INDICES.fullmatch(part.strip())
        if match is None:
            raise UnitError(text, _ARRAY_FIX)
        first, last, step = int(match[1]), int(match[2] or match[1]), int(match[3] or 1)
        if last < first or not step:
            raise UnitError(text, f"{_ARRAY_FIX}; the smaller index comes first, and a step is at least 1")
        if last > MAX_INDEX:
            raise UnitError(text, f"indices go up to {MAX_INDEX}")
        written = step if match[3] else written
        more = range(first, last + 1, step)
        if len(more) <= MAX_ARRAY:
            found.update(more)
        if max(len(more), len(found)) > MAX_ARRAY:
            count = len(found.union(more))
            raise UnitError(text, f"that is {count} jobs, and an array has at most {MAX_ARRAY}: make several")
    return tuple(sorted(found)), written


def parse_array(text: str) -> Array:
    """``0-31%4``: indices, and after ``%`` how many at a time (0: all). Raises UnitError."""
    indices, percent, throttle = text.partition("%")
    if percent and not (throttle.isascii() and throttle.isdigit() and len(throttle) < 10):
        raise UnitError(text, f"{_ARRAY_FIX}; a number follows %")
    try:
        found, step = _indices(indices)
    except UnitError as error:
        raise UnitError(text, error.fix) from None
    return Array(found, int(throttle or 0), step)


def format_indices(indices: Sequence[int]) -> str:
    """``0-3,8`` of rising indices, ``0-20:5`` where steps are equal. Parses back."""
    parts: list[str] = []
    at = 0
    while at < len(indices):
        step = indices[at + 1] - indices[at] if at + 1 < len(indices) else 1
        end = at
        while end + 1 < len(indices) and indices[end + 1] - indices[end] == step:
            end += 1
        if step > 1 and end - at < 2:  # two numbers are no range
            end = at
        first, last = indices[at], indices[end]
        parts.append(str(first) if end == at else f"{first}-{last}" + (f":{step}" if step > 1 else ""))
        at = end + 1
    return ",".join(parts)


def format_array(indices: Sequence[int], throttle: int) -> str:
    """``0-31%4``. Parses back."""
    return format_indices(indices) + (f"%{throttle}" if throttle else "")


def parse_job(text: str) -> tuple[int, int | None]:
    """The number of a job or an array in ``12``, and the index in ``12_3``. Raises UnitError."""
    match = _JOB.fullmatch(text.strip())
    if match is None or not 0 < int(match[1]) < 2**63:
        raise UnitError(text, "write a job's number, like 12, or 12_3 for the job with index 3 of array 12")
    return int(match[1]), None if match[2] is None else int(match[2])


def _decimal(value: int, one: int) -> str:
    """``value / one`` exactly, without trailing zeros; ``one`` is a power of ten."""
    sign = "-" if value < 0 else ""
    whole, rest = divmod(abs(value), one)
    digits = f"{rest:0{len(str(one)) - 1}d}".rstrip("0")
    return f"{sign}{whole}.{digits}" if digits else f"{sign}{whole}"


def _rounded(numerator: int, denominator: int, digits: int) -> str:
    scale = 10**digits
    negative = (numerator < 0) != (denominator < 0) and numerator != 0
    scaled = (2 * abs(numerator) * scale + abs(denominator)) // (2 * abs(denominator))
    whole, rest = divmod(scaled, scale)
    sign = "-" if negative and scaled else ""
    return f"{sign}{whole}.{rest:0{digits}d}" if digits else f"{sign}{whole}"


def printable(text: str) -> str:
    """A text of others, safe to show: what is not printable (control characters, changes of direction) is a space."""
    return text if text.isprintable() else "".join(c if c.isprintable() else " " for c in text).strip()
