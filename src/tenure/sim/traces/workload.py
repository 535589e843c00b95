"""A trace as a workload: an open loop. Every job is submitted at its time, whatever became of the others.

People react to waiting and traces do not, so at a demand of 2.5 times the supply most of a trace never runs. It shows
how a policy orders what waits; what it would be like to work there is for the closed-loop workloads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tenure.core.model import MINUTE, Contract, JobSpec, Role
from tenure.sim.traces.options import TraceOptions
from tenure.sim.traces.records import End, TraceJob
from tenure.sim.work import Action, Submit, Wake, Work

KIND = "trace"
KIND_SYNTHETIC = "debug-synthetic"
_AHEAD = 64
"""Jobs handed out at a wake-up, so that a long trace is never all there as ``Work``."""
_FLOOR = 5 * MINUTE
_WANTED = 10 * MINUTE
"""What a job that hit its limit wanted beyond it (nobody knows, but more than the grace in which it might be done), and
how much longer than it ran another may run."""
_STOPPED = 143
"""The exit code of what its owner stopped: 128 + SIGTERM."""


class TraceWorkload:
    """The ``Workload`` of a trace. ``jobs`` in the order of submission; ``paths``: team -> budget.

    ``refused_jobs``: how many jobs admission refused; ``refusals``: the first few, (job id, why).
    """

    def __init__(
        self, jobs: Sequence[TraceJob], paths: Mapping[str, str], clusters: tuple[str, ...], options: TraceOptions
    ) -> None:
        self.refused_jobs = 0
        self.refusals: list[tuple[str, str]] = []
        self._jobs = jobs
        self._paths = paths
        self._clusters = clusters
        self._options = options
        self._start = 0
        self._owners: dict[tuple[str, str], int] = {}
        self._roles: dict[int, tuple[Role, ...]] = {}

    def begin(self, at: int) -> Iterator[Action]:
        self._start = at
        return self._from(0)

    def wake(self, at: int, token: int) -> Iterator[Action]:
        return self._from(token)

    def _from(self, first: int) -> Iterator[Action]:
        """The next jobs, and a wake-up when the last of them is submitted."""
        following = min(first + _AHEAD, len(self._jobs))
        for i in range(first, following):
            yield Submit(self._start + self._jobs[i].submitted, self.work(self._jobs[i]), i)
        if following < len(self._jobs):
            yield Wake(self._start + self._jobs[following - 1].submitted, following)

    def work(self, job: TraceJob) -> Work:
        """A job of the trace as somebody would submit it."""
        contract = self._options.contract(job.id, job.gpus, job.runtime)
        contract, timeout = reconciled(contract, job)
        spec = JobSpec(
            name=job.id,
            user=job.user,
            budget=self._paths[job.team],
            roles=self._roles_of(job.gpus),
            contract=contract,
            clusters=self._clusters,
            timeout=timeout,
        )
        runtime = job.runtime
        if job.end is End.TIMEOUT and timeout is not None:
            runtime = max(runtime, timeout + _WANTED)
        kind = KIND_SYNTHETIC if job.synthetic else KIND
        owner = self._owners.setdefault((job.team, job.user), len(self._owners))
        code = _STOPPED if job.end is End.CANCELLED and not job.exit_code else job.exit_code
        if contract.resumable:
            return Work(spec, owner, kind, runtime, code)
        return Work(spec, owner, kind, runtime, code, checkpoint_every=0)

    def _roles_of(self, gpus: int) -> tuple[Role, ...]:
        roles = self._roles.get(gpus)
        if roles is None:
            per_host = self._options.gpus_per_host
            replicas = -(-gpus // per_host)
            roles = (Role("main", replicas, gpus if replicas == 1 else per_host, 0, 0),)
            self._roles[gpus] = roles
        return roles

    def accepted(self, at: int, token: int, job_id: int, work: Work) -> tuple[Action, ...]:
        return ()

    def refused(self, at: int, token: int, work: Work, why: str) -> tuple[Action, ...]:
        self.refused_jobs += 1
        if len(self.refusals) < 5:
            self.refusals.append((work.spec.name, why))
        return ()

    def started(self, at: int, job_id: int, work: Work, waited: int) -> tuple[Action, ...]:
        return ()

    def requeued(self, at: int, job_id: int, work: Work) -> tuple[Action, ...]:
        return ()

    def ended(self, at: int, job_id: int, work: Work, state: str) -> tuple[Action, ...]:
        return ()


def reconciled(contract: Contract, job: TraceJob) -> tuple[Contract, int | None]:
    """A contract and a time limit that go together.

    A job that ended before its limit in the trace must be able to do so here, restarts included, even where a log
    gives the run time as the limit. No protection is longer than the limit, down to the floor of contracts, to which
    shorter limits are raised.
    """
    if job.timeout is None:
        return contract, None
    timeout = job.timeout if job.end is End.TIMEOUT else max(job.timeout, job.runtime + _WANTED)
    if contract.min_runtime == 0:
        return contract, timeout
    timeout = max(timeout, _FLOOR)
    if contract.min_runtime > timeout:
        contract = Contract(timeout, contract.resumable)
    return contract, timeout
