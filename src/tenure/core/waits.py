"""What keeps jobs out of the queue besides holds: the ends of other jobs, and the throttle of their array.

A job that waits here is in no queue, so a pass does not see it, however many there are. What it waits for is looked at
when something ends.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from heapq import heappop, heappush

from tenure.core import effects
from tenure.core.decisions import JobEnded, Outcome
from tenure.core.events import Submitted
from tenure.core.lifecycle import JobState, Step
from tenure.core.model import HOUR, After, JobSpec, short
from tenure.core.reasons import Because, Reason
from tenure.core.state import ArrayRecord, Job, Pending, Places, State


def submit(state: State, event: Submitted, out: list[Outcome]) -> None:
    """Make the job, or the jobs of an array, and queue what need not wait."""
    leaf, first = state.the_tree().leaf_of(event.spec.budget), event.job_id
    array = event.array
    if array is not None:
        restore_array(state, ArrayRecord(first, array, event.spec))
    for position, index in enumerate(array.indices if array is not None else (0,)):
        job = Job(first + position, event.spec, JobState.QUEUED, state.now, leaf, event.spec.budget, event.client_key)
        job.held_by, job.queued_at = event.hold, state.now
        if array is not None:
            job.array, job.index, job.behind = first, index, array.throttle > 0
            state.array_live[first] += 1
        if position:
            job.client_key = ""
        state.jobs[job.id] = job
        state.touched_jobs.add(job.id)
    broken = _broken(state, event)
    after = [one for one in event.after if _is_live(state, one)]
    if broken is not None:
        end_all(state, _cancelled(state, first, broken), out)
    elif after:
        wait_for(state, Pending(first, after))
    else:
        _let_in(state, first)


def _broken(state: State, event: Submitted) -> Because | None:
    """Why it waits in vain from the start: for a job that ended before, or an array of which one has failed."""
    if event.broken is not None:
        return Because(Reason.DEPENDENCY_FAILED, {"job": event.broken.job, "state": event.broken.state})
    for one in event.after:
        record = state.arrays.get(one.job_id) if one.whole and one.ok else None
        if record is not None and record.failed:
            return Because(Reason.DEPENDENCY_FAILED, {"job": record.failed, "state": record.failed_state})
    return None


def _is_live(state: State, one: After) -> bool:
    return one.job_id in state.arrays if one.whole else one.job_id in state.jobs


def wait_for(state: State, pending: Pending) -> None:
    """Put a submission where the ends of what it waits for find it."""
    state.pending[pending.id] = pending
    for one in pending.after:
        waiting = state.dependents.setdefault((one.job_id, one.whole), [])
        if pending.id not in waiting[-1:]:
            waiting.append(pending.id)


def restore_array(state: State, record: ArrayRecord) -> None:
    """Keep an array, so far without jobs."""
    state.arrays[record.id], state.array_live[record.id] = record, 0
    if record.array.throttle:
        state.places[record.id] = Places()


def restore_job(state: State, job: Job) -> None:
    """Count a job of a snapshot in its array; arrays and what is pending are there already."""
    if not job.array:
        return
    state.array_live[job.array] += 1
    places = state.places.get(job.array)
    if places is not None and not job.behind:
        places.taken += 1
    elif places is not None and not job.held_by and job.array not in state.pending:
        heappush(places.waiting, job.id)


def jobs_of(state: State, submission: int) -> list[Job]:
    """The live jobs of a submission, first to last."""
    record = state.arrays.get(submission)
    count = len(record.array.indices) if record is not None else 1
    return [state.jobs[i] for i in range(submission, submission + count) if i in state.jobs]


def of_array(state: State, array: int, indices: Collection[int] | None = None) -> list[Job]:
    """The live jobs of an array, or those with these indices, first to last; none for what is no array."""
    if array not in state.arrays:
        return []
    return [job for job in jobs_of(state, array) if indices is None or job.index in indices]


def _let_in(state: State, submission: int) -> None:
    """Nothing that it waited for is left: its jobs queue, or wait for a place in their array's throttle."""
    places = state.places.get(submission)
    for job in jobs_of(state, submission):
        if places is None:
            _queue(state, job)
        elif not job.held_by:
            heappush(places.waiting, job.id)
    _fill(state, submission)


