"""The story of a job: what it tells is what the log, the spans and the core say, counted in another way."""

from __future__ import annotations

import json
import random
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from engine_kit import T0, Rig, config_of, rig, spec
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console
from story_kit import Lived, lives, reckoned
from test_recovery_properties import Life, plan_of

from tenure.api.job_views import reason_view
from tenure.api.routes.why import Asking
from tenure.api.routes.why import told as told_by
from tenure.api.why_models import Why
from tenure.cli.why_page import page
from tenure.cli.why_story import story_lines
from tenure.core.events import AttemptExited, ExitKind, HostStateChanged, PauseScope, ReplicasUp, Submitted
from tenure.core.model import GPU, HOUR, MINUTE, SECOND, SHARE_ONE, Budget, HostState, Policy
from tenure.core.reasons import Reason
from tenure.core.state import State
from tenure.engine.past import Past
from tenure.executors.base import Phase
from tenure.store import Store
from tenure.why import answer
from tenure.why.chapters import (
    ClaimLost,
    Ended,
    Evicted,
    Exposed,
    Gainer,
    Left,
    Started,
    Story,
    Totals,
    Waited,
)
from tenure.why.chapters import Submitted as Handed
from tenure.why.story import story
from tenure.why.telling import Hope, line, summary


class OnTime(Life):
    """Nothing is heard of late."""

    def do(self, what: str, which: int, after: int) -> None:
        self.now += after
        if what not in ("snapshot", "compact", "restart"):
            self.step(*self.events(what, which, self.now))


@settings(max_examples=15)
@given(st.integers(0, 2**32))
def test_sums_and_chapters_of_random_lives_are_those_of_the_log(seed: int) -> None:
    with tempfile.TemporaryDirectory() as directory, Store.open(f"sqlite:///{Path(directory, 'tenure.db')}") as store:
        made = OnTime(store)
        for what, which, after in plan_of(seed):
            made.do(what, which, after)
        chance = random.Random(seed)
        for job_id, life in lives(store).items():
            for at in (made.now, chance.randint(life.submitted, made.now)):
                told = story(store, job_id, at)
                assert told is not None
                assert told.totals == reckoned(store, made.state, life, job_id, at), (job_id, at)
                check_chapters(told, life, at)
            assert story(store, job_id, life.submitted - 1) is None


def check_chapters(told: Story, life: Lived, at: int) -> None:
    """They follow each other without gaps, and each has its sentence."""
    times = [chapter.at for chapter in told.chapters]
    assert times == sorted(times) and times[0] == life.submitted and times[-1] <= at
    assert {c.attempt: c.at for c in told.chapters if isinstance(c, Started)} == {
        attempt: start for attempt, start in life.began.items() if start <= at
    }
    assert {c.attempt: (c.at, c.why.reason) for c in told.chapters if isinstance(c, Left)} == {
        attempt: over[:2] for attempt, over in life.over.items() if over[0] <= at
    }
    waits = [c for c in told.chapters if isinstance(c, Waited)]
    assert sum((at if c.until is None else c.until) - c.at for c in waits) == told.totals.waited
    assert (told.ended is not None) == (life.ended is not None and life.ended <= at)
    for chapter in told.chapters:
        text = line(chapter)
        assert text.endswith(".") and "  " not in text and not set("[]{}|") & set(text), text


@pytest.fixture
def eager(tmp_path: Path) -> Iterator[Rig]:
    """Whoever comes first may evict at once."""
    with rig(tmp_path, config_of(tmp_path, Policy(preemption_margin=MINUTE))) as bench:
        yield bench


