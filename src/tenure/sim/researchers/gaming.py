"""A lab in which people behave in several ways. Everybody stays who they are: a trick changes what is submitted, not
what is wanted.

The people behind it are the honest ones, with the same draws. A trick stands between them and the scheduler. Times ms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from random import Random
from typing import Any

from tenure.core.model import HOUR
from tenure.reports.records import JobRow, Run, hours
from tenure.reports.waits import percentile
from tenure.sim.researchers.deals import Deals
from tenure.sim.researchers.lab import Lab
from tenure.sim.researchers.people import places
from tenure.sim.researchers.plans import Part
from tenure.sim.researchers.reaper import Reaper
from tenure.sim.researchers.workload import Researchers
from tenure.sim.work import Action, Cancel, Submit, Wake, Work

INSIDE = 1 << 40
"""From here on a job id is one that only its owner knows: no scheduler counts so far."""
HONEST = "honest"
"""What those do who do no trick."""


def drawn(lab: Lab, shares: Mapping[str, float]) -> dict[int, str]:
    """Person -> the trick that they do: every tenth, say, budget by budget, from a person on that the seed draws.

    Of several tricks each takes its part of those whom the ones before it have left; the first has the same people
    whatever it is.

    Raises ValueError unless the shares are parts of all people, together at most 1.
    """
    for name, share in shares.items():
        if not 0 <= share <= 1:
            raise ValueError(f"{name}: {share:g} is no part of the people: it is from 0 to 1")
    if sum(shares.values()) > 1 + 1e-9:
        raise ValueError(f"{', '.join(shares)} are {sum(shares.values()):.1%} of the people: at most 100 % together")
    everybody = len(places(lab))
    left, found = list(range(everybody)), dict[int, str]()
    for i, (name, share) in enumerate(shares.items()):
        first = Random(f"{lab.seed}/gaming/{i}" if i else f"{lab.seed}/gaming").random()
        part = min(1.0, share * everybody / len(left)) if left else 0.0
        for k, number in enumerate(left):
            if int((k + 1) * part + first) > int(k * part + first):
                found[number] = name
        left = [number for number in left if number not in found]
    return found


def names_of(lab: Lab, shares: Mapping[str, float]) -> dict[str, list[str]]:
    """Trick -> the names of those who do it, in the order of their numbers."""
    where, found = places(lab), {name: list[str]() for name in shares}
    for number, name in sorted(drawn(lab, shares).items()):
        found[name].append(f"{where[number].budget.rpartition('/')[2]}-{number:03d}")
    return found


class Trick:
    """One way to behave. As it is here nobody does anything but what they would do anyway.

    ``submits``, ``cancels`` and ``woken`` are what it does for those who do it; the others hear what becomes of jobs
    that it submitted with tokens of its own, and tell ``home`` what an owner sees of that.
    """

    def __init__(self, home: Gaming) -> None:
        """Raises ValueError where it cannot be done."""
        self.home = home
        self.honest = home.honest

    def submits(self, submit: Submit) -> Iterable[Action]:
        """What becomes of a submission of somebody who does it."""
        return (submit,)

    def cancels(self, at: int, inside: int) -> Iterable[Action]:
        """They give up a job that only they know."""
        return ()

    def woken(self, at: int, token: int) -> Iterable[Action]:
        """A time that the trick has set, by a token of its own."""
        return ()

    def left(self, at: int, owner: int) -> Iterable[Action]:
        """Somebody does it no more. What is under way goes on."""
        return ()

    def reaped(self, at: int, job_id: int) -> None:
        """The site is about to end a job of it, which was idle for too long."""

    def accepted(self, at: int, token: int, job_id: int, work: Work) -> Iterable[Action]:
        return self.home.owner_accepted(at, token, job_id, work)

    def refused(self, at: int, token: int, work: Work, why: str) -> Iterable[Action]:
        return self.home.owner_refused(at, token, work, why)

    def started(self, at: int, job_id: int, work: Work, waited: int) -> Iterable[Action]:
        return self.home.owner_started(at, job_id, work, waited)

    def requeued(self, at: int, job_id: int, work: Work) -> Iterable[Action]:
        return self.home.owner_requeued(at, job_id, work)

    def ended(self, at: int, job_id: int, work: Work, state: str) -> Iterable[Action]:
        return self.home.owner_ended(at, job_id, work, state)

    def useful(self, row: JobRow, until: int) -> int:
        """What was gained by a job of it, amount x ms, until ``until`` at most."""
        return max(0, row.occupied - row.lost)


class Gaming:
    """The ``Workload`` of a lab in which some people do tricks.

    ``makers``: the tricks by name; ``who``: person -> the one that they do. ``counted``: people whose figures are told
    apart, those who do a trick unless others are named. ``reap_idle``: the site ends a job whose GPUs did nothing for
    so long, ms; 0: never. ``tries``: (person, when, how long it waited) of every try that has started, ms.

    Raises ValueError where a trick cannot be done.
    """

    def __init__(
        self,
        lab: Lab,
        makers: Mapping[str, Callable[[Gaming], Trick]],
        who: Mapping[int, str],
        reap_idle: int = 0,
        counted: Iterable[int] | None = None,
    ) -> None:
        self.lab = lab
        self.honest = Researchers(lab)
        self.deals = Deals()
        self.reaper = Reaper(self, reap_idle) if reap_idle else None
        self.tricks = {name: maker(self) for name, maker in makers.items()}
        self.who = {number: name for number, name in who.items() if name != HONEST}
        self.gamers = frozenset(self.who if counted is None else counted)
        self.tries: list[tuple[int, int, int]] = []
        self.tokens = 0
        self.senders: dict[int, Trick] = {}
        """Token of a trick -> the trick."""
        self.alarms: dict[int, Callable[[int], Iterable[Action]]] = {}
        self.jobs: dict[int, Trick] = {}
        """Job id -> the trick that submitted it, also of jobs that are over."""
        self.insides: dict[int, Trick] = {}
        """Ids that only owners know, of jobs that are not over."""
        self.inside_ids = INSIDE

    def doing(self, number: int) -> str:
        """What somebody does now: a trick's name, or ``honest``."""
        return self.who.get(number, HONEST)

    def become(self, at: int, number: int, name: str) -> list[Action]:
        """From now on they do this. What they submitted before stays what it is."""
        old = self.who.pop(number, None)
        if name != HONEST:
            self.who[number] = name
        return [] if old is None else list(self.tricks[old].left(at, number))

    # ---- the protocol

    def begin(self, at: int) -> Iterable[Action]:
        return self.said(self.honest.begin(at))

    def wake(self, at: int, token: int) -> Iterable[Action]:
        if token >= 0:
            return self.said(self.honest.wake(at, token))
        alarm = self.alarms.pop(token, None)
        return alarm(at) if alarm is not None else self.senders.pop(token).woken(at, token)

    def accepted(self, at: int, token: int, job_id: int, work: Work) -> Iterable[Action]:
        trick = self.senders.pop(token, None)
        if trick is None:
            return self.owner_accepted(at, token, job_id, work)
        self.jobs[job_id] = trick
        return trick.accepted(at, token, job_id, work)

    def refused(self, at: int, token: int, work: Work, why: str) -> Iterable[Action]:
        trick = self.senders.pop(token, None)
        hears = self.owner_refused if trick is None else trick.refused
        return hears(at, token, work, why)

    def started(self, at: int, job_id: int, work: Work, waited: int) -> Iterable[Action]:
        trick = self.jobs.get(job_id)
        hears = self.owner_started if trick is None else trick.started
        return hears(at, job_id, work, waited)

    def requeued(self, at: int, job_id: int, work: Work) -> Iterable[Action]:
        trick = self.jobs.get(job_id)
        hears = self.owner_requeued if trick is None else trick.requeued
        return hears(at, job_id, work)

    def ended(self, at: int, job_id: int, work: Work, state: str) -> Iterable[Action]:
        trick = self.jobs.get(job_id)
        hears = self.owner_ended if trick is None else trick.ended
        return hears(at, job_id, work, state)

    # ---- what owners see

    def owner_accepted(self, at: int, token: int, job_id: int, work: Work) -> list[Action]:
        self.deals.asked_for(at, job_id, work.owner, self.honest.sent[token].gpus)
        return self.said(self.honest.accepted(at, token, job_id, work))

    def owner_refused(self, at: int, token: int, work: Work, why: str) -> list[Action]:
        return self.said(self.honest.refused(at, token, work, why))

    def owner_started(self, at: int, job_id: int, work: Work, waited: int) -> list[Action]:
        held = self.honest.held[job_id]
        if held.run.part is Part.TRY and held.stream.charged and held.ran == 0:
            self.tries.append((work.owner, at, at - held.since))
        self.deals.started(at, job_id, work)
        return self.said(self.honest.started(at, job_id, work, waited))

    def owner_requeued(self, at: int, job_id: int, work: Work) -> list[Action]:
        self.deals.requeued(at, job_id, work)
        return self.said(self.honest.requeued(at, job_id, work))

    def owner_ended(self, at: int, job_id: int, work: Work, state: str) -> list[Action]:
        self.insides.pop(job_id, None)
        self.deals.ended(at, job_id, work, state)
        return self.said(self.honest.ended(at, job_id, work, state))

    # ---- figures

    def useful(self, row: JobRow, until: int) -> int:
        """What was gained by a job, amount x ms, until ``until`` at most."""
        trick = self.jobs.get(row.id)
        return max(0, row.occupied - row.lost) if trick is None else trick.useful(row, until)

    def figures(self, run: Run) -> dict[str, Any]:
        """``people``: name -> budget, what they do at the end, whether they are counted, GPU-hours that were useful and
        that they had outstanding. ``tries_p90_s``: of those who are counted (``gamers``), of everybody else (``rest``),
        and of these in the same budgets (``colleagues``) and in ``others``, after the warm-up. ``reaped``: jobs that
        were ended for doing nothing.
        """
        useful: dict[str, int] = {}
        for row in run.jobs:
            useful[row.user] = useful.get(row.user, 0) + self.useful(row, run.until)
        found = {
            person.name: {
                "budget": person.budget,
                "does": self.doing(person.number),
                "counted": person.number in self.gamers,
                "useful": round(hours(useful.get(person.name, 0)), 3),
                "asked": round(self.deals.of(person.number, run.until)[0] / HOUR, 3),
            }
            for person in self.honest.people
        }
        ended = self.reaper.ended if self.reaper is not None else 0
        return {"people": found, "tries_p90_s": self._tries(run.start + run.warmup), "reaped": ended}

    def _tries(self, since: int) -> dict[str, float | None]:
        people = self.honest.people
        theirs = {people[number].budget for number in self.gamers}
        groups: dict[str, list[int]] = {"gamers": [], "rest": [], "colleagues": [], "others": []}
        for who, at, wait in self.tries:
            if at >= since and who in self.gamers:
                groups["gamers"].append(wait)
            elif at >= since:
                groups["rest"].append(wait)
                groups["colleagues" if people[who].budget in theirs else "others"].append(wait)
        found = {name: percentile(sorted(waits), 90) for name, waits in groups.items()}
        return {name: None if wait is None else wait / 1000 for name, wait in found.items()}

    # ---- for tricks

    def said(self, actions: Iterable[Action]) -> list[Action]:
        """What people do, with the tricks of those who do some."""
        out: list[Action] = []
        for action in list(actions):  # all of it first: tricks answer people, who may be at it still
            if isinstance(action, Submit) and action.work.owner in self.who:
                out += self.tricks[self.who[action.work.owner]].submits(action)
            elif isinstance(action, Cancel) and action.job_id >= INSIDE:
                trick = self.insides.get(action.job_id)
                out += trick.cancels(action.at, action.job_id) if trick is not None else ()
            else:
                out.append(action)
        return out

    def token(self, trick: Trick) -> int:
        """A new one of the trick's own: for a submission of its, or for a time that it sets."""
        self.tokens -= 1
        self.senders[self.tokens] = trick
        return self.tokens

    def inside(self, trick: Trick) -> int:
        """A new id of a job as its owner knows it."""
        self.inside_ids += 1
        self.insides[self.inside_ids] = trick
        return self.inside_ids

    def alarm(self, at: int, what: Callable[[int], Iterable[Action]]) -> Wake:
        """Do that at ``at``, ms UTC."""
        self.tokens -= 1
        self.alarms[self.tokens] = what
        return Wake(at, self.tokens)

    def measured(self, at: int, job_id: int, percent: int | None) -> list[Action]:
        """From now on the GPUs of a job do so much; None: it holds none."""
        return self.reaper.measured(at, job_id, percent) if self.reaper is not None else []
