"""What is held for whom, as jobs, hosts, status, metrics and the feed show it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from api_kit import Api, serving

import tenure
from tenure.cli import render
from tenure.cli.detail import job_lines
from tenure.core.model import SECOND, Policy
from tenure.units import parse_time


@pytest.fixture
def looking(tmp_path: Path) -> Iterator[Api]:
    """A scheduler that looks every second, and keeps half of a cluster for short contracts if they come."""
    with serving(tmp_path, Policy(look_every=SECOND, reserved_percent=100, headroom_percent=50)) as running:
        yield running


def until(api: Api, ask: Callable[[], Any]) -> Any:
    """The first answer that says something."""
    while True:
        seq = api.engine.last_seq
        if found := ask():
            return found
        assert api.engine.wait_change(seq, 30) > seq, "nothing happens"


def reserved(api: Api) -> dict[str, Any]:
    """A gang of all of ``main`` that holds a reservation: both hosts are promised to others for 7 h and 8 h."""
    for length in ("7h", "8h"):
        job = api.submit(gpus=8, min_runtime=length, clusters=["main"])
        api.reach(job["id"], "running")
    gang = api.submit(user="alan", budget="lab/vision", gpus=8, replicas=2, min_runtime="2h", clusters=["main"])
    view = until(api, lambda: (v := api.get(f"/v1/jobs/{gang['id']}"))["reservation"] and v)
    assert isinstance(view, dict)
    return view


def by_name(api: Api) -> dict[str, dict[str, Any]]:
    return {host["name"]: host for host in api.get("/v1/hosts")["items"]}


def kinds(api: Api) -> list[str]:
    entries = [entry for batch in api.get("/v1/decisions", params={"after": 0})["items"] for entry in batch["entries"]]
    return [entry["kind"] for entry in entries if entry["kind"] in ("reserve", "unreserve", "headroom")]


def test_who_waits_has_none_before_somebody_looks(tmp_path: Path) -> None:
    """Which is at every fifth minute of the clock."""
    with serving(tmp_path, Policy(reserved_percent=100)) as api:
        api.reach(api.submit(gpus=8, replicas=2, min_runtime="8h", clusters=["main"])["id"], "running")
        gang = api.submit(user="alan", budget="lab/vision", gpus=8, replicas=2, min_runtime="2h", clusters=["main"])
    assert gang["reservation"] is None and gang["reservations"] == 0 and gang["first_starts_by"] is None


def test_a_reservation_is_shown_wherever_one_looks(looking: Api) -> None:
    job = reserved(looking)
    held = job["reservation"]
    assert (held["cluster"], held["hosts"], held["gpus"]) == ("main", ["n1", "n2"], 16)
    # 15 min of short contracts, 15 min of start-up, and two graces of 5 min with kills of 30 s
    assert parse_time(held["starts_by"]) - parse_time(held["told"]) == (15 + 15 + 11) * 60 * SECOND
    assert parse_time(held["made_at"]) < parse_time(held["told"])
    assert job["reservations"] == 1 and job["first_starts_by"] == held["starts_by"]
    assert job["reason"]["code"] == "waiting_reservation" and job["state"] == "queued"
    listed = looking.get("/v1/jobs", params={"state": "queued"})["items"]
    assert [(view["id"], view["reservation"]) for view in listed] == [(job["id"], held)]
    hosts = by_name(looking)
    assert [(h["held_for"], h["held_until"]) for h in (hosts["n1"], hosts["n2"])] == [(job["id"], held["told"])] * 2
    assert hosts["s1"]["held_for"] is None and hosts["s1"]["held_until"] is None and not hosts["n1"]["headroom"]
    status = looking.get("/v1/status")
    main, small = status["clusters"]
    assert (main["held_gpus"], main["reservations"], main["headroom_gpus"]) == (16, 1, 0)
    assert (small["held_gpus"], small["reservations"]) == (0, 0)
    assert status["waiting"] == {"waiting_reservation": 1}
    budgets = {budget["path"]: budget["clusters"]["main"] for budget in looking.get("/v1/budgets")["items"]}
    assert budgets["lab/vision"]["committed_gpu_hours"] == 32
    text = looking.call("GET", "/metrics", user=None).text
    assert 'tenure_gpus{cluster="main",kind="held"} 16.0' in text
    assert 'tenure_gpus{cluster="main",kind="headroom"} 0.0' in text
    assert 'tenure_reservations{cluster="main"} 1.0' in text and 'tenure_reservations{cluster="small"} 0.0' in text


def test_the_feed_says_who_is_held_for_whom_and_the_end_of_it(looking: Api) -> None:
    job = reserved(looking)["id"]
    looking.post(f"/v1/jobs/{job}/hold")
    view = looking.get(f"/v1/jobs/{job}")
    assert view["reservation"] is None and view["reservations"] == 1 and view["first_starts_by"] is not None
    assert by_name(looking)["n1"]["held_for"] is None
    batches = looking.get("/v1/decisions", params={"after": 0})["items"]
    entries = {entry["kind"]: entry for batch in batches for entry in batch["entries"] if entry["job"] == job}
    assert entries["reserve"]["text"] == f"n[1-2] held for job {job}"
    assert entries["reserve"]["reason"]["code"] == "reserved"
    assert "its reservation number 1" in entries["reserve"]["reason"]["text"]
    assert entries["unreserve"]["text"] == f"nothing is held for job {job} any more"
    assert entries["unreserve"]["reason"]["code"] == "held_by_person"
    looking.post(f"/v1/jobs/{job}/cancel")
    ended = looking.get(f"/v1/jobs/{job}")
    assert ended["ended"] and ended["reservations"] is None and ended["first_starts_by"] is None


def test_a_lost_host_makes_a_reservation_anew_and_says_so(looking: Api) -> None:
    job = reserved(looking)["id"]
    looking.post("/v1/hosts/main/n1/drain", {"why": "fan"})
    looking.post("/v1/hosts/main/n1/resume", {})
    view = until(looking, lambda: (v := looking.get(f"/v1/jobs/{job}"))["reservation"] and v)
    assert view["reservations"] == 2 and kinds(looking) == ["reserve", "unreserve", "reserve"]


def test_kept_hosts_are_shown(looking: Api) -> None:
    reserved(looking)
    looking.submit(gpus=8, min_runtime="15m", clusters=["main"])
    until(looking, lambda: "headroom" in kinds(looking))
    hosts = by_name(looking)
    assert [hosts[name]["headroom"] for name in ("n1", "n2")].count(True) == 1
    assert looking.get("/v1/status")["clusters"][0]["headroom_gpus"] == 8
    text = looking.call("GET", "/metrics", user=None).text
    assert 'tenure_gpus{cluster="main",kind="headroom"} 8.0' in text
    entries = [e for b in looking.get("/v1/decisions", params={"after": 0})["items"] for e in b["entries"]]
    kept = next(entry for entry in entries if entry["kind"] == "headroom")
    assert kept["text"] in ("n1 kept for short contracts in main", "n2 kept for short contracts in main")


def test_the_client_and_the_command_line_read_it(looking: Api) -> None:
    number = reserved(looking)["id"]
    with tenure.Client(str(looking.http.base_url), looking.tokens["root"]) as client:
        job, hosts, status = client.job(number), client.hosts("main"), client.status()
    held = job.reservation
    assert held is not None and held.hosts == ["n1", "n2"]
    now = held.made_at
    told, by = render.soon(held.told, now), render.soon(held.starts_by, now)
    lines = "\n".join(job_lines(job, now))
    assert f"reserved      [/]2 hosts (n1, n2) free to it by {told}, starts by {by}" in lines
    assert "reservation number" not in lines
    assert render.where(job, now) == f"starts by {by}: n[1-2] free to it by {told}"
    notes = list(render.host_table(hosts, now).columns[-1].cells)
    assert notes == [f"held for job {number} until {told}"] * 2
    assert "  hosts with 16 GPUs are held for 1 job in turn" in render.status_lines(status)
