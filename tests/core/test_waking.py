"""A pass tries only what a change could have helped, and decides what it would if it tried everything."""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from support import invariants, plain
from support.crowds import Rush
from tenure.core import scheduler


@settings(max_examples=settings.get_profile(settings.get_current_profile_name()).max_examples // 4)  # long stories
@given(st.integers(0, 10_000))
@example(407)  # a host is marked, so a job needs the one that is kept for short contracts
@example(552)  # two come back that could have the place of a reserved job
@example(6720)  # a charged job gives up held hosts, on which an unallocated one may evict another then
def test_what_is_left_out_could_not_have_been_placed(seed: int) -> None:
    rush = Rush(seed)
    for _ in range(50):
        events, before, result = rush.step()
        everything = scheduler.step(invariants.restored(before, rush.spans), events, rush.now, plain.run)
        assert invariants.fingerprint(result) == invariants.fingerprint(everything)
        rush.spans += rush.state.closed_spans
        for changed in (rush.state.closed_spans, rush.state.ended_jobs, rush.state.ended_attempts):
            changed.clear()
