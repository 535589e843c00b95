"""The scheduler's state as it was at a past moment: from the store alone, never from what is running."""

from __future__ import annotations

import pickle
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from heapq import heapify

from tenure import units
from tenure.core import pickling, scheduler
from tenure.core.model import HostState
from tenure.core.reasons import Reason, Refusal
from tenure.core.state import Due, State
from tenure.engine import recovery
from tenure.store.store import Store

pickling.register()

KEPT = 4
"""States that are kept, so that to look around a moment costs little."""
PATIENCE_S = 20.0
"""How long one waits for another's look at the past."""
WAITING = 2
"""So many may wait, each in a thread of the server's; more are told at once that it is busy."""
DECIDED = frozenset({Due.START_TIMEOUT, Due.TIMEOUT, Due.RELEASE_BY})
"""Due times from which something follows that is recorded; but see ``_recorded``."""

Progress = Callable[[int, int], None]
"""Called with the batches that have been repeated, and how many there are to repeat."""


@dataclass(frozen=True, slots=True)
class _Known:
    """A state at ``now``, pickled, so that nobody can change it."""

    now: int
    state: bytes


class Past:
    """Past states of one store. Methods may be called from any thread; one at a time reads."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._turn = threading.Lock()
        self._room = threading.Semaphore(1 + WAITING)
        self._known: OrderedDict[int, _Known] = OrderedDict()
        """Batch -> the state after it. The last used comes last."""

    def state_at(self, at: int, now: int, progress: Progress | None = None) -> State:
        """The state at ``at`` ms, to look at: after the last batch of then or before, with the time that passed since.

        ``now``: engine time. Raises Refusal for a moment that has not come, or that is before the kept log, and
        TimeoutError when others have been looking at the past for ``PATIENCE_S``, and at once when ``WAITING`` wait.
        """
        if at > now:
            fix = f"that has not come yet: it is {units.format_time(now)}; leave it out for the present"
            raise _refused(at, fix)
        with _entered(self._room, None), _entered(self._turn, PATIENCE_S):
            state = self._read(at, progress or _quiet)
        let_time_pass(state, at)
        return state

    def _read(self, at: int, progress: Progress) -> State:
        """The state after the newest batch at or before ``at``."""
        kept = self.store.kept_since()
        if kept is None or at < kept:
            raise self._not_kept(at)
        base = self.store.snapshot_seq_at(at)
        last = max(self.store.seq_at(at), base)
        recalled = self._recall(base, last, at)
        if recalled is not None and recalled[1] == last:
            return recalled[0]
        state = self._repeat(recalled or self._load(base, at), last, at, progress)
        # A pass notes why jobs wait, which the log does not tell. It decides nothing, or other rules decided then.
        result = scheduler.step(state, (), state.now)
        if result.outcomes or result.plans:
            return self._repeat(self._load(base, at), last, at, progress)
        recovery.forget_changes(state)
        self._known[last] = _Known(state.now, pickle.dumps(state))
        self._known.move_to_end(last)
        if len(self._known) > KEPT:
            self._known.popitem(last=False)
        return state

    def _repeat(self, begun: tuple[State, int], last: int, at: int, progress: Progress) -> State:
        """Bring a state, and the batch that it is after, to the batch ``last``."""
        state, seq = begun
        done, total = 0, last - seq
        for row in self.store.batches(after=seq, limit=total):
            if row.seq != seq + 1:
                break
            recovery.redo(self.store, state, row)
            recovery.forget_changes(state)
            seq, done = row.seq, done + 1
            progress(done, total)
        if seq != last:
            raise self._not_kept(at)  # compacted since we began
        return state

    def _recall(self, first: int, last: int, at: int) -> tuple[State, int] | None:
        """The latest state that is known of these batches, and its batch."""
        near = max(
            (seq for seq, known in self._known.items() if first <= seq <= last and known.now <= at), default=None
        )
        if near is None:
            return None
        self._known.move_to_end(near)
        return pickle.loads(self._known[near].state), near  # our own bytes

    def _load(self, base: int, at: int) -> tuple[State, int]:
        """The state of the snapshot of batch ``base``; before the first batch when that is 0."""
        found = self.store.snapshot_at(at) if base else None
        loaded = recovery.from_snapshot(self.store, found)
        kept = self.store.kept_since()
        if loaded[1] != base or kept is None or (found is not None and found[1] < kept):
            raise self._not_kept(at)  # compacted since we began; spans may have become sums before they were read
        return loaded

    def _not_kept(self, at: int) -> Refusal:
        kept = self.store.kept_since()
        if kept is None:
            return _refused(at, "no history is kept that reaches back to then; leave it out for the present")
        return _refused(at, f"history is kept from {units.format_time(kept)} on: ask for a moment since then")


@contextmanager
def _entered(door: threading.Lock | threading.Semaphore, patience_s: float | None) -> Iterator[None]:
    """Hold it in the block. Raises TimeoutError when it is not free in time; None: at once."""
    free = door.acquire(blocking=False) if patience_s is None else door.acquire(timeout=patience_s)
    if not free:
        raise TimeoutError("others are looking at the past, and one can at a time; try again in a moment")
    try:
        yield
    finally:
        door.release()


def let_time_pass(state: State, at: int) -> None:
    """Bring ``state`` to ``at``: between two batches nothing happens but that protections, turns and waits end.

    What else falls due was not decided yet, or the server was down: it stays due.
    """
    later = [timer for timer in state.timers if timer[0] <= at and _recorded(state, *timer[1:])]
    if later:
        state.timers = [timer for timer in state.timers if timer not in later]
        heapify(state.timers)
    scheduler.absorb(state, (), at)
    recovery.forget_changes(state)
    if later:
        state.timers += later
        heapify(state.timers)


def _recorded(state: State, kind: str, key: str) -> bool:
    """Whether something would be written when this falls due, so that without a batch it has not been decided.

    GPUs that are not back write nothing where every host is out of service already and no claim waits for them.
    """
    if kind != Due.RELEASE_BY or (attempt := state.attempts.get(key)) is None:
        return kind in DECIDED
    hosts = state.clusters[attempt.cluster].hosts
    return bool(state.claims.get(key)) or any(hosts[host].state is HostState.HEALTHY for host in attempt.hosts())


def _refused(at: int, fix: str) -> Refusal:
    return Refusal(Reason.BAD_VALUE, "at", units.format_time(at), fix)


def _quiet(_done: int, _total: int) -> None:
    pass
