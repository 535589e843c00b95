"""``tenure why``: the sentence, and the arithmetic as small tables. What says nothing is left out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from tenure.api.models import ReservationView
from tenure.api.why_models import (
    AheadJobView,
    AheadView,
    BlockerView,
    ClaimingView,
    EvictorView,
    LevelView,
    PlaceView,
    RunningView,
    SiblingView,
    SpaceView,
    Why,
)
from tenure.cli import render
from tenure.cli.eta import range_lines
from tenure.cli.render import escape
from tenure.config.ranges import fold
from tenure.core.reasons import Reason
from tenure.units import counted, digits_apart, format_ratio
from tenure.words import RULES

_MILLION = 1_000_000
_SIBLINGS = 8
"""Budgets of one level that are listed at most."""
WIDE = 100
"""Columns from which on tables have all of their columns."""


def page(why: Why, now: int, width: int = WIDE) -> Iterator[RenderableType]:
    """What to print in ``width`` columns, one after the other. Times are in this machine's time zone."""
    yield Text(why.sentence, style="bold")
    if why.reservation is not None:
        yield from _reserved(why.reservation, now)
    for line in range_lines(why.estimate, now, "it starts "):
        yield Text(f"estimate: {line}")
    if why.claiming is not None:
        yield from _claiming(why.claiming, now)
    if why.running is not None:
        yield from _running(why.running, now)
    for place in (why, *why.elsewhere):
        if place.space is not None or (place.levels and why.running is None and why.claiming is None):
            yield from _place(place, why, now, narrow=width < WIDE)
    if why.help:
        yield from _heading("What would help")
        for option in why.help:
            beside = ", submitted beside it," if option.beside else ""
            yield Text(f"  With {option.change}{beside} {option.effect} ({option.options}).")


def _place(place: PlaceView, why: Why, now: int, *, narrow: bool) -> Iterator[RenderableType]:
    """One cluster; with its own reason where there are several."""
    if why.elsewhere:
        yield ""
        reason = "" if place is why else f": {escape(place.reason.text)}"
        yield Text.from_markup(f"[bold]on {escape(place.cluster or '')}[/]{reason}")
    yield from _order(place, narrow=narrow)
    if place.ahead is not None and place.ahead.jobs:
        yield from _ahead(place.ahead, place.levels[-1].child if place.levels else "its budget")
    if place.space is not None:
        behind = bool(place.ahead and place.ahead.jobs) or any(x.comes_first != x.child for x in place.levels)
        yield from _space(place.space, place.blockers, now, behind=behind, narrow=narrow)


def _heading(text: str) -> Iterator[RenderableType]:
    yield ""
    yield Text(text, style="cyan")


def _inset(table: Table) -> Padding:
    return Padding(table, (0, 0, 0, 2), expand=False)


def _ppm(ppm: int | None, digits: int = 2) -> str:
    return "-" if ppm is None else format_ratio(ppm, _MILLION, digits)


def _hours(value: float) -> str:
    return f"{render.hours(value)} GPU-hours"


# ---- who comes first


def _order(place: PlaceView, *, narrow: bool) -> Iterator[RenderableType]:
    told = [(level, shown) for level in place.levels if len(shown := _worth_showing(level)) > 1]
    if not told:
        return
    yield from _heading("Whose turn it is: below the last day's allocation first, then the lower ratio")
    heads = ("BUDGET", "SHARE", "RATIO", "LAST DAY", "WAITS", "RUNS EXPOSED")
    columns = [head for head in heads if not narrow or head not in ("SHARE", "WAITS")]
    table = render.table(*columns, right=heads[1:4])
    for level, siblings in told:
        digits = _digits(level)
        for sibling in siblings:
            cells = dict(zip(heads, _sibling(level, sibling, digits), strict=True))
            table.add_row(*(cells[head] for head in columns))
        if len(siblings) < len([each for each in level.siblings if _is_busy(each)]):
            table.add_row(Text("  ...", style="dim"))
    yield _inset(table)
    for level, _ in told:
        yield Text(f"  {_verdict(level)}")
    if any(_too_close(level) for level, _ in told):
        margin = _hours(place.margin_gpu_hours or 0)
        yield Text(f"  To have others evicted it must come first by a margin, too: with {margin} more.")


def _too_close(level: LevelView) -> bool:
    """Whether something of a sibling is out of reach although the child comes before it."""
    order = [sibling.budget for sibling in level.siblings]
    after = level.siblings[order.index(level.child) + 1 :]
    return any(sibling.evictable_gpus and not sibling.outranked for sibling in after)


def _is_busy(sibling: SiblingView) -> bool:
    return bool(sibling.share or sibling.used_gpu_hours or sibling.waiting_jobs or sibling.evictable_gpus)


def _worth_showing(level: LevelView) -> list[SiblingView]:
    """Not the empty ones, and of many the first and the one towards the job."""
    busy = [each for each in level.siblings if _is_busy(each) or each.budget == level.child]
    mine = next(i for i, each in enumerate(busy) if each.budget == level.child)
    return [each for i, each in enumerate(busy) if i < _SIBLINGS - (mine >= _SIBLINGS) or i == mine]


