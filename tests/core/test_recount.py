"""Every number of every decision and answer of random histories, recounted from the log by plain loops."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from support.chaos import Chaos, Command, histories
from support.play import Recounted
from tenure.core.events import Event


class Counted(Chaos):
    """Random histories in a world that is recounted after every step; the rest is looked at elsewhere."""

    def __init__(self, start: int) -> None:
        super().__init__(start)
        made = self.world
        self.world = Recounted(made.clusters, tree=made.tree, policy=made.policy, auto_up=False, auto_release=False)

    def _make(self, after: int, events: tuple[Event, ...]) -> None:
        self.world.step(*events, after=after)


@settings(max_examples=60)
@given(st.integers(0, 1000), histories)
def test_whatever_happens_numbers_are_those_of_the_spans(start: int, history: list[tuple[int, list[Command]]]) -> None:
    world = Counted(start)
    for after, todo in history:
        world.step(after, todo)