def preempted(bench: Rig) -> tuple[int, int]:
    """A job that runs for 30 min on all GPUs, saves after 20, and has to go for another, 12 s after its warning."""
    victim = bench.submit("lab/a", 4, replicas=2, min_runtime=10 * MINUTE, grace=MINUTE)
    bench.advance(20 * MINUTE)
    bench.engine.checkpoint(victim, "ann")
    bench.advance(10 * MINUTE)
    gainer = bench.submit("lab/b", 4, min_runtime=HOUR, user="bob")
    bench.advance(12 * SECOND)
    bench.executor.exit(f"{victim}.1", -15, -15)
    bench.turn()
    assert (bench.state_of(victim), bench.state_of(gainer)) == ("queued", "running")
    return victim, gainer


def test_a_preempted_job_knows_by_whom_and_why_and_what_it_lost(eager: Rig) -> None:
    victim, gainer = preempted(eager)
    at = eager.engine.now()
    told = story(eager.store, victim, at)
    assert told is not None
    handed, started, exposed, evicted, left, waits = told.chapters
    assert handed == Handed(T0, "ann", "lab/a", 8, 10 * MINUTE, True)
    assert isinstance(started, Started) and started.why is not None
    assert (started.at, started.gpus, started.hosts, started.evicted) == (T0, 8, ("h0", "h1"), ())
    assert (started.protected_until, started.why.reason) == (T0 + 10 * MINUTE, Reason.STARTED_FREE)
    assert exposed == Exposed(T0 + 10 * MINUTE, f"{victim}.1", 10 * MINUTE)

    decided = T0 + 30 * MINUTE
    assert isinstance(evicted, Evicted)
    (row,) = eager.store.evictions()
    assert evicted.at == decided and evicted.gainer == Gainer(gainer, str(gainer), "bob", "lab/b")
    assert evicted.why.reason is Reason.EVICTED_STANDING and dict(evicted.why.numbers) == json.loads(row.numbers)
    # 8 GPUs for 30 min, of what lab/a may have in a lookback: half of 8 GPUs for 7 days, in parts per million.
    assert evicted.why.numbers["second_ratio_ppm"] == 8 * 30 * 1_000_000 // (4 * 7 * 24 * 60)
    assert evicted.why.numbers["second_recent_ppm"] == 8 * 30 * 1_000_000 // (4 * 24 * 60)
    assert evicted.why.numbers["first_ratio_ppm"] == 0
    assert evicted.gained == 4 * GPU * HOUR
    assert evicted.at_risk == 8 * GPU * 10 * MINUTE, "since its checkpoint"
    assert evicted.lost == 8 * GPU * (10 * MINUTE + 12 * SECOND)
    assert (evicted.warned_at, evicted.kill_at) == (decided, decided + MINUTE)
    assert isinstance(left, Left) and left.used == 8 * GPU * (30 * MINUTE + 12 * SECOND) and left.codes == (-15, -15)
    assert waits == Waited(decided + 12 * SECOND, None)
    assert told.totals == reckoned(eager.store, _state(eager), lives(eager.store)[victim], victim, at)
    assert summary(told, Hope(place=3)) == (
        f"It was preempted at 2027-01-15 08:30:00 UTC for job {gainer} (bob, lab/b) because lab/b comes first (usage "
        "ratio 0.00 against 0.01 of lab/a; over the last day 0.00 against 0.04); it lost up to 1.4 GPU-hours of work; "
        "it waits in place 3 of its budget."
    )
    before = story(eager.store, victim, decided - 1)
    assert before is not None and before.last_eviction is None and summary(before) is None
    during = story(eager.store, victim, decided + SECOND)
    assert during is not None and during.last_eviction == replace(evicted, lost=None, released_at=None)
    assert str(summary(during)).endswith("over the last day 0.00 against 0.04); it is being stopped.")

    mine = story(eager.store, gainer, at)
    assert mine is not None
    _, waited, began = mine.chapters
    assert waited == Waited(decided, decided + 12 * SECOND, decided, f"{gainer}.1")
    assert isinstance(began, Started) and began.evicted == (f"{victim}.1",)
    assert began.why is not None and began.why.reason is Reason.STARTED_BY_EVICTION


