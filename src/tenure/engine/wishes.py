"""What a submission wants to wait for: found among what lives and what the store remembers."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field

from tenure.core.lifecycle import JobState
from tenure.core.model import After, Broken
from tenure.core.reasons import Reason, Refusal
from tenure.core.state import State
from tenure.store.rows import JobRow
from tenure.store.store import Store


@dataclass(frozen=True, slots=True)
class Wish:
    """Wait for the end of a job or an array (``index`` None), or of one job of an array. ``ok``: it must succeed.

    ``field``: which field of the request says so.
    """

    job_id: int
    index: int | None
    ok: bool
    field: str

    @property
    def text(self) -> str:
        return str(self.job_id) if self.index is None else f"{self.job_id}_{self.index}"


@dataclass(frozen=True, slots=True)
class Waits:
    """What is still to be waited for, and what has ended in a way that makes it all vain."""

    after: tuple[After, ...] = ()
    broken: Broken | None = None


def resolve(state: State, store: Store, wishes: Iterable[Wish]) -> Waits:
    """What these wishes come to now: what has ended already is decided from the store.

    Raises Refusal for a job that there is not.
    """
    found = _Found()
    for wish in dict.fromkeys(wishes):
        if wish.index is not None:
            _job(state, store, wish, _member(state, store, wish), found)
        elif wish.job_id in state.arrays:
            found.after.append(After(wish.job_id, True, wish.ok))
        elif store.array(wish.job_id) is not None:
            if wish.ok and (failed := store.first_in_array(wish.job_id, without=JobState.SUCCEEDED.value)) is not None:
                found.fail(failed)
        else:
            _job(state, store, wish, wish.job_id, found)
    return Waits(tuple(found.after), found.broken)


@dataclass(slots=True)
class _Found:
    after: list[After] = field(default_factory=list)
    broken: Broken | None = None

    def fail(self, row: JobRow) -> None:
        name = str(row.id) if row.array_id is None else f"{row.array_id}_{row.array_index}"
        self.broken = self.broken or Broken(name, row.state)


def _member(state: State, store: Store, wish: Wish) -> int:
    """The id of the job of an array with this index."""
    live = state.arrays.get(wish.job_id)
    row = store.array(wish.job_id) if live is None else None
    if live is not None:
        indices = list(live.array.indices)
    elif row is not None:
        indices = json.loads(row.indices)
    else:
        fix = f"there is no array {wish.job_id}, or its history is gone; `tenure ls --all` lists jobs"
        raise Refusal(Reason.UNKNOWN_JOB, wish.field, wish.text, fix)
    if wish.index not in indices:
        fix = f"array {wish.job_id} has {len(indices)} jobs, with indices from {indices[0]} to {indices[-1]}"
        raise Refusal(Reason.UNKNOWN_JOB, wish.field, wish.text, fix)
    return wish.job_id + indices.index(wish.index)


def _job(state: State, store: Store, wish: Wish, job_id: int, found: _Found) -> None:
    if job_id in state.jobs:
        found.after.append(After(job_id, False, wish.ok))
        return
    row = store.job(job_id)
    if row is None:
        fix = "there is no such job, or its history is gone; `tenure ls --all` lists jobs"
        raise Refusal(Reason.UNKNOWN_JOB, wish.field, wish.text, fix)
    if wish.ok and row.state != JobState.SUCCEEDED.value:
        found.fail(row)
