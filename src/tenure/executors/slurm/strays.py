"""Jobs in Slurm that no attempt wants as they are now: what runs is ended, what waits is held."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path

import structlog

from tenure.executors.slurm import marks, reading, user_run
from tenure.executors.slurm.handling import FAR_S, Handling
from tenure.executors.slurm.look import Look
from tenure.executors.slurm.native import NativeRun
from tenure.executors.slurm.steering import Steering
from tenure.slurm.commands import CommandFailed

log = structlog.get_logger()


def see_to_own(look: Look, steering: Steering, wanted: Collection[int], unwanted: set[int]) -> None:
    """Jobs of this server. ``wanted``: Tenure's ids of jobs with an attempt; ``unwanted``: Slurm's ids of others."""
    to_hold = []
    for job, candidates in look.own.items():
        chosen = reading.by_part(candidates)
        for one in candidates:
            if one.over:
                continue
            if one is not chosen[one.part] or (job not in wanted and one.live and one.state != "COMPLETING"):
                log.warning("unknown_slurm_job_ended", job=job, slurm_job=one.id, state=one.state)
                unwanted.add(one.id)
            elif job not in wanted and one.pending and not one.held:
                to_hold.append(one.id)
    try:
        if unwanted:
            steering.cancel(sorted(unwanted))
        for number in to_hold:
            steering.hold(number)
    except CommandFailed as error:
        log.warning("slurm_command_failed", error=str(error))


def left_over(look: Look, root: Path, alive: Callable[[int], bool]) -> set[int]:
    """Slurm's ids of what was submitted for jobs that are not ``alive`` any more: by the server, or as their users."""
    found = {one.id for job, some in look.own.items() if not alive(job) for one in some if not one.over}
    for job, row in look.adopted.items():
        mark = marks.read(row.mark)
        if row.pending and mark is not None and marks.GIVEN in mark.said and not alive(job):
            found.add(row.number)
    for comment, some in look.given.items():
        job = reading.given_job(comment)
        given = user_run.given_of(root / str(job)) if not alive(job) else None
        if given is not None and comment == reading.given(job, given.nonce):
            found |= {row.number for row in some if row.uid == given.uid and not row.over}
    return found


def see_to_adopted(look: Look, handling: Handling, runs: Iterable[NativeRun]) -> None:
    """Adopted jobs that were released, or queued again, by somebody else, and no attempt looks after."""
    by_job: Mapping[int, NativeRun] = {run.plan.job: run for run in runs if run.status is None}
    put_off = int(time.time()) + FAR_S
    for job, row in look.adopted.items():
        if job in by_job or row.over or row.held or row.start > put_off or row.state == "COMPLETING":
            continue
        log.warning("slurm_job_started_around", slurm_job=row.id, job=job, user=row.user, state=row.state)
        try:
            if row.pending:
                handling.hold(row.id)
            elif row.batch:
                handling.take_back(row.id)
            else:
                handling.cancel(row.id)
        except CommandFailed as error:
            log.warning("slurm_command_failed", error=str(error))