def _state(bench: Rig) -> State:
    with bench.engine.view() as state:
        return state


def test_a_finished_job_has_its_whole_story(eager: Rig) -> None:
    victim, gainer = preempted(eager)
    eager.advance(48 * SECOND)
    eager.finish(gainer)
    assert eager.state_of(victim) == "running"
    eager.advance(2 * HOUR)
    eager.finish(victim, 0, 0)
    told = story(eager.store, victim, eager.engine.now())
    assert told is not None and told.ended is not None and told.last_eviction is None
    ran = 2 * HOUR + 30 * MINUTE + 12 * SECOND
    assert told.totals == Totals(2, 1, ran, 48 * SECOND, 8 * GPU * ran, 0, 8 * GPU * 612 * SECOND, True)
    assert told.totals == reckoned(eager.store, _state(eager), lives(eager.store)[victim], victim, told.at)
    assert summary(told) == "It ran 2h30m on 8 GPUs in 2 attempts, waited 48s, and ended successfully."
    assert line(told.chapters[-1]) == (
        "Finished successfully. In all it ran 2h30m on 8 GPUs in 2 attempts, waited 48s; 20.0 GPU-hours were charged, "
        "up to 1.4 GPU-hours of work were lost to an eviction."
    )
    assert [type(chapter) for chapter in told.chapters] == [
        *(Handed, Started, Exposed, Evicted, Left),
        *(Waited, Started, Exposed, Left, Ended),
    ]


def test_work_that_is_saved_after_the_warning_is_not_lost(eager: Rig) -> None:
    victim = eager.submit("lab/a", 4, replicas=2, min_runtime=MINUTE, grace=MINUTE)
    eager.advance(30 * MINUTE)
    eager.submit("lab/b", 4)
    eager.advance(5 * SECOND)
    eager.engine.checkpoint(victim, "ann")
    eager.advance(2 * SECOND)
    eager.executor.exit(f"{victim}.1", 0, 0)
    eager.turn()
    told = story(eager.store, victim, eager.engine.now())
    assert told is not None and told.last_eviction is not None
    assert told.last_eviction.at_risk == 8 * GPU * 30 * MINUTE
    assert told.last_eviction.lost == told.totals.lost == 8 * GPU * 2 * SECOND


def test_what_was_done_when_it_was_warned_has_lost_nothing(eager: Rig) -> None:
    victim = eager.submit("lab/a", 4, replicas=2, min_runtime=MINUTE, grace=MINUTE)
    eager.advance(30 * MINUTE)
    eager.submit("lab/b", 4)
    eager.finish(victim, 0, 0, done=True)
    told = story(eager.store, victim, eager.engine.now())
    assert told is not None and told.totals.evictions == 1 and told.totals.lost == 0
    assert summary(told) == "It ran 30m on 8 GPUs in 1 attempt, waited 0s, and ended successfully."


def test_a_job_that_cannot_resume_ends_with_its_eviction(eager: Rig) -> None:
    victim = eager.submit("lab/a", 4, replicas=2, min_runtime=0, resumable=False)
    eager.advance(MINUTE)
    gainer = eager.submit("lab/b", 4)
    eager.finish(victim, -15, -15)
    told = story(eager.store, victim, eager.engine.now())
    assert told is not None and told.ended is not None and told.ended.state == "preempted"
    assert told.totals.unallocated == 8 * GPU * MINUTE and told.totals.charged == 0
    assert summary(told) == (
        f"It was preempted at 2027-01-15 08:01:00 UTC for job {gainer} (ann, lab/b) because it ran unallocated, and "
        "charged jobs come first; it lost up to 8 GPU-minutes of work; it was not resumable, so it has ended."
    )
    said = [line(chapter) for chapter in told.chapters[-2:]]
    assert said[0].endswith(" unallocated.") and said[1].startswith("It was not resumable, so it has ended. In all ")


