"""Jobs through the API: submit, list, show, and what can be done to one."""

from __future__ import annotations

from api_kit import Api

from tenure.core.model import HostState


def test_a_submission_answers_with_the_job_and_its_defaults(api: Api) -> None:
    body = {"budget": "lab/language", "command": ["python", "train.py"], "gpus": 2, "replicas": 2}
    answer = api.call("POST", "/v1/jobs", user="ann", json=body)
    assert answer.status_code == 201
    done = answer.json()
    assert answer.headers["location"] == f"/v1/jobs/{done['job']['id']}"
    assert done["created"] and done["job"]["user"] == "ann" and done["job"]["gpus"] == 4
    assert {note["field"] for note in done["notes"]} >= {"min_runtime", "resumable"}


def test_a_client_key_makes_one_job_of_two_submissions(api: Api) -> None:
    body = {"budget": "lab/language", "command": ["true"], "client_key": "k1"}
    first = api.post("/v1/jobs", body, user="ann", code=201)
    again = api.post("/v1/jobs", body, user="ann", code=200)
    assert again["job"]["id"] == first["job"]["id"] and not again["created"] and again["notes"] == []
    header = {"Idempotency-Key": "k1"}
    body.pop("client_key")
    assert api.post("/v1/jobs", body, user="ann", headers=header)["job"]["id"] == first["job"]["id"]
    other = api.post("/v1/jobs", body, user="bob", headers=header, code=201)
    assert other["job"]["id"] != first["job"]["id"]
    api.post("/v1/jobs", {**body, "client_key": "k2"}, user="ann", headers=header, code=422)


def test_a_running_job_shows_its_protection_hosts_and_charge(api: Api) -> None:
    job = api.submit(gpus=8, replicas=2, min_runtime="1h", cpus=1, memory="1G")
    shown = api.reach(job["id"], "running")
    attempt = shown["attempt"]
    assert attempt["protection"] == "protected" and attempt["charge_rate"] == 16
    assert attempt["hosts"] == ["n1", "n2"] and attempt["protected_until"] > attempt["running_at"]
    assert [slot["gpus"] for slot in attempt["slots"]] == [list(range(8))] * 2
    assert shown["attempts"] == [attempt]


def test_an_unallocated_job_is_exposed_from_the_start(api: Api) -> None:
    job = api.submit(min_runtime="0", gpus=8)
    attempt = api.reach(job["id"], "running")["attempt"]
    assert attempt["protection"] == "exposed" and attempt["protected_until"] is None and not attempt["charged"]


def test_a_waiting_job_says_why_with_numbers(api: Api) -> None:
    first = api.submit(gpus=8, replicas=2)
    api.reach(first["id"], "running")
    reason = api.submit(gpus=8)["reason"]
    assert reason["code"] == "waiting_capacity"
    assert reason["numbers"]["gpus"] == 8 and reason["numbers"]["protected"][0][0] == f"{first['id']}.1"
    assert reason["text"].startswith("Waiting for GPUs: it needs 8, and 0 are free")


def test_listing_filters_and_pages(api: Api) -> None:
    jobs = [api.submit(user=user, name=f"j{i}") for i, user in enumerate(["ann", "bob", "ann", "bob", "ann"])]
    ids = [job["id"] for job in jobs]

    def listed(**query: object) -> list[int]:
        return [job["id"] for job in api.get("/v1/jobs", params=query)["items"]]

    assert listed() == ids[::-1]
    assert listed(user="bob") == [ids[3], ids[1]]
    assert listed(user=["ann", "bob"]) == ids[::-1]
    assert listed(budget="lab") == ids[::-1] and listed(budget="lab/vision") == []
    assert listed(cluster="main") == ids[::-1] and listed(cluster="small") == []
    page = api.get("/v1/jobs", params={"limit": 2})
    seen = [job["id"] for job in page["items"]]
    while page["next"] is not None:
        page = api.get("/v1/jobs", params={"limit": 2, "after": page["next"]})
        seen += [job["id"] for job in page["items"]]
    assert seen == ids[::-1]
    api.post(f"/v1/jobs/{ids[0]}/cancel")
    api.reach(ids[0], "cancelled")
    assert ids[0] not in listed() and ids[0] in listed(all=True) and listed(state="cancelled") == [ids[0]]
    assert listed(since="2999-01-01T00:00:00Z") == []


