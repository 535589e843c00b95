"""How a budget's statement looks in a terminal: like a bank's."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tenure import units
from tenure.api.balance_models import BalanceView, DayView, PartsView, StatementView
from tenure.cli import render
from tenure.cli.render import escape
from tenure.core.model import DAY, HOUR

_BAR = 60
"""Cells of the bar."""
_CELLS, _PLAIN_CELLS = ("█", "▓", "░"), ("#", "=", ".")
"""Used, promised, left; where only ASCII can be shown."""
_HEAD = 10
_AMOUNT = 12


def show(console: Console, view: BalanceView, *, brief: bool = False, person: str | None = None) -> None:
    """Print the statement in each cluster. ``brief``: without days and without who used what."""
    for name, one in view.clusters.items():
        plain = console.options.ascii_only
        for line in _account(view, name, one, plain=plain):
            console.print(line, soft_wrap=True)
        if not brief:
            console.print()
            console.print(_days(one, view))
            if one.children:
                console.print()
                console.print(_children(one, view.path))
            console.print()
            console.print(_people(one))
            console.print()
            console.print(_jobs(one, view.path))
            if one.other_jobs:
                whose = f" of {escape(person)}" if person is not None else ""
                console.print(f"[dim]and {one.other_jobs} more{whose}: --jobs N[/]")
        console.print()


def amount(value: float) -> str:
    """GPU-hours with one decimal, thousands apart; what is below is told from nothing."""
    if value and abs(value) < 0.05:
        return "<0.1" if value > 0 else "-<0.1"
    return f"{value:,.1f}"


def when(at: int, now: int) -> str:
    """A moment in this machine's time zone, as people say it: ``today 14:00``, ``Tue 14:00``, ``Dec 09 14:00``."""
    then, here = time.localtime(at / 1000), time.localtime(now / 1000)
    clock = "%H:%M:%S" if abs(at - now) < HOUR else "%H:%M"
    days = _day_number(then) - _day_number(here)
    named = {-1: "yesterday", 0: "today", 1: "tomorrow"}.get(days)
    if named is None:
        return time.strftime(f"%a {clock}" if 1 < days < 7 else f"%a %b %d {clock}", then)
    return f"{named} {time.strftime(clock, then)}"


