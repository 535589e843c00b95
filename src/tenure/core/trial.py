"""What a pass would decide for one job, real or thought of, if it came now. The state stays as it is.

A pass ends when nothing that waits can be placed, so a job that comes after it is the only one with a chance. It is put
to the same questions (``prospects``) as a pass puts to whoever waits, in the same order.
"""

from __future__ import annotations

from dataclasses import dataclass

from tenure.core import explain
from tenure.core.decisions import Claim, Evict, Reserve, Start
from tenure.core.ledger import Kind
from tenure.core.lifecycle import JobState
from tenure.core.look import in_its_turn, prospects_of
from tenure.core.model import JobSpec
from tenure.core.prospects import Prospects, earliest
from tenure.core.queue import Group, Shape, key_of
from tenure.core.reasons import Because, Number, Reason
from tenure.core.state import Job, State


@dataclass(frozen=True, slots=True)
class Verdict:
    """What would be decided for ``job``; without a plan it waits.

    A ``Reserve`` is what it would be given by the next pass that looks for jobs in turn (``Policy.look_every``), as far
    as is known now; it does not start before. ``because``: why it starts, or why it does not start now.
    """

    job: Job
    plan: Start | Claim | Reserve | None
    because: Because

    @property
    def starts_at(self) -> int | None:
        """When it has its GPUs at the latest, ms UTC: now, when the last victim is killed, or as reserved."""
        return starts_at(self.plan)

    @property
    def victims(self) -> tuple[Evict, ...]:
        return self.plan.victims if isinstance(self.plan, Claim) else ()


def starts_at(plan: Start | Claim | Reserve | None) -> int | None:
    """When a job has its GPUs at the latest by its plan, ms UTC: that of a claim when the last victim is killed."""
    if isinstance(plan, Claim):
        at = plan.because.numbers["kill_at"]  # of those that go already, too
        assert isinstance(at, int)
        return at
    if isinstance(plan, Reserve):
        return plan.starts_by
    return plan.at if plan is not None else None


def hypothetical(state: State, spec: JobSpec, job_id: int = 0) -> Job:
    """The job that a submission would make now. ``job_id``: one that nobody has or had; 0: the next.

    Raises KeyError when there is no such budget: admission is not asked.
    """
    leaf = state.the_tree().leaf_of(spec.budget)
    job = Job(job_id or max(state.jobs, default=0) + 1, spec, JobState.QUEUED, state.now, leaf, spec.budget)
    job.queued_at = state.now
    return job


