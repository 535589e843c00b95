"""Rule 5 in the leaf: what waits before a job in its own budget."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from heapq import nsmallest

from tenure.core.preemption import Contest
from tenure.core.queue import Group
from tenure.core.state import Job
from tenure.why.records import Ahead, Part, Queued

NAMED = 5
"""Jobs that are named at most."""

_Key = tuple[int, int, int, int]
"""Rule 5 in the leaf: priority turned round, what the person was charged, first submission, id."""


def ahead(contest: Contest, job: Job) -> Ahead:
    """The jobs that sort before ``job`` in its leaf, in this cluster, as things stand."""
    person_used = contest.standing(job.kind).person_used
    mine = (-job.spec.priority, person_used(job.leaf, job.spec.user), job.submitted, job.id)
    count = gpus = 0
    first: list[_Key] = []
    for group, used, jobs in _lines(contest, job):
        before = _before(mine, -group.key.priority, used, jobs)
        count, gpus = count + before, gpus + before * group.gpus
        first += [(-group.key.priority, used, *each) for each in jobs[: min(before, NAMED)]]
    named = (_queued(contest, mine, key) for key in nsmallest(NAMED, first))
    return Ahead(count, gpus, mine[1], tuple(named))


def _lines(contest: Contest, job: Job) -> Iterator[tuple[Group, int, list[tuple[int, int]]]]:
    """Of each group of the leaf each person's jobs, with what the person was charged."""
    person_used = contest.standing(job.kind).person_used
    for group in contest.cluster.queues[job.kind].leaves.get(job.leaf, {}).values():
        for user, jobs in group.people.items():
            yield group, person_used(job.leaf, user), jobs


def _before(mine: _Key, priority: int, used: int, jobs: list[tuple[int, int]]) -> int:
    """How many of one person's jobs, which are sorted, come before the job with the key ``mine``."""
    if (priority, used) != mine[:2]:
        return len(jobs) if (priority, used) < mine[:2] else 0
    return bisect_left(jobs, mine[2:])


def _queued(contest: Contest, mine: _Key, key: _Key) -> Queued:
    priority, used, submitted, job_id = key
    job = contest.state.jobs[job_id]
    by = Part.PRIORITY if priority != mine[0] else Part.PERSON if used != mine[1] else Part.SENIORITY
    return Queued(job_id, job.label, job.spec.user, job.spec.gpus, -priority, submitted, used, by)
