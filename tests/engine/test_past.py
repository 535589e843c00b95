"""The past, read from the store, is what was running then."""

from __future__ import annotations

import random
import tempfile
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import replace
from pathlib import Path

import pytest
from engine_kit import CLUSTER, T0, Rig, config_of, rig, saved, spec
from hypothesis import example, given, settings
from hypothesis import strategies as st
from test_recovery_properties import Life, plan_of

from support import invariants
from tenure.core import scheduler
from tenure.core.events import PauseScope, ReplicasUp, Submitted
from tenure.core.explain import why
from tenure.core.lifecycle import JobState
from tenure.core.model import HOUR, MINUTE, SECOND, Policy
from tenure.core.reasons import Reason, Refusal
from tenure.core.state import State
from tenure.engine.clock import Anchor
from tenure.engine.past import KEPT, WAITING, Past
from tenure.store import Store

FOREVER = 1 << 60


class Recorder:
    """The live state at some moments, as it was."""

    def __init__(self, bench: Rig) -> None:
        self.bench = bench
        self.seen: dict[int, str] = {}

    def note(self, after: int) -> None:
        """Let ``after`` ms pass, and write down what is running then; nothing else happens in that millisecond."""
        self.bench.advance(after)
        with self.bench.engine.view() as state:
            self.seen[state.now] = saved(state)
        self.bench.advance(1)


def test_past_states_are_those_that_were_running(bench: Rig) -> None:
    record = Recorder(bench)
    chance = random.Random(7)
    jobs: list[int] = []
    for turn in range(24):
        kept_short = {"min_runtime": (0, SECOND, MINUTE)[turn % 3], "grace": 5 * SECOND}
        jobs.append(bench.submit(("lab/a", "lab/b")[turn % 2], 1 + turn % 4, **kept_short))
        record.note(chance.randint(1, 2 * MINUTE))
        running = sorted(bench.executor.runs)
        if running and turn % 2:
            bench.executor.exit(chance.choice(running), turn % 4)
        record.note(chance.randint(1, 10 * SECOND))
        if turn in (8, 16):
            bench.restart()  # which writes a snapshot
            record.note(1)
    assert any(row.reason.startswith("evicted") for row in bench.store.evictions(limit=None)), "nothing was evicted"
    past = Past(bench.store)
    moments = list(record.seen)
    chance.shuffle(moments)
    for at in moments:
        state = past.state_at(at, FOREVER)
        assert state.now == at
        assert saved(state) == record.seen[at], f"at {at - T0} ms"


@settings(max_examples=15)
@given(st.integers(0, 2**32))
@example(1081)  # GPUs are not back on a host that has failed already: true, and nothing is written
def test_whatever_happened_the_past_is_as_it_was_or_is_refused(seed: int) -> None:
    with tempfile.TemporaryDirectory() as directory, Store.open(f"sqlite:///{Path(directory, 'tenure.db')}") as store:
        life = Life(store)
        seen: dict[int, str] = {life.state.now: saved(life.state)}
        for what, which, after in plan_of(seed):
            life.do(what, which, after)
            if what not in ("restart", "compact", "snapshot"):  # after which nobody has looked at the clock yet
                seen[life.state.now] = saved(life.state)
        past, kept = Past(store), store.kept_since()
        assert kept is not None
        chance = random.Random(seed)
        for at in chance.sample(sorted(seen), min(len(seen), 12)):
            if at < kept:
                with pytest.raises(Refusal, match="history is kept from"):
                    past.state_at(at, FOREVER)
            else:
                assert saved(past.state_at(at, FOREVER)) == seen[at]
        for _ in range(5):  # moments at which nobody looked
            at = chance.randint(kept, life.now + HOUR)
            state = past.state_at(at, FOREVER)
            assert state.now == at
            for holds in (invariants.check_gpus, invariants.check_promises, invariants.check_waits):
                holds(state)


def test_what_falls_due_while_the_server_is_down_has_not_happened(tmp_path: Path) -> None:
    with Store.open(f"sqlite:///{tmp_path / 'tenure.db'}") as store:
        life = Life(store)
        life.now += SECOND
        life.step(Submitted(life.now, 1, spec(timeout=15 * MINUTE, min_runtime=MINUTE)))
        life.step(ReplicasUp(life.now, "1.1"))
        up = life.now
        life.now += 2 * HOUR
        life.step()  # it is back, and the job is stopped now
        assert life.state.jobs[1].state is JobState.STOPPING
        past = Past(store)
        down = past.state_at(up + HOUR, FOREVER)
        assert down.jobs[1].state is JobState.RUNNING and down.attempts["1.1"].stop is None
        assert "1.1" in down.clusters["main"].exposed["lab/a"], "its protection ended all the same"
        assert past.state_at(life.now, FOREVER).jobs[1].state is JobState.STOPPING


def test_past_jobs_wait_for_the_reasons_of_then(bench: Rig) -> None:
    for _ in range(2):
        bench.submit("lab/a", 4, min_runtime=0)
    bench.engine.pause(PauseScope.EVICTIONS, "op")
    job_id = bench.submit("lab/b", 4)
    with bench.engine.view() as state:
        live, then = why(state, state.jobs[job_id]), state.now
    assert live.reason is Reason.PAUSED_EVICTIONS
    bench.advance(MINUTE)
    bench.engine.resume(PauseScope.EVICTIONS, "op")
    bench.turn()
    with bench.engine.view() as state:
        assert why(state, state.jobs[job_id]).reason is not live.reason
    state = Past(bench.store).state_at(then, FOREVER)
    assert why(state, state.jobs[job_id]) == live


