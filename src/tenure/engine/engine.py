"""What people and services ask of the scheduler: each request returns when its effect is committed."""

from __future__ import annotations

import pickle
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from tenure.config import diff
from tenure.core import pickling, scheduler
from tenure.core.decisions import Claim, Evict, Start, Stop
from tenure.core.events import ConfigApplied, HostStateChanged, PauseScope
from tenure.core.model import Array, Budget, Cluster, Grant, HostState, JobSpec, Policy
from tenure.core.state import State
from tenure.engine import recovery, requests, surroundings
from tenure.engine.loop import Loop, StepReport
from tenure.engine.requests import ArrayChange, Asked
from tenure.engine.wishes import Lookup, Wish

__all__ = ["AppliedChange", "Engine", "StepReport"]

pickling.register()


@dataclass(frozen=True, slots=True)
class AppliedChange:
    """What a configuration changes, and what the next pass would do, or did, because of it."""

    changes: list[str]
    evictions: list[Evict]
    starts: list[Start | Claim]
    applied: bool


class Engine(Loop):
    """The loop with everything that can be asked of it, from any thread.

    Besides what is said, each request raises EngineStopped when the engine is stopping, has failed or is too busy.
    """

    def submit(
        self,
        spec: JobSpec,
        *,
        by: str,
        client_key: str | None = None,
        hold: bool = False,
        array: Array | None = None,
        after: Sequence[Wish] = (),
    ) -> tuple[int, bool]:
        """The job's id, and whether it is new: a client key that was used before names its job.

        With ``array``: one job for each index, all in one transaction; the id is the first one's, and the key is for
        the whole array. ``after``: what all of them wait for. Raises Refusal when the job could never run, or when
        there is no such job to wait for.
        """
        answer: list[tuple[int, bool]] = []
        lookup = Lookup(self.store, after)

        def request(state: State, now: int) -> Asked:
            # Decided in the engine's thread, so that neither ids nor keys are ever given twice.
            known = self.store.find_by_client_key(spec.user, client_key) if client_key else None
            if known is not None:
                answer.append((known.id, False))
                return Asked([])
            waits = lookup.waits(state)
            held = by if hold else ""
            asked = requests.submit(self._next_job, spec, client_key or "", held, array, waits)(state, now)
            answer.append((self._next_job, True))
            self._next_job += len(array.indices) if array is not None else 1
            return asked

        self._ask(request, by)
        return answer[0]

    def cancel(self, job_id: int, by: str) -> None:
        self._ask(requests.cancel(job_id, by), by)

    def hold(self, job_id: int, by: str) -> None:
        self._ask(requests.hold(job_id, by), by)

    def release(self, job_id: int, by: str) -> None:
        self._ask(requests.release(job_id, by), by)

    def change_array(self, array: int, indices: Collection[int] | None, what: ArrayChange, by: str) -> None:
        """Cancel, hold or release the live jobs of an array, or those with these indices, in one step.

        Raises Conflict when none of them lives.
        """
        self._ask(requests.change_array(array, indices, what, by), by)

    def set_priority(self, job_id: int, priority: int, by: str) -> None:
        self._ask(requests.set_priority(job_id, priority, by), by)

    def checkpoint(self, job_id: int, by: str) -> None:
        self._ask(requests.checkpoint(job_id, by), by)

    def evict(self, job_id: int, by: str, why: str) -> None:
        self._ask(requests.evict(job_id, by, why), by)

    def set_host(
        self, cluster: str, host: str, state: HostState, by: str, why: str, deadline: int | None = None
    ) -> None:
        """A host that another system has out of service does not become healthy here: it goes on as it is there."""

        def request(now_is: State, now: int) -> Asked:
            asked = requests.set_host(cluster, host, state, by, why, deadline)(now_is, now)
            against = surroundings.out_of_service(self._conditions, cluster, host)
            if state is HostState.HEALTHY and against is not None:
                there = surroundings.state_of(against)
                asked.events = [HostStateChanged(now, cluster, host, there, against.by, against.why)]
            return asked

        self._ask(request, by)

    def pause(self, scope: PauseScope, by: str) -> None:
        self._ask(requests.pause(scope, by), by)

    def resume(self, scope: PauseScope, by: str) -> None:
        self._ask(requests.resume(scope, by), by)

    def apply(
        self,
        clusters: tuple[Cluster, ...],
        policy: Policy,
        budgets: tuple[Budget, ...],
        grants: tuple[Grant, ...],
        *,
        by: str,
        dry_run: bool,
    ) -> AppliedChange:
        """Say what a configuration changes and what the next pass would do; apply it unless ``dry_run``.

        Raises Refusal when it would take hosts or budgets from under live jobs.
        """
        request = requests.apply_config(clusters, policy, budgets, grants, by)
        with self.view() as live:
            copied: State = pickle.loads(pickle.dumps(live))  # our own bytes
            now, seq = max(self._now, copied.now), self._seq
        specs = tuple(cluster.spec for cluster in copied.clusters.values())
        old = ConfigApplied(0, specs, copied.policy, copied.budgets, copied.grants, "")
        asked = request(copied, now)
        recovery.look_further_back(self.store, copied, asked.events, seq)
        result = scheduler.step(copied, asked.events, now)
        event = asked.events[0]
        assert isinstance(event, ConfigApplied)  # what apply_config makes
        changes = [change.line for change in diff(old, event)]
        victims = [v for p in result.plans if isinstance(p, Claim) for v in p.victims]
        victims += [p.victim for p in result.plans if isinstance(p, Stop)]
        starts = [p for p in result.plans if isinstance(p, Start | Claim)]
        if not dry_run:
            self._ask(request, by)
            self.poke()  # another system may have something against a host that is new
        return AppliedChange(changes, victims, starts, not dry_run)