def _digits(level: LevelView) -> tuple[int, int]:
    """Decimals of the ratios and of those over the last day: enough to see what is said to decide."""
    pair = [each for each in level.siblings if each.budget in (level.child, level.against)]
    one = [_MILLION] if level.by == "last_day" else []
    return digits_apart(*(each.ratio_ppm for each in pair)), digits_apart(*(each.recent_ppm for each in pair), *one)


def _sibling(level: LevelView, sibling: SiblingView, digits: tuple[int, int]) -> tuple[Text | str, ...]:
    mine = sibling.budget == level.child
    waits = f"{sibling.waiting_jobs} ({counted(sibling.waiting_gpus, 'GPU')})" if sibling.waiting_jobs else "-"
    exposed = counted(sibling.evictable_gpus, "GPU") if sibling.evictable_gpus else "-"
    if sibling.evictable_gpus and not mine:
        exposed += ", may be evicted for it" if sibling.outranked else ", not for it"
    below = "green" if sibling.below_last_day else "yellow"
    return (
        Text(f"{'>' if mine else ' '} {sibling.budget}", style="bold" if mine else ""),
        render.percent(sibling.share),
        _ppm(sibling.ratio_ppm, digits[0]),
        Text(_ppm(sibling.recent_ppm, digits[1]), style=below),
        waits,
        exposed,
    )


def _verdict(level: LevelView) -> str:
    """Who comes first on a level and by what, in words."""
    if level.against is None:
        return f"In {level.parent} nobody else waits."
    first = level.comes_first
    other = level.against if first == level.child else level.child
    why = {
        "share": f"{other} is entitled to nothing",
        "last_day": f"over the last day it is below its allocation, and {other} is not",
        "ratio": f"its usage ratio is lower than that of {other}",
        "id": f"nothing tells it from {other} but the name",
    }[level.by or "id"]
    return f"{first} comes first: {why}."


# ---- who is ahead in the budget


def _ahead(ahead: AheadView, budget: str) -> Iterator[RenderableType]:
    more = ahead.jobs - len(ahead.first)
    yield from _heading(f"Before it in {budget}: {counted(ahead.jobs, 'job')} ({counted(ahead.gpus, 'GPU')})")
    table = render.table("JOB", "USER", "GPUS", "WHY", right=("GPUS",), fold=("WHY",))
    for job in ahead.first:
        table.add_row(escape(job.label), escape(job.user), str(job.gpus), _because(job, ahead))
    if more:
        table.add_row(Text(f"... {more} more", style="dim"))
    yield _inset(table)


def _because(job: AheadJobView, ahead: AheadView) -> str:
    if job.by == "priority":
        return f"priority {job.priority}"
    if job.by == "person":
        used, mine = _hours(job.person_gpu_hours), _hours(ahead.person_gpu_hours)
        return escape(f"{job.user} was charged less here: {used}, against {mine}")
    return "submitted earlier"


# ---- what is in the way


def _space(
    space: SpaceView, blockers: Sequence[BlockerView], now: int, *, behind: bool, narrow: bool
) -> Iterator[RenderableType]:
    """``behind``: others come before the job, and may take what becomes free."""
    if not blockers:
        return
    yield from _heading(f"In its way: {_need(space)}")
    heads = ["ATTEMPT", "JOB", "USER", "BUDGET", "GPUS", "UNTIL", "FREE TO IT THEN"]
    if all(blocker.label == str(blocker.job) for blocker in blockers):  # else jobs of arrays have another name
        heads.remove("JOB")
    shown = [head for head in heads if not narrow or head not in ("BUDGET", "GPUS")]
    table = render.table(*shown, right=("GPUS",), fold=("UNTIL",) if narrow else ())
    for i, blocker in enumerate(blockers):
        if i and i == len(blockers) - 1 and space.blocking > len(blockers):
            table.add_row(Text(f"... {space.blocking - len(blockers)} more", style="dim"))
        cells = {
            "ATTEMPT": blocker.attempt,
            "JOB": blocker.label,
            "USER": escape(blocker.user),
            "BUDGET": escape(blocker.budget),
            "GPUS": str(blocker.gpus),
            "UNTIL": _until(blocker, now),
            "FREE TO IT THEN": _free(space, blocker.free_gpus, blocker.whole_hosts),
        }
        table.add_row(*(cells[head] for head in shown))
    yield _inset(table)
    yield Text(f"  {_when(space, now, behind=behind)}")


def _need(space: SpaceView) -> str:
    need = f"it needs {counted(space.gpus, 'GPU')}"
    if space.whole_hosts:
        need += f" on {counted(space.whole_hosts, 'whole host')}"
    evictable = f" ({space.evictable_gpus} of them by eviction)" if space.evictable_gpus else ""
    return f"{need}, and finds {_free(space, space.free_gpus, space.free_hosts)}{evictable}"