def test_looking_around_a_moment_repeats_only_what_lies_between(bench: Rig) -> None:
    moments = []
    for _ in range(2 * KEPT):
        bench.submit("lab/a", 1)
        bench.advance(SECOND)
        moments.append(bench.engine.now())
    past = Past(bench.store)

    def repeated(at: int) -> int:
        batches: list[tuple[int, int]] = []
        past.state_at(at, FOREVER, lambda done, total: batches.append((done, total)))
        assert [done for done, _ in batches] == list(range(1, len(batches) + 1))
        assert {total for _, total in batches} <= {len(batches)}
        return len(batches)

    first = repeated(moments[3])
    assert first > 3
    assert repeated(moments[3]) == 0, "it is known"
    assert repeated(moments[3] - 1) < first
    assert repeated(moments[4]) in (1, 2), "one submission, and that it was up"
    for at in moments:
        repeated(at)
    assert len(past._known) == KEPT


def test_a_past_state_that_somebody_changed_is_not_given_to_others(bench: Rig) -> None:
    job_id = bench.submit("lab/a")
    at = bench.engine.now()
    past = Past(bench.store)
    past.state_at(at, FOREVER).jobs.clear()
    assert job_id in past.state_at(at, FOREVER).jobs


def test_several_may_ask_at_once_while_the_engine_works(bench: Rig) -> None:
    record = Recorder(bench)
    for turn in range(6):
        bench.submit("lab/a", 1 + turn % 4, min_runtime=SECOND)
        record.note(SECOND)
    past = Past(bench.store)
    with ThreadPoolExecutor(1 + WAITING) as pool:
        found = {at: pool.submit(past.state_at, at, FOREVER) for at in record.seen for _ in range(3)}
        bench.submit("lab/b", 4)
        assert {at: saved(state.result()) for at, state in found.items()} == record.seen


def test_moments_that_have_no_answer_say_which_have(tmp_path: Path) -> None:
    with Store.open(f"sqlite:///{tmp_path / 'empty.db'}") as empty, pytest.raises(Refusal, match="no history is kept"):
        Past(empty).state_at(T0, FOREVER)
    policy = Policy(lookback=HOUR)
    config = replace(config_of(tmp_path, policy), clusters=(replace(CLUSTER, min_runtime_floor=SECOND),))
    with rig(tmp_path, config) as bench:
        past = Past(bench.store)
        first = bench.submit("lab/a", min_runtime=SECOND)
        began, early = bench.store.kept_since(), bench.engine.now()
        assert began == T0
        with pytest.raises(Refusal) as refused:
            past.state_at(T0 - 1, FOREVER)
        assert refused.value.field == "at" and refused.value.value == "2027-01-15T07:59:59.999Z"
        assert "2027-01-15T08:00:00Z" in refused.value.fix
        with pytest.raises(Refusal, match="has not come yet"):
            past.state_at(early + 1, early)
        bench.advance(HOUR)
        bench.finish(first)
        bench.restart()
        between = bench.engine.now()
        bench.advance(3 * HOUR)
        second = bench.submit("lab/b")
        bench.store.compact(bench.engine.now() - HOUR, HOUR)
        assert Past(bench.store).state_at(between, FOREVER).jobs.keys() == set()
        assert second in Past(bench.store).state_at(bench.engine.now(), FOREVER).jobs
        with pytest.raises(Refusal, match="history is kept from 2027-01-15T09:00:00Z on"):
            past.state_at(early, FOREVER)


def test_what_other_rules_decided_stays_as_they_decided(tmp_path: Path) -> None:
    with Store.open(f"sqlite:///{tmp_path / 'tenure.db'}") as store:
        life = Life(store)
        life.now += SECOND
        handed = Submitted(life.now, 1, spec())
        result = scheduler.step(life.state, (handed,), life.now, decide=lambda _: ())  # ours would start it
        life.writer.write(life.state, (handed,), result, Anchor(life.now, "boot", life.now - T0), [])
        for _ in range(2):
            assert Past(store).state_at(life.now, FOREVER).jobs[1].state is JobState.QUEUED


def test_who_waits_too_long_for_anothers_look_is_told(bench: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.submit("lab/a")
    past, at = Past(bench.store), bench.engine.now()
    monkeypatch.setattr("tenure.engine.past.PATIENCE_S", 0.01)
    refused: list[BaseException] = []

    def another(_done: int, _total: int) -> None:
        with pytest.raises(TimeoutError) as error, ThreadPoolExecutor(1) as pool:
            pool.submit(past.state_at, at, FOREVER).result()
        refused.append(error.value)

    assert past.state_at(at, FOREVER, another).now == at
    assert refused and "one can at a time" in str(refused[0])
    assert past.state_at(at, FOREVER).now == at, "the next one may"


def test_when_some_wait_already_others_are_told_at_once(bench: Rig) -> None:
    bench.submit("lab/a")
    past, at = Past(bench.store), bench.engine.now()

    def another(done: int, _total: int) -> None:
        if done > 1:
            return
        found.extend(pool.submit(past.state_at, at, FOREVER) for _ in range(WAITING + 3))
        told = [found.pop(found.index(next(as_completed(found)))) for _ in range(3)]  # the others cannot end yet
        assert all("one can at a time" in str(each.exception()) for each in told)
        assert not any(each.done() for each in found)

    found: list[Future[State]] = []
    with ThreadPoolExecutor(WAITING + 3) as pool:
        assert past.state_at(at, FOREVER, another).now == at
        assert [each.result().now for each in found] == [at] * WAITING
    assert past.state_at(at, FOREVER).now == at
