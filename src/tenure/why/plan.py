"""What would become of a job if it were submitted now: worked out by the core on the live state, nothing submitted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tenure import words
from tenure.core import admission, explain
from tenure.core.decisions import Claim, Evict, Reserve, Start
from tenure.core.fairshare import Figures
from tenure.core.ledger import Kind
from tenure.core.model import GPU, After, Broken, JobSpec
from tenure.core.reasons import Because, Reason
from tenure.core.state import ClusterState, State
from tenure.core.trial import Trials, Verdict, hypothetical, starts_at

NAMED = 4
"""Hosts that a sentence names at most."""


@dataclass(frozen=True, slots=True)
class Victim:
    """Somebody who would have to go. ``job`` as people call it, ``gpus`` of the attempt."""

    evict: Evict
    job: str
    job_id: int
    user: str
    budget: str
    gpus: int

    @property
    def because(self) -> Because:
        """Why it may be evicted, without the job that nobody has submitted."""
        numbers = {key: n for key, n in self.evict.because.numbers.items() if key not in ("gainer", "gainer_gpus")}
        return Because(self.evict.because.reason, numbers)


@dataclass(frozen=True, slots=True)
class Balance:
    """What a budget has on a cluster, over the lookback: thousandths of a GPU x ms."""

    figures: Figures
    committed: int
    """Of ``figures.used``, what is still promised."""

    @property
    def used(self) -> int:
        return self.figures.used - self.committed

    @property
    def entitled(self) -> int:
        return self.figures.entitled // self.figures.denominator

    @property
    def left(self) -> int:
        return self.entitled - self.figures.used

    def promising(self, more: int) -> Balance:
        """The same with ``more`` promised."""
        return Balance(self.figures.without(-more), self.committed + more)


@dataclass(frozen=True, slots=True)
class Planned:
    """The answer; times in ms UTC, amounts in thousandths of a GPU."""

    spec: JobSpec
    now: int
    verdict: Verdict
    kept: Because | None
    """What keeps it from being tried at all: a hold, or jobs that it waits for."""
    cluster: str
    """Where it would start, else the first that it lists where its budget has a share."""
    leaf: str
    amount: int
    """What it is charged as."""
    allocation: int
    """What its budget has of the cluster at any moment, rounded down."""
    week: int
    """The budget's entitlement over one lookback with today's values, thousandths of a GPU x ms."""
    balance: Balance
    at_latest: int | None
    """When it would have its GPUs, were it not kept from being tried."""
    looks_at: int
    """When hosts are next held for jobs in turn."""
    victims: tuple[Victim, ...]
    floor: int
    """The shortest contract of the cluster, ms."""
    jobs: int = 1
    """Of an array, so many; all else is about the first."""

    @property
    def charge(self) -> int:
        """What its contract promises, thousandths of a GPU x ms: the least that it is charged when it runs so long."""
        return self.amount * self.spec.contract.min_runtime

    @property
    def promise(self) -> int:
        """The same for all jobs of the array."""
        return self.jobs * self.charge

    @property
    def after(self) -> Balance:
        """With all of them promised, however many may run at a time."""
        return self.balance.promising(self.promise)

    @property
    def plan(self) -> Start | Claim | Reserve | None:
        return None if self.kept is not None else self.verdict.plan

    @property
    def starts_at(self) -> int | None:
        """When it has its GPUs at the latest; None when nobody knows."""
        return self.at_latest if self.plan is not None else None

    @property
    def because(self) -> Because:
        return self.kept or self.verdict.because

    @property
    def hosts(self) -> tuple[str, ...]:
        """Where it would run."""
        plan = self.plan
        if isinstance(plan, Reserve):
            return plan.hosts
        return tuple(dict.fromkeys(slot.host for slot in plan.slots)) if plan is not None else ()

    @property
    def text(self) -> str:
        """When it starts and where, or why it waits."""
        plan = self.plan
        if isinstance(plan, Start):
            return f"It starts now, on {_named(self.hosts)}."
        if isinstance(plan, Claim):
            by = f"by {words.moment(self.at_latest or plan.at)}, on {_named(self.hosts)}"
            if not self.victims:
                return f"It starts {by}: what goes there for others leaves enough for it."
            many = len(self.victims) > 1
            gone = f"{len(self.victims)} attempts are" if many else f"attempt {self.victims[0].evict.attempt_id} is"
            return f"It starts {by}: {gone} evicted for it, and gone by then."
        why = words.sentence(self.because)
        if isinstance(plan, Reserve):
            at = words.moment(self.at_latest or plan.starts_by)
            return (
                f"It does not start now: {_lowered(why)} At the next look, {words.moment(self.looks_at)}, "
                f"{_named(plan.hosts)} would be held for it, and it would start by {at}."
            )
        return why if self.kept is not None else f"It does not start now: {_lowered(why)}"


def planned(
    state: State,
    spec: JobSpec,
    *,
    held_by: str = "",
    after: Sequence[After] = (),
    broken: Broken | None = None,
    jobs: int = 1,
) -> Planned:
    """What a submission would lead to at ``state.now``. ``after``: live jobs that it waits for. ``jobs``: in an array.

    Raises Refusal as a submission does.
    """
    admission.check_job(state, spec)
    trials, job = Trials(state), hypothetical(state, spec)
    verdict = trials.of(job)
    plan = verdict.plan
    funded = [name for name in spec.clusters if state.clusters[name].ledger.account(job.leaf).allocation > 0]
    name = plan.cluster if plan is not None else [*funded, *spec.clusters][0]
    cluster, figures = state.clusters[name], trials.place(name).contest.charged.figures(job.leaf)
    account = cluster.ledger.account(job.leaf)
    return Planned(
        spec=spec,
        now=state.now,
        verdict=verdict,
        kept=_kept(state, held_by, after, broken),
        cluster=name,
        leaf=job.leaf,
        amount=plan.amount if plan is not None else admission.amount_of(cluster.empty, spec),
        allocation=account.allocation * cluster.ledger.healthy_gpus * GPU // figures.denominator,
        week=admission.worth_of(cluster, state.the_tree(), job.leaf, state.policy.lookback),
        balance=Balance(figures, account.promised[Kind.CHARGED].at(state.now)),
        at_latest=starts_by(state, plan) if plan is not None else None,
        looks_at=next_look(state, cluster),
        victims=tuple(victim(state, evict) for evict in verdict.victims),
        floor=cluster.spec.min_runtime_floor,
        jobs=jobs,
    )


def _kept(state: State, held_by: str, after: Sequence[After], broken: Broken | None) -> Because | None:
    if broken is not None:
        return Because(Reason.DEPENDENCY_FAILED, {"job": broken.job, "state": broken.state})
    if held_by:
        return Because(Reason.HELD_BY_PERSON, {"by": held_by})
    return explain.dependency(state, after) if after else None


def victim(state: State, evict: Evict) -> Victim:
    attempt = state.attempts[evict.attempt_id]
    job = state.jobs[attempt.job_id]
    return Victim(evict, job.label, job.id, attempt.user, attempt.leaf, attempt.gpus)


def next_look(state: State, cluster: ClusterState) -> int:
    """When hosts are next held for jobs in turn, ms UTC."""
    every = state.policy.look_every
    return cluster.look_at or (state.now // every + 1) * every


def starts_by(state: State, plan: Start | Claim | Reserve) -> int:
    """When a job that has not been submitted has its GPUs at the latest, ms UTC.

    Hosts that are free to it sooner are held for it at the next look.
    """
    at = starts_at(plan)
    assert at is not None  # there is a plan
    late = next_look(state, state.clusters[plan.cluster]) - plan.told if isinstance(plan, Reserve) else 0
    return at + max(0, late)


def _named(hosts: Sequence[str]) -> str:
    if len(hosts) > NAMED:
        return f"{', '.join(hosts[:NAMED])} and {len(hosts) - NAMED} more hosts"
    return " and ".join([", ".join(hosts[:-1]), hosts[-1]] if len(hosts) > 1 else hosts)


def _lowered(sentence: str) -> str:
    """A sentence that goes on behind a colon; names of budgets and the like stay as they are."""
    return sentence[:1].lower() + sentence[1:]
