"""The story of a job, told from what the store keeps: submitted, waited, started, evicted by whom and why, ended."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace

from tenure.core.model import MINUTE
from tenure.core.outcomes import EVICTED
from tenure.core.reasons import Because, Reason
from tenure.store import AttemptRow, EvictionRow, Store
from tenure.why import facts
from tenure.why.chapters import (
    Chapter,
    ClaimLost,
    Ended,
    Evicted,
    Exposed,
    Gainer,
    Left,
    Started,
    Story,
    Submitted,
    Totals,
    Waited,
)
from tenure.why.facts import Facts
from tenure.why.records import Answer

DETAILED = 30
"""The last attempts of which everything is looked up; of earlier ones, what their rows say."""
LONG = MINUTE
"""Shorter waits are not asked about."""
ASKED = 3
"""How many waits are asked about: each costs a look at the past."""


def story(store: Store, job_id: int, at: int, answer: Answer | None = None) -> Story | None:
    """The story of a job as of ``at`` ms; None when the job is not kept, or was not submitted by then.

    ``answer``: about the state of then, of a job that lived in it. Only the state knows why a job waits, and what had
    been heard by then: an end may be heard of late.
    """
    running = answer.running.attempt if answer is not None and answer.running is not None else None
    known = facts.read(store, job_id, at, live=answer is not None, running=running)
    return None if known is None else _Teller(store, known, answer.because if answer is not None else None).tell()


def with_reasons(tale: Story, reason_at: Callable[[int], Because | None]) -> Story:
    """The same story, with what held the job up halfway through its longest waits that are over.

    ``reason_at``: the reason of the job at a past moment, ms; None when nobody knows.
    """
    over = [c for c in tale.chapters if isinstance(c, Waited) and c.until is not None and c.until - c.at >= LONG]
    longest = sorted(over, key=lambda c: c.at - (c.until or 0))[:ASKED]
    found = {id(c): replace(c, why=reason_at((c.at + (c.until or 0)) // 2)) for c in longest}
    return replace(tale, chapters=tuple(found.get(id(chapter), chapter) for chapter in tale.chapters))


class _Teller:
    def __init__(self, store: Store, known: Facts, why: Because | None) -> None:
        self.store, self.facts, self.why = store, known, why
        self.at = known.at
        self.lost, self.lost_known = 0, True
        self.waited = self.ran = self.charged = self.unallocated = 0
        self.started = 0

    def tell(self) -> Story:
        chapters = list(self._all())
        chapters.sort(key=lambda chapter: chapter.at)  # an end may be heard of late; the sort is stable
        return Story(self.facts.job.id, self.at, tuple(chapters), self._totals())

    def _all(self) -> Iterator[Chapter]:
        job, spec = self.facts.job, self.facts.spec
        since = job.submitted_at
        contract = spec.contract
        yield Submitted(since, job.user, spec.budget, job.gpus, contract.min_runtime, contract.resumable)
        claimed: int | None = None
        free = True
        for i, row in enumerate(self.facts.attempts):
            if row.started_at is None:
                claimed = row.planned_at if row.ended_at is None else None
                if row.ended_at is not None:
                    yield ClaimLost(row.ended_at, row.id, row.planned_at, facts.because_of(row.reason))
                continue
            yield from self._wait(since, row.started_at, row.planned_at, row.id)
            yield from self._attempt(row, detailed=i >= len(self.facts.attempts) - DETAILED)
            free, since, claimed = row.ended_at is not None, row.ended_at or self.at, None
        if free and job.ended_at is None:
            self.waited += self.at - since
            yield Waited(since, None, claimed, why=self.why)
        elif job.ended_at is not None:
            why = facts.because_of(job.reason)
            if self._ended_waiting():
                yield from self._wait(since, job.ended_at, job.ended_at, None)
            yield Ended(job.ended_at, job.state, why, job.exit_code, job.gpus, self._totals())

    def _ended_waiting(self) -> bool:
        """Whether it ended in the queue, and not with an attempt: only a cancellation does that."""
        runs = [row for row in self.facts.attempts if row.started_at is not None]
        if not runs:
            return True
        return self.facts.job.state == "cancelled" and facts.because_of(runs[-1].reason).reason is not Reason.CANCELLED

    def _wait(self, since: int, until: int, planned_at: int, attempt: str | None) -> Iterator[Chapter]:
        if until > since:
            self.waited += until - since
            claimed = planned_at if attempt is not None and planned_at < until else None
            yield Waited(since, until, claimed, attempt)

    def _attempt(self, row: AttemptRow, *, detailed: bool) -> Iterator[Chapter]:
        assert row.started_at is not None  # one that had GPUs
        end = self.at if row.ended_at is None else row.ended_at
        plan = facts.start_of(self.store, row) if detailed else None
        evictions = [each for each in self.facts.evictions if each.attempt_id == row.id]
        self.started += 1
        yield Started(
            at=row.started_at,
            attempt=row.id,
            cluster=row.cluster,
            hosts=facts.hosts_of(row),
            gpus=facts.gpus_of(row),
            amount=row.amount,
            charged=row.charged,
            planned_at=row.planned_at,
            running_at=row.running_at,
            protected_until=row.protected_until,
            why=plan.because if plan is not None else None,
            evicted=tuple(each.attempt_id for each in self.facts.victims if each.at == row.planned_at),
        )
        until = row.protected_until
        if until is not None and until < end and all(until <= each.at for each in evictions):
            yield Exposed(until, row.id, row.min_runtime)
        told = [self._evicted(each, row) for each in evictions]
        yield from told
        self._count(row, end, told)
        if row.ended_at is not None:
            yield self._left(row, row.started_at, row.ended_at)

    def _count(self, row: AttemptRow, end: int, told: list[Evicted]) -> None:
        if told:  # told to stop twice, it loses its work once
            self.lost += told[-1].lost or 0
        if row.ended_at is not None and (told or facts.because_of(row.reason).reason in EVICTED):
            self.lost_known = self.lost_known and bool(told) and told[-1].lost is not None
        length = max(0, end - (row.started_at or end))
        self.ran += length
        if row.charged:
            self.charged += row.amount * length
        else:
            self.unallocated += row.amount * length

    def _left(self, row: AttemptRow, started_at: int, ended_at: int) -> Left:
        why = facts.because_of(row.reason)
        credited = 0
        if row.charged and why.reason is Reason.HOST_FAILED:
            spans = self.store.spans_ending(row.id, ended_at)
            credited = sum(span.amount * (span.end - span.start) for span in spans if span.kind == "credit")
            self.charged -= credited
        return Left(
            at=ended_at,
            attempt=row.id,
            started_at=started_at,
            gpus=facts.gpus_of(row),
            why=why,
            codes=tuple(json.loads(row.exit_codes)),
            charged=row.charged,
            used=row.amount * (ended_at - started_at),
            credited=credited,
        )

    def _evicted(self, row: EvictionRow, attempt: AttemptRow) -> Evicted:
        order = facts.order_of(self.store, row)
        return Evicted(
            at=row.at,
            attempt=row.attempt_id,
            gainer=self._gainer(row),
            why=facts.rule_of(row),
            gained=row.gained,
            at_risk=row.at_risk,
            lost=self._lost(row, attempt) if order is not None else None,
            warned_at=order.warn_at if order is not None else None,
            kill_at=order.kill_at if order is not None else None,
            released_at=attempt.ended_at,
        )

    def _gainer(self, row: EvictionRow) -> Gainer | None:
        if not row.gainer:
            return None
        job = self.store.job(row.gainer)
        if job is None:
            return Gainer(row.gainer, str(row.gainer), "", row.gainer_leaf)
        label = f"{job.array_id}_{job.array_index}" if job.array_id is not None else str(job.id)
        return Gainer(job.id, label, job.user, row.gainer_leaf)

    def _lost(self, row: EvictionRow, attempt: AttemptRow) -> int | None:
        """Work since the last checkpoint that was reported, at the end of the attempt."""
        if attempt.ended_at is None:
            return None
        if facts.because_of(attempt.reason).reason is Reason.SUCCEEDED:
            return 0
        since: int | None = facts.saved_since(self.store, row) or None
        if since is None and row.at_risk:
            since = row.at - row.at_risk // attempt.amount
        elif since is None and attempt.running_at is not None:
            since = max(attempt.running_at, row.at)  # nothing was at risk when it was decided
        return 0 if since is None else attempt.amount * max(0, attempt.ended_at - since)

    def _totals(self) -> Totals:
        return Totals(
            attempts=self.started,
            evictions=sum(1 for row in self.facts.evictions if Reason(row.reason) in EVICTED),
            ran=self.ran,
            waited=self.waited,
            charged=self.charged,
            unallocated=self.unallocated,
            lost=self.lost,
            lost_known=self.lost_known,
        )
