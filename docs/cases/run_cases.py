"""The long cases of ``docs/concepts.md``: days of scheduling in seconds, by the same core that the server calls.

``python docs/cases/run_cases.py`` prints what the page quotes; with ``--write [DIRECTORY]`` it also writes that as
``run-cases.txt``, and the pictures, there or next to this file. Same code, same output, to the byte.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from pictures import band_chart, gantt

from tenure.core import scheduler
from tenure.core.decisions import AttemptEnded, Claim, ClaimOpened, Decision, Start
from tenure.core.events import AttemptExited, ConfigApplied, Event, ExitKind, ReplicasUp, Submitted
from tenure.core.explain import why
from tenure.core.fairshare import Standing
from tenure.core.ledger import Kind
from tenure.core.model import (
    DAY,
    GPU,
    HOUR,
    MINUTE,
    SHARE_ONE,
    Budget,
    Cluster,
    Contract,
    Host,
    JobSpec,
    Policy,
    Role,
)
from tenure.core.state import State
from tenure.units import format_duration
from tenure.words import sentence

HERE = Path(__file__).parent
BEGIN = 1_767_225_600_000
"""Midnight, 1 January 2026, UTC, ms."""
SAVING = MINUTE
"""How long a job needs to save its work after the warning."""
A, B = "lab/language", "lab/vision"


class Lab:
    """A cluster of 8-GPU hosts with budgets and scripted time. Jobs have more work than the case is long."""

    def __init__(self, hosts: int, shares: dict[str, int], policy: Policy | None = None) -> None:
        self.hosts, self.policy = hosts, policy or Policy()
        self.state, self.now, self.jobs = State(), BEGIN, 0
        self.decisions: list[Decision] = []
        cluster = Cluster("main", tuple(Host(f"n{i + 1:02d}", 8, 64_000, 524_288) for i in range(hosts)))
        tree = (Budget("lab", SHARE_ONE), *(Budget(path, percent * 10_000) for path, percent in shares.items()))
        self._step(ConfigApplied(self.now, (cluster,), self.policy, tree, (), "case"))

    def submit(self, budget: str, *, gpus: int = 8, min_runtime: int = HOUR, user: str = "ann") -> int:
        return self.submit_all([budget], gpus=gpus, min_runtime=min_runtime, user=user)[0]

    def submit_all(
        self, paths: Iterable[str], *, gpus: int = 8, min_runtime: int = HOUR, user: str = "ann"
    ) -> list[int]:
        """Jobs that arrive at the same moment. More than 8 GPUs: a gang of whole hosts."""
        role = Role("main", max(1, gpus // 8), min(gpus, 8), 0, 0)
        events = []
        for path in paths:
            self.jobs += 1
            spec = JobSpec("job", user, path, (role,), Contract(min_runtime, True), ("main",))
            events.append(Submitted(self.now, self.jobs, spec))
        self._step(*events)
        return [event.job_id for event in events]

    def until(self, clock: str) -> None:
        """Let time pass until this time of the first day."""
        hour, minute = clock.split(":")
        self.advance(BEGIN + int(hour) * HOUR + int(minute) * MINUTE - self.now)

    def finish(self, job: int) -> None:
        """Its work is done."""
        attempt = self.state.jobs[job].attempt
        assert attempt is not None
        self._step(AttemptExited(self.now, attempt.id, ExitKind.EXITED, (0,)))

    def advance(self, duration: int) -> None:
        """Let time pass. Replicas run at once; who is warned saves, exits and queues again."""
        end = self.now + duration
        while self.now < end:
            times = [t for t in (self.state.next_due(), *self._exits()) if t is not None and t > self.now]
            self.now = min([end, self.now + 5 * MINUTE, *times])
            self._step()

    def _exits(self) -> Iterator[int]:
        for attempt in self.state.attempts.values():
            if attempt.stop is not None:
                yield min(attempt.stop.warn_at + SAVING, attempt.stop.kill_at)

    def _step(self, *events: Event) -> None:
        todo: tuple[Event, ...] = events
        while True:
            result = scheduler.step(self.state, todo, self.now)
            self.decisions += [*result.outcomes, *result.plans]
            todo = tuple(self._reactions())
            if not todo:
                return

    def _reactions(self) -> Iterator[Event]:
        for attempt in self.state.attempts.values():
            if attempt.started_at is not None and attempt.running_since is None and attempt.stop is None:
                yield ReplicasUp(self.now, attempt.id)
            elif attempt.stop is not None and self.now >= min(attempt.stop.warn_at + SAVING, attempt.stop.kill_at):
                yield AttemptExited(self.now, attempt.id, ExitKind.EXITED, (143,))

    def running(self, budget: str) -> int:
        """GPUs that the budget holds."""
        return sum(a.gpus for a in self.state.attempts.values() if a.leaf == budget and a.started_at is not None)

    def used(self, budget: str, window: int) -> float:
        """GPU-hours that it was charged in the last ``window`` ms."""
        account = self.state.clusters["main"].ledger.account(budget)
        return account.usage(Kind.CHARGED, self.now - window, self.now) / (GPU * HOUR)

    def ratios(self, budget: str) -> tuple[float, float]:
        """The usage ratio over the lookback and over the last day."""
        tree = self.state.tree
        assert tree is not None
        ledger = self.state.clusters["main"].ledger
        figures = Standing(ledger, tree, self.policy, Kind.CHARGED, self.now).figures(budget)
        return figures.ratio_ppm() / 1e6, figures.recent_ppm() / 1e6

    def evictions(self) -> int:
        return sum(len(d.victims) for d in self.decisions if isinstance(d, Claim))

    def waited(self, job: int) -> int:
        """How long a job waited for its GPUs, ms."""
        found = self.state.jobs[job]
        assert found.first_started is not None
        return found.first_started - found.submitted


def idle_team() -> Iterator[str]:
    """Four teams with a quarter each; one of them runs nothing for three days and then submits a lot."""
    teams = ["lab/language", "lab/vision", "lab/science", "lab/robots"]
    late = teams[-1]
    lab = Lab(8, dict.fromkeys(teams, 25))
    lab.submit_all(path for _ in range(12) for path in teams[:-1])
    hours: list[float] = []
    held: dict[str, list[int]] = {path: [] for path in teams}
    lab.advance(3 * DAY - 12 * HOUR)
    _record(lab, -12, 0, hours, held)
    yield f"{lab.hosts} hosts of 8 GPUs; 4 teams with 25 % each; 8-GPU jobs with min_runtime 1h"
    for path in teams:
        ratio, recent = lab.ratios(path)
        used = lab.used(path, 7 * DAY)
        yield f"after 3 days: {path:<13} used {used:6.1f} GPU-hours, ratio {ratio:.2f}, last day {recent:.2f}"
    before = lab.evictions()
    jobs = lab.submit_all([late] * 12)
    yield f"{late} submits 12 jobs"
    names = " ".join(f"{path[4:]:>8}" for path in teams)
    yield f"hour {names} | last day of robots, language | ratio of robots, language"
    charged = {}
    for hour in range(60):
        charged[hour] = lab.used(late, 3 * DAY)
        if hour in (0, 1, 3, 6, 7, 8, 12, 24, 26, 30, 33):
            gpus = " ".join(f"{lab.running(path):8d}" for path in teams)
            (ratio, recent), (other, other_recent) = lab.ratios(late), lab.ratios(teams[0])
            yield f"{hour:4d} {gpus} | {recent:18.2f}, {other_recent:8.2f} | {ratio:15.2f}, {other:8.2f}"
        _record(lab, hour, hour + 1, hours, held)
    yield f"its first job waited {format_duration(lab.waited(jobs[0]))}"
    yield f"in its first 7 hours it was charged {charged[7]:.1f} GPU-hours; a quarter of that time is {7 * 16}"
    yield f"in its first 24 hours {charged[24]:.1f} GPU-hours; a quarter of that time is {24 * 16}"
    yield f"in its first 48 hours {charged[48]:.1f} GPU-hours; a quarter of that time is {48 * 16}"
    yield f"evictions in these 60 hours: {lab.evictions() - before}"
    title = "GPUs that each of four teams holds, before and after one of them comes back"
    PICTURES["idle-team.svg"] = band_chart(title, hours, held, 64, f"{late} comes back")


def _record(lab: Lab, start: int, end: int, hours: list[float], held: dict[str, list[int]]) -> None:
    """Let the hours pass and note every quarter of an hour who holds what."""
    for quarter in range((end - start) * 4):
        hours.append(start + quarter / 4)
        for path, gpus in held.items():
            gpus.append(lab.running(path))
        lab.advance(15 * MINUTE)


def margin() -> Iterator[str]:
    """Two equal budgets with one job each on one host, for two days, under several margins."""
    yield "1 host of 8 GPUs; 2 budgets with 50 % each; one endless 8-GPU job each, min_runtime 15m"
    rows = {}
    for minutes in (0, 15, 30, 60, 120, 240):
        lab = Lab(1, {A: 50, B: 50}, Policy(preemption_margin=minutes * MINUTE))
        lab.submit_all([A, B], min_runtime=15 * MINUTE)
        lab.advance(2 * DAY)
        turns = _turns(lab)
        longest = max(end - begin for begin, end, _ in turns)
        shown = format_duration(minutes * MINUTE)
        yield (
            f"margin {shown:>3}: {lab.evictions():3d} evictions in 48 h, longest turn {format_duration(longest):>6}, "
            f"charged {lab.used(A, 2 * DAY):.1f} and {lab.used(B, 2 * DAY):.1f} GPU-hours"
        )
        if minutes in (0, 60):
            bars = [(b / HOUR, min(e, 12 * HOUR) / HOUR, name) for b, e, name in turns if b < 12 * HOUR]
            rows[f"preemption_margin {shown}"] = bars
    PICTURES["margin.svg"] = gantt("Who has the one host in the first twelve hours", 12, rows)


def _turns(lab: Lab) -> list[tuple[int, int, str]]:
    """From when to when which budget had the host: ms since the beginning."""
    spans = []
    for account_path in (A, B):
        series = lab.state.clusters["main"].ledger.account(account_path).used[Kind.CHARGED]
        ends = [*series.times[1:], lab.now]
        spans += [
            (t - BEGIN, end - BEGIN, account_path)
            for t, end, rate in zip(series.times, ends, series.rates, strict=True)
            if rate
        ]
    return sorted(spans)


def reservation() -> Iterator[str]:
    """A gang of 4 hosts meets a cluster full of promises that end one after the other."""
    yield "6 hosts of 8 GPUs; 2 budgets with 50 % each; lab/language runs 6 jobs of 8 GPUs, protected for 1h to 6h"
    lab = Lab(6, {A: 50, B: 50}, Policy(reserved_percent=50))
    runs = [lab.submit(A, min_runtime=hours * HOUR) for hours in range(1, 7)]
    lab.until("00:02")
    gang = lab.submit(B, gpus=32, min_runtime=2 * HOUR)
    yield f"{_clock(lab.now)} lab/vision submits a gang of 32 GPUs, min_runtime 2h"
    lab.until("00:05")
    yield f"{_clock(lab.now)} the gang: {sentence(why(lab.state, lab.state.jobs[gang]))}"
    held = lab.state.jobs[gang].reservation
    assert held is not None
    yield f"      held: {', '.join(held.hosts)}; told {_clock(held.told)}, starts by {_clock(held.starts_by)}"
    for job, clock in zip(runs[:2], ("01:10", "02:10"), strict=True):
        lab.until(clock)
        lab.finish(job)
        yield f"{_clock(lab.now)} the job on n0{job} has finished"
        if job == runs[0]:
            yield _arrives(lab, "an unallocated job", A, min_runtime=0)
            yield _arrives(lab, "a job with a contract of 4h", A, min_runtime=4 * HOUR)
    yield _arrives(lab, "a job with a contract of 1h", A, min_runtime=HOUR)
    lab.until("03:50")
    yield _arrives(lab, "a job with a contract of 15m", A, min_runtime=15 * MINUTE)
    before = len(lab.decisions)
    lab.until("06:00")
    for claim in lab.decisions[before:]:
        if isinstance(claim, Claim) and claim.job_id == gang:
            yield f"{_clock(claim.at)} the gang claims its hosts: {len(claim.victims)} evicted for it"
    started = lab.state.jobs[gang].first_started
    assert started is not None
    yield f"{_clock(started)} the gang starts, {format_duration(started - held.told)} after the time told"
    rows: dict[str, list[tuple[float, float, str]]] = {host: [] for host in held.hosts}
    for begin, end, host, job in _occupied(lab):
        what = "the gang" if job == gang else "at first" if job in runs else "let in meanwhile"
        if host in rows:
            rows[host].append((begin / HOUR, end / HOUR, what))
    PICTURES["reservation.svg"] = gantt("What runs on the four held hosts until the gang starts", 6, rows)


def _occupied(lab: Lab) -> Iterator[tuple[int, int, str, int]]:
    """From when to when a job had GPUs of a host: ms since the beginning."""
    plans = {plan.attempt_id: plan for plan in lab.decisions if isinstance(plan, Start | Claim)}
    begun = {plan.attempt_id: plan.at for plan in plans.values() if isinstance(plan, Start)}
    begun |= {opened.attempt_id: opened.at for opened in lab.decisions if isinstance(opened, ClaimOpened)}
    ended = {end.attempt_id: end.at for end in lab.decisions if isinstance(end, AttemptEnded)}
    for attempt_id, begin in begun.items():
        for host in sorted({slot.host for slot in plans[attempt_id].slots}):
            yield begin - BEGIN, ended.get(attempt_id, lab.now) - BEGIN, host, plans[attempt_id].job_id


def _arrives(lab: Lab, what: str, budget: str, *, min_runtime: int) -> str:
    """What becomes of an 8-GPU job within the minute."""
    at = lab.now
    job = lab.submit(budget, min_runtime=min_runtime)
    lab.advance(MINUTE)
    attempt = lab.state.jobs[job].attempt
    if attempt is not None and attempt.started_at is not None:
        return f"{_clock(at)} {what} starts on {attempt.slots[0].host}"
    return f"{_clock(at)} {what}: {sentence(why(lab.state, lab.state.jobs[job]))}"


def _clock(at: int) -> str:
    seconds = (at - BEGIN) // 1000
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}"


def debug() -> Iterator[str]:
    """A debug job (1 GPU, min_runtime 15m) meets a full cluster, in four states of fullness."""
    yield "2 hosts of 8 GPUs; 2 budgets with 50 % each; a job with 1 GPU and min_runtime 15m arrives"
    for name, fill in SCENES.items():
        lab = Lab(2, {A: 50, B: 50})
        fill(lab)
        job = lab.submit(B, gpus=1, min_runtime=15 * MINUTE)
        told = sentence(why(lab.state, lab.state.jobs[job])) if lab.state.jobs[job].first_started is None else ""
        lab.advance(10 * HOUR)
        yield f"{name}: starts after {format_duration(lab.waited(job))}, {lab.evictions()} evicted"
        if told:
            yield f"  meanwhile: {told}"


def _free(lab: Lab) -> None:
    lab.submit(A, min_runtime=8 * HOUR)


def _unallocated(lab: Lab) -> None:
    lab.submit(A, min_runtime=8 * HOUR)
    lab.submit(A, min_runtime=0)


def _exposed(lab: Lab) -> None:
    lab.submit_all([A, A], min_runtime=HOUR)
    lab.advance(3 * HOUR)


def _protected(lab: Lab) -> None:
    lab.submit_all([A, A], min_runtime=8 * HOUR)
    lab.advance(5 * HOUR)


SCENES: dict[str, Callable[[Lab], None]] = {
    "8 GPUs are free": _free,
    "the rest is unallocated": _unallocated,
    "all is exposed (1h contracts, 3h old)": _exposed,
    "all is protected (8h contracts, 5h old)": _protected,
}
CASES: dict[str, Callable[[], Iterator[str]]] = {
    "idle-team": idle_team,
    "margin": margin,
    "reservation": reservation,
    "debug": debug,
}
PICTURES: dict[str, str] = {}
"""Name -> SVG of what ran so far."""


def main(arguments: list[str]) -> None:
    lines = []
    for name, case in CASES.items():
        lines += [f"== {name}", *case(), ""]
    text = "\n".join(lines)
    print(text, end="")
    if arguments[:1] == ["--write"]:
        target = Path(arguments[1]) if len(arguments) > 1 else HERE
        (target / "run-cases.txt").write_text(text, "utf-8")
        for name, svg in PICTURES.items():
            (target / name).write_text(svg, "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
