"""The figures of ``docs/workload.md``: the synthetic researchers' work, as simulated, beside published distributions.

``python docs/figures/workload.py [--gpus 256] [--days 24] [--seed 1]`` simulates both presets and writes the PNGs next
to this file. The same code and settings give the same figures.
"""

from __future__ import annotations

import argparse
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import altair as alt
import published as pub
import vl_convert

from tenure.core.model import DAY, HOUR, MINUTE, SECOND
from tenure.reports.records import JobRow, Run
from tenure.sim.loop import Simulation
from tenure.sim.months import month_of
from tenure.sim.researchers import Researchers

HERE = Path(__file__).parent
OURS, SEREN, KALOS, CONTEXT = "ours", "Seren", "Kalos", "#bbbbbb"
COLOURS = {
    OURS: "#D55E00",
    SEREN: "#0072B2",
    KALOS: "#56B4E9",
    "Philly": CONTEXT,
    "Helios": CONTEXT,
    "PAI": CONTEXT,
}
DASHES = {OURS: [1, 0], SEREN: [1, 0], KALOS: [1, 0], "Philly": [6, 3], "Helios": [2, 2], "PAI": [8, 3, 2, 3]}
SECONDS = [2**i for i in range(22)]
SIZES = [2**i for i in range(11)]
KINDS = ("evaluation", "sft", "mllm", "debug", "pretrain", "other")

LABS = {name: pub.DURATIONS[name] for name in (SEREN, KALOS)}

Row = dict[str, Any]


def simulated(preset: str, gpus: int, days: int, seed: int) -> tuple[Run, Researchers]:
    setup = replace(month_of(preset, {"main": gpus}), seed=seed, duration=days * DAY)
    simulation = Simulation(setup)
    run = simulation.run()
    assert isinstance(simulation.workload, Researchers)
    return run, simulation.workload


def settled(run: Run) -> list[JobRow]:
    """Jobs that were submitted after the warm-up, ran, and are over."""
    return [j for j in run.jobs if j.ended is not None and j.occupied and j.submitted >= run.start + run.warmup]


def seconds_of(job: JobRow) -> float:
    """How long a job held its GPUs over all attempts."""
    return job.occupied / (job.gpus * 1000) / SECOND


def below(values: Sequence[float], points: Sequence[float]) -> list[float]:
    ordered = sorted(values)
    return [100 * bisect_right(ordered, point) / len(ordered) for point in points]


def by_time(run: Run) -> list[float]:
    """Percent of the GPU time in jobs of at most so many GPUs, whatever has become of them."""
    used = Counter[int]()
    for job in run.jobs:
        used[job.gpus] += job.occupied
    return [100 * sum(time for gpus, time in used.items() if gpus <= size) / used.total() for size in SIZES]


def lines(series: Mapping[str, Sequence[float]], x: Sequence[float], **more: str) -> list[Row]:
    return [
        {"of": name, "x": at, "percent": percent} | more
        for name, percents in series.items()
        for at, percent in zip(x, percents, strict=False)
    ]


def curve(rows: list[Row], x: str, title: str, ticks: Sequence[float], label: str, width: int = 420) -> alt.Chart:
    names = [name for name in COLOURS if any(row["of"] == name for row in rows)]
    scale = alt.Scale(domain=names, range=[COLOURS[name] for name in names])
    dash = alt.Scale(domain=names, range=[DASHES[name] for name in names])
    axis = alt.Axis(values=list(ticks), labelExpr=label)
    return (
        alt.Chart(alt.Data(values=rows), title=title, width=width, height=240)
        .mark_line(strokeWidth=2)
        .encode(
            x=alt.X("x:Q", title=x, scale=alt.Scale(type="log", base=2), axis=axis),
            y=alt.Y("percent:Q", title="percent at most that", scale=alt.Scale(domain=[0, 100])),
            color=alt.Color("of:N", title=None, scale=scale),
            strokeDash=alt.StrokeDash("of:N", title=None, scale=dash),
        )
    )


TIMES = (1, 8, 60, 900, 3600, 8 * 3600, 86_400, 7 * 86_400)
TIME_LABEL = (
    "datum.value < 60 ? datum.value + ' s' : datum.value < 3600 ? datum.value / 60 + ' min' : "
    "datum.value < 86400 ? datum.value / 3600 + ' h' : datum.value / 86400 + ' d'"
)


def durations(run: Run) -> alt.Chart:
    ours = {OURS: below([seconds_of(job) for job in settled(run)], SECONDS)}
    return curve(lines(ours | pub.DURATIONS, SECONDS), "duration", "Durations of jobs", TIMES, TIME_LABEL, 640)


def durations_by_kind(run: Run) -> alt.ConcatChart:
    charts = []
    for kind in KINDS:
        mine = [seconds_of(job) for job in settled(run) if job.kind == kind]
        series = {OURS: below(mine, SECONDS)}
        series |= {name: kinds[kind] for name, kinds in pub.BY_KIND.items() if kind in kinds}
        title = f"{kind} ({len(mine):,} jobs of ours)"
        charts.append(curve(lines(series, SECONDS), "duration", title, TIMES, TIME_LABEL, 300).properties(height=180))
    return alt.concat(*charts, columns=3)


