"""Drives the core: one step after the other, each noted. Simulated runs and replayed logs go through here alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tenure.core import scheduler
from tenure.core.decisions import Outcome, Plan
from tenure.core.events import ConfigApplied, Event
from tenure.core.scheduler import Result
from tenure.core.state import State
from tenure.policies.base import Policy
from tenure.sim.recorder import Recorder

Observer = Callable[[State, int, Sequence[Event], Result], None]
"""Called after every step with the state, the time, what happened and what was decided."""


class Driver:
    """A state under a policy: a fresh one, or one to go on from."""

    def __init__(
        self, policy: Policy, recorder: Recorder, observe: Observer | None = None, state: State | None = None
    ) -> None:
        self.state = State() if state is None else state
        self.policy = policy
        self.recorder = recorder
        self.observe = observe
        self.steps = 0
        self.events = 0

    def step(self, at: int, events: Sequence[Event]) -> Result:
        """Let ``events`` happen at ``at`` and decide what follows: the function that the live engine calls."""
        self.recorder.until(self.state, at)
        if any(isinstance(event, ConfigApplied) for event in events):
            self.recorder.close(self.state, at)
        result = scheduler.step(self.state, events, at, self.policy.run)
        self.steps += 1
        self.events += len(events)
        self.recorder.note(self.state, at, events, result)
        if self.observe is not None:
            self.observe(self.state, at, events, result)
        self._forget()
        return result

    def _forget(self) -> None:
        state = self.state
        state.touched_jobs.clear()
        state.ended_jobs.clear()
        state.ended_attempts.clear()
        state.closed_spans.clear()


def decided(result: Result) -> list[Outcome | Plan]:
    """Outcomes and plans of a step, in the order in which they came true."""
    return [*result.outcomes, *result.plans]
