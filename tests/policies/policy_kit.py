"""A small world under a policy, with the invariants after every step, and what tables of scenarios need."""

from __future__ import annotations

from support import invariants
from support.world import World
from tenure.core.decisions import Claim, Start
from tenure.core.model import MINUTE
from tenure.core.reasons import Reason
from tenure.core.state import State
from tenure.policies.base import Policy


class Under(World):
    """A world whose passes are those of a policy."""

    def __init__(self, policy: Policy, /, *given: object, **more: object) -> None:
        self.rules = policy
        super().__init__(*given, decide=policy.run, protects=policy.protected, **more)  # type: ignore[arg-type]

    def placed(self) -> list[int]:
        """Jobs in the order in which they were started or given a claim."""
        return [d.job_id for d in self.decisions if isinstance(d, Start | Claim)]

    def victims(self) -> list[int]:
        """Jobs whose attempts were stopped, in order."""
        return [int(e.attempt_id.partition(".")[0]) for e in self.evictions()]

    def parked(self, job_id: int, cluster: str = "main") -> Reason | None:
        """Why the job's group waits, as the pass left it."""
        job = self.state.jobs[job_id]
        group = self.state.queue_of(job, cluster).group_of(job.id)
        assert group is not None, f"job {job_id} does not wait"
        return group.parked.reason if group.parked is not None else None

    def wait(self, duration: int) -> None:
        """Let time pass in ticks of ten minutes."""
        self.advance(duration, tick=10 * MINUTE)


def check_settled(policy: Policy, fresh: Policy, state: State, spans: invariants.Spans) -> None:
    """A second pass decides nothing, by whoever makes it and whatever it remembers; all that wait have a reason."""
    data = invariants.saved(state)
    assert policy.run(state) == [], "the second of two passes decided something"
    copy = invariants.restored(data, spans)
    again = fresh.run(copy)
    assert again == [], f"somebody was kept waiting for nothing: {again}"
    assert invariants.saved(copy) == data
    for cluster in state.clusters.values():
        for queue in cluster.queues.values():
            for groups in queue.leaves.values():
                for group in groups.values():
                    assert group.parked is not None and group.parked.reason in invariants.WAITS
