"""The machines and the jobs on them, as far as the scheduler can tell: when replicas are up, when processes exit,
what was saved and what is lost.

All times ms UTC. A job's progress is the useful work it has done; a resumable job keeps what its last checkpoint saved.
"""

from __future__ import annotations

from dataclasses import dataclass

from tenure.core.decisions import Evict
from tenure.core.events import AttemptExited, ExitKind
from tenure.core.outcomes import FINAL
from tenure.core.reasons import Reason
from tenure.sim.work import Work

KILLED = 137
"""Exit code of a process that was killed."""
STOPPED = 143
"""Exit code of a process that ended at its warning."""


@dataclass(slots=True)
class Running:
    """One attempt on its GPUs. ``base``: when useful work begins, None until all replicas run."""

    attempt_id: str
    work: Work
    started: int
    done: int
    """Progress that it resumes from."""
    again: bool
    """It is not its job's first run, so it pays the restart cost."""
    base: int | None = None
    exit_at: int | None = None
    exit_code: int = 0
    stopped: bool = False
    given_up: bool = False
    """Stopped for a reason of its owner's: what is not finished then is not counted as lost."""
    saves_at: int | None = None
    """When the work done so far is saved before an eviction, if there is time for that."""
    generation: int = 0
    """Grows whenever its exit is planned anew: older plans are void."""

    def progress(self, at: int) -> int:
        """Useful work done by ``at``, what it resumed from included."""
        if self.base is None:
            return self.done
        return self.done + min(max(0, at - self.base), self.work.runtime - self.done)

    def checkpointed(self, at: int) -> int:
        """What its last periodic checkpoint before ``at`` holds."""
        every = self.work.checkpoint_every
        if self.base is None or not every or not self.work.spec.contract.resumable:
            return self.done
        return min(self.done + max(0, at - self.base) // every * every, self.progress(at))


class Site:
    """All attempts that hold GPUs, and what each job has saved so far."""

    def __init__(self) -> None:
        self.running: dict[str, Running] = {}
        self._saved: dict[int, int] = {}

    def take(self, running: Running) -> None:
        """An attempt that holds GPUs already, as whoever looks ahead from the middle of things finds it."""
        self.running[running.attempt_id] = running

    def keep(self, job_id: int, saved: int) -> None:
        """What a job has saved before."""
        self._saved[job_id] = saved

    def start(self, attempt_id: str, job_id: int, work: Work, at: int, *, again: bool) -> int:
        """GPUs are assigned. Returns when all replicas are up."""
        self.running[attempt_id] = Running(attempt_id, work, at, self._saved.get(job_id, 0), again)
        return at + work.startup

    def up(self, attempt_id: str, at: int) -> Running | None:
        """All replicas run; its exit is planned. None when the attempt is over or being stopped."""
        running = self.running.get(attempt_id)
        if running is None or running.base is not None or running.stopped:
            return None
        running.base = at + (running.work.restart_cost if running.again else 0)
        self._plan_exit(running, running.base + running.work.runtime - running.done, running.work.exit_code)
        return running

    def stop(self, victim: Evict) -> Running | None:
        """It is told to stop: it saves if it can in time, else it is killed. A stop that weighs more comes on top.

        Work that is finished before then counts as done.
        """
        running = self.running.get(victim.attempt_id)
        if running is None:
            return None
        running.stopped = True
        running.given_up = victim.because.reason in FINAL
        exit_at, code, saves_at = self._way_out(running.work, running.base is not None, victim)
        if running.exit_at is None or exit_at < running.exit_at:
            running.saves_at = saves_at
            self._plan_exit(running, exit_at, code)
        return running

    @staticmethod
    def _way_out(work: Work, up: bool, victim: Evict) -> tuple[int, int, int | None]:
        """When a stopped attempt exits, with which code, and when it begins to save, if it does."""
        if not up:
            return victim.warn_at, STOPPED, None  # nothing has been done yet
        in_time = victim.kill_at - victim.warn_at >= work.save_time
        if work.spec.contract.resumable and in_time and victim.because.reason is not Reason.HOST_FAILED:
            return victim.warn_at + work.save_time, STOPPED, victim.warn_at
        return victim.kill_at, KILLED, None

    @staticmethod
    def _plan_exit(running: Running, at: int, code: int) -> None:
        running.exit_at, running.exit_code = at, code
        running.generation += 1

    def exit(self, job_id: int, running: Running, at: int) -> tuple[AttemptExited, int, int]:
        """Its processes are gone: the event, and what of the attempt was lost: (work, restart overhead) in ms.

        What its owner gave up, or let time out, is not lost; what cannot resume and was evicted is, from its beginning.
        """
        del self.running[running.attempt_id]
        finished = running.base is not None and running.progress(at) >= running.work.runtime
        done = finished and running.exit_code == running.work.exit_code
        if running.stopped and not running.given_up and running.work.exit_code:
            done = False  # it failed by itself, but after its warning: it was evicted, and will be run again
        overhead = 0
        if running.again:
            overhead = min(at, running.base if running.base is not None else at) - running.started
        if done:
            self._saved.pop(job_id, None)
            code = running.work.exit_code
            return self._event(running, at, code, done=running.stopped and code == 0), 0, overhead
        saved = self._what_is_saved(running, at)
        self._saved[job_id] = saved
        lost = 0 if running.given_up else running.progress(at) - saved
        return self._event(running, at, running.exit_code), lost, overhead

    @staticmethod
    def _what_is_saved(running: Running, at: int) -> int:
        if not running.work.spec.contract.resumable:
            return 0
        if running.saves_at is not None and at >= running.saves_at + running.work.save_time:
            return max(running.progress(running.saves_at), running.checkpointed(at))
        return running.checkpointed(at)

    @staticmethod
    def _event(running: Running, at: int, code: int, *, done: bool = False) -> AttemptExited:
        return AttemptExited(at, running.attempt_id, ExitKind.EXITED, (code,), done)

    def forget(self, job_id: int) -> None:
        """The job is over."""
        self._saved.pop(job_id, None)