def _free(space: SpaceView, gpus: int, hosts: int) -> str:
    whole = f", {counted(hosts, 'whole host')}" if space.whole_hosts else ""
    return f"{counted(gpus, 'GPU')}{whole}"


def _until(blocker: BlockerView, now: int) -> str:
    until = render.soon(blocker.until, now) if blocker.until is not None else None
    match blocker.why:
        case "protected":
            return f"{until} protected"
        case "starting":
            return f"{until} at the latest (it starts)"
        case "leaving":
            return f"{until} (it is leaving)" if until else "its GPUs are not released"
        case "turn":
            return f"{until} its turn"
        case "first":
            stays = f"it {RULES[blocker.rule]}" if blocker.rule is not None else "it may stay until then"
            return f"{until} its time-out; {stays}" if until else f"not known: {stays}"


def _when(space: SpaceView, now: int, *, behind: bool) -> str:
    if space.enough_at is None:
        others = f"; {counted(space.others, 'other')} may end before" if space.others else ""
        return f"Nobody knows when that will be enough: some of these may stay, and have no time-out{others}."
    if space.enough_at <= now:
        return "Enough at any moment."
    stands = "if those who come first leave it" if behind else "as things stand"
    return f"Enough at {render.soon(space.enough_at, now)}, in {render.span(space.enough_at - now)}, {stands}."


# ---- what is promised, and who would evict it


def _reserved(held: ReservationView, now: int) -> Iterator[RenderableType]:
    hosts = ",".join(fold(held.hosts))
    yield Text(
        f"  {hosts} of {held.cluster} are held for it since {render.soon(held.made_at, now)}: free to it by "
        f"{render.soon(held.told, now)}, and it starts by {render.soon(held.starts_by, now)}."
    )


def _claiming(claiming: ClaimingView, now: int) -> Iterator[RenderableType]:
    yield from _heading(f"Its GPUs come from, by {render.soon(claiming.until, now)}")
    labels = any(victim.label != str(victim.job) for victim in claiming.victims)  # some are of arrays
    table = render.table("ATTEMPT", *["JOB"] * labels, "USER", "BUDGET", "GPUS", "GONE BY", right=("GPUS",))
    for victim in claiming.victims:
        left = f"{render.soon(victim.kill_at, now)} ({render.span(victim.kill_at - now)})"
        label = [victim.label] * labels
        table.add_row(victim.attempt, *label, escape(victim.user), escape(victim.budget), str(victim.gpus), left)
    yield _inset(table)


def _running(running: RunningView, now: int) -> Iterator[RenderableType]:
    """How safe it is, and who would come."""
    facts = [",".join(fold(running.hosts))]
    if running.kill_at is not None:
        facts.append(f"gone by {render.soon(running.kill_at, now)}")
    elif running.protected and running.protected_until is not None and not running.latest:
        facts.append(f"protected for {render.span(running.protected_until - now)} more")
    if running.turn_until is not None and running.turn_until > now:
        facts.append(f"other unallocated jobs leave it alone until {render.soon(running.turn_until, now)}")
    if running.ends_by is not None:
        facts.append(f"its time-out is at {render.soon(running.ends_by, now)}")
    yield Text(f"  {'; '.join(facts)}")
    if not running.evictors:
        return
    yield from _heading("Who would have it evicted, as things stand")
    table = render.table("JOB", "USER", "BUDGET", "GPUS", "WHY", right=("GPUS",), fold=("WHY",))
    for evictor in running.evictors:
        table.add_row(
            evictor.label or "-",
            escape(evictor.user or "-"),
            escape(evictor.budget or "-"),
            str(evictor.gpus or "-"),
            escape(_licence(evictor, now)),
        )
    yield _inset(table)


def _side(numbers: dict[str, Any], key: str) -> str:
    """One of two ratios beside each other, so that they look different when they are."""
    what = key.partition("_")[2]
    digits = digits_apart(numbers.get(f"first_{what}"), numbers.get(f"second_{what}"))
    return _ppm(numbers[key] if numbers[key] >= 0 else None, digits)


def _licence(evictor: EvictorView, now: int) -> str:
    numbers = evictor.reason.numbers
    match evictor.reason.code:
        case Reason.EVICTED_STANDING:
            ratios = {key: _side(numbers, key) for key in numbers if key.endswith("_ppm")}
            mine = f"{numbers['first']} {ratios['first_ratio_ppm']} (last day {ratios['first_recent_ppm']})"
            theirs = f"{numbers['second']} {ratios['second_ratio_ppm']} ({ratios['second_recent_ppm']})"
            return f"{mine} comes before {theirs}"
        case Reason.EVICTED_PRIORITY:
            return f"priority {numbers['gainer_priority']} against {numbers['victim_priority']}"
        case Reason.EVICTED_RESERVED:
            when = f" from {render.soon(evictor.at, now)}" if evictor.at is not None else ""
            return f"its hosts are held for that job{when}"
        case Reason.EVICTED_DRAIN:
            return f"host {numbers['host']} is draining"
        case Reason.EVICTED_UNALLOCATED:
            return "charged jobs come before unallocated ones"
    return evictor.reason.text
