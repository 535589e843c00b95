"""What became of each job of a simulation, written down as it goes: the material of ``why_cases``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from tenure.core import decisions as d
from tenure.core.events import Event, Submitted
from tenure.core.explain import Explainer
from tenure.core.ledger import Kind
from tenure.core.model import DAY, JobSpec
from tenure.core.reasons import Because, Reason
from tenure.core.scheduler import Result
from tenure.core.state import State
from tenure.sim.loop import Simulation
from tenure.sim.setup import Setup
from tenure.units import format_gpu_hours


@dataclass(frozen=True)
class Moment:
    """Something that was decided about a job, or said to it, and why. ``victim``: how it was evicted."""

    at: int
    what: str
    because: Because
    victim: d.Evict | None = None
    passed: str = ""
    """An older job of its budget that it goes before, and why."""


@dataclass
class Story:
    """A job of the simulation and what became of it."""

    id: int
    spec: JobSpec
    submitted: int
    moments: list[Moment] = field(default_factory=list)
    idle: int = 0
    """For how long its budget had submitted nothing before, ms."""

    def when(self, *what: str, reason: Reason | None = None) -> list[Moment]:
        return [m for m in self.moments if m.what in what and reason in (None, m.because.reason)]

    @property
    def started(self) -> int | None:
        """When it first got GPUs."""
        return next((m.at for m in self.moments if m.what in ("starts", "has its GPUs")), None)

    @property
    def waited(self) -> int:
        return self.started - self.submitted if self.started is not None else 0


class Book:
    """All stories of one run, written down as the simulation goes."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.stories: dict[int, Story] = {}
        self._lately: dict[str, int] = {}
        """Budget -> when a charged job of it last lived."""
        Simulation(setup, self._look).run()

    def _look(self, state: State, at: int, events: Sequence[Event], result: Result) -> None:
        new = [event for event in events if isinstance(event, Submitted)]
        for event in new:
            self.stories[event.job_id] = Story(event.job_id, event.spec, at)
            self.stories[event.job_id].idle = at - self._lately.get(event.spec.budget, self.setup.start)
        self._lately |= {job.budget: at for job in state.jobs.values() if job.spec.charged}
        for decision in (*result.outcomes, *result.plans):
            for job_id, moment in _moments(decision, at):
                story = self.stories[job_id]
                passed = self._passed(state, story) if moment.what == "starts" else ""
                story.moments.append(replace(moment, passed=passed))
        waiting = [
            event.job_id for event in new if event.job_id in state.jobs and not self.stories[event.job_id].moments
        ]
        explainer = Explainer(state)
        for job_id in waiting:
            self.stories[job_id].moments.append(Moment(at, "waits", explainer.why(state.jobs[job_id])))

    def _passed(self, state: State, story: Story) -> str:
        """The oldest job like this one of somebody else in its budget, which has to wait for it."""
        for job in state.jobs.values():
            other = self.stories[job.id]
            alike = (other.spec.budget, other.spec.roles, other.spec.contract.min_runtime, other.spec.priority)
            if (
                alike == (story.spec.budget, story.spec.roles, story.spec.contract.min_runtime, story.spec.priority)
                and story.spec.charged
                and not other.when("starts", "claims")
                and other.submitted < story.submitted
                and other.spec.user != story.spec.user
            ):
                ledger = state.clusters[job.spec.clusters[0]].ledger
                mine, theirs = (
                    ledger.person(job.leaf, user).usage(Kind.CHARGED, state.now - state.policy.lookback, state.now)
                    for user in (story.spec.user, other.spec.user)
                )
                return (
                    f"before job {other.id} of {other.spec.user}, submitted {self.clock(other.submitted)}: over the "
                    f"lookback {story.spec.user} was charged {hours(mine)} here, {other.spec.user} {hours(theirs)}"
                )
        return ""

    def since(self, at: int) -> Iterator[Story]:
        """Those that were submitted from ``at`` ms after the beginning on."""
        return (one for one in self.stories.values() if one.submitted >= self.setup.start + at)

    def clock(self, at: int) -> str:
        """``day 3, 14:05:10``."""
        since = at - self.setup.start
        seconds = since % DAY // 1000
        return f"day {since // DAY + 1}, {seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"


def _moments(decision: d.Decision, at: int) -> Iterator[tuple[int, Moment]]:
    """What a decision is to the jobs that it is about."""

    def job(attempt_id: str) -> int:
        return int(attempt_id.partition(".")[0])

    match decision:
        case d.Start():
            yield decision.job_id, Moment(at, "starts", decision.because)
        case d.Claim():
            yield decision.job_id, Moment(at, "claims", decision.because)
            for victim in decision.victims:
                yield job(victim.attempt_id), Moment(at, "is evicted", victim.because, victim)
        case d.Stop() | d.Stopping():
            victim = decision.victim
            what = "is evicted" if isinstance(decision, d.Stop) else "is stopped"
            yield job(victim.attempt_id), Moment(at, what, victim.because, victim)
        case d.ClaimOpened():
            yield job(decision.attempt_id), Moment(at, "has its GPUs", decision.because)
        case d.ClaimDropped():
            yield job(decision.attempt_id), Moment(at, "loses its claim", decision.because)
        case d.Reserve():
            yield decision.job_id, Moment(at, "is told", decision.because)
        case d.Unreserve() | d.ReservationLost():
            yield decision.job_id, Moment(at, "loses its reservation", decision.because)
        case d.Requeued():
            yield decision.job_id, Moment(at, "queues again", decision.because)
        case d.Credited():
            worth = decision.amount * (decision.end - decision.start)
            yield job(decision.attempt_id), Moment(at, f"gets {hours(worth)} back", decision.because)
        case d.JobEnded():
            yield decision.job_id, Moment(at, f"has {decision.state.replace('_', ' ')}", decision.because)


def hours(amount_ms: int) -> str:
    return f"{format_gpu_hours(amount_ms)} GPU-hours"
