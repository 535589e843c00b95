"""A lab in which some people game. Everybody stays who they are: a trick changes what is submitted, not what is wanted.

The people behind it are the honest ones, with the same draws. A trick stands between them and the scheduler. Times ms.
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

from tenure.reports.records import JobRow
from tenure.sim.researchers.lab import Lab
from tenure.sim.researchers.people import places
from tenure.sim.researchers.plans import Part
from tenure.sim.researchers.workload import Researchers
from tenure.sim.work import Action, Cancel, Submit, Work

INSIDE = 1 << 40
"""From here on a job id is one that only its owner knows: no scheduler counts so far."""


def gamers_of(lab: Lab, share: float) -> frozenset[int]:
    """The numbers of those who game: every tenth, say, budget by budget, from a person on that the seed draws.

    Raises ValueError unless ``share`` is a part of all.
    """
    if not 0 <= share <= 1:
        raise ValueError(f"{share:g} is no part of the people: it is from 0 to 1")
    first = Random(f"{lab.seed}/gaming").random()
    count = len(places(lab))
    return frozenset(n for n in range(count) if int((n + 1) * share + first) > int(n * share + first))


def names_of(lab: Lab, share: float) -> list[str]:
    """Their names, in the order of their numbers."""
    where = places(lab)
    return [f"{where[number].budget.rpartition('/')[2]}-{number:03d}" for number in sorted(gamers_of(lab, share))]


class Gaming:
    """The ``Workload``. As it is here nobody does anything but what they would do anyway.

    ``tries``: (person, when, how long it waited) of every try that has started, ms.
    """

    def __init__(self, lab: Lab, share: float) -> None:
        self.honest = Researchers(lab)
        self.gamers = gamers_of(lab, share)
        self.tries: list[tuple[int, int, int]] = []
        self.tokens = 0
        self.since: dict[int, tuple[int, int]] = {}
        """Job id, as its owner knows it -> its owner, when it was asked for."""
        self.over: dict[int, int] = {}
        """Person -> GPU-ms that their jobs which are over waited and ran."""

    # ---- the protocol

    def begin(self, at: int) -> Iterable[Action]:
        return self.said(self.honest.begin(at))

    def wake(self, at: int, token: int) -> Iterable[Action]:
        return self.woken(at, token) if token < 0 else self.said(self.honest.wake(at, token))

    def accepted(self, at: int, token: int, job_id: int, work: Work) -> Iterable[Action]:
        self.since[job_id] = work.owner, at
        return self.said(self.honest.accepted(at, token, job_id, work))

    def refused(self, at: int, token: int, work: Work, why: str) -> Iterable[Action]:
        return self.said(self.honest.refused(at, token, work, why))

    def started(self, at: int, job_id: int, work: Work, waited: int) -> Iterable[Action]:
        held = self.honest.held[job_id]
        if held.run.part is Part.TRY and held.stream.charged and held.ran == 0:
            self.tries.append((work.owner, at, at - held.since))
        return self.said(self.honest.started(at, job_id, work, waited))

    def requeued(self, at: int, job_id: int, work: Work) -> Iterable[Action]:
        return self.said(self.honest.requeued(at, job_id, work))

    def ended(self, at: int, job_id: int, work: Work, state: str) -> Iterable[Action]:
        owner, since = self.since.pop(job_id)
        self.over[owner] = self.over.get(owner, 0) + self.honest.held[job_id].gpus * (at - since)
        return self.said(self.honest.ended(at, job_id, work, state))

    # ---- what tricks change

    def submits(self, submit: Submit) -> Iterable[Action]:
        """What becomes of a submission of somebody who games."""
        return (submit,)

    def cancels(self, at: int, inside: int) -> Iterable[Action]:
        """They give up a job that only they know."""
        return ()

    def woken(self, at: int, token: int) -> Iterable[Action]:
        """A time that the trick has set, by a token below 0."""
        return ()

    def useful(self, row: JobRow, until: int) -> int:
        """What was gained by a job, amount x ms, until ``until`` at most."""
        return max(0, row.occupied - row.lost)

    def asked(self, until: int) -> dict[int, int]:
        """Person -> GPU-ms that they had outstanding, waiting or running: each run once, however it was submitted."""
        found = dict(self.over)
        for job_id, (owner, since) in self.since.items():
            found[owner] = found.get(owner, 0) + self.honest.held[job_id].gpus * (until - since)
        return found

    # ---- helpers

    def said(self, actions: Iterable[Action]) -> list[Action]:
        """What people do, with the tricks of those who game."""
        out: list[Action] = []
        for action in list(actions):  # all of it first: tricks answer people, who may be at it still
            if isinstance(action, Submit) and action.work.owner in self.gamers:
                out += self.submits(action)
            elif isinstance(action, Cancel) and action.job_id >= INSIDE:
                out += self.cancels(action.at, action.job_id)
            else:
                out.append(action)
        return out

    def token(self) -> int:
        """A new one of the trick's own."""
        self.tokens -= 1
        return self.tokens
