"""The synthetic researchers as a workload: people who submit, wait, look again, give up and go home. Times ms UTC."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from math import log

from tenure.core.model import SECOND
from tenure.sim.researchers.lab import Lab
from tenure.sim.researchers.people import Held, Hiring, Person, Stream
from tenure.sim.researchers.plans import End, Part, Run
from tenure.sim.work import Action, Cancel, Submit, Wake, Work

DAY_BEGINS, CHARGED, FREE, STOP = range(4)
"""What a wake is for: the last two bits of its token. The rest is the person's number, or the job's for STOP."""


class Researchers:
    """The ``Workload`` of a synthetic lab. Everybody draws from a generator of their own."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.habits = lab.habits
        self.people: list[Person] = []
        self.held: dict[int, Held] = {}
        self.sent: dict[int, Held] = {}
        """Token -> submitted, not yet accepted."""
        self.tokens = 0
        self.refusals = 0

    @property
    def outstanding(self) -> tuple[int, int]:
        """GPUs that charged and unallocated jobs hold or wait for."""
        return (
            sum(p.charged.account.outstanding for p in self.people),
            sum(p.free.account.outstanding for p in self.people),
        )

    # ---- the protocol

    def begin(self, at: int) -> Iterable[Action]:
        self.people = Hiring(self.lab, at).people()
        actions: list[Action] = []
        for person in self.people:
            for stream in (person.charged, person.free):
                actions += self._going_on(person, stream, at)
            actions.append(self._next_day(person, at))
        return actions

    def wake(self, at: int, token: int) -> Iterable[Action]:
        number, purpose = divmod(token, 4)
        if purpose == STOP:
            held = self.held.get(number)
            return (Cancel(at, number),) if held is not None and held.cancel_at == at else ()
        person = self.people[number]
        if purpose == DAY_BEGINS:
            return self._day(person, at)
        stream = person.charged if purpose == CHARGED else person.free
        if stream.wake_at != at:
            return ()
        stream.wake_at = -1
        return self._turn_to(person, stream, at)

    def accepted(self, at: int, token: int, job_id: int, work: Work) -> Iterable[Action]:
        held = self.held[job_id] = self.sent.pop(token)
        self.people[work.owner].waiting[job_id] = held
        return ()

    def refused(self, at: int, token: int, work: Work, why: str) -> Iterable[Action]:
        self.refusals += 1
        held = self.sent.pop(token)
        self._count(held.stream, at, -held.gpus)
        held.stream.open -= held.in_step
        held.stream.plan = None
        return ()

    def started(self, at: int, job_id: int, work: Work, waited: int) -> Iterable[Action]:
        held = self.held[job_id]
        person = self.people[work.owner]
        person.waiting.pop(job_id, None)
        held.started = at
        if held.stream.charged and held.run.part is not Part.TRY:
            self._feel(person, waited)
        if held.run.end is not End.CANCELLED:
            return ()
        held.cancel_at = _second(at + held.startup + max(0, held.run.duration - held.ran))
        return (Wake(held.cancel_at, job_id * 4 + STOP),)

    def requeued(self, at: int, job_id: int, work: Work) -> Iterable[Action]:
        held = self.held[job_id]
        if held.started is not None:
            held.ran += max(0, at - held.started - held.startup)
        held.started, held.cancel_at, held.since = None, -1, at
        self.people[work.owner].waiting[job_id] = held
        return ()

    def ended(self, at: int, job_id: int, work: Work, state: str) -> Iterable[Action]:
        held = self.held.pop(job_id)
        person, stream = self.people[work.owner], held.stream
        person.waiting.pop(job_id, None)
        self._count(stream, at, -held.gpus)
        if held.in_step:
            stream.open -= 1
        self._react(person, held, state)
        if stream.open:
            return ()
        if held.in_step:
            pause = self.habits.pause * (1 if held.run.part is Part.TRY else 3)
            return self._come_back(person, stream, at, pause)
        if stream.wake_at < 0 and (stream.again or stream.account.outstanding < self._target(stream, at)):
            return self._come_back(person, stream, at, self.habits.think // 2)
        return ()

    # ---- a day

    def _next_day(self, person: Person, at: int) -> Wake:
        """When somebody next sits down to work."""
        begin, end = person.calendar.next(at)
        if begin <= at:
            begin, end = person.calendar.next(end)
        return Wake(self._settled(person, begin, end), person.number * 4 + DAY_BEGINS)

    def _day(self, person: Person, at: int) -> list[Action]:
        """Give up what waited too long, and look after both kinds of work."""
        actions: list[Action] = []
        for job_id, held in person.waiting.items():
            if at - held.since > held.patience and not held.given_up:
                held.given_up = True
                actions.append(Cancel(at, job_id))
                if held.stream.charged and held.run.part is not Part.TRY:
                    person.shrink = min(2, person.shrink + 1)
        for stream in (person.charged, person.free):
            if stream.wake_at < 0 and not stream.open:
                actions += self._turn_to(person, stream, at)
        actions.append(self._next_day(person, at))
        return actions

    def _settled(self, person: Person, begin: int, end: int) -> int:
        """A time soon after work begins."""
        after = min(person.rng.expovariate(1 / max(1, self.lab.rhythm.settle)), (end - begin) * 0.9)
        return _second(begin + int(after))

    def _come_back(self, person: Person, stream: Stream, at: int, median: int) -> tuple[Wake]:
        """Turn to a stream again after a pause, in working time."""
        rng = person.rng
        when = at + max(SECOND, int(rng.lognormvariate(log(median), 0.8)))
        if rng.random() >= self.lab.rhythm.night:
            begin, end = person.calendar.next(when)
            when = self._settled(person, begin, end) if begin > when else when
        stream.wake_at = _second(when)
        return (Wake(stream.wake_at, person.number * 4 + (CHARGED if stream.charged else FREE)),)

    # ---- demand

    def _target(self, stream: Stream, at: int) -> float:
        return stream.account.usual * stream.team.season(at) * stream.interest.level(at)[0]

    def _count(self, stream: Stream, at: int, gpus: int) -> None:
        """Book the time since the last change, then the change, for the person, the team and the lab."""
        team = stream.team
        if stream.charged:
            season = team.season(at)
            stream.account.pass_time(at, season, self.habits.rest_max)
            team.account.pass_time(at, season, self.habits.rest_max)
        stream.account.outstanding += gpus
        team.account.outstanding += gpus
        team.lab.outstanding += gpus

    def _room(self, stream: Stream, at: int, gpus: int) -> bool:
        """Whether somebody may add a launch. Within their target always. Beyond it only when they are below it, and the
        lab asks for less than usual; unless it asks for much less, they and their team have to be rested as well.
        """
        self._count(stream, at, 0)
        target, mine, team, lab = self._target(stream, at), stream.account, stream.team.account, stream.team.lab
        if mine.outstanding + gpus <= target:
            return True
        if mine.outstanding >= target or lab.outstanding >= lab.usual:
            return False
        if lab.outstanding < self.habits.slack * lab.usual:
            return True
        rested = not stream.charged or (mine.credit >= 0 and team.credit >= 0)
        return rested and team.outstanding < team.usual * stream.team.season(at)

    # ---- launching

    def _going_on(self, person: Person, stream: Stream, at: int) -> Iterator[Action]:
        """What is there at the beginning: launches on their way, submitted within two hours."""
        rng, target = person.rng, self._target(stream, at)
        while True:
            kind = stream.running.draw(rng)
            step = person.planner.launch(rng, kind, stream.charged)
            gpus = sum(run.gpus for run in step)
            if rng.random() * gpus > target - stream.account.outstanding:
                return
            yield from self._submit(person, stream, at, step, delay=rng.randrange(7200) * SECOND)
            if stream.account.outstanding > target:
                stream.account.credit = 0.0  # what is too large is only beginning

    def _turn_to(self, person: Person, stream: Stream, at: int) -> Iterable[Action]:
        """The next step of what somebody is at, if there is room for it."""
        actions: list[Action] = []
        if stream.again:
            actions += self._submit(person, stream, at, tuple(stream.again))
            stream.again.clear()
        if stream.plan is None:
            stream.plan = person.planner.plan(person.rng, stream.kinds.draw(person.rng), stream.charged)
        step = stream.plan.steps[0]
        first = step[0]
        if first.part is not Part.TRY:
            if person.shrink and person.smaller:
                step = tuple(_smaller(run, person.shrink, self.habits.large_max) for run in step)
            if not self._room(stream, at, sum(run.gpus for run in step)):
                return actions
        stream.plan.steps.popleft()
        waits = bool(stream.plan.steps)
        actions += self._submit(person, stream, at, step, waits=waits)
        if not waits:
            stream.plan = None
            lab = stream.team.lab
            behind = stream.account.outstanding < self._target(stream, at) / 2 or lab.outstanding < lab.usual / 2
            median = self.habits.think // (1 if not behind else 4 if stream.charged else 20)
            actions += self._come_back(person, stream, at, median)
        return actions

    def _submit(
        self, person: Person, stream: Stream, at: int, step: tuple[Run, ...], *, waits: bool = False, delay: int = 0
    ) -> Iterator[Action]:
        """Jobs of one step, ``delay`` ms from now. ``waits``: the plan goes on when they have ended."""
        rng = person.rng
        for run in step:
            work = person.signer.work(rng, run, stream.charged, 0 if person.smaller else person.shrink)
            median = self.habits.try_patience if run.part is Part.TRY else self.habits.patience
            patience = int(rng.lognormvariate(log(median), 0.6))
            gpus = work.spec.gpus
            held = Held(stream, run, gpus, work.startup, at + delay, patience, waits)
            self._count(stream, at, gpus)
            stream.open += waits
            self.tokens += 1
            self.sent[self.tokens] = held
            yield Submit(at + delay, work, self.tokens)

    # ---- reactions

    def _feel(self, person: Person, waited: int) -> None:
        if waited > self.habits.long_wait:
            person.shrink = min(2, person.shrink + 1)
        elif waited < self.habits.short_wait and person.shrink:
            person.shrink -= 1

    def _react(self, person: Person, held: Held, state: str) -> None:
        """What becomes of the plan when a job is over."""
        stream, run, rng = held.stream, held.run, person.rng
        if held.given_up:
            if stream.plan is not None and held.in_step and rng.random() < 0.5:
                stream.plan = None
        elif state == "preempted" or (state == "failed" and run.end is not End.FAILED):
            if held.in_step and stream.plan is not None:
                stream.plan.steps.appendleft((run,))
            else:
                stream.again.append(run)
        elif (
            run.part is Part.REAL
            and stream.charged
            and stream.plan is None
            and (state == "timed_out" or (state == "failed" and run.duration > self.habits.try_max))
            and rng.random() < self.habits.mend
        ):
            stream.plan = person.planner.mended(rng, run)


def _smaller(run: Run, shrink: int, longest: int) -> Run:
    """The same work on fewer GPUs, unless that takes longer than anybody runs anything."""
    gpus = max(1, run.gpus >> shrink)
    times = run.gpus // gpus
    duration = max(run.duration, min(run.duration * times, longest))
    return replace(run, gpus=gpus, duration=duration, planned=max(duration, run.planned * times))


def _second(at: int) -> int:
    """Rounded up to a whole second."""
    return -(-at // SECOND) * SECOND
