"""What a simulation found, in the terminal: a column for each policy and setting, the median of its seeds."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tenure import units
from tenure.cli import render
from tenure.cli.context import print_json
from tenure.cli.errors import CliError

_PAIRS = 3
"""So many pairs are told in words; the page has all."""

Summary = dict[str, Any]
Groups = dict[str, list[Summary]]
Show = Callable[[float], str]


def _percent(value: float) -> str:
    return f"{100 * value:.1f} %"


def _time(value: float) -> str:
    return units.format_duration(round(value) * 1000)


def _count(value: float) -> str:
    return f"{value:.0f}"


def _decimal(value: float) -> str:
    return f"{value:.2f}"


ROWS: tuple[tuple[str, str, Show], ...] = (
    ("delivered of what was owed", "m1_delivered", _percent),
    ("  hour by hour (strict)", "m1_strict", _percent),
    ("  worst budget", "m1_worst", _percent),
    ("  worst budget-week", "m1_worst_week", _percent),
    ("  budgets at 95 % or more", "budgets_at_95", _count),
    ("  of budgets", "budgets", _count),
    ("delivered, water-filled (M3)", "m3_delivered", _percent),
    ("occupancy", "occupancy", _percent),
    ("  unallocated part", "unallocated_share", _percent),
    ("  lost to restarts", "lost_share", _percent),
    ("demand over supply", "demand_over_supply", _decimal),
    ("debug jobs wait, p50", "debug_wait_p50_s", _time),
    ("  p90", "debug_wait_p90_s", _time),
    ("mid-size jobs wait, p90", "mid_wait_p90_s", _time),
    ("  p99", "mid_wait_p99_s", _time),
    ("gangs of 128 GPUs or more wait, p90", "large_wait_p90_s", _time),
    ("all charged jobs wait, p50", "wait_p50_s", _time),
    ("  p90", "wait_p90_s", _time),
    ("evictions per charged job", "evictions_per_charged_job", _decimal),
    ("  per mid-size job", "evictions_per_mid_job", _decimal),
    ("jobs", "jobs", _count),
    ("seconds to simulate", "wall_s", _decimal),
)


SHORT: tuple[tuple[str, str, Show], ...] = (
    ("delivered\nof owed", "m1_delivered", _percent),
    ("worst\nbudget", "m1_worst", _percent),
    ("mid-size\nwait p90", "mid_wait_p90_s", _time),
    ("debug\nwait p90", "debug_wait_p90_s", _time),
    ("occupancy", "occupancy", _percent),
    ("evictions\nper job", "evictions_per_charged_job", _decimal),
    ("lost", "lost_share", _percent),
    ("M3", "m3_delivered", _percent),
    ("unal-\nlocated", "unallocated_share", _percent),
    ("128 GPUs\nwait p90", "large_wait_p90_s", _time),
)
"""What is shown of many variants, the most telling first."""


def group_of(summary: Summary) -> str:
    """Policy and settings, without the seed."""
    settings = " ".join(f"{name}={value}" for name, value in summary.get("settings", {}).items())
    return f"{summary['policy']} {settings}".strip()


def show(
    summaries: Sequence[Summary], out: Path | None, said: Collection[str] = (), groups: Groups | None = None
) -> None:
    """The table on stdout, and where the rest is. ``said``: notes that were told before. ``groups``: what to call the
    seeds of one variant, if not by policy and settings.

    A column for each group, or, if these are too many for the terminal, a row for each with what matters most.
    """
    if groups is None:
        groups = {}
        for summary in summaries:
            groups.setdefault(group_of(summary), []).append(summary)
    seeds = max((len(group) for group in groups.values()), default=0)
    console = render.output()
    table = _columns(groups, seeds)
    if _width(table, console) <= console.width:
        console.print(table)
    else:
        shown = _turned(groups, console)
        console.print(shown)
        page = None if out is None else out / "comparison.html"
        where = f"--json, and {page}" if page is not None and page.exists() else "--json"
        more = "; medians of the seeds" if seeds > 1 else ""
        console.print(f"{len(shown.columns) - 1} of {len(ROWS)} figures{more}; all are in {where}", markup=False)
    for line in learnt(summaries):
        render.output().print(line, markup=False)
    notes = dict.fromkeys(note for summary in summaries for note in summary.get("notes", ()))
    for note in (note for note in notes if note not in said):
        render.output().print(f"note: {note}", markup=False)
    if out is not None:
        render.output().print(f"tables, reports and pictures are in {out}", markup=False)


def _columns(groups: Groups, seeds: int) -> Table:
    """A row for each figure, a column for each group."""
    table = Table(box=None, title_justify="left", pad_edge=False)
    table.add_column(Text(f"median of {seeds} seeds [range]" if seeds > 1 else ""))
    for name in groups:
        table.add_column(Text(name), justify="right")
    for title, key, how in ROWS:
        table.add_row(title, *(Text(_cell([s.get(key) for s in group], how)) for group in groups.values()))
    return table


def _turned(groups: Groups, console: Console) -> Table:
    """A row for each group, with as many of the figures that matter most as fit, two at least."""
    for count in range(len(SHORT), 1, -1):
        table = Table(box=None, pad_edge=False)
        table.add_column("", overflow="fold")
        for title, _, _ in SHORT[:count]:
            table.add_column(title, justify="right", vertical="bottom", no_wrap=True)
        for name, group in groups.items():
            values = [([s[key] for s in group if s.get(key) is not None], how) for _, key, how in SHORT[:count]]
            table.add_row(Text(name), *(how(statistics.median(known)) if known else "-" for known, how in values))
        if _width(table, console) <= console.width:
            break
    return table


def _width(table: Table, console: Console) -> int:
    """Cells that a table takes when nothing of it is folded."""
    return console.measure(table, options=console.options.update(max_width=10_000)).maximum


def learnt(summaries: Sequence[Summary]) -> list[str]:
    """What people do at the end of each run in which they learn."""
    said = []
    for summary in summaries:
        if summary.get("drift"):
            end = sorted(summary["drift"][-1].items(), key=lambda item: -item[1])
            names = ", ".join(f"{name} {count}" for name, count in end if count)
            said.append(f"{group_of(summary)}, seed {summary['seed']}: people at the end: {names}")
    return said


def _cell(values: Sequence[float | None], how: Show) -> str:
    known = [value for value in values if value is not None]
    if not known:
        return "-"
    middle = how(statistics.median(known))
    if len(known) == 1 or how(min(known)) == how(max(known)):
        return middle
    return f"{middle} [{how(min(known))} to {how(max(known))}]"


def write_comparison(summaries: Sequence[Summary], out: Path) -> Any:
    """Compare runs; pictures and words go to ``out``. Raises CliError when two of them are the same run."""
    from tenure.reports import compare

    with render.errors().status("comparing"):
        try:
            return compare.write_comparison(summaries, out)
        except ValueError as error:
            raise CliError(f"{error}: name every run once") from error


def show_comparison(comparison: Any, summaries: Sequence[Summary], out: Path, *, as_json: bool) -> None:
    """What exceeds the spread in words, then all variants side by side."""
    from tenure.reports.differences import compare

    if as_json:
        print_json(comparison)
        return
    output, page = render.output(), out / "comparison.html"
    for line in (comparison["about"], *comparison["warnings"]):
        output.print(Text(line), soft_wrap=True)
    pairs = comparison["sentences"]
    for pair in pairs[:_PAIRS]:
        output.print(Text(f"\n{pair['variant']} against {pair['against']}", style="bold"), soft_wrap=True)
        for line in _differences(pair):
            output.print(Text(f"- {line}"), soft_wrap=True)
    if len(pairs) > _PAIRS:
        output.print(Text(f"\nand {units.counted(len(pairs) - _PAIRS, 'more pair')}: see {page}"), soft_wrap=True)
    output.print()
    show(summaries, out, groups={one.label: list(one.by_seed.values()) for one in compare(summaries).variants})


def _differences(pair: dict[str, Any]) -> list[str]:
    """What is larger than chance; the rest is counted."""
    from tenure.reports.differences import BETTER, DIFFERENT, NO_SPREAD, TENDENCY, WITHIN, WORSE

    lines = [f"{kind}: {line}" for kind in (BETTER, WORSE, DIFFERENT) for line in pair.get(kind, ())]
    few, alone = sum(len(pair.get(kind, ())) for kind in (TENDENCY, WITHIN)), len(pair.get(NO_SPREAD, ()))
    if few:
        lines.append(f"{units.counted(few, 'figure')} within the spread of the seeds, or no more than a tendency")
    if alone:
        lines.append(f"{units.counted(alone, 'figure')} without a spread to compare with")
    return lines
