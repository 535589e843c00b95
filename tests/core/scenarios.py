"""Small building blocks for scenario tables: usage in the past, who started, what became of a job."""

from __future__ import annotations

from fractions import Fraction

from support.world import World
from tenure.core.decisions import Claim, JobEnded, Requeued, Start
from tenure.core.ledger import Kind, Span
from tenure.core.lifecycle import JobState
from tenure.core.model import DAY, GPU, HOUR
from tenure.core.reasons import Reason
from tenure.core.snapshot import rebuild

RECENT = 20
"""Hours ago that lie inside the last day for a while."""
OLD = 72
"""Hours ago that lie inside the lookback, but not in the last day."""


def past(world: World, *used: tuple[str, int, int] | tuple[str, int, int, str], kind: Kind = Kind.CHARGED) -> None:
    """Let it have happened before the world began: (leaf, GPU-hours, hours ago, user), each within one hour."""
    spans = []
    for leaf, gpu_hours, ago, *user in used:
        start = world.now - ago * HOUR
        spans.append(Span("0.0", leaf, user[0] if user else "old", kind, gpu_hours * GPU, start, start + HOUR))
    for name in world.state.clusters:
        ledger, made = world.state.clusters[name].ledger, rebuild(spans, {})
        assert not any(series.times for account in ledger.accounts.values() for series in account.used.values())
        for path, account in made.accounts.items():
            ledger.account(path).used = account.used
        for (leaf, user_name), account in made.people.items():
            ledger.person(leaf, user_name).used = account.used
        world.spans += [(name, span) for span in spans]


def placed(world: World) -> list[int]:
    """Jobs in the order in which they were started or given a claim."""
    return [d.job_id for d in world.decisions if isinstance(d, Start | Claim)]


def victims(world: World) -> list[int]:
    """Jobs whose attempts were stopped, in order."""
    return [int(e.attempt_id.partition(".")[0]) for e in world.evictions()]


Fate = tuple[JobState, Reason]


def became(world: World, job: int) -> Fate:
    """Where the job's last attempt left it, and why."""
    for decision in reversed(world.decisions):
        if isinstance(decision, JobEnded) and decision.job_id == job:
            assert world.job_state(job).value == decision.state
            return world.job_state(job), decision.because.reason
        if isinstance(decision, Requeued) and decision.job_id == job:
            return JobState.QUEUED, decision.because.reason
    raise AssertionError(f"nothing became of job {job}")


def entitled_hours(world: World, path: str, window: int = 7 * DAY, floor: int = 0) -> Fraction:
    """A node's entitlement over a window, in GPU-hours, exactly."""
    cluster = world.state.clusters[world.clusters[0].name]
    amount = cluster.ledger.entitlement(path, window, floor, world.now)
    return Fraction(amount, world.state.the_tree().denominator(path) * GPU * HOUR)
