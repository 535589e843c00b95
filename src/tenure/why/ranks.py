"""Whom a job outranks (rules 6 and 7), asked of many attempts: across budgets a budget answers for all in it."""

from __future__ import annotations

from tenure.core.ledger import Kind
from tenure.core.model import short
from tenure.core.preemption import Contest, outranks
from tenure.core.state import Attempt, Job, margin_amount, protected


class Ranks:
    """One job, in one cluster."""

    def __init__(self, contest: Contest, job: Job) -> None:
        self.contest = contest
        self.job = job
        spec = job.spec
        self._licence = bool(contest.cluster.headroom) and short(spec.contract.min_runtime, spec.gpus)
        """Whether what runs on kept hosts may go for it, whoever that is: then each attempt is asked about."""
        self._margin = contest.standing(job.kind).margin(margin_amount(spec))
        self._leaves: dict[str, bool] = {}

    def over(self, attempt: Attempt) -> bool:
        """Whether the job might evict ``attempt``, were that exposed, or past its unallocated turn.

        What is promised to it counts in full already, so its standing does not change by its running on.
        """
        if attempt.charged != self.job.spec.charged:
            return self.job.spec.charged
        if attempt.leaf == self.job.leaf and attempt.kind is Kind.UNALLOCATED:
            return self.job.spec.priority > self.contest.state.jobs[attempt.job_id].spec.priority
        if attempt.leaf == self.job.leaf or self._licence:
            return outranks(self.contest, self.job, attempt)
        known = self._leaves.get(attempt.leaf)
        if known is None:
            known = self._leaves[attempt.leaf] = self._reaches(attempt.leaf)
        return known

    def kept_by(self, attempt: Attempt) -> str:
        """Which rule keeps what the job is not ``over``: ``order``, ``margin``, or ``priority`` in its own budget."""
        if attempt.charged != self.job.spec.charged:
            return "order"
        standing = self.contest.standing(self.job.kind)
        split = standing.fork(self.job.leaf, attempt.leaf)
        if split is None:
            return "priority"
        mine, theirs = split
        return "order" if standing.reach(theirs, mine) >= 0 else "margin"

    def evictable(self, attempt: Attempt) -> bool:
        """Whether the job may evict ``attempt`` now."""
        if attempt.started_at is None or attempt.stop is not None or protected(attempt, self.contest.now):
            return False
        in_turn = attempt.promised_until is not None and self.job.kind is Kind.UNALLOCATED
        return not in_turn and self.over(attempt)

    def _reaches(self, leaf: str) -> bool:
        standing = self.contest.standing(self.job.kind)
        split = standing.fork(self.job.leaf, leaf)
        assert split is not None  # it is another leaf
        return standing.reach(*split) >= self._margin
