"""Arrays and dependencies over HTTP."""

from __future__ import annotations

from typing import Any

import pytest
from api_kit import Api

ONE = {"budget": "lab/language", "command": ["true"], "gpus": 4, "min_runtime": "15m"}


def submit(api: Api, code: int = 201, user: str = "ann", **more: Any) -> dict[str, Any]:
    done: dict[str, Any] = api.post("/v1/jobs", {**ONE, **more}, user=user, code=code)
    return done


def states(api: Api, array: int) -> str:
    jobs = api.get("/v1/jobs", params={"array": array, "all": True})["items"]
    return "".join(job["state"][0] for job in reversed(jobs))


def test_an_array_in_one_request(api: Api) -> None:
    done = submit(api, array="0-6:2%2", name="sweep")
    array, first = done["array"], done["job"]
    assert array == {
        "id": first["id"],
        "name": "sweep",
        "user": "ann",
        "budget": "lab/language",
        "indices": "0-6:2",
        "count": 4,
        "throttle": 2,
        "ended": False,
        "states": array["states"],
    }
    assert (first["array_id"], first["array_index"]) == (array["id"], 0)
    jobs = api.get("/v1/jobs", params={"array": array["id"]})["items"]
    assert [(job["id"], job["array_index"]) for job in jobs] == [(4, 6), (3, 4), (2, 2), (1, 0)]
    assert jobs[0]["reason"]["code"] == "waiting_throttle"
    assert jobs[0]["reason"]["text"] == "Waiting: at most 2 jobs of array 1 are let in at a time."
    assert [job["id"] for job in api.get("/v1/jobs", params={"array": 1, "indices": "2,6"})["items"]] == [4, 2]
    detail = api.get("/v1/jobs/3")
    assert detail["array"]["indices"] == "0-6:2" and detail["roles"][0]["gpus"] == 4
    api.reach(1, "running")
    assert api.executor.launches["1.1"].array is not None
    api.executor.finish("1.1")
    api.reach(1, "succeeded")
    for job in (2, 3):
        api.reach(job, "running")
    assert states(api, 1) == "srrq"
    assert api.get("/v1/arrays/1")["states"] == {"queued": 1, "running": 2, "succeeded": 1}
    assert api.get("/v1/status")["waiting"] == {"waiting_throttle": 1}
    texts = [e["text"] for b in api.get("/v1/decisions?after=0")["items"] for e in b["entries"]]
    assert any(text.startswith("ann submits array 1 (0-6:2%2): sweep, 4 GPUs") for text in texts)


def test_a_key_covers_the_whole_array(api: Api) -> None:
    first = submit(api, array="0-2", client_key="k")
    again = submit(api, code=200, array="0-2", client_key="k")
    assert again["job"]["id"] == first["job"]["id"] and again["array"]["count"] == 3 and not again["created"]
    assert len(api.get("/v1/jobs")["items"]) == 3


def test_a_folded_listing_has_a_line_for_what_has_never_started(api: Api) -> None:
    submit(api, array="0-4%2", gpus=8)
    single = submit(api, gpus=8)["job"]["id"]
    api.reach(2, "running")
    whole = api.get("/v1/jobs")["items"]
    folded = api.get("/v1/jobs", params={"fold": True})["items"]
    assert len(whole) == 6 and [job["id"] for job in folded] == [single, 3, 2, 1]
    assert [job["array_waiting"] for job in folded] == [None, "2-4", None, None]
    assert all(job["array_waiting"] is None for job in whole)
    assert [job["id"] for job in api.get("/v1/jobs", params={"fold": True, "limit": 2, "after": 3})["items"]] == [2, 1]


