"""``GET /v1/jobs/{id}/why``: who may ask, and that the answer is that of ``tenure.why`` in the units of the API."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from api_kit import Api, serving

from tenure.api.why_models import Why
from tenure.client import Client
from tenure.core.model import HOUR
from tenure.engine.clock import Clock, wall_ms
from tenure.engine.past import Past
from tenure.units import format_time
from tenure.why import story


def test_a_queued_job_is_explained_to_everybody_who_may_read(api: Api) -> None:
    runs = api.submit(gpus=8, replicas=2, min_runtime="2h", user="alan", budget="lab/vision", clusters=["main"])
    shown = api.reach(runs["id"], "running")
    first = api.submit(gpus=8, min_runtime="1h", clusters=["main"], priority=4)
    api.submit(gpus=4, replicas=2, min_runtime="2h", clusters=["small"])
    waits = api.submit(gpus=4, replicas=2, min_runtime="1h", clusters=["main", "small"])
    why = api.get(f"/v1/jobs/{waits['id']}/why", user="bob")
    assert (why["job"], why["label"], why["state"]) == (waits["id"], str(waits["id"]), "queued")
    assert why["reason"]["code"] == "waiting_capacity"
    assert why["sentence"].startswith("Waiting for GPUs: it needs 8, and 0 are free")
    assert why["cluster"] == "main" and [each["cluster"] for each in why["elsewhere"]] == ["small"]
    top, below = why["levels"]
    assert (top["parent"], top["child"], top["comes_first"]) == ("lab", "lab/language", "lab/language")
    assert (below["child"], below["against"], below["by"]) == ("lab/language/self", None, None)
    vision = next(each for each in top["siblings"] if each["budget"] == "lab/vision")
    assert vision["share"] == 0.25 and 31.9 < vision["used_gpu_hours"] < 32.1  # 16 GPUs for 2 h are promised
    assert vision["ratio_ppm"] == int(vision["used_gpu_hours"] / vision["entitled_gpu_hours"] * 10**6)
    assert next(each for each in top["siblings"] if each["budget"] == "lab/none")["ratio_ppm"] is None
    assert [(each["job"], each["by"]) for each in why["ahead"]["first"]] == [(first["id"], "priority")]
    assert (why["space"]["gpus"], why["space"]["whole_hosts"], why["space"]["free_gpus"]) == (8, 0, 0)
    (blocker,) = why["blockers"]
    assert (blocker["attempt"], blocker["user"], blocker["why"]) == (f"{runs['id']}.1", "alan", "protected")
    assert blocker["until"] == why["space"]["enough_at"] == shown["attempt"]["protected_until"]
    assert why["running"] is None and why["estimate"] is None
    assert why["story"][0]["kind"] == "submitted"


def test_a_running_job_is_told_who_would_come(api: Api) -> None:
    runs = api.submit(gpus=8, replicas=2, min_runtime="2h", clusters=["main"])
    api.reach(runs["id"], "running")
    waits = api.submit(gpus=8, min_runtime="1h", clusters=["main"], priority=4)
    why = api.get(f"/v1/jobs/{runs['id']}/why")
    assert why["running"]["protected"] and why["running"]["hosts"] == ["n1", "n2"]
    (evictor,) = why["running"]["evictors"]
    assert (evictor["job"], evictor["reason"]["code"]) == (waits["id"], "evicted_priority")
    assert f"job {waits['id']} of ann in lab/language/self would have it evicted" in why["sentence"]
    assert why["ahead"] is None and why["space"] is None and why["blockers"] == []


def test_a_claim_names_whom_it_waits_for(api: Api) -> None:
    free = api.submit(gpus=8, replicas=2, min_runtime="0", resumable=True, grace="5m", clusters=["main"])
    api.reach(free["id"], "running")
    api.executor.stop = lambda order: None  # type: ignore[method-assign]  # it takes its grace
    claims = api.submit(gpus=8, clusters=["main"])
    why = api.get(f"/v1/jobs/{claims['id']}/why")
    assert why["state"] == "claiming" and [each["job"] for each in why["claiming"]["victims"]] == [free["id"]]
    assert why["claiming"]["until"] == why["claiming"]["victims"][0]["kill_at"] > why["at"]
    stopped = api.get(f"/v1/jobs/{free['id']}/why")
    assert stopped["running"]["kill_at"] == why["claiming"]["until"]
    assert re.match(
        rf"It was preempted at .* for job {claims['id']} \(ann, .*it is being stopped\.$", stopped["sentence"]
    )


def test_held_and_ended_jobs_have_a_sentence_and_unknown_ones_a_problem(api: Api) -> None:
    held = api.submit(hold=True)
    why = api.get(f"/v1/jobs/{held['id']}/why")
    assert why["sentence"] == "Held by ann until somebody releases it." and why["levels"] == []
    assert why["cluster"] is None and why["elsewhere"] == []
    api.post("/v1/pause", {"scope": "starts"})
    paused = api.get(f"/v1/jobs/{api.submit(gpus=8)['id']}/why")
    assert paused["sentence"] == paused["reason"]["text"] == "Waiting: all starts are paused by root."
    assert paused["space"]["free_gpus"] == 16 and paused["space"]["enough_at"] == paused["at"]
    api.post(f"/v1/jobs/{held['id']}/cancel", user="ann")
    over = api.get(f"/v1/jobs/{held['id']}/why")
    assert over["state"] == "cancelled"
    assert re.fullmatch(r"It never ran: it waited [0-9a-z]+, and was cancelled by ann\.", over["sentence"])
    assert over["running"] is None and over["levels"] == []
    unknown = api.call("GET", "/v1/jobs/999999/why")
    assert unknown.status_code == 404 and unknown.json()["detail"] == "there is no job 999999"
    assert api.call("GET", f"/v1/jobs/{held['id']}/why", user=None).status_code == 401


def test_while_others_look_at_the_past_the_rest_is_answered(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(story, "LONG", 0)
    waited = api.submit(hold=True)
    api.post(f"/v1/jobs/{waited['id']}/release", user="ann")
    shown = api.reach(waited["id"], "running")
    past: Past = api.app.state.past
    address = f"/v1/jobs/{waited['id']}/why"
    whole = api.get(address, params={"reasons": True})
    (wait,) = (chapter for chapter in whole["story"] if chapter["kind"] == "waited")
    assert wait["reason"]["code"] == "held_by_person"
    with past._turn:  # somebody looks
        monkeypatch.setattr("tenure.engine.past.PATIENCE_S", 0)
        refused = api.call("GET", address, params={"at": shown["submitted_at"]})
        assert refused.status_code == 503 and refused.headers["Retry-After"] == "2"
        assert refused.headers["Content-Type"] == "application/problem+json"
        assert "others are looking at the past" in refused.json()["detail"]
        rest = api.get(address, params={"reasons": True})
    assert [chapter["kind"] for chapter in rest["story"]] == [chapter["kind"] for chapter in whole["story"]]
    assert next(chapter for chapter in rest["story"] if chapter["kind"] == "waited")["reason"] is None
    assert api.get(address, params={"at": shown["submitted_at"]})["reason"]["code"] == "held_by_person"


def test_the_client_has_it_with_its_types(api: Api) -> None:
    job = api.submit(gpus=8, min_runtime="1h")
    api.reach(job["id"], "running")
    with Client(str(api.http.base_url), api.tokens["ann"]) as client:
        why = client.why(job["id"])
    assert isinstance(why, Why) and why.running is not None and why.running.protected
    assert why.running.protected_until is not None and why.running.protected_until > why.at


def test_a_moment_is_past_by_engine_time(tmp_path: Path) -> None:
    """After a step of the wall clock the engine's may be far behind: what it has not reached has no answer yet."""

    def behind(*anchor: Any) -> Clock:
        return Clock(*anchor, wall=lambda: wall_ms() - HOUR)

    with serving(tmp_path, clock=behind) as api:
        job = api.submit(hold=True)["id"]
        early = api.call("GET", f"/v1/jobs/{job}/why", params={"at": format_time(wall_ms() - HOUR // 2)})
        assert early.status_code == 422 and "has not come yet" in early.json()["errors"][0]["fix"]
        then = api.get(f"/v1/jobs/{job}/why", params={"at": "0"})  # no time ago
        assert then["state"] == "queued" and then["at"] <= format_time(api.engine.present())
