"""Tricks that make a chain of jobs from one run: each job does a piece and leaves the rest to the next. Times ms."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, replace

from tenure.core.model import GPU, MINUTE
from tenure.reports.records import JobRow
from tenure.sim.researchers.contracts import QUARTER
from tenure.sim.researchers.gaming import Gaming, Trick
from tenure.sim.work import Action, Cancel, Insists, Submit, Wake, Work


@dataclass(slots=True)
class Chain:
    """A run. ``work``: as an honest owner would submit it. ``done``: saved by the links before this one."""

    id: int
    token: int
    work: Work
    done: int = 0
    links: int = 0
    job_id: int = 0
    """The present link, 0 while it is being submitted."""
    piece: int = 0
    """What of the run the present link does."""
    reload: int = 0
    """What it repeats first."""
    kept: int = 0
    """Of its own work, what was saved when it was last interrupted."""
    again: bool = False
    dropped: bool = False
    begun: int | None = None
    timer: int = 0
    """The time that the trick has set for it; 0 for none."""


class Chains(Trick, ABC):
    """What both tricks share. Runs that cannot resume, are short or are not charged are submitted as they are."""

    def __init__(self, home: Gaming) -> None:
        super().__init__(home)
        self.chains: dict[int, Chain] = {}
        """By the id that their owner knows."""
        self.sent: dict[int, Chain] = {}
        self.links: dict[int, Chain] = {}
        """By job id: the present links."""
        self.timers: dict[int, Chain] = {}
        self.idle: dict[int, int] = {}
        """Job id -> ms that a link spends on what the chain costs: loading what the one before it saved, saving."""

    @abstractmethod
    def link(self, chain: Chain) -> Work:
        """The next job of a chain, and what it does of it."""

    def begun(self, chain: Chain, at: int) -> Iterable[Action]:
        """The present link got GPUs."""
        return ()

    # ---- people

    def submits(self, submit: Submit) -> Iterable[Action]:
        work = submit.work
        if not (work.funded and work.spec.contract.resumable and work.runtime > QUARTER):
            return (submit,)
        return self._next(Chain(self.home.inside(self), submit.token, work), submit.at)

    def cancels(self, at: int, inside: int) -> Iterable[Action]:
        chain = self.chains.get(inside)
        if chain is None:
            return ()
        chain.dropped = True
        return (Cancel(at, chain.job_id),) if chain.job_id else ()

    def _next(self, chain: Chain, at: int) -> Iterable[Action]:
        chain.job_id, chain.kept, chain.again, chain.begun = 0, 0, False, None
        chain.reload = chain.work.restart_cost if chain.links else 0
        work = self.link(chain)
        chain.links += 1
        token = self.home.token(self)
        self.sent[token] = chain
        return (Submit(at, work, token),)

    # ---- the scheduler

    def accepted(self, at: int, token: int, job_id: int, work: Work) -> Iterable[Action]:
        chain = self.sent.pop(token)
        chain.job_id = job_id
        self.links[job_id] = chain
        self.idle[job_id] = work.runtime - chain.piece
        if chain.links > 1:
            return (Cancel(at, job_id),) if chain.dropped else ()
        self.chains[chain.id] = chain
        return super().accepted(at, chain.token, chain.id, chain.work)

    def refused(self, at: int, token: int, work: Work, why: str) -> Iterable[Action]:
        chain = self.sent.pop(token)
        if chain.links == 1:
            return super().refused(at, chain.token, chain.work, why)
        return self._over(chain, at, "failed")

    def started(self, at: int, job_id: int, work: Work, waited: int) -> Iterable[Action]:
        chain = self.links.get(job_id)
        if chain is None:
            return ()
        chain.begun = at
        return [*super().started(at, chain.id, chain.work, waited), *self.begun(chain, at)]

    def requeued(self, at: int, job_id: int, work: Work) -> Iterable[Action]:
        chain = self.links.get(job_id)
        if chain is None:
            return ()
        every = work.checkpoint_every
        chain.kept = self.progress(chain, at) // every * every if every else 0
        chain.again, chain.begun = True, None
        return super().requeued(at, chain.id, chain.work)

    def ended(self, at: int, job_id: int, work: Work, state: str) -> Iterable[Action]:
        chain = self.links.pop(job_id, None)
        if chain is None:  # its chain went on without it
            return ()
        if state == "succeeded" and not chain.dropped and chain.done + chain.piece < chain.work.runtime:
            return self.go_on(chain, at, chain.piece)
        return self._over(chain, at, state)

    def go_on(self, chain: Chain, at: int, done: int) -> list[Action]:
        """The next link, after ``done`` more of the run. To its owner the run waits again."""
        chain.done += done
        return [*super().requeued(at, chain.id, chain.work), *self._next(chain, at)]

    def progress(self, chain: Chain, at: int) -> int:
        """What the present link has done, what it repeats included."""
        if chain.begun is None:
            return chain.kept
        overhead = chain.work.startup + (chain.work.restart_cost if chain.again else 0)
        return chain.kept + max(0, at - chain.begun - overhead)

    def _over(self, chain: Chain, at: int, state: str) -> Iterable[Action]:
        del self.chains[chain.id]
        return super().ended(at, chain.id, chain.work, state)

    def useful(self, row: JobRow, until: int) -> int:
        return max(0, super().useful(row, until) - self.idle.get(row.id, 0) * row.gpus * GPU)


LIMITED = Insists(limit=2 * QUARTER)
"""Where time limits decide who fits in, links name a short one; it has room for a link that has to start again."""


class Split(Chains):
    """Every link is as long as a contract of 15 minutes protects: it loads, does its piece, saves and is done."""

    def link(self, chain: Chain) -> Work:
        work, left = chain.work, chain.work.runtime - chain.done
        room = max(MINUTE, QUARTER - chain.reload - work.save_time)
        last = left <= room + work.save_time
        chain.piece = left if last else room
        contract = replace(work.spec.contract, min_runtime=QUARTER)
        return replace(
            work,
            spec=replace(work.spec, contract=contract),
            runtime=chain.reload + chain.piece + (0 if last else work.save_time),
            exit_code=work.exit_code if last else 0,
            insists=LIMITED,
        )


class Renew(Chains):
    """A link is cancelled when its protection ends; the rest is submitted in the same moment, with a new one."""

    def link(self, chain: Chain) -> Work:
        chain.piece = chain.work.runtime - chain.done
        return replace(chain.work, runtime=chain.reload + chain.piece)

    def begun(self, chain: Chain, at: int) -> Iterable[Action]:
        chain.timer = self.home.token(self)
        self.timers[chain.timer] = chain
        return (Wake(at + chain.work.startup + chain.work.spec.contract.min_runtime, chain.timer),)

    def woken(self, at: int, token: int) -> Iterable[Action]:
        chain = self.timers.pop(token)
        if chain.timer != token or chain.begun is None or chain.dropped or chain.job_id not in self.links:
            return ()
        done = self.progress(chain, at) - chain.reload
        if done >= chain.piece or done <= 0:
            return ()  # it is just over; or nothing was done yet, and nothing would be saved
        old = chain.job_id
        del self.links[old]
        self.idle[old] += chain.work.save_time
        return [Cancel(at, old), *self.go_on(chain, at, done)]
