"""Squatting: jobs that stay on their GPUs when their work is done, until there is something to run again. Times ms."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from tenure.core.model import DAY, GPU, MINUTE, Contract
from tenure.reports.records import JobRow
from tenure.sim.researchers.gaming import Gaming, Trick
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


class Squat(Trick):
    """A charged run goes into a parked job of its size that has nothing to run, else into a new one, which stays.

    A parked job has the contract of its first run and resumes for ever. Nobody leaves more GPUs parked with nothing to
    run than they usually have outstanding. ``idling``: percent of the time for which GPUs seem busy that have nothing
    to run.
    """

    idling = 0

    def __init__(self, home: Gaming) -> None:
        super().__init__(home)
        self.parked: dict[int, list[Parked]] = {}
        """Person -> what they have."""
        self.jobs: dict[int, Parked] = {}
        """By job id, also those that are over."""
        self.sent: dict[int, Parked] = {}
        self.errands: dict[int, Errand] = {}
        self.timers: dict[int, Submit | Errand] = {}

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
        token = self.home.token(self)
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
            token = self.home.token(self)
            self.sent[token] = place
            actions.append(Submit(at, _staying(work), token))
        errand = Errand(self.home.inside(self), work, place)
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
        busy = self.home.measured(at, errand.parked.job_id, 100)
        return [over, *busy, *super().started(at, errand.id, work, waited)]

    def _finish(self, errand: Errand, at: int, state: str) -> Iterable[Action]:
        place = errand.parked
        self._interrupt(errand, at)
        place.errand = None
        del self.errands[errand.id]
        actions: list[Action] = []
        if place.job_id and self._too_many(place.owner):
            actions.append(self._give_back(place, at))
        elif place.up:
            actions += self.home.measured(at, place.job_id, self.idling)
        return [*actions, *super().ended(at, errand.id, errand.work, state)]

    def _too_many(self, owner: int) -> bool:
        """Whether somebody has more parked than they leave parked."""
        usual = max(LEAST, self.honest.people[owner].charged.account.usual)
        stays = self.home.tricks.get(self.home.doing(owner)) is self
        return not stays or sum(one.gpus for one in self.parked[owner] if one.errand is None) > usual

    def _give_back(self, place: Parked, at: int) -> Cancel:
        self.parked[place.owner].remove(place)  # now: nothing may be put into it any more
        return Cancel(at, place.job_id)

    def left(self, at: int, owner: int) -> Iterable[Action]:
        idle = [one for one in self.parked.get(owner, ()) if one.errand is None and one.job_id]
        return [self._give_back(place, at) for place in idle]

    def reaped(self, at: int, job_id: int) -> None:
        place = self.jobs[job_id]
        if place in self.parked[place.owner]:
            self.parked[place.owner].remove(place)

    @staticmethod
    def _interrupt(errand: Errand, at: int) -> None:
        done = errand.progress(at)
        errand.parked.gained += done
        errand.done += done
        errand.since, errand.timer = None, 0

    # ---- the scheduler

    def accepted(self, at: int, token: int, job_id: int, work: Work) -> Iterable[Action]:
        place = self.sent.pop(token)
        place.job_id = job_id
        self.jobs[job_id] = place
        return ()

    def refused(self, at: int, token: int, work: Work, why: str) -> Iterable[Action]:
        return self._gone(self.sent.pop(token), at, "failed")

    def started(self, at: int, job_id: int, work: Work, waited: int) -> Iterable[Action]:
        place = self.jobs[job_id]
        place.up = True
        if place.errand is not None:
            return self._go(place.errand, at, waited)
        return self.home.measured(at, job_id, self.idling)

    def requeued(self, at: int, job_id: int, work: Work) -> Iterable[Action]:
        place = self.jobs[job_id]
        place.up = False
        self.home.measured(at, job_id, None)
        errand = place.errand
        if errand is None or errand.since is None:
            return ()
        if errand.work.spec.contract.resumable:
            self._interrupt(errand, at)
            return super().requeued(at, errand.id, errand.work)
        errand.since = None
        return self._finish(errand, at, "preempted")

    def ended(self, at: int, job_id: int, work: Work, state: str) -> Iterable[Action]:
        self.home.measured(at, job_id, None)
        return self._gone(self.jobs[job_id], at, state)

    def _gone(self, place: Parked, at: int, state: str) -> Iterable[Action]:
        if place in self.parked[place.owner]:
            self.parked[place.owner].remove(place)
        place.up, place.job_id = False, 0
        return self._finish(place.errand, at, state) if place.errand is not None else ()

    def useful(self, row: JobRow, until: int) -> int:
        place = self.jobs[row.id]
        running = place.errand.progress(until) if place.errand is not None and place.job_id else 0
        return (place.gained + running) * place.gpus * GPU


class IdleLoop(Squat):
    """Squatters who keep their parked GPUs busy with a loop, so that they seem to work."""

    idling = 98


def _staying(work: Work) -> Work:
    """The job that a run is put into."""
    spec = replace(work.spec, contract=Contract(work.spec.contract.min_runtime, True), timeout=None, grace=5 * MINUTE)
    return replace(
        work, spec=spec, kind="parked", runtime=FOR_EVER, exit_code=0, checkpoint_every=10 * MINUTE, restart_cost=0
    )