def sizes(run: Run) -> alt.ConcatChart:
    jobs = {OURS: below([job.gpus for job in settled(run)], SIZES)} | pub.SIZES
    time = {OURS: by_time(run)} | pub.SIZES_BY_TIME
    supply = {OURS: sum(gpus for _, gpus in run.hosts["main"]), SEREN: 2288, KALOS: 2416}
    parts = [
        {"of": name, "x": 100 * size / supply[name], "percent": percent}
        for name in supply
        for size, percent in zip(SIZES, time[name], strict=True)
        if size <= supply[name]
    ]
    left = curve(lines(jobs, SIZES), "GPUs", "GPUs of jobs", SIZES, "datum.value", 300)
    middle = curve(lines(time, SIZES), "GPUs", "GPU time by size of job", SIZES, "datum.value", 300)
    ticks, label = (0.1, 0.5, 2, 5, 10, 25, 50, 100), "datum.value + ' %'"
    right = curve(parts, "size of job over size of cluster", "The same, by part of the cluster", ticks, label, 300)
    return left | middle | right


def kinds(run: Run) -> alt.ConcatChart:
    counted = Counter(job.kind for job in settled(run))
    used = Counter[str]()
    for job in run.jobs:
        used[job.kind] += job.occupied
    charts = []
    for which, (title, mine) in enumerate((("jobs", counted), ("GPU time", used))):
        rows = [{"of": OURS, "kind": kind, "percent": 100 * mine[kind] / mine.total()} for kind in KINDS]
        for name, both in pub.KINDS.items():
            rows += [{"of": name, "kind": kind, "percent": percent} for kind, percent in both[which].items()]
        charts.append(bars(rows, f"Percent of {title} by kind", list(KINDS)))
    return alt.hconcat(*charts)


def ends(run: Run) -> alt.ConcatChart:
    names = {"succeeded": "completed", "cancelled": "cancelled", "failed": "failed", "timed_out": "failed"}
    counted, used = Counter[str](), Counter[str]()
    for job in settled(run):
        if job.state in names:
            counted[names[job.state]] += 1
            used[names[job.state]] += job.occupied
    order = ["completed", "cancelled", "failed"]
    charts = []
    for which, (title, mine) in enumerate((("jobs", counted), ("GPU time", used))):
        rows = [{"of": OURS, "kind": end, "percent": 100 * mine[end] / mine.total()} for end in order]
        for name, both in pub.ENDS.items():
            rows += [{"of": name, "kind": end, "percent": value} for end, value in zip(order, both[which], strict=True)]
        charts.append(bars(rows, f"Percent of {title} by end", order))
    return alt.hconcat(*charts)


def bars(rows: list[Row], title: str, order: list[str]) -> alt.Chart:
    names = [name for name in COLOURS if any(row["of"] == name for row in rows)]
    return (
        alt.Chart(alt.Data(values=rows), title=title, width=380, height=220)
        .mark_bar()
        .encode(
            x=alt.X("kind:N", title=None, sort=order, axis=alt.Axis(labelAngle=0)),
            xOffset=alt.XOffset("of:N", sort=names),
            y=alt.Y("percent:Q", title="percent"),
            color=alt.Color("of:N", title=None, scale=alt.Scale(domain=names, range=[COLOURS[name] for name in names])),
        )
    )


def people(run: Run) -> alt.LayerChart:
    used = Counter[str]()
    for job in run.jobs:
        used[job.user] += job.occupied
    ordered = [time for _, time in used.most_common()]
    ours = [100 * sum(ordered[: round(150 * top / 100)]) / used.total() for top in pub.TOP]
    rows = lines({OURS: ours} | pub.PEOPLE, pub.TOP)
    names = [OURS, *pub.PEOPLE]
    scale = alt.Scale(domain=names, range=[COLOURS[OURS], "#0072B2", "#56B4E9", "#009E73", "#999999"])
    return (
        alt.Chart(alt.Data(values=rows), title="Who uses the GPU time", width=420, height=260)
        .mark_line(point=True)
        .encode(
            x=alt.X("x:Q", title="percent of people, most active first", scale=alt.Scale(type="log", domain=[1, 100])),
            y=alt.Y("percent:Q", title="percent of the GPU time", scale=alt.Scale(domain=[0, 100])),
            color=alt.Color("of:N", title=None, scale=scale),
        )
    )


