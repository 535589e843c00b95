"""Squatting: jobs that stay on their GPUs when their work is done, until there is something to run again. Times ms."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from tenure.core.model import DAY, GPU, MINUTE, Contract
from tenure.reports.records import JobRow
from tenure.sim.researchers.gaming import INSIDE, Gaming
from tenure.sim.researchers.lab import Lab
from tenure.sim.work import Action, Cancel, Submit, Wake, Work

FOR_EVER = 3650 * DAY
LEAST = 8
"""GPUs that everybody may leave parked, however little they usually have."""


@dataclass(slots=True, eq=False)
class Errand:
    """A run inside a parked job. ``done``: what was saved; ``since``: when it went on, None while it waits."""

    id: int
    work: Work
    parked: Parked
    done: int = 0
    since: int | None = None
    timer: int = 0

    def progress(self, at: int) -> int:
        """Since it went on."""
        return 0 if self.since is None else min(max(0, at - self.since), self.work.runtime - self.done)


@dataclass(slots=True, eq=False)
class Parked:
    """A job that stays. ``gained``: ms for which something ran in it that was not lost."""

    owner: int
    gpus: int
    job_id: int = 0
    up: bool = False
    errand: Errand | None = None
    gained: int = 0


class Squat(Gaming):
    """A charged run goes into a parked job of its size that has nothing to run, else into a new one, which stays.

    A parked job has the contract of its first run and resumes for ever. Nobody leaves more GPUs parked with nothing to
    run than they usually have outstanding.
    """

    def __init__(self, lab: Lab, share: float) -> None:
        super().__init__(lab, share)
        self.parked: dict[int, list[Parked]] = {}
        """Person -> what they have."""
        self.jobs: dict[int, Parked] = {}
        """By job id, also those that are over."""
        self.sent: dict[int, Parked] = {}
        self.errands: dict[int, Errand] = {}
        self.timers: dict[int, Submit | Errand] = {}
        self.count = 0

    # ---- people

    def submits(self, submit: Submit) -> Iterable[Action]:
        if not submit.work.funded:
            return (submit,)
        return (self._at(submit.at, submit),)

    def cancels(self, at: int, inside: int) -> Iterable[Action]:
        errand = self.errands.get(inside)
        return self._finish(errand, at, "cancelled") if errand is not None else ()

    def woken(self, at: int, token: int) -> Iterable[Action]:
        due = self.timers.pop(token)
        if isinstance(due, Submit):
            return self._take(due, at)
        if due.timer != token or due.id not in self.errands:
            return ()
        return self._finish(due, at, "failed" if due.work.exit_code else "succeeded")

    def _at(self, at: int, what: Submit | Errand) -> Wake:
        token = self.token()
        if isinstance(what, Errand):
            what.timer = token
        self.timers[token] = what
        return Wake(at, token)

    def _take(self, submit: Submit, at: int) -> Iterable[Action]:
        """A run finds its place."""
        work, mine = submit.work, self.parked.setdefault(submit.work.owner, [])
        fitting = [one for one in mine if one.errand is None and one.gpus == work.spec.gpus]
        place = max(fitting, key=lambda one: one.up, default=None)
        actions: list[Action] = []
        if place is None:
            place = Parked(work.owner, work.spec.gpus)
            mine.append(place)
            token = self.token()
            self.sent[token] = place
            actions.append(Submit(at, _staying(work), token))
        self.count += 1
        errand = Errand(INSIDE + self.count, work, place)
        place.errand = self.errands[errand.id] = errand
        actions += super().accepted(at, submit.token, errand.id, work)
        if place.up:
            actions += self._go(errand, at, 0)
        return actions

    def _go(self, errand: Errand, at: int, waited: int) -> list[Action]:
        """It runs: its place has GPUs."""
        work = errand.work
        errand.since = at + work.startup + (work.restart_cost if errand.done else 0)
        over = self._at(errand.since + work.runtime - errand.done, errand)
        return [over, *super().started(at, errand.id, work, waited)]

    def _finish(self, errand: Errand, at: int, state: str) -> Iterable[Action]:
        place = errand.parked
        self._interrupt(errand, at)
        place.errand = None
        del self.errands[errand.id]
        usual = max(LEAST, self.honest.people[place.owner].charged.account.usual)
        free = sum(one.gpus for one in self.parked[place.owner] if one.errand is None)
        actions: list[Action] = []
        if free > usual and place.job_id:
            self.parked[place.owner].remove(place)  # now: nothing may be put into it any more
            actions.append(Cancel(at, place.job_id))
        return [*actions, *super().ended(at, errand.id, errand.work, state)]

    @staticmethod
    def _interrupt(errand: Errand, at: int) -> None:
        done = errand.progress(at)
        errand.parked.gained += done
        errand.done += done
        errand.since, errand.timer = None, 0

    # ---- the scheduler

    def accepted(self, at: int, token: int, job_id: int, work: Work) -> Iterable[Action]:
        place = self.sent.pop(token, None)
        if place is None:
            return super().accepted(at, token, job_id, work)
        place.job_id = job_id
        self.jobs[job_id] = place
        return ()

    def refused(self, at: int, token: int, work: Work, why: str) -> Iterable[Action]:
        place = self.sent.pop(token, None)
        return super().refused(at, token, work, why) if place is None else self._gone(place, at, "failed")

    def started(self, at: int, job_id: int, work: Work, waited: int) -> Iterable[Action]:
        place = self.jobs.get(job_id)
        if place is None:
            return super().started(at, job_id, work, waited)
        place.up = True
        return self._go(place.errand, at, waited) if place.errand is not None else ()

    def requeued(self, at: int, job_id: int, work: Work) -> Iterable[Action]:
        place = self.jobs.get(job_id)
        if place is None:
            return super().requeued(at, job_id, work)
        place.up = False
        errand = place.errand
        if errand is None or errand.since is None:
            return ()
        if errand.work.spec.contract.resumable:
            self._interrupt(errand, at)
            return super().requeued(at, errand.id, errand.work)
        errand.since = None
        return self._finish(errand, at, "preempted")

    def ended(self, at: int, job_id: int, work: Work, state: str) -> Iterable[Action]:
        place = self.jobs.get(job_id)
        return super().ended(at, job_id, work, state) if place is None else self._gone(place, at, state)

    def _gone(self, place: Parked, at: int, state: str) -> Iterable[Action]:
        if place in self.parked[place.owner]:
            self.parked[place.owner].remove(place)
        place.up, place.job_id = False, 0
        return self._finish(place.errand, at, state) if place.errand is not None else ()

    def useful(self, row: JobRow, until: int) -> int:
        place = self.jobs.get(row.id)
        if place is None:
            return super().useful(row, until)
        running = place.errand.progress(until) if place.errand is not None and place.job_id else 0
        return (place.gained + running) * place.gpus * GPU


def _staying(work: Work) -> Work:
    """The job that a run is put into."""
    spec = replace(work.spec, contract=Contract(work.spec.contract.min_runtime, True), timeout=None, grace=5 * MINUTE)
    return replace(
        work, spec=spec, kind="parked", runtime=FOR_EVER, exit_code=0, checkpoint_every=10 * MINUTE, restart_cost=0
    )