def test_a_failed_host_credits_what_it_cost(bench: Rig) -> None:
    job_id = bench.submit("lab/a", 4, min_runtime=HOUR)
    bench.advance(20 * MINUTE)
    host = _state(bench).jobs[job_id].attempt.hosts()[0]  # type: ignore[union-attr]
    bench.engine.set_host("main", host, HostState.FAILED, "op", "GPU 3 is lost")
    bench.executor.enter(f"{job_id}.1", Phase.LOST)
    bench.turn()
    told = story(bench.store, job_id, bench.engine.now())
    assert told is not None
    left = next(chapter for chapter in told.chapters if isinstance(chapter, Left))
    assert (left.used, left.credited) == (4 * GPU * 20 * MINUTE, 4 * GPU * 20 * MINUTE)
    assert told.totals.charged == 0 and told.totals.lost == 4 * GPU * 20 * MINUTE and told.totals.evictions == 0
    assert "were credited to its budget" in line(left)


def test_what_never_ran_says_so(bench: Rig) -> None:
    for _ in range(2):
        bench.submit("lab/a", 4)
    job_id = bench.submit("lab/a", 4)
    bench.advance(MINUTE)
    bench.engine.cancel(job_id, "ann")
    told = story(bench.store, job_id, bench.engine.now())
    assert told is not None
    assert summary(told) == "It never ran: it waited 1m, and was cancelled by ann."
    assert [type(chapter) for chapter in told.chapters] == [Handed, Waited, Ended]


def test_a_claim_that_is_dropped_is_part_of_the_wait(tmp_path: Path) -> None:
    with Store.open(f"sqlite:///{tmp_path / 'tenure.db'}") as store:
        life = Life(store)
        life.step(Submitted(T0, 1, spec("lab/a", 4, replicas=2, min_runtime=0, grace=MINUTE)))
        life.step(ReplicasUp(T0, "1.1"))
        life.now += MINUTE
        life.step(Submitted(life.now, 2, spec("lab/b", 4)))
        host = life.state.jobs[2].attempt.hosts()[0]  # type: ignore[union-attr]
        life.now += SECOND
        life.step(HostStateChanged(life.now, "main", host, HostState.FAILED, "op", "fan"))
        life.step(AttemptExited(life.now, "1.1", ExitKind.EXITED, (1, 1)))
        told = story(store, 2, life.now)
        assert told is not None
        lost = [chapter for chapter in told.chapters if isinstance(chapter, ClaimLost)]
        assert [(chapter.at, chapter.attempt) for chapter in lost] == [(T0 + MINUTE + SECOND, "2.1")]


def test_what_is_not_kept_any_more_is_not_told(eager: Rig) -> None:
    victim, gainer = preempted(eager)
    eager.finish(gainer)
    eager.restart()  # with a snapshot, so that the log before it may go
    eager.advance(HOUR)
    eager.store.compact(eager.engine.now(), eager.config.policy.lookback)
    told = story(eager.store, victim, eager.engine.now())
    assert told is not None
    assert next(c for c in told.chapters if isinstance(c, Started)).why is None
    assert not told.totals.lost_known, "its eviction is not kept"
    assert story(eager.store, gainer, eager.engine.now()) is None


@pytest.mark.parametrize(
    ("codes", "retries", "said"),
    [((3,), 0, "It ran 1m on 4 GPUs in 1 attempt, waited 0s, and failed: exit code 3."), ((3,), 1, None)],
)
def test_what_failed_says_how(bench: Rig, codes: tuple[int, ...], retries: int, said: str | None) -> None:
    job_id = bench.submit("lab/a", 4, retries=retries)
    bench.advance(MINUTE)
    bench.finish(job_id, *codes)
    told = story(bench.store, job_id, bench.engine.now())
    assert told is not None and summary(told) == said, "with another try it is not over"