def _day_number(at: time.struct_time) -> int:
    """Days since some day, in the zone of ``at``."""
    return int(time.mktime((at.tm_year, at.tm_mon, at.tm_mday, 12, 0, 0, 0, 0, -1)) // (DAY // 1000))


def _account(view: BalanceView, cluster: str, one: StatementView, *, plain: bool) -> Iterator[str]:
    """The statement itself, as lines of markup."""
    lookback = units.format_duration(view.lookback_ms)
    until = time.strftime("%a %b %d %H:%M", time.localtime(view.at / 1000))
    yield f"[bold]{escape(view.path)}[/] on {escape(cluster)}, the {lookback} until {until}, in GPU-hours"
    yield _line("owed", one.entitled_gpu_hours, _owed(one, lookback))
    yield _line("settled", -one.settled_gpu_hours, "charged by what has ended, less credits")
    yield _line("running", -one.running_gpu_hours, "charged so far by what holds GPUs now")
    yield _line("committed", -one.committed_gpu_hours, "protection left of what claims, starts and runs")
    if one.reserved_gpu_hours:
        yield _line("reserved", -one.reserved_gpu_hours, "promised to what holds a reservation")
    ratios = f"ratio {render.ratio(one.ratio)}, {render.ratio(one.last_day.ratio)} over the last day"
    style = "bold red" if one.over else "bold green"
    yield _line("left", one.left_gpu_hours, ratios, style)
    yield f"  {'':{_HEAD}} {_bar(one, plain=plain)}"
    if one.unallocated_gpu_hours:
        yield _line("free", one.unallocated_gpu_hours, "unallocated: used free of charge, counted nowhere above")
    yield from (f"  {line}" for line in _sentences(view, one))


def _line(head: str, value: float, text: str, style: str = "") -> str:
    told = f"{amount(value + 0.0):>{_AMOUNT}}"
    return f"  {head:{_HEAD}} " + (f"[{style}]{told}[/]" if style else told) + f"   [dim]{escape(text)}[/]"


def _owed(one: StatementView, lookback: str) -> str:
    gpus = f"{render.number(round(one.allocation_gpus, 2))} GPUs today"
    if one.entitled_gpu_hours > one.accrued_gpu_hours:
        return f"{gpus}; at least 8h of that, since {amount(one.accrued_gpu_hours)} came in the {lookback}"
    return gpus


def _bar(one: StatementView, *, plain: bool) -> str:
    """Used, promised and left as one bar; what goes over is in red, beyond a mark."""
    used = one.settled_gpu_hours + one.running_gpu_hours
    total = used + one.committed_gpu_hours + one.reserved_gpu_hours
    whole = max(one.entitled_gpu_hours, total)
    if whole <= 0:
        return "[dim]nothing owed, nothing used[/]"
    cells = _PLAIN_CELLS if plain else _CELLS
    a, b, owed = (min(_BAR, round(_BAR * part / whole)) for part in (used, total, one.entitled_gpu_hours))
    row = [cells[0]] * a + [cells[1]] * (b - a) + [cells[2]] * (_BAR - b)
    text = "".join(row[:owed])
    return text if owed == _BAR else f"{text}|[red]{''.join(row[owed:])}[/]"


def _sentences(view: BalanceView, one: StatementView) -> Iterator[str]:
    """What is to be known beyond the figures."""
    now, lookback = view.at, units.format_duration(view.lookback_ms)
    if one.assumed_until is not None:
        first = time.strftime("%b %d %H:%M", time.localtime(one.assumed_until / 1000))
        yield f"Before {first} this cluster had no records; that time is counted at today's values."
    if one.over:
        over = f"[bold]Over by {amount(-one.left_gpu_hours)} GPU-hours.[/] If nothing new is charged,"
        if one.back_at is None:
            yield f"{over} it is not back at 1.0 within {lookback}."
        else:
            text = f"{over} it is back at 1.0 {_at(one.back_at, now)}"
            if one.back_at_going_on == one.back_at:
                yield f"{text}."
                return
            late = one.back_at_going_on
            later = _at(late, now) if late is not None else f"not within {lookback}"
            yield f"{text} if what runs stops at the end of its protection, and {later} if it goes on."
    elif one.lapses_gpu_hours:
        oldest = one.days[0]
        yield (
            f"[bold]{amount(one.lapses_gpu_hours)} GPU-hours lapse[/] by {when(one.lapses_by, now)} unless they are "
            f"used: what is unused of the day from {when(oldest.start, now)} on."
        )


def _at(at: int, now: int) -> str:
    """``on Tue 14:00``, ``today 14:00``."""
    text = when(at, now)
    return text if text.startswith(("to", "yes")) else f"on {text}"


def _days(one: StatementView, view: BalanceView) -> Table:
    """Day by day: what was owed and used, which comes back when the day leaves the window."""
    other = any(day.left_gpu_hours != day.left_going_on_gpu_hours for day in one.days)
    begins, back = "FROM", "BACK BY"
    clock = _one_clock(one.days)
    if clock is not None:  # said once, in the heading
        begins, back = f"DAY FROM {clock}", f"BACK BY {clock}"
    heads = [begins, "OWED", "USED", "UNUSED", back, "LEFT THEN", *(["IF IT RUNS ON"] if other else [])]
    made = render.table(*heads, right=[head for head in heads if head not in (begins, back)])
    for day in one.days:
        made.add_row(
            _moment(day.start, view.at, clock),
            amount(day.entitled_gpu_hours),
            amount(day.used_gpu_hours),
            _signed(day.unused_gpu_hours),
            _moment(day.leaves_by, view.at, clock),
            _signed(day.left_gpu_hours),
            *([_signed(day.left_going_on_gpu_hours)] if other else []),
        )
    return _whole_numbers(made)


def _one_clock(days: Sequence[DayView]) -> str | None:
    """The time of the day at which all of them begin and leave here; None when that differs."""
    at = {time.strftime("%H:%M", time.localtime(at / 1000)) for day in days for at in (day.start, day.leaves_by)}
    return at.pop() if len(at) == 1 and all(day.end - day.start >= DAY for day in days) else None


def _moment(at: int, now: int, clock: str | None) -> str:
    """``when`` without the time that is in the heading."""
    text = when(at, now)
    return text if clock is None else text.removesuffix(clock).rstrip()


def _whole_numbers(made: Table) -> Table:
    """Where the terminal is too narrow, names are folded, and numbers are never cut off."""
    for column in made.columns:
        if column.justify == "right":
            column.min_width = max(len(str(text)) for text in (column.header, *column.cells))
    return made


def _signed(value: float) -> Text:
    return Text(amount(value), style="red" if value < 0 else "")


_RARE = {"RESERVED": "reserved_gpu_hours", "FREE": "unallocated_gpu_hours"}
"""Columns that are left out where nothing is in them."""
_PARTS = {
    "SETTLED": "settled_gpu_hours",
    "RUNNING": "running_gpu_hours",
    "COMMITTED": "committed_gpu_hours",
    **_RARE,
}


def _heads(one: StatementView) -> list[str]:
    return [head for head, field in _PARTS.items() if head not in _RARE or getattr(one, field)]


def _parts(parts: PartsView, one: StatementView) -> list[str]:
    return [amount(getattr(parts, _PARTS[head])) for head in _heads(one)]


def _children(one: StatementView, path: str) -> Table:
    heads = ("BUDGET", *_heads(one), "OWED", "LEFT", "RATIO")
    made = render.table(*heads, right=heads[1:], fold=heads[:1])
    for child in one.children:
        name = child.path.rpartition("/")[2]
        if child.gone:
            name = "(before it had children)" if child.path == path else f"{name} (is no more)"
        owed = ["-", "-"] if child.gone else [amount(child.entitled_gpu_hours), amount(child.left_gpu_hours)]
        if child.implicit and not (child.entitled_gpu_hours or any(getattr(child, field) for field in _PARTS.values())):
            continue
        made.add_row(escape(name), *_parts(child, one), *owed, render.ratio(child.ratio))
    return _whole_numbers(made)


def _people(one: StatementView) -> Table:
    heads = ("WHO", *_heads(one), "OF ALL")
    made = render.table(*heads, right=heads[1:], fold=heads[:1])
    for person in one.people:
        made.add_row(escape(person.user), *_parts(person, one), _share(person, one))
    if not one.people:
        made.add_row("nobody", *["-"] * (len(heads) - 1))
    return _whole_numbers(made)


def _jobs(one: StatementView, path: str) -> Table:
    """The largest jobs; where there are children their budgets as seen from ``path``."""
    names = ["JOB", "NAME", "WHO", *(["BUDGET"] if one.children else [])]
    numbers = [*_heads(one), "OF ALL"]
    made = render.table(*names, *numbers, right=numbers, fold=names[1:])
    for job in one.jobs:
        below = escape("-" if job.budget == path else job.budget.removeprefix(f"{path}/"))
        made.add_row(
            job.label,
            escape(job.name or "-"),
            escape(job.user),
            *([below] if one.children else []),
            *_parts(job, one),
            _share(job, one),
        )
    return _whole_numbers(made)


def _share(parts: PartsView, of: PartsView) -> str:
    """A part of everything that is used and promised."""
    whole = _total(of)
    return f"{100 * _total(parts) / whole:.0f}%" if whole > 0 else "-"


def _total(parts: PartsView) -> float:
    charged = parts.settled_gpu_hours + parts.running_gpu_hours
    return charged + parts.committed_gpu_hours + parts.reserved_gpu_hours