def hours(run: Run, researchers: Researchers) -> alt.Chart:
    zones = {person.name: person.calendar.zone for person in researchers.people}
    local, week = Counter[int](), Counter[int]()
    for job in settled(run):
        at = job.submitted + zones[job.user]
        local[at // HOUR % 24] += 1
        week[(at // DAY + 3) % 7] += 1
    total, theirs = local.total(), sum(pub.HOURS)
    rows = [{"of": OURS, "x": hour, "percent": 100 * local[hour] / total} for hour in range(24)]
    rows += [{"of": "Venus", "x": hour, "percent": 100 * count / theirs} for hour, count in enumerate(pub.HOURS)]
    scale = alt.Scale(domain=[OURS, "Venus"], range=[COLOURS[OURS], "#0072B2"])
    return (
        alt.Chart(alt.Data(values=rows), title="Submissions by local hour", width=420, height=260)
        .mark_line(interpolate="step-after")
        .encode(
            x=alt.X("x:Q", title="hour of the day", scale=alt.Scale(domain=[0, 23])),
            y=alt.Y("percent:Q", title="percent of all submissions"),
            color=alt.Color("of:N", title=None, scale=scale),
        )
    )


def demand(runs: Mapping[str, Run]) -> alt.VConcatChart:
    charts = []
    for preset, run in runs.items():
        rows = []
        for row in run.hours:
            day = (row.start - run.start) / DAY
            rows.append({"of": "charged", "x": day, "y": row.demand_funded / row.healthy})
            rows.append({"of": "unallocated", "x": day, "y": row.demand_unfunded / row.healthy})
        area = (
            alt.Chart(alt.Data(values=rows), title=f"Outstanding demand over supply: {preset}", width=860, height=160)
            .mark_area()
            .encode(
                x=alt.X("x:Q", title="day"),
                y=alt.Y("y:Q", title="multiple of all GPUs", stack=True),
                color=alt.Color(
                    "of:N",
                    title=None,
                    scale=alt.Scale(domain=["charged", "unallocated"], range=["#0072B2", "#E69F00"]),
                ),
                order=alt.Order("of:N"),
            )
        )
        supply = alt.Chart(alt.Data(values=[{"y": 1}])).mark_rule(strokeDash=[4, 3]).encode(y="y:Q")
        charts.append(area + supply)
    return alt.vconcat(*charts)


def seasons(run: Run) -> alt.Chart:
    rows = []
    for row in run.budget_hours:
        if row.entitled:
            day = (row.start - run.start) // (6 * HOUR) / 4
            rows.append({"budget": row.budget.partition("/")[2], "x": day, "y": row.demand / row.entitled / 6})
    return (
        alt.Chart(alt.Data(values=rows), title="Charged demand of each budget over its allocation", width=860)
        .mark_rect()
        .encode(
            x=alt.X("x:O", title="day", axis=alt.Axis(values=list(range(0, 60, 2)), labelAngle=0)),
            y=alt.Y("budget:N", title=None),
            color=alt.Color("sum(y):Q", title="multiple", scale=alt.Scale(scheme="blues", domain=[0, 4], clamp=True)),
        )
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpus", type=int, default=256)
    parser.add_argument("--days", type=int, default=24)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    runs, researchers = {}, {}
    for preset in ("published", "saturated"):
        runs[preset], researchers[preset] = simulated(preset, asked.gpus, asked.days, asked.seed)
    run = runs["published"]
    charts = {
        "durations": durations(run),
        "durations-by-kind": durations_by_kind(run),
        "sizes": sizes(run),
        "kinds": kinds(run),
        "ends": ends(run),
        "people": people(run) | hours(run, researchers["published"]),
        "demand": demand(runs),
        "seasons": seasons(run),
    }
    for name, chart in charts.items():
        png = vl_convert.vegalite_to_png(chart.to_dict(), scale=1.5, allowed_base_urls=[])
        (HERE / f"workload-{name}.png").write_bytes(png)
    print_facts(runs)
    print_distances(run)


def print_facts(runs: Mapping[str, Run]) -> None:
    """The numbers that the page quotes."""
    for preset, run in runs.items():
        measured = [row for row in run.hours if row.start >= run.start + run.warmup]
        healthy = sum(row.healthy for row in measured)
        used = sum(row.funded + row.unfunded for row in measured)
        free = sum(row.unfunded for row in measured)
        asked = sum(row.demand_funded + row.demand_unfunded for row in measured)
        short = [job for job in run.jobs if job.funded and job.gpus <= 8 and job.min_runtime <= 15 * MINUTE]
        print(f"{preset}: {len(run.jobs)} jobs, {len(short)} under short contracts, unallocated {free / used:.1%},")
        print(f"  demand {asked / healthy:.2f} x supply, occupancy {used / healthy:.1%}")


def print_distances(run: Run) -> None:
    """The largest distance from the published points, in percentage points."""
    done = settled(run)

    def apart(ours: Sequence[float], theirs: Sequence[float]) -> float:
        return max(abs(a - b) for a, b in zip(ours, theirs, strict=False))

    print("durations:", {k: round(apart(below([seconds_of(j) for j in done], SECONDS), v), 1) for k, v in LABS.items()})
    for kind in KINDS:
        ours = below([seconds_of(job) for job in done if job.kind == kind], SECONDS)
        print(kind, {k: round(apart(ours, v[kind]), 1) for k, v in pub.BY_KIND.items() if kind in v})
    print("sizes:", round(apart(below([job.gpus for job in done], SIZES), pub.SIZES[SEREN]), 1))


if __name__ == "__main__":
    main()
