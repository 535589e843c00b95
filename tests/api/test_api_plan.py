"""``POST /v1/jobs/plan``: what it says, then the same submitted, and what happened."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from api_kit import Api, serving
from sqlalchemy import event

from tenure.core.model import Policy


def body_of(**more: Any) -> dict[str, Any]:
    return {"budget": "lab/language", "command": ["true"], **more}


def plan_of(api: Api, *, user: str = "ann", **more: Any) -> Any:
    return api.post("/v1/jobs/plan", body_of(**more), user=user)


@pytest.fixture
def reserving(tmp_path: Path) -> Iterator[Api]:
    """Hosts are held for jobs of 8 GPUs and more."""
    with serving(tmp_path, Policy(reserved_percent=100)) as running:
        yield running


def test_what_starts_now_is_told_with_its_hosts_and_nothing_is_submitted(api: Api) -> None:
    said = plan_of(api, gpus=8, replicas=2, min_runtime="1h", name="gang")
    assert (said["when"], said["hosts"], said["cluster"]) == ("now", ["n1", "n2"], "main")
    assert said["text"] == "It starts now, on n1 and n2." and said["starts_at"] == said["at"]
    assert said["evictions"] == [] and said["reservation"] is None and said["reason"]["code"] == "started_free"
    assert api.get("/v1/jobs", params={"all": True})["items"] == []
    job = api.submit(gpus=8, replicas=2, min_runtime="1h")
    assert job["id"] == 1 and api.reach(1, "running")["attempt"]["hosts"] == said["hosts"]


def test_the_cost_and_the_balance_before_and_after_add_up(api: Api) -> None:
    api.reach(api.submit(gpus=4, min_runtime="2h")["id"], "running")
    said = plan_of(api, gpus=2, min_runtime="3h")
    before, after, charge = said["before"], said["after"], said["charge"]
    assert (charge["gpus"], charge["gpu_hours"], charge["total_gpu_hours"]) == (2.0, 6.0, 6.0)
    # lab/language has 0.5, of which its self keeps 0.3: 0.15 of 16 GPUs, for 168 h.
    assert said["leaf"] == "lab/language/self" and before["entitled"] == pytest.approx(0.15 * 16 * 168)
    assert before["used"] + before["committed"] == pytest.approx(8.0, abs=0.001)
    assert after["committed"] == pytest.approx(before["committed"] + 6.0)
    assert after["left"] == pytest.approx(before["left"] - 6.0) and after["used"] == before["used"]
    total = after["used"] + after["committed"]
    assert after["left"] == pytest.approx(after["entitled"] - total)
    assert after["ratio"] == pytest.approx(total / after["entitled"], abs=1e-5)


def test_unallocated_costs_nothing(api: Api) -> None:
    said = plan_of(api, min_runtime="0", budget="lab/none")
    assert said["charge"]["gpu_hours"] == 0 and said["after"] == said["before"]
    assert said["before"]["ratio"] is None and said["when"] == "now"


def test_who_would_go_goes_for_the_job_that_is_submitted(api: Api) -> None:
    free = [api.submit(user="bob", gpus=8, min_runtime="0")["id"] for _ in range(2)]
    for job in free:
        api.reach(job, "running")
    said = plan_of(api, gpus=8)
    (victim,) = said["evictions"]
    assert said["when"] == "after_evictions" and victim["kill_at"] == said["starts_at"]
    assert (victim["job"], victim["user"], victim["gpus"]) == (free[1], "bob", 8)
    assert victim["reason"]["code"] == "evicted_unallocated" and "job" not in victim["reason"]["text"].partition(":")[0]
    assert said["text"].startswith("It starts by ") and f"attempt {victim['attempt']} is evicted" in said["text"]
    job = api.submit(gpus=8)
    api.reach(job["id"], "running")
    (eviction,) = api.get("/v1/evictions")["items"]
    assert (eviction["attempt"], eviction["gainer"]) == (victim["attempt"], job["id"])


def test_what_waits_waits_for_the_reason_that_was_told(api: Api) -> None:
    first = api.submit(gpus=8, replicas=2, min_runtime="1h")["id"]
    api.reach(first, "running")
    said = plan_of(api, gpus=8)
    assert (said["when"], said["starts_at"], said["hosts"]) == ("waits", None, [])
    assert said["text"].startswith("It does not start now: waiting for GPUs: it needs 8, and 0 are free")
    assert api.submit(gpus=8)["reason"] == said["reason"]


def test_hosts_that_would_be_held_are_told_with_the_latest_start(reserving: Api) -> None:
    api = reserving
    first = api.submit(gpus=8, replicas=2, min_runtime="1h")["id"]
    protected = api.reach(first, "running")["attempt"]["protected_until"]
    said = plan_of(api, gpus=8, budget="lab/language/pretrain")
    held = said["reservation"]
    assert said["when"] == "reserved" and held["hosts"] == said["hosts"] == ["n1"]
    assert held["told"] == protected < held["starts_by"] == said["starts_at"]
    assert "n1 would be held for it" in said["text"]


def test_of_an_array_the_first_is_planned_and_all_are_counted(api: Api) -> None:
    said = plan_of(api, gpus=8, array="0-9%2", min_runtime="1h")
    assert (said["jobs"], said["throttle"], said["when"]) == (10, 2, "now")
    assert (said["charge"]["gpu_hours"], said["charge"]["total_gpu_hours"]) == (8.0, 80.0)
    assert said["after"]["committed"] == said["before"]["committed"] + 80
    assert said["after"]["left"] == said["before"]["left"] - 80
    assert "large_contract" not in {one["code"] for one in said["warnings"]}
    hours = int(said["before"]["entitled"])
    large = plan_of(api, gpus=8, array=f"1-{hours // 8}", min_runtime="1h")
    (warned,) = (one["text"] for one in large["warnings"] if one["code"] == "large_contract")
    assert warned.startswith(f"the contracts of its {hours // 8} jobs together, ") and "GPU-hours, are " in warned


def test_what_is_waited_for_is_looked_up_before_the_engine_has_to_wait(api: Api) -> None:
    jobs = [api.submit(hold=True)["id"] for _ in range(6)]
    array = api.submit(hold=True, array="0-5")["id"]
    for job_id in jobs:
        api.post(f"/v1/jobs/{job_id}/cancel")
    api.post(f"/v1/arrays/{array}/cancel")
    asked: list[tuple[str, bool]] = []

    def note(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        asked.append((statement, api.engine._lock._is_owned()))  # type: ignore[attr-defined]

    def asked_for(count: int) -> int:
        asked.clear()
        both = [name for i in range(count) for name in (jobs[i], f"{array}_{i}", array)]
        assert plan_of(api, after_any=both, after_ok=both)["reason"]["code"] == "dependency_failed"
        found = [inside for statement, inside in asked if statement.startswith("SELECT jobs.")]
        assert found and not any(found)
        return len(found)

    event.listen(api.engine.store._engine, "before_cursor_execute", note)
    assert asked_for(6) == asked_for(1)


def test_a_hold_and_jobs_to_wait_for_keep_it_from_starting(api: Api) -> None:
    said = plan_of(api, hold=True)
    assert (said["when"], said["starts_at"], said["hosts"]) == ("waits", None, [])
    assert said["text"] == "Held by ann until somebody releases it."
    first = api.submit(hold=True)["id"]
    said = plan_of(api, after_ok=[first])
    assert said["text"] == f"Waiting for other jobs to end, with success: {first}." and said["when"] == "waits"
    waiting = api.submit(after_ok=[first])
    assert waiting["reason"] == said["reason"]
    api.post(f"/v1/jobs/{first}/cancel")
    said = plan_of(api, after_ok=[first])
    assert said["when"] == "never" and said["reason"]["code"] == "dependency_failed"


def test_mistakes_are_told(api: Api) -> None:
    for _ in range(3):
        job = api.submit(name="quick")["id"]
        api.reach(job, "running")
        api.executor.finish(f"{job}.1")
        api.reach(job, "succeeded")
    said = plan_of(api, name="quick", min_runtime="8h", timeout="8h", gpus=8, replicas=2)
    told = {warning["code"]: warning["text"] for warning in said["warnings"]}
    assert told.keys() == {"long_contract", "whole_timeout", "lost_after_contract", "above_allocation"}
    assert "your last 3 jobs named quick" in told["long_contract"] and "15m protects" in told["long_contract"]
    assert plan_of(api, name="quick")["warnings"] == []
    assert plan_of(api, name="quick", min_runtime="8h", user="bob")["warnings"][0]["code"] == "lost_after_contract"


def test_refusals_are_those_of_a_submission(shared: Api) -> None:
    for more in (
        {"budget": "lab/no"},
        {"gpus": 9},
        {"gpus": 8, "replicas": 3},
        {"min_runtime": "1m"},
        {"min_runtime": "9h"},
        {"min_runtime": "2h", "timeout": "1h"},
        {"budget": "lab/none"},
        {"clusters": ["moon"]},
        {"after_ok": [99]},
        {"user": "bob"},
        {"budget": "lab/vision"},
        {"gpus": "x"},
    ):
        said = shared.call("POST", "/v1/jobs/plan", user="ann", json=body_of(**more))
        real = shared.call("POST", "/v1/jobs", user="ann", json=body_of(**more))
        assert said.status_code == real.status_code >= 400, more
        assert {**said.json(), "id": ""} == {**real.json(), "id": ""}


def test_why_tells_what_would_help_and_it_does(api: Api) -> None:
    api.reach(api.submit(gpus=8, min_runtime="1h", user="bob")["id"], "running")
    waits = api.submit(gpus=8, replicas=2, min_runtime="1h")["id"]
    (option,) = api.get(f"/v1/jobs/{waits}/why")["help"]
    assert (option["change"], option["effect"]) == ("1 replica instead of 2", "it would start now")
    assert option["options"] == "--replicas 1" and option["evicts"] == [] and not option["beside"]
    api.post(f"/v1/jobs/{waits}/cancel")
    api.reach(api.submit(gpus=8, replicas=1, min_runtime="1h")["id"], "running")
