"""Whoever follows the log in the database has the state of the scheduler, and what people did before."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from engine_kit import Rig, saved, spec

from tenure.core.model import HOUR, MINUTE, SECOND, Array
from tenure.engine.clock import Clock
from tenure.engine.wishes import Wish
from tenure.forecast.estimator import Estimator
from tenure.forecast.follow import Follower


def same(bench: Rig, follower: Follower) -> None:
    with bench.engine.view() as state:
        if follower.state.now == state.now:  # a step that decided nothing is not written down
            assert saved(follower.state) == saved(state)
        assert follower.state.jobs.keys() == state.jobs.keys()
        assert {job.id: job.state for job in follower.state.jobs.values()} == {
            job.id: job.state for job in state.jobs.values()
        }
        assert follower.seq == bench.engine.last_seq


def test_it_has_the_state_that_is_running_after_every_step(bench: Rig) -> None:
    follower = Follower(bench.store)
    jobs = []
    for number in range(6):
        jobs.append(bench.submit("lab/a" if number % 2 else "lab/b", min_runtime=HOUR if number % 3 else 0))
        bench.advance(7 * MINUTE)
        follower.catch_up()
        same(bench, follower)
    bench.finish(jobs[1])
    bench.engine.cancel(jobs[-1], "ann")
    bench.turn()
    _, ended = follower.catch_up()
    assert sorted(ended) == sorted([jobs[1], jobs[-1]])
    same(bench, follower)
    late = Follower(bench.store)
    same(bench, late)
    assert [sent.job_id for sent in late.past.sent] == [sent.job_id for sent in follower.past.sent] == jobs
    assert late.past.total == follower.past.total == {jobs[1]: follower.past.total[jobs[1]]}
    assert follower.past.total[jobs[1]] >= 35 * MINUTE
    assert {sort: [*runs] for sort, runs in late.past.runs.items()} == {
        sort: [*runs] for sort, runs in follower.past.runs.items()
    }


def test_estimates_are_written_come_true_and_are_taken_over(bench: Rig) -> None:
    """Two hosts are taken for an hour; who waits is told so, and the start is noted, by whoever is there then."""
    first = [bench.submit(user=name) for name in ("ann", "bob")]
    waits, gone = bench.submit(user="cy"), bench.submit(user="dee")
    bench.advance(MINUTE)
    estimator = Estimator(bench.store, 60, bench.hands.clock)
    assert estimator.follow() and estimator.round() == 2 and not estimator.follow()
    told = bench.store.newest_estimate(waits)
    assert told is not None and told.started_at is None and told.size_class == "small"
    assert bench.store.newest_estimate(first[0]) is None
    assert told.made_at == bench.engine.now() <= told.low <= (told.likely or told.until)
    bench.advance(5 * MINUTE)
    estimator.round()
    assert len(bench.store.open_estimates()) == 4  # the first stays
    bench.engine.cancel(gone, "dee")
    bench.advance(5 * MINUTE)
    estimator.round()
    assert [row.job_id for row in bench.store.open_estimates()] == [waits, waits]
    bench.finish(first[0])
    started = bench.row(waits).first_start_at
    assert started is not None and bench.store.open_estimates()
    again = Estimator(bench.store, 60, bench.hands.clock)
    assert bench.store.open_estimates() == [] and again.round() == 0
    rows = bench.store.past_estimates(0, 2**60, "small", 9, started=True)
    assert [row.started_at for row in rows] == [started, started] and rows[0] == replace(told, started_at=started)


def test_who_starts_while_it_looks_is_noted(bench: Rig) -> None:
    first = [bench.submit(user=name) for name in ("ann", "bob")]
    waits = bench.submit(user="cy")
    estimator = Estimator(bench.store, 60, bench.hands.clock)
    estimator.round()
    bench.finish(first[1])
    estimator.follow()
    newest = bench.store.newest_estimate(waits)
    assert newest is not None and newest.started_at == bench.row(waits).first_start_at


@pytest.mark.parametrize("killed", [False, True])
def test_an_estimate_made_before_a_start_was_committed_and_after_its_time_is_not_left_open(
    bench: Rig, *, killed: bool
) -> None:
    """The time of a step is that of its begin: here an estimator that is a second ahead reads just before it ends."""
    first = [bench.submit(user=name) for name in ("ann", "bob")]
    waits = bench.submit(user="cy")

    def ahead(*anchor: Any) -> Clock:
        clock = bench.hands.clock(*anchor)
        clock.last += SECOND
        return clock

    estimator = Estimator(bench.store, 60, ahead)
    assert estimator.round() == 1
    bench.finish(first[0])
    made, started = bench.store.newest_estimate(waits), bench.row(waits).first_start_at
    assert made is not None and started is not None and made.made_at > started
    if killed:
        Estimator(bench.store, 60, bench.hands.clock)
    else:
        estimator.follow()
    assert bench.store.open_estimates() == []


def test_what_says_nearly_the_same_is_not_written_again(bench: Rig) -> None:
    for _ in range(16):
        waits = bench.submit(min_runtime=8 * HOUR)
    estimator = Estimator(bench.store, 60, bench.hands.clock)
    estimator.round()
    told = bench.store.newest_estimate(waits)
    assert told is not None and told.likely is None  # not in the days that it looks at
    bench.advance(MINUTE)
    assert estimator.round() == 14 and bench.store.newest_estimate(waits) == told
    bench.advance(HOUR)
    estimator.round()  # the wait has doubled, so it counts as one more
    assert [row.made_at for row in bench.store.open_estimates() if row.job_id == waits] == [
        told.made_at,
        bench.engine.now(),
    ]


def test_what_waits_for_more_than_gpus_has_no_estimate(bench: Rig) -> None:
    """Held, behind a throttle, pending on others: no estimate, and the one that there was is dropped."""
    for name in ("ann", "bob"):
        bench.submit(user=name)
    waits = bench.submit(user="cy")
    array, _ = bench.engine.submit(spec("lab/a", user="dee"), by="dee", array=Array((0, 1, 2, 3), 1))
    bench.engine.submit(spec("lab/a", user="eve"), by="eve", after=[Wish(waits, None, True, "after_ok")])
    bench.turn()
    estimator = Estimator(bench.store, 60, bench.hands.clock)
    assert estimator.round() == 2
    assert {row.job_id for row in bench.store.open_estimates()} == {waits, array}
    bench.engine.hold(waits, "cy")
    bench.turn()
    assert not estimator.follow()
    assert {row.job_id for row in bench.store.open_estimates()} == {array}
