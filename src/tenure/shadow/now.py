"""What Tenure would do at this moment if the site were its own: one pass of the core over what Slurm shows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from tenure.core import scheduler
from tenure.core.decisions import Claim, Plan, Reserve, Start, Stop
from tenure.core.model import SECOND
from tenure.core.reasons import Because
from tenure.core.state import State
from tenure.shadow import replay
from tenure.shadow.journal import Record
from tenure.shadow.seen import Seen
from tenure.shadow.terms import Terms
from tenure.words import sentence

START, EVICT, PROMISE, DRAIN = "start", "evict", "promise", "drain"


@dataclass(frozen=True, slots=True)
class Would:
    """One thing that Tenure would do. ``job``: as Slurm calls it. ``because``: why, as a sentence. ``gainer``: the job
    for which another has to go. ``slurm``: what Slurm says of the job that waits.
    """

    what: str
    job: str
    user: str
    budget: str
    gpus: int
    hosts: tuple[str, ...]
    because: str
    gainer: str = ""
    slurm: str = ""

    def plain(self) -> dict[str, Any]:
        return {**asdict(self), "hosts": list(self.hosts)}

    def line(self) -> str:
        who = f"{self.job} ({self.user}, {self.budget}, {self.gpus} GPUs)"
        where = f" on {', '.join(self.hosts[:4])}{' ...' if len(self.hosts) > 4 else ''}" if self.hosts else ""
        gains = f" for {self.gainer}" if self.gainer else ""
        slurm = f" Slurm says: {self.slurm}." if self.slurm else ""
        return f"would {self.what} {who}{where}{gains}: {self.because}{slurm}"


@dataclass(frozen=True, slots=True)
class Now:
    """``waiting``, ``running``: jobs, as Slurm has them; ``busy`` of ``gpus``: GPUs."""

    at: int
    waiting: int
    running: int
    busy: int
    gpus: int
    would: tuple[Would, ...]

    def plain(self) -> dict[str, Any]:
        return {
            "at": self.at * SECOND,
            "waiting": self.waiting,
            "running": self.running,
            "busy_gpus": self.busy,
            "gpus": self.gpus,
            "would": [one.plain() for one in self.would],
        }


def decide(record: Record, terms: Terms, jobs: dict[str, Seen]) -> Now:
    """What a pass over the state of the last look decides. Nothing of it is done.

    The state is Slurm's own: its jobs where it has them, and in the ledger what they have used within the lookback.
    """
    end = record.until * SECOND
    start = max(record.since * SECOND, end - terms.config.policy.lookback) - replay.BEFORE
    simulation, workload = replay.prepared(record, terms, replay.Span(start, end, end), None)
    simulation.run()
    state = simulation.state
    names = {job_id: piece.life.key for job_id, piece in workload.jobs.items()}
    waiting = sum(job.attempt is None for job in state.jobs.values())
    busy = sum(attempt.gpus for attempt in state.attempts.values())
    before = len(state.attempts)
    result = scheduler.step(state, [], max(state.now, end))
    would = tuple(one for plan in result.plans for one in _of(state, plan, names, jobs))
    gpus = sum(cluster.spec.gpus for cluster in state.clusters.values())
    return Now(record.until, waiting, before, busy, gpus, would)


def _of(state: State, plan: Plan, names: dict[int, str], jobs: dict[str, Seen]) -> Iterator[Would]:
    match plan:
        case Start():
            yield _job(state, START, plan.job_id, _hosts(plan), plan.because, names, jobs)
        case Claim():
            yield _job(state, START, plan.job_id, _hosts(plan), plan.because, names, jobs)
            for victim in plan.victims:
                held = state.attempts[victim.attempt_id]
                for_whom = names[plan.job_id]
                yield _job(state, EVICT, held.job_id, tuple(held.hosts()), victim.because, names, {}, for_whom)
        case Reserve():
            yield _job(state, PROMISE, plan.job_id, plan.hosts, plan.because, names, jobs)
        case Stop():
            held = state.attempts[plan.victim.attempt_id]
            yield _job(state, DRAIN, held.job_id, tuple(held.hosts()), plan.victim.because, names, {})


def _hosts(plan: Start | Claim) -> tuple[str, ...]:
    return tuple(dict.fromkeys(slot.host for slot in plan.slots))


def _job(
    state: State,
    what: str,
    job_id: int,
    hosts: tuple[str, ...],
    because: Because,
    names: dict[int, str],
    jobs: dict[str, Seen],
    gainer: str = "",
) -> Would:
    job = state.jobs[job_id]
    key = names[job_id]
    seen = jobs.get(key.partition("#")[0])
    slurm = seen.reason if seen is not None and seen.waits else ""
    return Would(what, key, job.spec.user, job.spec.budget, job.spec.gpus, hosts, sentence(because), gainer, slurm)
