"""What a frame is made of, as lines of text that fit a given width. No terminal: the screen and ``--once`` share it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from tenure.api.models import BudgetView, HostView, JobView
from tenure.cli import render
from tenure.cli.context import harmless
from tenure.cli.top.snapshot import Gpu, Snapshot, gpus_of, in_order
from tenure.config.ranges import fold
from tenure.core.reasons import Reason
from tenure.words import title

LOOKS = {
    Gpu.PROTECTED: ("█", "#4c8dff"),
    Gpu.EXPOSED: ("▓", "#2f5ba8"),
    Gpu.UNALLOCATED: ("▒", "#2fb58a"),
    Gpu.FREE: ("·", "#5b6577"),
    Gpu.OTHERS: ("░", "#b08cff"),
    Gpu.OUT: ("×", "#ff5f6b"),
}
"""A character and a colour for each: what is not told by colour can be told by the other."""
UNDER, OVER, FAR_OVER = "#2fb58a", "#e6b450", "#ff7a59"
TRACK = "#3a4252"


def headline(taken: Snapshot, name: str) -> Text:
    """How full it is, how many jobs there are, and whatever is out of the ordinary."""
    cluster = taken.cluster(name)
    busy = cluster.charged_gpus + cluster.unallocated_gpus
    line = Text()
    line.append(f"{name}  ", "bold")
    line.append(f"{busy}", "bold").append(f"/{cluster.healthy_gpus} GPUs busy")
    if cluster.claimed_gpus:
        line.append(f", {cluster.claimed_gpus} claimed")
    if cluster.healthy_gpus < cluster.gpus:
        line.append(f", {cluster.gpus - cluster.healthy_gpus} out", LOOKS[Gpu.OUT][1])
    for state in ("running", "queued"):
        line.append(f"  {taken.status.jobs.get(state, 0)}", "bold").append(f" {state}")
    for what, by in (("starts", taken.status.paused_starts), ("evictions", taken.status.paused_evictions)):
        if by:
            line.append(f"  {what} paused by {by}", "bold #e6b450")
    if taken.status.clock_alarm:
        line.append("  the clock stepped: no evictions", "bold #ff5f6b")
    return line


# ---- the map


def map_lines(hosts: Sequence[HostView], width: int, height: int, *, colours: bool = True, now: int = 0) -> list[Text]:
    """GPUs as cells, as large as fits: with names, without, two in a cell (``colours`` only), a cell for a host."""
    if not hosts or width < 1:
        return []
    longest, most = max(cell_len(host.name) for host in hosts), max(host.gpus for host in hosts)
    kinds = [gpus_of(host, now) for host in hosts]
    named = [_named(host, gpus, longest, most) for host, gpus in zip(hosts, kinds, strict=True)]
    forms: list[tuple[list[Text], int]] = [(named, 2), ([_cells(gpus, most) for gpus in kinds], 1)]
    if colours:
        forms.append(([_halves(gpus, most) for gpus in kinds], 1))
        forms.append((forms[-1][0], 0))
    for cells, gap in forms:
        lines = _flow(cells, width, gap)
        if len(lines) <= height and cell_len(lines[0].plain) <= width:
            return lines
    return _flow([_one(gpus) for gpus in kinds], width, 0)


def _flow(cells: Sequence[Text], width: int, gap: int) -> list[Text]:
    each = max(cell_len(cell.plain) for cell in cells) + gap
    columns = max(1, (width + gap) // each)
    lines = []
    for start in range(0, len(cells), columns):
        line = Text(no_wrap=True)
        for cell in cells[start : start + columns]:
            line.append_text(cell).append(" " * gap)
        line.rstrip()
        lines.append(line)
    return lines


def _cells(gpus: Sequence[Gpu], most: int) -> Text:
    made = Text()
    for gpu in gpus:
        made.append(*LOOKS[gpu])
    return made.append(" " * (most - len(gpus)))


def _named(host: HostView, gpus: Sequence[Gpu], longest: int, most: int) -> Text:
    style = "" if host.state == "healthy" else LOOKS[Gpu.OUT][1] if host.state == "failed" else OVER
    made = Text().append(set_cell_size(host.name, longest), style).append(" ")
    return made.append_text(_cells(gpus, most))


def _halves(gpus: Sequence[Gpu], most: int) -> Text:
    """GPU 0 above GPU 1, and so on."""
    made = Text()
    for upper in range(0, len(gpus), 2):
        style = LOOKS[gpus[upper]][1]
        if upper + 1 < len(gpus):
            style += f" on {LOOKS[gpus[upper + 1]][1]}"
        made.append("▀", style)
    return made.append(" " * ((most + 1) // 2 - (len(gpus) + 1) // 2))


def _one(gpus: Sequence[Gpu]) -> Text:
    most = Counter(gpus).most_common(1)
    return Text().append(*LOOKS[most[0][0]]) if most else Text(" ")


def legend(hosts: Sequence[HostView], width: int, *, short: bool = False, now: int = 0) -> list[Text]:
    """What the characters and colours mean, of what there is. ``short``: how many of each is all there is room for."""
    counts = Counter(gpu for host in hosts for gpu in gpus_of(host, now))
    lines = [Text(no_wrap=True)]
    for kind, (character, colour) in LOOKS.items():
        if counts[kind]:
            item = Text().append(character, colour).append(f" {counts[kind]}", "bold")
            item.append("" if short else f" {kind.value}")
            if lines[-1] and lines[-1].cell_len + 2 + item.cell_len > width:
                lines.append(Text(no_wrap=True))
            lines[-1].append("  " if lines[-1] else "").append_text(item)
    return lines


# ---- budgets


def budget_lines(budgets: Sequence[BudgetView], cluster: str, width: int) -> list[Text]:
    """A bar for each usage ratio, in the order in which their jobs have their turn; a head first."""
    shown = in_order(budgets, cluster)
    numbers, indent = 6 + 6 + 6 + 7, 2 if width >= 50 else 1
    longest = max((indent * one.depth + cell_len(_last(one)) for one in shown), default=6)
    name = max(8, min(longest, width - numbers - 7))
    bar = max(0, width - numbers - name - 2)
    head = Text(set_cell_size("BUDGET", name + bar + 2), "bold", no_wrap=True)
    lines = [head.append(f"{'RATIO':>6}{'DAY':>6}{'GPUS':>6}{'QUEUED':>7}")]
    for budget in shown:
        use = budget.clusters[cluster]
        line = Text(no_wrap=True)
        style = "dim" if budget.implicit else "bold" if budget.depth == 0 else ""
        line.append(set_cell_size(" " * indent * budget.depth + _last(budget), name), style).append(" ")
        line.append_text(ratio_bar(use.ratio, bar)).append(" ")
        line.append(f"{render.ratio(use.ratio):>6}", _ratio_style(use.ratio))
        line.append(f"{render.ratio(use.ratio_last_day):>6}", "dim")
        line.append(f"{use.running_gpus + use.unallocated_gpus or '':>6}")
        lines.append(line.append(f"{use.queued_gpus or '':>7}", OVER if use.queued_gpus else ""))
    return lines


def ratio_bar(ratio: float | None, width: int) -> Text:
    """From 0 to 2, with a mark at 1: as budgeted."""
    middle = width // 2
    filled = 0 if ratio is None else min(width, round(ratio * width / 2))
    made = Text()
    for cell in range(width):
        if cell < filled:
            made.append("╋" if cell == middle else "━", _ratio_style(ratio))
        else:
            made.append("┼" if cell == middle else "─", TRACK)
    return made


def _ratio_style(ratio: float | None) -> str:
    return "dim" if ratio is None else UNDER if ratio <= 1 else OVER if ratio <= 1.5 else FAR_OVER


def _last(budget: BudgetView) -> str:
    return budget.path.rpartition("/")[2]


# ---- jobs

RIGHT = {"ID", "GPUS", "FOR"}
MIDDLE, WIDE = 105, 150
"""From so many columns on a job shows its budget, and of the sentence why it waits as much as fits, not a word; then
where it runs in a sentence, too."""


def job_columns(width: int) -> dict[str, int]:
    """Headings and widths; the last takes what is left."""
    if width >= WIDE:
        columns = {"ID": 8, "STATE": 9, "NAME": 20, "USER": 10, "BUDGET": 22, "GPUS": 5, "FOR": 7}
    elif width >= MIDDLE:
        columns = {"ID": 6, "STATE": 9, "NAME": 16, "USER": 8, "BUDGET": 21, "GPUS": 4, "FOR": 6}
    else:
        columns = {"ID": 6, "STATE": 8, "NAME": 11, "USER": 8, "GPUS": 4, "FOR": 6}
    rest = width - sum(columns.values()) - 2 * (len(columns) + 1)
    return {**columns, "WHERE / WHY": max(12, rest)}


def job_row(job: JobView, now: int, width: int) -> list[Text]:
    """Cells for ``job_columns(width)``."""
    held = job.held_by and job.state == "queued"
    since = job.attempt.started_at if job.attempt is not None else None
    age = render.ago(job.submitted_at if since is None else since, now)
    cells = {
        "ID": Text(job.label, justify="right"),
        "STATE": render.state_text("held" if held else job.state),
        "NAME": Text(harmless(job.name)),
        "USER": Text(harmless(job.user)),
        "BUDGET": Text(job.budget),
        "GPUS": Text(str(job.gpus), justify="right"),
        "FOR": Text(age, justify="right"),
        "WHERE / WHY": Text(harmless(place(job, now, width))),
    }
    columns = job_columns(width)
    for name, cell in cells.items():
        cell.truncate(columns.get(name, 0), overflow="ellipsis")
    return [cells[name] for name in columns]


def place(job: JobView, now: int, width: int) -> str:
    """Where it runs and how safe it is there, or why it does not, on a screen of this width."""
    if width >= WIDE:
        return render.where(job, now)
    attempt = job.attempt
    if attempt is None or job.state == "claiming":
        if width >= MIDDLE:  # that it waits is said beside it
            return render.where(job, now).removeprefix("Waiting").lstrip(": ").removeprefix("for ")
        known = job.reason.code in set(Reason)
        return title(Reason(job.reason.code)).removeprefix("waiting ") if known else job.reason.code
    hosts = ",".join(fold(attempt.hosts))
    if attempt.stop is not None:
        return f"{hosts} stopping"
    if not attempt.charged:
        return f"{hosts} unallocated"
    if attempt.protection == "protected" and attempt.protected_until is not None:
        left = attempt.protected_until - now
        return f"{hosts} protected {render.span(left)}" if left > 0 else f"{hosts} exposed"
    return f"{hosts} {attempt.protection or ''}"


def more(taken: Snapshot) -> str:
    """Said when there are more jobs that wait than are listed; else ''."""
    waiting = taken.status.jobs.get("queued", 0)
    listed = sum(job.state == "queued" for job in taken.jobs)
    folded = any(job.array_waiting for job in taken.jobs)
    return "" if waiting <= listed or folded else f"the newest {listed} of {waiting} that wait"
