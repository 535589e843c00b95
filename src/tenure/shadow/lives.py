"""From what was seen of jobs, look by look, to what became of each: when it was submitted, ran, and ended."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tenure.shadow.seen import Seen


@dataclass(slots=True)
class Run:
    """One run under Slurm. Seconds since 1970; ``ended`` 0: it goes on. ``guessed``: nobody saw its end."""

    started: int
    ended: int = 0
    hosts: str = ""
    guessed: bool = False


@dataclass(slots=True)
class Life:
    """One job. ``key``: its id in Slurm, with a number where Slurm gave the id again. ``last``: how it was seen last.

    ``submitted``: first. ``eligible``: since when nothing but resources and its turn kept it from starting, 0 while
    something else did. ``gave_up``: when it ended without a run, or while it waited for another one; 0: it did not.
    """

    key: str
    last: Seen
    submitted: int
    eligible: int
    runs: list[Run] = field(default_factory=list)
    gave_up: int = 0

    @property
    def over(self) -> bool:
        return self.gave_up > 0 or (self.last.over and not self.last.again)

    @property
    def running(self) -> Run | None:
        return self.runs[-1] if self.runs and not self.runs[-1].ended else None


class Lives:
    """All jobs ever seen, in the order in which they were seen first."""

    def __init__(self) -> None:
        self.all: list[Life] = []
        self.by_id: dict[str, Life] = {}
        """The latest of each id."""
        self._times_given: dict[str, int] = {}

    def live(self) -> dict[str, Life]:
        """Those that are not over."""
        return {id: life for id, life in self.by_id.items() if not life.over}

    def see(self, at: int, seen: Seen) -> Life:
        """``seen`` is how a job looks at ``at`` (seconds since 1970)."""
        life = self.by_id.get(seen.id)
        if life is None or _another(life, seen):
            times = self._times_given[seen.id] = self._times_given.get(seen.id, 0) + 1
            key = seen.id if times == 1 else f"{seen.id}#{times}"
            life = Life(key, seen, seen.submitted or at, 0)
            self.all.append(life)
            self.by_id[seen.id] = life
        life.last = _fuller(life.last, seen)
        if not life.runs:
            life.submitted = min(life.submitted, seen.submitted or life.submitted)
            life.eligible = seen.eligible
        if seen.started and seen.hosts:
            _ran(life, at, seen)
        elif seen.waits and life.running is not None:
            # Requeued: its submission is anew from that moment on.
            _end(life.running, seen.submitted or at)
        if seen.over and not seen.again and not (seen.started and seen.hosts):
            life.gave_up = seen.ended or at
        return life

    def gone(self, at: int, id: str) -> Life | None:
        """Slurm does not show it any more at ``at``, and nobody knows when it ended."""
        life = self.by_id.get(id)
        if life is None or life.over:
            return None
        if life.running is not None:
            _end(life.running, at)
            life.runs[-1].guessed = True
        # What was ended by others and never came back has ended with its run.
        life.gave_up = life.runs[-1].ended if life.last.again and life.runs else at
        return life


def _another(life: Life, seen: Seen) -> bool:
    """Whether Slurm gave the id to somebody else's job, or ran one that was over anew."""
    if (life.last.user, life.last.account) != (seen.user, seen.account):
        return True
    if life.gave_up and not life.runs:
        return seen.submitted > life.gave_up
    return life.over and seen.submitted > (life.runs[-1].ended if life.runs else life.submitted)


def _ran(life: Life, at: int, seen: Seen) -> None:
    run = next((run for run in life.runs if run.started == seen.started), None)
    if run is None:
        if life.runs and seen.started < life.runs[-1].started:
            return  # an older run that was not seen in its time
        if life.running is not None:
            _end(life.running, min(seen.started, at))
        run = Run(seen.started)
        life.runs.append(run)
    run.hosts = seen.hosts
    life.eligible = life.eligible or seen.eligible
    if seen.ended and not seen.live:
        run.ended, run.guessed = max(seen.ended, run.started), False


def _end(run: Run, at: int) -> None:
    run.ended = max(at, run.started)


def _fuller(before: Seen, now: Seen) -> Seen:
    """As it is now, with what only the queue shows, and accounting does not."""
    if before is now:
        return now
    return replace(
        now,
        least=now.least or before.least,
        requeue=now.requeue if now.requeue >= 0 else before.requeue,
        gpus=now.gpus or before.gpus,
        cpus=now.cpus or before.cpus,
        mem=now.mem or before.mem,
        features=now.features or before.features,
        mark=now.mark or before.mark,
        comment=now.comment or before.comment,
        qos=now.qos or before.qos,
    )