def test_several_of_an_array_are_changed_at_once(api: Api) -> None:
    submit(api, array="0-5%1", user="ann")
    api.reach(1, "running")
    seq = api.engine.last_seq
    assert api.post("/v1/arrays/1/hold", {"indices": "1-2"}, user="ann")["states"] == {"queued": 5, "running": 1}
    assert api.engine.last_seq == seq + 1
    assert api.get("/v1/jobs/3")["held_by"] == "ann" and api.get("/v1/jobs/4")["held_by"] is None
    api.executor.finish("1.1")
    api.reach(4, "running")
    api.post("/v1/arrays/1/release", user="ann")
    assert api.get("/v1/jobs/3")["reason"]["code"] == "waiting_throttle"
    assert api.post("/v1/arrays/1/cancel", {"indices": "4"})["states"]["cancelled"] == 1
    api.post("/v1/arrays/1/cancel")
    for job in range(2, 7):
        api.reach(job, "cancelled")
    assert api.get("/v1/arrays/1")["ended"] is True
    seq = api.engine.last_seq
    assert api.post("/v1/arrays/1/cancel")["states"] == {"cancelled": 5, "succeeded": 1}
    assert api.post("/v1/arrays/1/cancel", {"indices": "4"})["ended"] is True
    assert api.engine.last_seq == seq, "once more does nothing"
    problem = api.post("/v1/arrays/1/cancel", {"indices": "0"}, code=409)
    assert problem["detail"].startswith("array 1: these jobs have ended")
    problem = api.post("/v1/arrays/1/hold", code=409)
    assert problem["detail"].startswith("array 1: all of its jobs have ended")


def test_who_may_change_an_array(api: Api) -> None:
    submit(api, array="0-1", user="ann", hold=True)
    denied = api.post("/v1/arrays/1/cancel", user="bob", code=403)
    assert denied["detail"] == "array 1 belongs to ann: ask them, a manager of its budget or an admin"
    api.post("/v1/arrays/1/release", user="ann")
    api.post("/v1/arrays/1/hold", user="grace")
    assert "held by grace" in api.post("/v1/arrays/1/release", user="ann", code=403)["detail"]
    api.post("/v1/arrays/1/release", {"indices": "1"}, user="grace")
    assert api.post("/v1/arrays/9/hold", code=404)["detail"] == "there is no array 9"
    assert api.call("GET", "/v1/arrays/2").status_code == 404  # a job of it, not the array


def test_dependencies_wait_hold_and_fail(api: Api) -> None:
    first = submit(api)["job"]["id"]
    array = submit(api, array="0-1")["job"]["id"]
    last = submit(api, after_ok=[first, f"{array}_1"], after_any=[str(array)])["job"]
    assert last["state"] == "queued" and last["reason"]["code"] == "waiting_dependency"
    assert last["reason"]["numbers"] == {"left": 3, "ok": ["1", "2_1"], "any": ["2"]}
    assert last["reason"]["text"] == "Waiting for other jobs to end, with success: 1, 2_1, in whatever way: 2."
    for job in (1, 2, 3):
        api.reach(job, "running")
        api.executor.finish(f"{job}.1", 1 if job == 2 else 0)
    api.reach(last["id"], "running")
    doomed = submit(api, after_ok=[array])["job"]
    assert doomed["state"] == "cancelled" and doomed["reason"]["code"] == "dependency_failed"
    assert doomed["reason"]["text"] == ("Cancelled: it was to run after the success of job 2_0, which ended as failed.")
    assert submit(api, after_any=[array], after_ok=["2_1"])["job"]["state"] != "cancelled"


@pytest.mark.parametrize(
    ("fields", "field", "fix"),
    [
        ({"after_ok": [99]}, "after_ok", "there is no such job, or its history is gone; `tenure ls --all` lists jobs"),
        ({"after_any": ["1_7"]}, "after_any", "there is no array 1, or its history is gone"),
        ({"after_ok": ["x"]}, "after_ok", "write a job's number, like 12, or 12_3"),
        ({"after_ok": [0]}, "after_ok", "write a job's number"),
        ({"array": "3-1"}, "array", "the smaller index comes first"),
        ({"array": "0-10000"}, "array", "that is 10001 jobs, and an array has at most 10000"),
        ({"array": 3}, "array", "write it as text"),
    ],
)
def test_what_is_refused(api: Api, fields: dict[str, Any], field: str, fix: str) -> None:
    submit(api)
    problem = submit(api, code=422, **fields)
    (error,) = problem["errors"]
    assert error["field"].startswith(field) and fix in error["fix"]
    if fields in ({"after_ok": [99]}, {"after_any": ["1_7"]}):
        assert problem["reason"] == "unknown_job" and error["value"] in ("99", "1_7")
    assert len(api.get("/v1/jobs")["items"]) == 1


def test_waits_are_measured_from_when_a_job_may_queue(api: Api) -> None:
    submit(api, array="0-1%1")
    api.reach(1, "running")
    api.executor.finish("1.1")
    api.reach(2, "running")
    text = api.call("GET", "/metrics", user=None).text
    counts = [float(line.split()[-1]) for line in text.splitlines() if line.startswith("tenure_wait_seconds_count")]
    assert sum(counts) == 2
