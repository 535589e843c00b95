"""Running the core forward from the middle of a simulation: with everything known it sees what then happens."""

from __future__ import annotations

import pickle
import random
from collections.abc import Sequence
from dataclasses import replace

import pytest
from sim_kit import NEVER, setup_of, work

from tenure.core import pickling
from tenure.core.model import DAY, HOUR, MINUTE, SECOND
from tenure.core.state import State
from tenure.forecast.estimator import HORIZON, foresee, waiting
from tenure.forecast.forward import Arrival, Foreseen, Forward, Scenario
from tenure.forecast.guesses import Guesses
from tenure.forecast.past import Past
from tenure.sim.loop import Simulation
from tenure.sim.setup import START
from tenure.sim.work import Work

pickling.register()


def crowd(seed: int, count: int = 60, *, protected: bool = False) -> list[tuple[int, Work]]:
    """More than three hosts can do in a day, all submitted within three hours, no two at once.

    ``protected``: nothing charged runs longer than its contract, so nobody is evicted because standings drift, which
    happens at the next step, whenever that is.
    """
    draw = random.Random(seed)
    jobs = []
    for number in range(count):
        gpus = draw.choice((1, 2, 4, 8, 8))
        one = work(
            draw.choice(("lab/a", "lab/b")),
            gpus,
            draw.randrange(10, 230 if protected else 400) * MINUTE + number * SECOND,
            replicas=draw.choice((1, 2)) if gpus == 8 else 1,
            min_runtime=draw.choice((0, *([4 * HOUR] if protected else (5 * MINUTE, HOUR, 2 * HOUR)))),
            resumable=draw.random() < 0.7,
            user=draw.choice(("ann", "bob", "cy")),
            startup=draw.choice((5, 20)) * SECOND,
            restart_cost=draw.choice((0, 300)) * SECOND,
            checkpoint_every=draw.choice((0, 30)) * MINUTE,
            save_time=draw.choice((5, 30)) * SECOND,
        )
        if draw.random() < 0.2:
            one = replace(one, spec=replace(one.spec, timeout=3 * HOUR))
        jobs.append((number * 3 * MINUTE, one))
    return jobs


class Halfway(Simulation):
    """Keeps a copy of everything at ``moment``, and goes on. ``starts``: job -> its first start after that."""

    def __init__(self, jobs: Sequence[tuple[int, Work]], moment: int) -> None:
        super().__init__(setup_of(jobs, gpus=24, duration=3 * DAY, faults=NEVER))
        self.moment = START + moment
        self.kept = b""
        self.starts: dict[int, int] = {}
        self.run()

    def _moment(self, at: int) -> None:
        super()._moment(at)
        if not self.kept and at >= self.moment:
            self.kept = pickle.dumps((self.state, self.site, self.works))

    def _start(self, attempt_id: str, at: int) -> None:
        super()._start(attempt_id, at)
        if self.kept:
            self.starts.setdefault(self.state.attempts[attempt_id].job_id, at)

    def then(self) -> tuple[State, Scenario]:
        state, site, works = pickle.loads(self.kept)
        return state, Scenario(site, works)


@pytest.mark.parametrize("seed", range(4))
def test_with_everything_known_it_is_what_the_simulator_then_does(seed: int) -> None:
    simulation = Halfway(crowd(seed, protected=True), 4 * HOUR)
    state, scenario = simulation.then()
    queued = [job.id for job in state.jobs.values() if job.attempt is None]
    assert len(queued) > 10 and state.attempts
    seen = Forward(state, scenario).run(queued, START + 3 * DAY)
    assert seen.starts == {job_id: simulation.starts[job_id] for job_id in queued}
    assert len({*seen.starts.values()}) > 5


def test_it_stops_when_nobody_waits_any_more_at_the_end_or_when_it_cost_enough() -> None:
    simulation = Halfway(crowd(1), 4 * HOUR)
    state, scenario = simulation.then()
    first = min((at, job_id) for job_id, at in simulation.starts.items() if state.jobs[job_id].attempt is None)
    seen = Forward(state, scenario).run([first[1]], START + 3 * DAY)
    assert (seen.starts, seen.reached, seen.unfinished) == ({first[1]: first[0]}, first[0], False)
    state, scenario = simulation.then()
    wanted = list(state.jobs)
    until = state.now + HOUR
    seen = Forward(state, scenario).run(wanted, until)
    assert seen.reached == until and not seen.unfinished
    assert set(seen.starts) < set(wanted)
    state, scenario = simulation.then()
    seen = Forward(state, scenario).run(wanted, START + 3 * DAY, lambda: True)
    assert seen.unfinished and seen.reached < START + 3 * DAY


def test_who_comes_later_is_taken_into_account() -> None:
    """A job that waits for both hosts starts later when another budget's, less charged, comes before they are free."""
    jobs = [
        (0, work("lab/a", runtime=4 * HOUR, min_runtime=4 * HOUR)),
        (SECOND, work("lab/a", runtime=5 * HOUR, min_runtime=4 * HOUR)),
        (2 * SECOND, work("lab/a", runtime=6 * HOUR, min_runtime=4 * HOUR)),
        (MINUTE, work("lab/a", runtime=HOUR)),
    ]
    simulation = Halfway(jobs, HOUR)
    state, scenario = simulation.then()
    alone = Forward(state, scenario).run([4], START + DAY)
    assert alone.starts == {4: START + 4 * HOUR} == {4: simulation.starts[4]}
    state, scenario = simulation.then()
    other = work("lab/b", runtime=10 * HOUR, min_runtime=4 * HOUR)
    second = Forward(state, replace(scenario, arrivals=(Arrival(START + 2 * HOUR, other),)))
    assert second.run([4], START + DAY).starts == {4: START + 5 * HOUR + SECOND}


def test_guesses_are_the_same_for_the_same_seed_and_leave_the_state_as_it_is() -> None:
    simulation = Halfway(crowd(2), 4 * HOUR)
    state, _ = simulation.then()
    before = pickle.dumps(state)

    def once(seed: str) -> Foreseen:
        copied = pickle.loads(before)
        scenario = Guesses(state, Past(), state.now).scenario(seed, state.now + DAY)
        return Forward(copied, scenario).run(list(copied.jobs), state.now + DAY)

    assert once("1") == once("1") != once("2")
    assert pickle.dumps(state) == before


def test_what_it_may_not_cost_is_not_known_and_told_as_later() -> None:
    state, _ = Halfway(crowd(2), 4 * HOUR).then()
    waits = {job.id for job in waiting(state)}
    whole, none = (foresee(state, Past(), state.now, spend, scenarios=2) for spend in (1e6, 0.0))
    assert whole.keys() == none.keys() == waits
    assert {range_.until for range_ in whole.values()} == {state.now + HORIZON}
    (until,) = {range_.until for range_ in none.values()}
    assert state.now < until < state.now + 6 * HOUR
    assert any(range_.high is None for range_ in none.values())
    assert all(range_.high is None or range_.high <= until for range_ in none.values())
    assert foresee(state, Past(), state.now, 1e6, scenarios=2) == whole