def test_hold_release_priority_and_the_end(api: Api) -> None:
    held = api.submit(hold=True)
    assert held["state"] == "queued" and held["held_by"] == "ann" and held["reason"]["code"] == "held_by_person"
    path = f"/v1/jobs/{held['id']}"
    changed = api.call("PATCH", path, user="ann", json={"priority": 7})
    assert changed.status_code == 200 and changed.json()["priority"] == 7
    api.post(f"{path}/release", user="ann")
    running = api.reach(held["id"], "running")
    api.post(f"{path}/checkpoint", user="ann")
    api.executor.finish(running["attempt"]["id"], 3)
    ended = api.reach(held["id"], "failed")
    assert ended["ended"] and ended["exit_code"] == 3 and ended["attempts"][0]["exit_codes"] == [3]
    assert ended["attempts"][0]["ended_at"] and ended["attempt"] is None
    conflict = api.call("POST", f"{path}/cancel", user="ann")
    assert conflict.status_code == 409 and "failed" in conflict.json()["detail"]


def test_cancelling_once_more_does_nothing(api: Api) -> None:
    job = api.submit(user="ann")["id"]
    api.post(f"/v1/jobs/{job}/cancel", user="ann")
    api.reach(job, "cancelled")
    seq = api.engine.last_seq
    again = api.post(f"/v1/jobs/{job}/cancel", user="ann")
    assert again["state"] == "cancelled" and again["ended"] and api.engine.last_seq == seq
    assert api.post(f"/v1/jobs/{job}/hold", user="ann", code=409)["detail"].startswith(f"job {job} has ended")
    api.post(f"/v1/jobs/{job}/cancel", user="bob", code=403)


def test_a_forced_eviction_is_recorded_with_who_and_why(api: Api) -> None:
    job = api.submit(gpus=8, resumable=True)
    api.reach(job["id"], "running")
    api.post(f"/v1/jobs/{job['id']}/evict", {"why": "  "}, code=422)
    api.post(f"/v1/jobs/{job['id']}/evict", {"why": "the room is too hot"})
    api.reach(job["id"], "running", "queued", "starting")
    shown = api.get(f"/v1/jobs/{job['id']}")
    eviction = shown["eviction_history"][0]
    assert eviction["reason"]["code"] == "evicted_by_person" and eviction["gainer"] is None
    assert "root" in eviction["reason"]["text"] and "although it was protected" in eviction["reason"]["text"]
    assert shown["evictions"] == 1
    assert api.get("/v1/evictions")["items"][0] == eviction
    assert api.get("/v1/evictions", params={"after": 0})["items"] == [eviction]
    assert api.get("/v1/evictions", params={"job": 999})["items"] == []
    assert {row["action"] for row in api.get("/v1/audit")["items"]} >= {"evict", "submit"}


def test_an_eviction_names_the_job_that_gained(api: Api) -> None:
    victim = api.submit(gpus=8, replicas=2, min_runtime="0", resumable=True)
    api.reach(victim["id"], "running")
    gainer = api.submit(gpus=8, replicas=2)
    api.reach(gainer["id"], "running")
    history = api.get(f"/v1/jobs/{victim['id']}")["eviction_history"]
    assert history[0]["gainer"] == gainer["id"] and history[0]["reason"]["code"] == "evicted_unallocated"
    assert api.get(f"/v1/jobs/{gainer['id']}")["eviction_history"] == history


def test_variables_are_shown_to_those_who_may_act_on_the_job_only(api: Api) -> None:
    job = api.submit(env={"SECRET": "s3cret"}, hold=True)
    path = f"/v1/jobs/{job['id']}"
    for user in ("ann", "grace", "ada", "root"):
        assert api.get(path, user=user)["env"] == {"SECRET": "s3cret"}
    assert api.get(path, user="bob")["env"] == {"SECRET": "(hidden)"}


def test_an_administrator_submits_for_somebody(api: Api) -> None:
    job = api.submit(user="root", hold=True)
    assert job["user"] == "root"
    done = api.post("/v1/jobs", {"budget": "lab/vision", "command": ["true"], "user": "alan"}, code=201)
    assert done["job"]["user"] == "alan"


def test_a_job_on_a_lost_host_is_queued_again_and_the_attempt_says_so(api: Api) -> None:
    job = api.submit(gpus=8, resumable=True)
    host = api.reach(job["id"], "running")["attempt"]["hosts"][0]
    api.post(f"/v1/hosts/main/{host}/fail", {"why": "it burns"})
    with api.engine.view() as state:
        assert state.clusters["main"].hosts[host].state is HostState.FAILED
    second = api.reach(job["id"], "running")
    while second["attempt"]["number"] != 2:
        seq = api.engine.last_seq
        second = api.get(f"/v1/jobs/{job['id']}")
        api.engine.wait_change(seq, 0.2)
    assert second["attempts"][0]["reason"]["code"] == "host_failed" and second["restarts"] == 1
