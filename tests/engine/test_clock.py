"""Engine time: never backwards, never a jump, an alarm when the wall clock steps."""

from __future__ import annotations

from itertools import pairwise

from engine_kit import T0, Hands
from hypothesis import given
from hypothesis import strategies as st

from tenure.core.model import DAY, HOUR, MINUTE, SECOND
from tenure.engine.clock import SETTLE, SLEW_PPM, STEP, Anchor, Clock

Readings = list[tuple[int, int]]
"""(ms that pass, by how much somebody sets the wall clock meanwhile)."""

passing = st.one_of(st.integers(0, 5), st.integers(0, 40 * SECOND), st.integers(0, DAY))
steps = st.one_of(st.just(0), st.integers(-STEP, STEP), st.integers(-30 * DAY, 30 * DAY), st.just(HOUR), st.just(-HOUR))
readings = st.lists(st.tuples(passing, steps), max_size=60)


def run(hands: Hands, clock: Clock, plan: Readings) -> Readings:
    """(steady clock, engine time) after each reading."""
    seen = [(hands.steady, clock.now())]
    for elapsed, step in plan:
        hands.advance(elapsed)
        hands.wall += step
        seen.append((hands.steady, clock.now()))
    return seen


@given(readings)
def test_never_backwards_and_within_500_ppm_of_the_steady_clock(plan: Readings) -> None:
    hands = Hands()
    seen = run(hands, hands.clock(None), plan)
    for i, (steady, now) in enumerate(seen):
        for later_steady, later in seen[i + 1 :]:
            true = later_steady - steady
            assert later >= now
            assert abs(later - now - true) <= true * SLEW_PPM // 1_000_000 + 1


@given(readings, passing)
def test_between_readings_it_goes_on_and_is_never_ahead_of_the_next(plan: Readings, later: int) -> None:
    hands = Hands()
    clock = hands.clock(None)
    for elapsed, step in plan:
        hands.advance(elapsed // 2)
        hands.wall += step
        early = clock.present()
        hands.advance(elapsed - elapsed // 2)
        late = clock.present()
        assert clock.last <= early <= late <= clock.now()
    read = clock.last
    hands.advance(later)
    assert clock.present() >= read + later - later * SLEW_PPM // 1_000_000 - 1


@given(readings, st.integers(-DAY, DAY))
def test_converges_to_the_wall_clock_and_stays(plan: Readings, off: int) -> None:
    hands = Hands()
    clock = hands.clock(None)
    run(hands, clock, plan)
    hands.wall = clock.now() + off
    clock.now()
    hands.advance(abs(off) * 1_000_000 // SLEW_PPM + MINUTE)
    clock.now()
    hands.advance(SECOND)
    clock.now()
    assert clock.offset == 0
    assert not clock.alarm


def test_time_without_a_step_is_not_saved_up_for_a_jump() -> None:
    hands = Hands()
    clock = hands.clock(None)
    run(hands, clock, [(30 * SECOND, 0)] * 3000)
    hands.wall -= HOUR
    (_, before), (_, after) = run(hands, clock, [(30 * SECOND, 0)])
    assert 30 * SECOND - (after - before) <= 30 * SECOND * SLEW_PPM // 1_000_000 + 1


def test_a_step_of_an_hour_changes_nothing_but_raises_the_alarm_until_it_has_settled() -> None:
    for step in (HOUR, -HOUR):
        hands = Hands()
        clock = hands.clock(None)
        hands.wall += step
        hands.advance(SECOND)
        assert clock.now() == T0 + SECOND
        assert clock.alarm and abs(clock.offset - step) <= 1
        hands.advance(SETTLE - 1)
        clock.now()
        assert clock.alarm
        hands.advance(1)
        clock.now()
        assert not clock.alarm


def test_the_alarm_ends_when_the_wall_clock_is_back() -> None:
    hands = Hands()
    clock = hands.clock(None)
    hands.wall += HOUR
    clock.now()
    assert clock.alarm
    hands.wall -= HOUR
    clock.now()
    assert not clock.alarm


def test_small_corrections_raise_no_alarm() -> None:
    hands = Hands()
    clock = hands.clock(None)
    for _ in range(100):
        hands.advance(30 * SECOND)
        hands.wall += STEP
        clock.now()
        assert not clock.alarm


@given(st.integers(-30 * DAY, 30 * DAY), st.integers(0, 30 * DAY))
def test_within_one_boot_a_restart_goes_on_by_the_steady_clock(wall_step: int, down: int) -> None:
    hands = Hands()
    clock = hands.clock(None)
    run(hands, clock, [(MINUTE, 0)])
    anchor, before = clock.anchor(), clock.last
    hands.advance(down)
    hands.wall += wall_step
    again = hands.clock(anchor)
    assert again.last == before + down
    # While it was down nobody saw the step; time follows it by slewing only.
    (_, first), (_, second) = run(hands, again, [(HOUR, 0)])
    assert abs(second - first - HOUR) <= HOUR * SLEW_PPM // 1_000_000 + 1


@given(st.integers(-30 * DAY, 30 * DAY))
def test_after_a_reboot_time_is_the_later_of_wall_clock_and_last_record(wall_step: int) -> None:
    hands = Hands()
    clock = hands.clock(None)
    run(hands, clock, [(MINUTE, 0)])
    anchor, before = clock.anchor(), clock.last
    hands.boot, hands.steady = "boot-2", 5_000
    hands.wall += wall_step
    again = hands.clock(anchor)
    assert again.now() == max(hands.wall, before)


def test_after_a_reboot_with_a_clock_in_the_past_time_goes_on_from_the_last_record() -> None:
    hands = Hands()
    anchor = Anchor(T0 + HOUR, "boot-0", 123)
    clock = hands.clock(anchor)  # the wall clock says an hour less
    times = [now for _, now in run(hands, clock, [(SECOND, 0)] * 10)]
    assert times[0] == T0 + HOUR
    assert all(0 <= SECOND - (later - before) <= 1 for before, later in pairwise(times))
    hands.wall += HOUR
    clock.now()
    assert not clock.alarm, "it is back where it should be"


def test_a_boot_clock_that_went_back_is_another_boot() -> None:
    """The same id, for instance in a container that was moved."""
    hands = Hands()
    clock = hands.clock(Anchor(T0 + HOUR, hands.boot, hands.steady + 1))
    assert clock.now() == T0 + HOUR


def test_a_restart_does_not_end_an_alarm() -> None:
    hands = Hands()
    clock = hands.clock(Anchor(T0, hands.boot, hands.steady), True)
    hands.wall += HOUR
    clock.now()
    assert clock.alarm
    hands.advance(SETTLE)
    clock.now()
    assert not clock.alarm


def test_readings_in_every_millisecond_slew_as_far_as_one_after_all() -> None:
    hands = Hands()
    clock = hands.clock(None)
    hands.wall += HOUR
    run(hands, clock, [(1, 0)] * 20_000)
    assert clock.last == T0 + 20_000 + 20_000 * SLEW_PPM // 1_000_000
