"""From the core's state to orders for the executor, and from its reports to events. Level-triggered.

What should be true of each attempt follows from the state alone, so after a crash everything is simply said again:
executors ignore what they have been told before.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import structlog

from tenure import faults
from tenure.core.events import AttemptExited, CheckpointReported, Event, ExitKind, ReplicasUp
from tenure.core.model import SECOND, Array
from tenure.core.reasons import Reason
from tenure.core.state import Attempt, Job, State
from tenure.engine.clock import SLEW_PPM
from tenure.executors.base import ArrayPart, Executor, Launch, Phase, ReplicaLaunch, Report, StopOrder
from tenure.words import sentence

log = structlog.get_logger()

_LAST = frozenset({Reason.CANCELLED, Reason.TIMED_OUT})
"""A job that is stopped for one of these does not come back."""
_ENDS = {Phase.EXITED: ExitKind.EXITED, Phase.LOST: ExitKind.LOST, Phase.NOT_STARTED: ExitKind.NOT_STARTED}


def launch_of(job: Job, attempt: Attempt, array: Array | None = None) -> Launch:
    """All that an executor needs to run ``attempt``. ``array``: the one that the job is of."""
    replicas = []
    for rank, slot in enumerate(attempt.slots):
        role = job.spec.roles[slot.role]
        replicas.append(
            ReplicaLaunch(
                role=role.name,
                role_index=slot.role,
                replica=slot.replica,
                node_rank=rank,
                host=slot.host,
                gpus=slot.gpus,
                cpus=slot.cpus,
                mem=slot.mem,
                command=role.command,
            )
        )
    execution = job.spec.execution
    return Launch(
        attempt_id=attempt.id,
        job_id=job.id,
        number=attempt.number,
        name=job.spec.name,
        user=job.spec.user,
        budget=job.budget,
        cluster=attempt.cluster,
        replicas=tuple(replicas),
        workdir=execution.workdir,
        env=dict(execution.env),
        launch=execution.launch,
        warn_signal=execution.warn_signal,
        protected_for=attempt.min_runtime,
        restart_count=job.starts - 1,
        array=None if array is None else _part(job, array),
        adopted=execution.adopted,
    )


def _part(job: Job, array: Array) -> ArrayPart:
    indices = array.indices
    return ArrayPart(job.array, job.index, len(indices), indices[0], indices[-1], array.step)


class Conductor:
    """Tells the executor what the state wants, once; remembers what it has said since it was made."""

    def __init__(self, executor: Executor) -> None:
        self.executor = executor
        self._started: set[str] = set()
        self._ordered: dict[str, int] = {}

    def act(self, state: State, now: int, ended: Iterable[str]) -> list[Event]:
        """Start what is to start, warn what is due, forget what has ended (and is recorded).

        Returns the ends of attempts that this machine could not even begin (a full disk, for instance). What else it
        refuses is said again the next time.
        """
        failed: list[Event] = []
        for attempt_id in ended:
            self._started.discard(attempt_id)
            self._ordered.pop(attempt_id, None)
            self.executor.forget(attempt_id)
        for attempt in list(state.attempts.values()):
            if attempt.started_at is None:
                continue
            job = state.jobs[attempt.job_id]
            if attempt.id not in self._started:
                try:
                    self._start(state, job, attempt)
                except OSError as error:
                    log.error("attempt_not_started", attempt=attempt.id, error=str(error))
                    # One that an earlier server has started goes on, whatever was wrong with saying so again.
                    if all(report.attempt_id != attempt.id for report in self.executor.poll()):
                        failed.append(AttemptExited(now, attempt.id, ExitKind.NOT_STARTED, message=str(error)))
                    continue
            stop = attempt.stop
            if stop is not None and stop.warn_at <= now and self._ordered.get(attempt.id) != stop.kill_at:
                try:
                    self._stop(job, attempt, now)
                except OSError as error:
                    log.error("attempt_not_stopped", attempt=attempt.id, error=str(error))
        return failed

    def _start(self, state: State, job: Job, attempt: Attempt) -> None:
        array = state.arrays[job.array].array if job.array else None
        faults.point("engine.before_start")
        self.executor.start(launch_of(job, attempt, array))
        faults.point("engine.after_start")
        self._started.add(attempt.id)

    def _stop(self, job: Job, attempt: Attempt, now: int) -> None:
        stop = attempt.stop
        assert stop is not None  # the caller has looked
        # An order that a crash has delayed still leaves the whole grace, as far as half of the kill time-out allows.
        latest = (stop.kill_at + stop.release_by) // 2
        grace = max(0, stop.kill_at - now, min(stop.kill_at - stop.warn_at, latest - now))
        faults.point("engine.before_stop")
        signal = job.spec.execution.warn_signal
        reason = stop.because.reason
        again = reason is Reason.START_TIMED_OUT or (job.spec.contract.resumable and reason not in _LAST)
        why = f"{reason.value}: {sentence(stop.because)}"
        self.executor.stop(StopOrder(attempt.id, grace, signal, why, again))
        faults.point("engine.after_stop")
        self._ordered[attempt.id] = stop.kill_at

    def end_unknown(self, report: Report) -> None:
        """An attempt that the state does not have: end it, say so, and forget it when it is over."""
        if report.phase in _ENDS:
            self.executor.forget(report.attempt_id)
        else:
            log.warning("unknown_attempt_ended", attempt=report.attempt_id, phase=report.phase.value)
            try:
                self.executor.stop(StopOrder(report.attempt_id, 0, "SIGKILL", "unknown"))
            except OSError as error:
                log.error("attempt_not_stopped", attempt=report.attempt_id, error=str(error))


def in_order(events: Iterable[Event], earliest: int) -> list[Event]:
    """Events in the order in which they happened, none before ``earliest``, the time of the last step.

    That step may have left nothing in the log, so without this a restart could not tell that they come after it.
    """
    return sorted((_not_before(event, earliest) for event in events), key=lambda event: event.at)


def _not_before(event: Event, earliest: int) -> Event:
    if event.at >= earliest:
        return event
    if isinstance(event, AttemptExited):
        return replace(event, at=earliest, ended_at=event.at)
    return replace(event, at=earliest)


def events_of(state: State, report: Report, now: int) -> list[Event]:
    """What a report says that the state does not know yet. Empty for attempts that have not begun."""
    attempt = state.attempts.get(report.attempt_id)
    if attempt is None or attempt.started_at is None:
        return []
    at = now - report.age_ms
    kind = _ENDS.get(report.phase)
    if kind is ExitKind.LOST and report.done:
        kind = ExitKind.EXITED  # The job had said that it was done before its supervisor was killed.
    events: list[Event] = []
    if report.checkpoint_age_ms is not None:
        checkpoint = now - report.checkpoint_age_ms
        # The same checkpoint may seem a little younger the next time: ages are read at different moments, and
        # engine time may slew against them.
        tolerance = SECOND + report.checkpoint_age_ms * SLEW_PPM // 1_000_000
        if attempt.checkpoint_at is None or checkpoint > attempt.checkpoint_at + tolerance:
            events.append(CheckpointReported(checkpoint, attempt.id))
    if attempt.running_since is None and report.phase is Phase.RUNNING:
        events.append(ReplicasUp(at, attempt.id))
    if attempt.running_since is None and kind is ExitKind.EXITED:
        # When it came up is not known any more, but that it came up in time is.
        in_time = attempt.started_at + state.clusters[attempt.cluster].spec.start_timeout - 1
        events.append(ReplicasUp(min(at, in_time), attempt.id))
    if kind is not None:
        ended = AttemptExited(at, attempt.id, kind, report.exit_codes, report.done, report.message)
        events.append(replace(ended, again=report.again, cancelled_by=report.cancelled_by))
    return events
