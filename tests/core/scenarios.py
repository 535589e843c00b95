"""Small building blocks for scenario tables: usage in the past, who started, what became of a job."""

from __future__ import annotations

from fractions import Fraction

from support.past import OLD, RECENT, past
from support.world import T0, World, hosts
from tenure.core.decisions import Claim, JobEnded, Requeued, Reserve, Start
from tenure.core.lifecycle import JobState
from tenure.core.model import DAY, GPU, HOUR, MINUTE, SECOND, Policy
from tenure.core.reasons import Reason

__all__ = ["OLD", "RECENT", "past"]
"""What is at home elsewhere and found here as well."""


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


# ---- reservations

SHARES = {"lab/a": 0.4, "lab/b": 0.4, "lab/c": 0.2}
SLACK = 5 * MINUTE + 30 * SECOND
"""The longest grace and the kill time-out."""
SOON = 5 * MINUTE
"""When passes look for jobs in turn."""


def after_told(told: int) -> int:
    """By when a job starts whose hosts are free at ``told``: short contracts, a start-up, two graces."""
    return told + 15 * MINUTE + 15 * MINUTE + 2 * SLACK


def reserved(world: World, job: int) -> Reserve:
    """The last reservation that the job was given."""
    return [plan for plan in world.made(Reserve) if plan.job_id == job][-1]


def started_at(world: World, job: int) -> int:
    at = world.job(job).first_started
    assert at is not None
    return at


def gang_of_two(hosts_count: int = 2, **policy: int) -> tuple[World, int, int]:
    """b's job is protected on h0 for 5 h; the other hosts are free and held for a's gang of all of them."""
    world = World(hosts(hosts_count), SHARES, policy=Policy(**{"reserved_percent": 50, **policy}))
    busy = world.submit("lab/b", min_runtime=5 * HOUR)
    gang = world.submit("lab/a", replicas=hosts_count)
    world.step(after=SOON)
    assert reserved(world, gang).told == T0 + 5 * HOUR
    assert world.attempt(busy).protected_until == T0 + 5 * HOUR
    return world, gang, T0 + 5 * HOUR


def until(world: World, at: int) -> None:
    world.advance(at - world.now, tick=HOUR)