class Trials:
    """Trials of any number of jobs, each by itself, at one moment: ``state`` has to stay as it is meanwhile.

    ``state``: after a step, as the engine and the simulator have it. ``instead_of``: a queued job that is not to be
    looked at, as if it had been cancelled, 0 for none (see ``contested``). Nobody waits for its end, and it is in no
    array with a throttle. ``hasty``: who would be given no hosts as things stand is not asked again after others have
    had their turn, which rarely helps anybody and takes its time.
    """

    def __init__(self, state: State, instead_of: int = 0, *, hasty: bool = False) -> None:
        self.state = state
        self._instead_of = instead_of
        self._hasty = hasty
        self._places: dict[str, Prospects] = {}
        self._turns: dict[tuple[str, str, int, str, Shape | None], dict[str, Prospects] | None] = {}
        """Clusters as a job finds them in its turn, by what that depends on."""

    def of(self, job: Job) -> Verdict:
        """What the next pass would decide for a job that is not in the queue."""
        plan = self.plan(job)
        if isinstance(plan, Start | Claim):
            return Verdict(job, plan, plan.because)
        return Verdict(job, plan, self._why(job))

    def plan(self, job: Job) -> Start | Claim | Reserve | None:
        """The plan alone, without the reason if there is none."""
        if self.state.paused_starts:
            return None
        # Rule 14: the first that it lists takes it, if it can.
        for place in self._funding(job):
            group = _group(job)
            if place.obstacle(group, job) is None:
                plan = place.plan(group, job)
                if plan is not None:
                    return plan
        return self.reserve(job)

    def reserve(self, job: Job) -> Reserve | None:
        """What is held for it when a pass looks: asked wherever it is large enough, in its turn there."""
        if job.kind is Kind.UNALLOCATED or not self.state.policy.reserved_percent:
            return None
        places = self._funding(job)
        if self._hasty and earliest(places, job) is None:
            return None
        for name in sorted(each.cluster.spec.name for each in places if job.spec.gpus >= each.reserve_from()):
            turn = self._in_its_turn(job, name)
            plan = earliest([turn[each.cluster.spec.name] for each in places], job) if turn is not None else None
            if plan is not None:
                return plan
        return None

    def _in_its_turn(self, job: Job, cluster: str) -> dict[str, Prospects] | None:
        """The clusters as the job finds them in its turn in the pass of one of them; None: it has none there."""
        group = _group(job)
        alike = group.key in self.place(cluster).cluster.queues[job.kind].leaves.get(job.leaf, {})
        # Where nobody is like it, its turn depends on nothing else.
        key = (cluster, job.leaf, job.spec.priority, job.spec.user, group.key.shape if alike else None)
        if key not in self._turns:
            self._turns[key] = in_its_turn(self.state, group, cluster, self._instead_of)
        return self._turns[key]

    def _why(self, job: Job) -> Because:
        """Why it would wait: what ``explain`` says of it once it is queued."""
        state = self.state
        if state.paused_starts:
            return Because(Reason.PAUSED_STARTS, {"by": state.paused_starts})
        reasons, funding = list[Because](), self._funding(job)
        for name in job.spec.clusters:
            if name not in state.clusters:
                continue
            place = self.place(name)
            if place in funding:
                group = _group(job)
                there = place.cluster.queues[job.kind].leaves.get(job.leaf, {}).get(group.key)
                known = there.parked if there is not None else None
                parked = known.reason if known is not None else place.obstacle(group, job)
                reasons.append(explain.waiting(place.contest, job, parked, place.doors.shut(group)))
            else:
                numbers: dict[str, Number] = {"budget": job.budget, "cluster": name}
                reasons.append(Because(Reason.HELD_NO_SHARE, numbers))
        return explain.foremost(reasons)

    def _funding(self, job: Job) -> list[Prospects]:
        """The clusters that it accepts, in its order, where its budget may start such a job."""
        places = [self.place(name) for name in job.spec.clusters if name in self.state.clusters]
        return [p for p in places if job.kind is Kind.UNALLOCATED or p.contest.charged.entitled(job.leaf)]

    def contested(self) -> bool:
        """Whether others that wait could have what is held for the job that is not looked at: then it is not known who
        gets it, and what is said of others may not hold.
        """
        job = self.state.jobs.get(self._instead_of)
        if job is None or job.reservation is None or self.state.paused_starts:
            return False
        for name in sorted(self.state.clusters):
            place = self.place(name)
            for queue in place.cluster.queues.values():
                for leaf, groups in queue.leaves.items():
                    if queue.kind is Kind.UNALLOCATED or place.contest.charged.entitled(leaf):
                        for group in groups.values():
                            if group.key.reserved != job.id and self._could_start(place, group):
                                return True
        return False

    def _could_start(self, place: Prospects, group: Group) -> bool:
        return place.obstacle(group) is None and place.plan(group, self.state.jobs[group.anyone()]) is not None

    def place(self, cluster: str) -> Prospects:
        """One cluster at this moment. Raises KeyError when there is no such."""
        known = self._places.get(cluster)
        if known is None:
            known = self._places[cluster] = prospects_of(self.state, cluster, self._instead_of)
        return known


def _group(job: Job) -> Group:
    """A group of its own, in no queue."""
    people = {job.spec.user: [(job.submitted, job.id)]}
    return Group(key_of(job.spec, job.leaf), job.kind, job.spec, people)


def trial(state: State, spec: JobSpec, job_id: int = 0) -> Verdict:
    """What the next pass would decide for one more job. Raises KeyError when there is no such budget."""
    return Trials(state).of(hypothetical(state, spec, job_id))
