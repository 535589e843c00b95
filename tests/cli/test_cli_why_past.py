"""A real eviction, and what ``why`` tells of it afterwards and as of moments before, in between and since."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest

from support.server import TestServer
from tenure.api.story_models import EvictedChapter, StartedChapter
from tenure.api.why_models import Why
from tenure.client import TenureError
from tenure.core.model import GPU, HOUR, MINUTE
from tenure.core.reasons import Reason
from tenure.store import SpanRow, Store
from tenure.units import format_time
from tenure.words import moment

VICTIM = """
trap 'exit 7' TERM
[ "$TENURE_RESTART_COUNT" = 0 ] || exit 0
while :; do sleep 0.1; done
"""
WEEK = 7 * 24 * HOUR
DAY = 24 * HOUR


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestServer]:
    running = TestServer(tmp_path_factory.mktemp("past"), policy='preemption_margin = "0s"')
    running.start()
    yield running
    running.end()


class Happened:
    """Two jobs of which one was preempted for the other, and the moments of it by the ledger."""

    def __init__(self, server: TestServer) -> None:
        self.server = server
        shape = {"gpus": 4, "min_runtime": "1s", "resumable": True}
        body = {**shape, "budget": "lab/language", "replicas": 2, "command": ["sh", "-c", VICTIM]}
        self.victim = server.client.submit(body).job.id
        server.wait_state(self.victim, "running")
        shape["min_runtime"] = "1m"  # whoever was evicted may not evict it in turn
        body = {**shape, "budget": "lab/vision", "command": ["sleep", "1"], "user": "alan"}
        self.gainer = server.client.submit(body).job.id
        server.client.wait(self.gainer, 60)
        server.client.wait(self.victim, 60)

    def spans(self, job: int) -> list[SpanRow]:
        with Store.open(f"sqlite:///{self.server.directory}/.tenure/tenure.db") as store:
            return [span for span in store.spans() if span.attempt_id.startswith(f"{job}.")]

    def evicted_at(self) -> int:
        with Store.open(f"sqlite:///{self.server.directory}/.tenure/tenure.db") as store:
            (row,) = store.evictions(job_id=self.victim)
            return row.at

    def while_the_gainer_ran(self) -> int:
        with Store.open(f"sqlite:///{self.server.directory}/.tenure/tenure.db") as store:
            (row,) = store.attempts_of(self.gainer)
            assert row.running_at is not None and row.ended_at is not None
            return (row.running_at + row.ended_at) // 2


@pytest.fixture(scope="module")
def happened(server: TestServer) -> Happened:
    return Happened(server)


def ppm(used: int, share_percent: int, window: int) -> int:
    """A usage ratio: the cluster has 8 GPUs, all healthy, and a budget's share has always been what it is."""
    return used * 100 * 1_000_000 // (share_percent * 8 * GPU * window)


def test_the_story_tells_the_eviction_with_the_numbers_of_the_ledger(happened: Happened) -> None:
    told = happened.server.client.why(happened.victim)
    first, second = happened.spans(happened.victim)
    (gained,) = happened.spans(happened.gainer)
    at = happened.evicted_at()
    assert [chapter.kind for chapter in told.story] == [
        *("submitted", "started", "exposed", "evicted", "left"),
        *("waited", "started", "left", "ended"),
    ]
    (evicted,) = [chapter for chapter in told.story if isinstance(chapter, EvictedChapter)]
    assert evicted.at == at and evicted.gainer is not None
    assert (evicted.gainer.job, evicted.gainer.user, evicted.gainer.budget) == (happened.gainer, "alan", "lab/vision")
    assert evicted.reason.code == Reason.EVICTED_STANDING
    numbers = evicted.reason.numbers
    used = first.amount * (at - first.start)
    assert first.amount == 8 * GPU
    assert (numbers["second"], numbers["first"]) == ("lab/language", "lab/vision")
    assert numbers["second_ratio_ppm"] == ppm(used, 50, WEEK) and numbers["second_recent_ppm"] == ppm(used, 50, DAY)
    assert numbers["first_ratio_ppm"] == numbers["first_recent_ppm"] == 0
    assert evicted.gained_gpu_hours == round(4 * MINUTE / HOUR, 6)
    running = next(chapter for chapter in told.story if isinstance(chapter, StartedChapter)).running_at
    assert running is not None and running >= first.start
    assert evicted.at_risk_gpu_hours == round(8 * (at - running) / HOUR, 6)
    assert evicted.lost_gpu_hours == round(8 * (first.end - running) / HOUR, 6)
    assert evicted.released_at == first.end <= gained.start

    ended = told.story[-1]
    assert ended.kind == "ended" and ended.state == "succeeded"
    ran = first.end - first.start + second.end - second.start
    assert ended.totals.charged_gpu_hours == round(8 * ran / HOUR, 6)
    assert (ended.totals.attempts, ended.totals.evictions, ended.totals.ran_ms) == (2, 1, ran)
    submitted = told.story[0].at
    assert ended.totals.waited_ms == first.start - submitted + second.start - first.end
    assert told.sentence.startswith("It ran ") and " on 8 GPUs in 2 attempts, waited " in told.sentence
    assert told.sentence.endswith(", and ended successfully.")