def _fill(state: State, array: int) -> None:
    """Let as many jobs of an array into the queue as its throttle allows, the lowest index first."""
    places = state.places.get(array)
    if places is None:
        return
    limit = state.arrays[array].array.throttle
    while places.waiting and places.taken < limit:
        job = state.jobs.get(heappop(places.waiting))
        if job is not None and job.behind and not job.held_by:
            job.behind = False
            places.taken += 1
            _queue(state, job)


def _queue(state: State, job: Job) -> None:
    job.queued_at = state.now
    state.enqueue(job)
    state.touched_jobs.add(job.id)
    _count_short(state, job.spec)


def settle(state: State, job: Job) -> None:
    """A held job that waits gives its place in its array to the next one; when it is released it wants one again."""
    places = state.places.get(job.array)
    if places is None or job.state is not JobState.QUEUED:
        return
    if job.held_by and not job.behind:
        job.behind = True
        places.taken -= 1
    elif job.behind and not job.held_by and job.array not in state.pending:
        heappush(places.waiting, job.id)
    _fill(state, job.array)


def _count_short(state: State, spec: JobSpec) -> None:
    """What headroom follows. A job counts where it would rather run, when it begins to queue."""
    if not short(spec.contract.min_runtime, spec.gpus):
        return
    for name in spec.clusters:
        if name in state.clusters:
            arrived = state.clusters[name].shorts
            arrived.append((state.now, spec.gpus))
            while arrived[0][0] <= state.now - HOUR:
                arrived.popleft()
            return


def end(state: State, job: Job, because: Because, out: list[Outcome]) -> None:
    """A job is in its last state. So end those that waited for its success in vain, and those that waited for them."""
    end_all(state, [(job, because)], out)


def end_all(state: State, ending: list[tuple[Job, Because]], out: list[Outcome]) -> None:
    """``end`` for several; one after the other, however long a chain is."""
    todo = deque(ending)
    while todo:
        job, because = todo.popleft()
        del state.jobs[job.id]
        state.ended_jobs.append(job)
        out.append(JobEnded(state.now, job.id, job.state.value, because))
        first_to_fail = _leave_array(state, job)
        ok = job.state is JobState.SUCCEEDED
        why = Because(Reason.DEPENDENCY_FAILED, {"job": job.label, "state": job.state.value})
        todo.extend(_tell(state, (job.id, False), ok=ok, over=True, why=why))
        over = job.array not in state.arrays
        if job.array and (first_to_fail or over):
            todo.extend(_tell(state, (job.array, True), ok=not first_to_fail, over=over, why=why))
        if job.submission not in state.jobs and job.submission not in state.arrays:
            state.pending.pop(job.submission, None)


def _leave_array(state: State, job: Job) -> bool:
    """Its place goes to the next of its array. The array is forgotten with its last job.

    Whether it is the first of its array that did not succeed.
    """
    record = state.arrays.get(job.array)
    if record is None:
        return False
    first_to_fail = job.state is not JobState.SUCCEEDED and not record.failed
    if first_to_fail:
        record.failed, record.failed_state = job.label, job.state.value
    state.array_live[job.array] -= 1
    places = state.places.get(job.array)
    if not state.array_live[job.array]:
        del state.arrays[job.array], state.array_live[job.array]
        state.places.pop(job.array, None)
    elif places is not None and not job.behind:
        places.taken -= 1
        _fill(state, job.array)
    return first_to_fail


def _tell(state: State, key: tuple[int, bool], *, ok: bool, over: bool, why: Because) -> list[tuple[Job, Because]]:
    """Tell those that wait for it how a job, or one of an array, has ended. Returns whom that ends.

    ``over``: the job, or the whole array, has ended.
    """
    ends: list[tuple[Job, Because]] = []
    waiting = state.dependents.pop(key, []) if over else state.dependents.get(key, [])
    for submission in waiting:
        pending = state.pending.get(submission)
        if pending is None:
            continue
        mine = [one for one in pending.after if (one.job_id, one.whole) == key]
        if not ok and any(one.ok for one in mine):
            ends += _cancelled(state, submission, why)
        elif over and mine:
            pending.after = [one for one in pending.after if one not in mine]
            if not pending.after:
                del state.pending[submission]
                _let_in(state, submission)
    return ends


def _cancelled(state: State, submission: int, why: Because) -> list[tuple[Job, Because]]:
    """All live jobs of a submission, moved to their end. None of them has ever been in a queue."""
    state.pending.pop(submission, None)
    jobs = jobs_of(state, submission)
    for job in jobs:
        effects.move(state, job, Step.CANCEL, why)
    return [(job, why) for job in jobs]
