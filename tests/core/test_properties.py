"""Random histories: whatever happens, in whatever order, the invariants of the scheduler hold after every step."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from support import invariants
from support.chaos import Chaos, Command, histories


@given(st.integers(0, 1000), histories)
def test_invariants_hold_whatever_happens(start: int, history: list[tuple[int, list[Command]]]) -> None:
    chaos = Chaos(start)
    for after, todo in history:
        chaos.step(after, todo)
    chaos.settle()
    replayed = invariants.check_replay(chaos.world.log)
    assert invariants.saved(replayed) == invariants.saved(chaos.world.state)