def test_what_was_cancelled_while_it_ran_or_ran_too_long_says_so(bench: Rig) -> None:
    ran = bench.submit("lab/a", 4, timeout=2 * MINUTE, min_runtime=MINUTE)
    other = bench.submit("lab/b", 4)
    bench.advance(MINUTE)
    bench.engine.cancel(other, "eve")
    bench.finish(other, -15)
    bench.advance(MINUTE)
    bench.finish(ran, -15)
    found = [summary(told) for job in (ran, other) if (told := story(bench.store, job, bench.engine.now()))]
    assert found == [
        "It ran 2m on 4 GPUs in 1 attempt, waited 0s, and reached its timeout of 2m.",
        "It ran 1m on 4 GPUs in 1 attempt, waited 0s, and was cancelled by eve.",
    ]


DOCS = Path(__file__).resolve().parents[2] / "docs" / "why.md"


def test_the_stories_in_the_documentation_are_what_is_printed(eager: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    eager.configure(budgets=(Budget("lab", SHARE_ONE), *(Budget(f"lab/{name}", 500_000) for name in ("nlp", "vision"))))
    eager.engine.pause(PauseScope.STARTS, "op")
    for _ in range(7):  # numbers that no other example of that page has
        eager.engine.cancel(eager.submit("lab/nlp"), "op")
    eager.engine.resume(PauseScope.STARTS, "op")
    job = eager.submit("lab/nlp", 4, replicas=2, min_runtime=10 * MINUTE, grace=MINUTE)
    eager.advance(28 * MINUTE)
    eager.engine.checkpoint(job, "ann")
    eager.advance(2 * MINUTE)
    gainer = eager.submit("lab/vision", 4, min_runtime=15 * MINUTE, user="bob")
    eager.advance(12 * SECOND)
    eager.executor.exit(f"{job}.1", -15, -15)
    eager.turn()
    pages = [printed(eager, job)]
    eager.advance(20 * MINUTE)
    eager.finish(gainer)
    eager.advance(2 * HOUR + 40 * MINUTE)
    eager.finish(job, 0, 0)
    pages.append(printed(eager, job))
    text = DOCS.read_text("utf-8")
    for shown in pages:
        assert f"```console\n$ tenure why {job}\n{shown}```\n" in text, shown
    monkeypatch.undo()
    time.tzset()


def printed(bench: Rig, job_id: int) -> str:
    """What a terminal of 116 columns shows about a job now, after a round through JSON; ``...`` for the arithmetic."""
    with bench.engine.view() as state:
        job, now = state.jobs.get(job_id), state.now
        found = answer(state, job) if job is not None else None
    view = Why.model_validate_json(told_by(bench.engine, job_id, found, now).model_dump_json())
    console = Console(width=116, color_system=None, highlight=False)
    with console.capture() as captured:
        first, *arithmetic = page(view, now)
        for part in (first, *(["", "..."] if arithmetic else []), *story_lines(view.story)):
            console.print(part)
    return "\n".join(row.rstrip() for row in captured.get().splitlines()) + "\n"


def test_long_waits_that_are_over_are_asked_about(eager: Rig) -> None:
    victim, gainer = preempted(eager)
    began = eager.engine.now()
    eager.advance(50 * MINUTE)
    eager.finish(gainer)
    eager.advance(HOUR)
    eager.finish(victim, 0, 0)
    now = eager.engine.now()
    waits = {}
    for job in (victim, gainer):
        asking = Asking(Past(eager.store), job, now)
        story_of = told_by(eager.engine, job, None, now, asking).story
        (waits[job],) = [chapter for chapter in story_of if chapter.kind == "waited"]
    assert waits[gainer].reason is None, "it waited for seconds"
    assert waits[victim].text.startswith("Waited 50m. Halfway: Waiting for GPUs: it needs 8, and 4 are free")
    asking = Asking(Past(eager.store), victim, now)
    halfway = asking(began + 25 * MINUTE)
    assert halfway is not None and waits[victim].reason == reason_view(halfway)
    assert asking(T0 - 1) is None, "the log does not reach back to then"
