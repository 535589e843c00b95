"""A trace's figures in the terminal, with small bars."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from rich.table import Table
from rich.text import Text

from tenure import units
from tenure.cli import render
from tenure.core.model import GPU
from tenure.reports.catalogue import many
from tenure.reports.traces.data import Step, days_shown, duration_steps, moment, size_steps, squeezed
from tenure.reports.traces.records import (
    LIMIT_STEP,
    PERCENTILES,
    Distribution,
    Holders,
    TraceFigures,
    earlier_told,
    files_told,
    weekend_told,
)

_EIGHTHS = " ▏▎▍▌▋▊▉█"
_HEIGHTS = "▁▂▃▄▅▆▇█"
_WIDTH = 22
_LARGEST = 5
_NAME = 30
_COLUMNS = 60
_JOBS, _GPU_TIME = "cyan", "green"


def show(figures: TraceFigures) -> None:
    """Everything, on stdout."""
    _head(figures)
    _durations(figures)
    _sizes(figures)
    _arrivals(figures)
    _people(figures)
    _ends(figures)
    _waits(figures)
    _limits(figures)
    _account(figures)


def bar(part: float, width: int = _WIDTH) -> str:
    """As many blocks as ``part`` (0 to 1) of ``width`` columns; at least a sliver of what is not 0."""
    eighths = min(width * 8, max(round(part * width * 8), 1 if part > 0 else 0))
    whole, rest = divmod(eighths, 8)
    return "█" * whole + (_EIGHTHS[rest] if rest else "")


def spark(values: Sequence[int]) -> str:
    """A column for each value, the largest one in full height, none for 0."""
    most = max(values, default=0)
    return "".join(_HEIGHTS[min(7, value * 8 // most)] if value else " " for value in values)


def _line(*parts: str) -> None:
    render.output().print("; ".join(part for part in parts if part), markup=False, soft_wrap=True)


def _title(text: str) -> None:
    render.output().print()
    render.output().print(Text(text, style="bold"))


def _percent(part: float) -> str:
    return f"{100 * part:.1f} %"


def _head(figures: TraceFigures) -> None:
    source, supply = figures.source, figures.supply
    render.output().print(
        Text(f"{source.name} ({source.format}): {many(source.rows, 'row')}, {many(figures.jobs, 'job')}", style="bold"),
        soft_wrap=True,
    )
    if not source.complete:
        render.output().print(Text("broken off: the figures are of what was read by then", style="bold yellow"))
    last = moment(figures, figures.last)
    _line(f"{days(figures.days)}; submitted from {moment(figures, figures.first)} to {last}", _cut(figures))
    _line(
        f"asks for {supply.average_gpus:,.1f} GPUs on average, {figures.gpu_hours:,.0f} GPU-hours",
        f"{figures.demand_over_supply:.2f} x what the {figures.gpus:,} GPUs can do"
        if figures.demand_over_supply
        else "",
    )
    hosts = dict.fromkeys(figures.gpus_for_supply.values())
    can = ", and ".join(f"{supply.over(gpus):.2f} x what {gpus:,} GPUs can do" for gpus in hosts)
    _line(f"in whole hosts of 8, that is {can}")
    if figures.earlier_jobs:
        _line(earlier_told(figures.earlier_jobs, figures.earlier))
    if figures.synthetic:
        _line(f"{figures.synthetic:,} of the jobs are synthetic")


def days(span: float) -> str:
    """``1 day``, ``69 days``, ``1,234.50 days``."""
    return units.counted(int(span), "day") if span == int(span) else f"{span:,.2f} days"


def _cut(figures: TraceFigures) -> str:
    return f"{many(figures.source.outside, 'job')} outside {figures.source.cut}" if figures.source.cut else ""


def _durations(figures: TraceFigures) -> None:
    _title("How long jobs ran")
    _quantiles({"of the jobs": (figures.runtimes, False), "of the GPU time": (figures.runtimes, True)})
    _steps("RAN", duration_steps(figures.runtimes))


def _sizes(figures: TraceFigures) -> None:
    _title("How many GPUs they took")
    _steps("GPUS", size_steps(figures.sizes))


def _quantiles(rows: Mapping[str, tuple[Distribution, bool]]) -> None:
    heads = ("", "JOBS", *(f"P{p}" for p in PERCENTILES), "LONGEST")
    made = render.table(*heads, right=heads[1:])
    for name, (found, by_gpu_time) in rows.items():
        values = [found.percentile(p, by_gpu_time=by_gpu_time) for p in PERCENTILES]
        made.add_row(name, f"{found.jobs:,}", *map(render.span, values), render.span(found.most))
    render.output().print(made)


def _steps(head: str, steps: Iterable[Step]) -> None:
    made = render.table(head, "JOBS", "", "GPU TIME", "", right=("JOBS", "GPU TIME"))
    for step in steps:
        made.add_row(step.name, *_share(step.jobs, _JOBS), *_share(step.gpu_time, _GPU_TIME))
    render.output().print(made)


def _share(part: float, colour: str) -> tuple[str, Text]:
    return _percent(part), Text(f"{bar(part):<{_WIDTH}}", style=colour)


def _arrivals(figures: TraceFigures) -> None:
    found = figures.arrivals
    _title("When they came" + (" (UTC)" if found.dated else " (from the trace's start)"))
    length, steps = squeezed(figures, _COLUMNS)
    made = Table.grid(padding=(0, 2, 0, 0))
    made.add_row("hour of day", Text(spark(found.by_hour), style=_JOBS), "00 to 23")
    ends = days_shown(figures)
    made.add_row("day of week", Text(spark(found.by_day), style=_JOBS), f"{ends[0]} to {ends[-1]}")
    each = f"{units.format_duration(length)} each"
    made.add_row("over time", Text(spark([jobs for jobs, _ in steps]), style=_JOBS), each)
    render.output().print(made)
    _line(
        f"{found.mean:,.1f} jobs an hour",
        f"at most {found.busiest:,}, {moment(figures, found.busiest_at)}",
        f"hourly Fano factor {found.fano:,.1f}" if found.fano is not None else "",
        f"peak to trough of a day {found.peak_to_trough:.1f}" if found.peak_to_trough is not None else "",
        weekend_told(found.weekend) if found.weekend is not None else "",
        f"longest silence {render.span(found.silence)} from {moment(figures, found.silence_at)}"
        if found.silence
        else "",
    )


def _people(figures: TraceFigures) -> None:
    _title("Whose they are")
    people, teams = figures.people, figures.teams
    if figures.teamless:
        names = "person or team" if people.count == 1 else "people or teams"
        _line(f"{people.count:,} {names} (the trace does not tell the two apart){_top(people)}", _beyond(people))
    else:
        _line(f"{people.count:,} {'person' if people.count == 1 else 'people'}{_top(people)}", _beyond(people))
        _line(f"{units.counted(teams.count, 'team')}{_top(teams)}", _beyond(teams))
    made = render.table("THE LARGEST", "JOBS", "GPU-HOURS", "GPU TIME", "", right=("JOBS", "GPU-HOURS", "GPU TIME"))
    total = figures.supply.asked or 1
    for what, found in (("", teams),) if figures.teamless else (("team ", teams), ("person ", people)):
        for one in found.largest[:_LARGEST]:
            name = f"{what}{one.name[:_NAME]}"
            hours = units.format_gpu_hours(one.gpu_ms * GPU, 0)
            made.add_row(Text(name), f"{one.jobs:,}", f"{int(hours):,}", *_share(one.gpu_ms / total, _GPU_TIME))
    render.output().print(made)


def _top(found: Holders) -> str:
    """What the largest hold, where so many percent are at least one of them."""
    said = [f"the top {p} % hold {_percent(part)}" for p, part in found.top.items() if found.count * p >= 100]
    return f": {', '.join(said)} of the GPU time" if said else ""


def _beyond(found: Holders) -> str:
    return f"{many(found.uncounted_jobs, 'job')} of names beyond the bound" if found.uncounted_jobs else ""


def _ends(figures: TraceFigures) -> None:
    if set(figures.ends) == {"unknown"}:
        return
    _title("How they ended")
    total = figures.supply.asked or 1
    _steps(
        "END",
        [Step(name.replace("_", " "), jobs / figures.jobs, ms / total) for name, (jobs, ms) in figures.ends.items()],
    )


def _waits(figures: TraceFigures) -> None:
    if figures.waits.bins:
        _title("How long they waited, from submission to start")
        found = {"all": figures.waits, **figures.waits_by_size}
        _quantiles({name: (waits, False) for name, waits in found.items()})


def _limits(figures: TraceFigures) -> None:
    limits = figures.limits
    if not limits.jobs:
        return
    _title("What they asked for, and ran")
    _quantiles({"limits": (limits.requested, False)})
    made = Table.grid(padding=(0, 2, 0, 0))
    made.add_row("ran, of the limit", Text(spark(limits.steps), style=_JOBS), f"steps of {LIMIT_STEP} %, then beyond")
    render.output().print(made)
    _line(
        f"{_percent(limits.part_used(10))} ran under 10 % of their limit",
        f"{_percent(limits.part_used(50))} under half",
        f"{_percent(1 - limits.part_used(95))} to its last 5 % or beyond",
        f"{limits.past:,} more than a minute past it",
    )


def _account(figures: TraceFigures) -> None:
    source = figures.source
    for title, counts in (("Left out", source.left_out), ("Bad rows", source.bad), ("Odd", figures.oddities)):
        if counts:
            _title(title)
            made = Table.grid(padding=(0, 2, 0, 0))
            made.add_column(justify="right")
            for what, count in counts.items():
                made.add_row(f"{count:,}", Text(what))
            render.output().print(made)
        if title == "Bad rows":
            for example in source.examples:
                render.output().print(Text(f"  {example}"), soft_wrap=True)
    if source.skipped_files:
        _title("Files of another kind")
        _line(files_told(source.skipped_files))
