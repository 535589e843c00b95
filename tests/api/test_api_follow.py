"""Logs, the end of a job, decisions, metrics: what is followed."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import httpx
import pytest
from api_kit import Api

from tenure.api.metrics import wait_class
from tenure.core.model import HOUR, MINUTE, Contract, JobSpec, Role
from tenure.metric_names import METRICS, MetricType

LONG = 30_000


class Later:
    """A request in a thread of its own."""

    def __init__(self, api: Api, path: str, **query: Any) -> None:
        self._answer: httpx.Response | None = None
        self._thread = threading.Thread(target=self._ask, args=(api, path, query))
        self._thread.start()

    def _ask(self, api: Api, path: str, query: dict[str, Any]) -> None:
        self._answer = api.call("GET", path, params=query)

    @property
    def waits(self) -> bool:
        return self._thread.is_alive()

    def answer(self) -> httpx.Response:
        self._thread.join(timeout=60)
        assert self._answer is not None
        return self._answer


def log_of(api: Api, attempt: str, rank: int = 0, stream: str = "stdout") -> Path:
    return Path(api.executor.log_path(attempt, rank, stream))


def test_logs_by_offset_replica_stream_and_attempt(api: Api) -> None:
    job = api.submit(replicas=2)
    api.reach(job["id"], "running")
    attempt, path = f"{job['id']}.1", f"/v1/jobs/{job['id']}/logs"
    log_of(api, attempt).write_bytes(b"one\ntwo\n\xff\n")
    log_of(api, attempt, 1).write_bytes(b"second")
    log_of(api, attempt, 0, "stderr").write_bytes(b"oh")

    def read(**query: Any) -> tuple[bytes, str, str, str]:
        answer = api.call("GET", path, params=query)
        assert answer.status_code == 200 and answer.headers["content-type"] == "application/octet-stream"
        names = ("X-Tenure-Offset", "X-Tenure-Next", "X-Tenure-Complete")
        offset, following, complete = (answer.headers[name] for name in names)
        return answer.content, offset, following, complete

    assert read() == (b"one\ntwo\n\xff\n", "0", "10", "false")
    assert read(offset=4, limit=3) == (b"two", "4", "7", "false")
    assert read(offset=-2) == (b"\xff\n", "8", "10", "false")
    assert read(offset=-99)[0] == b"one\ntwo\n\xff\n"
    assert read(offset=2**62) == (b"", str(2**62), str(2**62), "false")
    assert read(replica=1)[0] == b"second" and read(stream="stderr")[0] == b"oh"
    assert api.call("GET", path, params={"replica": 2}).status_code == 404
    assert api.call("GET", path, params={"attempt": 2}).status_code == 404
    api.executor.finish(attempt)
    api.reach(job["id"], "succeeded")
    assert read(attempt=1, offset=4) == (b"two\n\xff\n", "4", "10", "true")


def test_a_log_that_the_server_may_not_read_is_told(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """The output of a job that runs as its user. Root may read everything, so the answer is put in its mouth."""
    job = api.submit()
    api.reach(job["id"], "running")
    log = log_of(api, f"{job['id']}.1")
    really = Path.open

    def refused(path: Path, *words: Any, **more: Any) -> Any:
        if path == log:
            raise PermissionError(13, "Permission denied", str(path))
        return really(path, *words, **more)

    monkeypatch.setattr(Path, "open", refused)
    answer = api.call("GET", f"/v1/jobs/{job['id']}/logs")
    assert answer.status_code == 409
    assert str(log) in answer.text and "look at it yourself" in answer.text


def test_a_job_without_an_attempt_has_an_empty_log(api: Api) -> None:
    job = api.submit(hold=True)
    path = f"/v1/jobs/{job['id']}/logs"
    answer = api.call("GET", path)
    assert answer.content == b"" and answer.headers["X-Tenure-Attempt"] == "0"
    assert answer.headers["X-Tenure-Complete"] == "false"
    api.post(f"/v1/jobs/{job['id']}/cancel")
    assert api.call("GET", path).headers["X-Tenure-Complete"] == "true"


def test_a_log_is_waited_for(api: Api) -> None:
    job = api.submit()
    api.reach(job["id"], "running")
    later = Later(api, f"/v1/jobs/{job['id']}/logs", wait_ms=LONG)
    log_of(api, f"{job['id']}.1").write_bytes(b"here")
    assert later.answer().content == b"here"
    later = Later(api, f"/v1/jobs/{job['id']}/logs", offset=4, wait_ms=LONG)
    api.executor.finish(f"{job['id']}.1")
    assert later.answer().headers["X-Tenure-Complete"] == "true"


def test_waiting_for_the_end_of_a_job(api: Api) -> None:
    job = api.submit()
    api.reach(job["id"], "running")
    path = f"/v1/jobs/{job['id']}/wait"
    assert api.get(path, params={"timeout_ms": 0})["ended"] is False
    assert api.get(path, params={"timeout_ms": LONG, "state": "queued"})["state"] == "running"
    later = Later(api, path, timeout_ms=LONG)
    api.executor.finish(f"{job['id']}.1", 1)
    ended = later.answer().json()
    assert ended["ended"] and ended["state"] == "failed" and ended["reason"]["code"] == "failed"


def test_changes_and_decisions_are_waited_for(api: Api) -> None:
    seq = api.get("/v1/changes")["seq"]
    later, feed = (
        Later(api, "/v1/changes", after=seq, wait_ms=LONG),
        Later(api, "/v1/decisions", after=seq, wait_ms=LONG),
    )
    job = api.submit(gpus=8)
    assert later.answer().json()["seq"] > seq
    page = feed.answer().json()
    entries = [entry for batch in page["items"] for entry in batch["entries"]]
    assert entries[0]["kind"] == "submitted" and "8 GPUs" in entries[0]["text"]
    starts = [entry for entry in entries if entry["kind"] == "start"]
    assert starts[0]["job"] == job["id"] and starts[0]["reason"]["code"] == "started_free"
    assert page["next"] >= page["items"][-1]["seq"]
    assert api.get("/v1/decisions", params={"after": api.engine.last_seq})["items"] == []
    assert api.get("/v1/decisions", params={"after": 0, "limit": 1})["items"][0]["seq"] == 1


def test_the_feed_has_words_for_all_that_happens(api: Api) -> None:
    free = api.submit(gpus=8, replicas=2, min_runtime="0", resumable=True)
    api.reach(free["id"], "running")
    job = api.submit(gpus=8, replicas=2)
    api.reach(job["id"], "running")
    path = f"/v1/jobs/{job['id']}"
    for action in ("hold", "release", "checkpoint", "cancel"):
        api.post(f"{path}/{action}")
    api.call("PATCH", f"/v1/jobs/{free['id']}", json={"priority": 3})
    api.reach(job["id"], "cancelled")
    api.reach(free["id"], "running")
    for name in ("drain", "fail", "resume"):
        api.post(f"/v1/hosts/main/n1/{name}", {"why": "test"})
    for name in ("pause", "resume"):
        api.post(f"/v1/{name}", {"scope": "evictions"})
    batches = api.get("/v1/decisions", params={"after": 0, "limit": 1000})["items"]
    kinds = {entry["kind"] for batch in batches for entry in batch["entries"]}
    assert kinds >= {
        *("configuration", "submitted", "start", "running", "claim", "evict", "attempt_ended", "requeued"),
        *("hold", "release", "checkpoint", "cancel", "priority", "stop", "ended", "host", "pause", "resume"),
    }
    assert all(entry["text"] for batch in batches for entry in batch["entries"])


def test_everything_that_waits_is_let_go_when_the_server_stops(api: Api) -> None:
    job = api.submit(hold=True)
    waiting = [
        Later(api, "/v1/changes", after=api.engine.last_seq, wait_ms=LONG),
        Later(api, "/v1/decisions", after=api.engine.last_seq, wait_ms=LONG),
        Later(api, f"/v1/jobs/{job['id']}/wait", timeout_ms=LONG),
        Later(api, f"/v1/jobs/{job['id']}/logs", wait_ms=LONG),
    ]
    api.app.state.changes.close()
    assert [later.answer().status_code for later in waiting] == [200] * 4


def samples(api: Api) -> dict[str, float]:
    lines = [line for line in api.call("GET", "/metrics", user=None).text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def test_metrics_have_the_names_that_alerts_use_and_no_others(api: Api) -> None:
    free = api.submit(gpus=8, replicas=2, min_runtime="0", resumable=True)
    api.reach(free["id"], "running")
    job = api.submit(gpus=8, replicas=2)
    api.reach(job["id"], "running")
    waiting = api.submit(gpus=4)
    held = api.submit(hold=True)
    api.post(f"/v1/jobs/{held['id']}/cancel")
    found = samples(api)
    known = {name for metric in METRICS for name in metric.series}
    assert {name.partition("{")[0] for name in found} <= known
    counters = {metric.name for metric in METRICS if metric.type is MetricType.COUNTER}
    assert counters <= {name.partition("{")[0] for name in found}
    assert found['tenure_jobs{state="running"}'] == 1 and found['tenure_jobs{state="queued"}'] == 2
    assert found['tenure_queued{reason="waiting_capacity"}'] == 2 and waiting["state"] == "queued"
    assert found['tenure_gpus{cluster="main",kind="charged"}'] == 16
    assert found['tenure_evictions_total{reason="evicted_unallocated"}'] == 1
    assert found['tenure_jobs_ended_total{state="cancelled"}'] == 1
    assert found['tenure_events_total{kind="submitted"}'] == 4
    assert found['tenure_wait_seconds_count{class="unallocated"}'] == 1
    assert found['tenure_wait_seconds_count{class="mid"}'] == 1
    assert found["tenure_pass_seconds_count"] > 0 and found["tenure_last_pass_timestamp_seconds"] > 0
    assert found['tenure_budget_allocation{budget="lab/language/pretrain",cluster="main"}'] == pytest.approx(0.35)
    assert found['tenure_hosts{cluster="main",state="healthy"}'] == 2


@pytest.mark.parametrize(
    ("gpus", "min_runtime", "name"),
    [
        (8, 15 * MINUTE, "debug"),
        (16, 15 * MINUTE, "mid"),
        (8, HOUR, "mid"),
        (64, HOUR, "mid"),
        (72, HOUR, "large"),
        (512, 0, "unallocated"),
    ],
)
def test_classes_of_waits(gpus: int, min_runtime: int, name: str) -> None:
    roles = (Role("main", 1, gpus, 0, 0),)
    assert wait_class(JobSpec("x", "ann", "lab", roles, Contract(min_runtime, True), ("main",))) == name
