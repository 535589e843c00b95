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


class Lookup:
    """Wishes, and what the store says of them: made before the state is locked, so that ``waits`` takes no time there.

    What a request names was there before the request: whatever is neither live nor in the store does not exist.
    """

    def __init__(self, store: Store, wishes: Iterable[Wish]) -> None:
        self._store = store
        self._wishes = tuple(dict.fromkeys(wishes))
        arrays = store.arrays_of({wish.job_id for wish in self._wishes})
        self._arrays = arrays.keys()
        self._members: dict[int, dict[int, int]] = {}
        """Array -> index -> the id of that job, where one is wished for."""
        for array in {wish.job_id for wish in self._wishes if wish.index is not None} & arrays.keys():
            indices = json.loads(arrays[array].indices)
            self._members[array] = {index: array + place for place, index in enumerate(indices)}
        self._jobs: dict[int, JobRow] = {}
        self._unsuccessful: dict[int, JobRow] = {}
        """Array -> its first job that did not succeed, or that had not ended when it was read."""
        self._read(self._wishes)

    def waits(self, state: State) -> Waits:
        """What the wishes come to now. Raises Refusal for a job that there is not."""
        passed = [wish for wish in self._wishes if self._outdated(state, wish)]
        if passed:
            self._read(passed)  # the few that have ended since
        found = _Found()
        for wish in self._wishes:
            if wish.index is None and wish.job_id in state.arrays:
                found.after.append(After(wish.job_id, True, wish.ok))
            elif self._whole(wish):
                if wish.ok and wish.job_id in self._unsuccessful:
                    found.fail(self._unsuccessful[wish.job_id])
            elif (job_id := self._job_id(wish)) is not None and job_id in state.jobs:
                found.after.append(After(job_id, False, wish.ok))
            elif job_id is None or (row := self._jobs.get(job_id)) is None:
                raise self._unknown(wish)
            elif wish.ok and row.state != JobState.SUCCEEDED.value:
                found.fail(row)
        return Waits(tuple(found.after), found.broken)

    def _whole(self, wish: Wish) -> bool:
        return wish.index is None and wish.job_id in self._arrays

    def _job_id(self, wish: Wish) -> int | None:
        """The id of the one job that is meant; None for an array or an index that there is not."""
        return wish.job_id if wish.index is None else self._members.get(wish.job_id, {}).get(wish.index)

    def _outdated(self, state: State, wish: Wish) -> bool:
        """Whether it had not ended when the store was read, and does not live any more."""
        if self._whole(wish):
            row = self._unsuccessful.get(wish.job_id) if wish.ok and wish.job_id not in state.arrays else None
        else:
            job_id = self._job_id(wish)
            row = self._jobs.get(job_id) if job_id is not None and job_id not in state.jobs else None
        return row is not None and row.ended_at is None

    def _read(self, wishes: Iterable[Wish]) -> None:
        """With a few queries, however many wishes there are."""
        arrays = {wish.job_id for wish in wishes if wish.ok and self._whole(wish)}
        for array in arrays:
            self._unsuccessful.pop(array, None)
        self._unsuccessful |= self._store.first_in_arrays(arrays, without=JobState.SUCCEEDED.value)
        ids = {self._job_id(wish) for wish in wishes if not self._whole(wish)}
        self._jobs |= self._store.jobs_of({job_id for job_id in ids if job_id is not None})

    def _unknown(self, wish: Wish) -> Refusal:
        fix = "there is no such job, or its history is gone; `tenure ls --all` lists jobs"
        if wish.index is not None and self._job_id(wish) is None and (indices := [*self._members.get(wish.job_id, ())]):
            fix = f"array {wish.job_id} has {len(indices)} jobs, with indices from {indices[0]} to {indices[-1]}"
        elif wish.index is not None and wish.job_id not in self._members:
            fix = f"there is no array {wish.job_id}, or its history is gone; `tenure ls --all` lists jobs"
        return Refusal(Reason.UNKNOWN_JOB, wish.field, wish.text, fix)


@dataclass(slots=True)
class _Found:
    after: list[After] = field(default_factory=list)
    broken: Broken | None = None

    def fail(self, row: JobRow) -> None:
        name = str(row.id) if row.array_id is None else f"{row.array_id}_{row.array_index}"
        self.broken = self.broken or Broken(name, row.state)