def test_a_past_moment_has_the_answer_of_then(happened: Happened) -> None:
    first, second = happened.spans(happened.victim)
    at = happened.evicted_at()
    between = happened.while_the_gainer_ran()
    before, during, after = (_then(happened, moment) for moment in (at - 1, between, second.start))
    assert before.at == at - 1 and before.state == "running" and before.running is not None
    # It may have gone in the very moment in which its protection was over.
    exposed = before.running.protected_until is not None and before.running.protected_until < at
    assert [chapter.kind for chapter in before.story] == ["submitted", "started", *(["exposed"] if exposed else [])]
    assert before.sentence.startswith("Runs, exposed since " if exposed else "Runs, protected until ")
    assert during.state == "queued" and during.ahead is not None and during.ahead.jobs == 0
    assert during.sentence.startswith(
        f"It was preempted at {moment(at)} for job {happened.gainer} (alan, lab/vision) because lab/vision comes first "
    )
    (blocker,) = during.blockers
    assert blocker.attempt == f"{happened.gainer}.1" and blocker.protected_until is not None
    room = f"; it waits in place 1 of its budget, and has room at {moment(blocker.protected_until)} at the earliest, "
    assert during.sentence.endswith(f"{room}as things stand.")
    (level,) = during.levels
    used = {sibling.budget: sibling.used_gpu_hours for sibling in level.siblings}
    assert used["lab/language"] == round(8 * (first.end - first.start) / HOUR, 6)
    (waits,) = [chapter for chapter in during.story if chapter.kind == "waited"]
    assert waits.until is None and waits.at == first.end and waits.reason == during.reason
    assert after.state == "starting" and after.story[-1].kind == "started"
    now = happened.server.client.why(happened.victim)
    ended = _then(happened, now.story[-1].at)
    assert ended.state == "succeeded" and ended.story == now.story and ended.sentence == now.sentence


def _then(happened: Happened, at: int) -> Why:
    return happened.server.client.why(happened.victim, at=format_time(at))


@pytest.mark.parametrize(
    ("at", "said"),
    [
        ("2020-01-01T00:00:00Z", "was submitted at"),
        ("1w", "was submitted at"),
        ("2100-01-01T00:00:00Z", "that has not come yet"),
        ("yesterday", "write 2h or 3d for so long ago"),
        ("2026-10-09T12:00:00", "say the zone"),
    ],
)
def test_moments_without_an_answer_are_refused_with_what_would_work(happened: Happened, at: str, said: str) -> None:
    with pytest.raises(TenureError, match=said) as refused:
        happened.server.client.why(happened.victim, at=at)
    (error,) = refused.value.problem.errors
    assert refused.value.status == 422 and (error.field, error.value) == ("at", at)


def test_the_command_says_what_it_was_and_what_has_happened(happened: Happened) -> None:
    server, job = happened.server, str(happened.victim)
    first, second = happened.spans(happened.victim)
    now = server.cli("why", job).stdout
    assert now.startswith("It ran ") and "What has happened to it" in now
    assert f"Preempted for job {happened.gainer} (alan, lab/vision): lab/vision comes first" in now
    between = (first.end + second.start) // 2
    then = server.cli("why", job, "--at", format_time(between)).stdout
    assert then.startswith("At ") and " it was queued:\nIt was preempted at " in then and "In its way: " in then
    local = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(between // 1000))
    found = json.loads(server.cli("why", job, "--at", local, "--json").stdout)
    assert found["at"] == format_time(between - between % 1000)
    assert found["story"] == [
        chapter.model_dump(mode="json") for chapter in server.client.why(happened.victim, at=found["at"]).story
    ]
    assert "Halfway" not in server.cli("why", job, "--reasons").stdout, "it waited for seconds only"
    refused = server.cli("why", job, "--at", "tomorrow", code=None)
    assert refused.returncode and "write 2h or 3d for so long ago" in refused.stderr
