"""Budgets, hosts, status, the brake, and the configuration."""

from __future__ import annotations

from typing import Any

import pytest
from api_kit import BUDGETS, CLUSTERS, Api, config_of

from tenure.api.cluster_views import count_waiting
from tenure.api.models import HostView
from tenure.cli import render
from tenure.config import parse
from tenure.core.reasons import Reason
from tenure.executors.base import Health, HostCondition

HOUR_MS = 3_600_000


def usage(api: Api, path: str, cluster: str = "main") -> dict[str, Any]:
    for budget in api.get("/v1/budgets")["items"]:
        if budget["path"] == path:
            found: dict[str, Any] = budget["clusters"][cluster]
            return found
    raise AssertionError(f"no {path}")


def files(clusters: str = CLUSTERS, budgets: str = BUDGETS, **more: Any) -> dict[str, Any]:
    return {
        "clusters": {"name": "tenure.toml", "text": clusters},
        "budgets": {"name": "budgets.toml", "text": budgets},
        **more,
    }


def test_the_tree_of_budgets_with_allocations(shared: Api) -> None:
    found = shared.get("/v1/budgets")["items"]
    paths = [budget["path"] for budget in found]
    assert paths[0] == "lab" and paths.index("lab/language") < paths.index("lab/language/pretrain")
    by_path = {budget["path"]: budget for budget in found}
    pretrain = by_path["lab/language/pretrain"]["clusters"]["main"]
    assert (pretrain["share"], pretrain["allocation"], pretrain["allocation_gpus"]) == (0.7, 0.35, 5.6)
    rest = by_path["lab/language/self"]
    assert rest["implicit"] and rest["clusters"]["main"]["share"] == 0.3
    assert by_path["lab/small"]["clusters"]["small"]["allocation"] == 0.25
    assert by_path["lab/small"]["clusters"]["main"]["allocation"] == 0
    assert by_path["lab/none"]["clusters"]["main"]["ratio"] is None
    assert list(shared.get("/v1/budgets", params={"cluster": "small"})["items"][0]["clusters"]) == ["small"]
    # 16 GPUs over 7 days
    assert by_path["lab"]["clusters"]["main"]["entitled_gpu_hours"] == 16 * 7 * 24


def test_what_runs_is_committed_and_counted_all_the_way_up(api: Api) -> None:
    job = api.submit(budget="lab/language/pretrain", gpus=4, min_runtime="1h")
    api.reach(job["id"], "running")
    waiting = api.submit(budget="lab/language", gpus=8, replicas=2)
    for path in ("lab/language/pretrain", "lab/language", "lab"):
        found = usage(api, path)
        assert found["running_jobs"] == 1 and found["running_gpus"] == 4
        assert 3.9 < found["committed_gpu_hours"] <= 4 and 0 <= found["used_gpu_hours"] < 0.1
        used, owed = found["used_gpu_hours"] + found["committed_gpu_hours"], found["entitled_gpu_hours"]
        assert found["ratio"] == pytest.approx(used / owed, abs=1e-5)
    assert usage(api, "lab/language/self")["queued_gpus"] == 16 and waiting["state"] == "queued"
    free = api.submit(budget="lab/none", min_runtime="0", gpus=2)
    api.reach(free["id"], "running")
    assert usage(api, "lab/none")["unallocated_gpus"] == 2 and usage(api, "lab/none")["running_gpus"] == 0


def test_hosts_and_a_drain_that_keeps_promises(api: Api) -> None:
    job = api.submit(gpus=8, min_runtime="1h", grace="1m")
    running = api.reach(job["id"], "running")
    host = running["attempt"]["hosts"][0]
    drained = api.post(f"/v1/hosts/main/{host}/drain", {"why": "fan"})
    assert drained["state"] == "draining" and drained["why"] == "fan" and drained["by"] == "root"
    holder = drained["attempts"][0]
    assert holder["attempt"] == running["attempt"]["id"] and holder["gpus"] == list(range(8))
    assert drained["free_gpus"] == 0
    assert holder["protected_until"] == running["attempt"]["protected_until"]
    assert drained["drained_by"] > holder["protected_until"]  # and the grace and the time to kill after it
    other = next(h for h in api.get("/v1/hosts", params={"cluster": "main"})["items"] if h["name"] != host)
    assert other["free_gpus"] == 8 and other["drained_by"] is None and other["labels"] == {"rack": "r1"}
    assert api.post(f"/v1/hosts/main/{host}/resume", {})["state"] == "healthy"
    api.post(f"/v1/hosts/main/{host}/drain", {"deadline": "2001-01-01T00:00:00Z"}, code=422)
    assert api.call("POST", "/v1/hosts/main/n11/drain", json={}).json()["errors"][0]["fix"].endswith("did you mean n1?")


def test_a_gang_over_hosts_leaves_the_end_of_a_drain_open_until_there_is_a_deadline(api: Api) -> None:
    job = api.submit(gpus=8, replicas=2, min_runtime="1h")
    api.reach(job["id"], "running")
    assert api.post("/v1/hosts/main/n1/drain", {})["drained_by"] is None
    body = {"deadline": "2999-01-01T00:00:00Z"}
    assert api.post("/v1/hosts/main/n1/drain", body)["drained_by"] is not None


def test_status_counts_gpus_jobs_and_why_they_wait(api: Api) -> None:
    for _ in range(3):
        api.submit(gpus=8)
    held = api.submit(hold=True)
    free = api.submit(clusters=["small"], budget="lab/none", min_runtime="0", gpus=4)
    api.reach(free["id"], "running")
    status = api.get("/v1/status")
    main = next(cluster for cluster in status["clusters"] if cluster["name"] == "main")
    assert (main["gpus"], main["healthy_gpus"], main["charged_gpus"], main["free_gpus"]) == (16, 16, 16, 0)
    assert next(c for c in status["clusters"] if c["name"] == "small")["unallocated_gpus"] == 4
    assert status["jobs"] == {"queued": 2, "running": 3}
    assert status["waiting"] == {"held_by_person": 1, "waiting_capacity": 1}
    with api.engine.view() as state:
        assert sum(count_waiting(state).values()) == 2
    api.post("/v1/pause", {"scope": "starts"})
    paused = api.get("/v1/status")
    assert paused["paused_starts"] == "root" and paused["paused_evictions"] is None
    assert paused["waiting"][Reason.PAUSED_STARTS.value] == 1
    assert api.get(f"/v1/jobs/{held['id']}")["reason"]["code"] == "held_by_person"
    assert api.post("/v1/resume", {"scope": "starts"})["paused_starts"] is None
    assert api.post("/v1/pause", {"scope": "evictions"})["paused_evictions"] == "root"


def test_the_configuration_can_be_read_and_put_back(api: Api) -> None:
    current = api.get("/v1/config")
    again = parse(current["clusters"]["text"], current["budgets"]["text"])
    assert again.clusters == config_of().clusters and again.budgets == config_of().budgets
    applied = api.post("/v1/apply", {**current, "dry_run": True})
    assert applied == {"applied": False, "changes": [], "evictions": [], "starts": []}


def test_apply_says_what_changes_and_does_it(api: Api) -> None:
    more = BUDGETS.replace("share = 0.7", "share = 0.5")
    dry = api.post("/v1/apply", files(budgets=more, dry_run=True))
    assert not dry["applied"] and any("pretrain" in line for line in dry["changes"])
    assert usage(api, "lab/language/pretrain")["share"] == 0.7
    assert api.post("/v1/apply", files(budgets=more))["applied"]
    assert usage(api, "lab/language/pretrain")["share"] == 0.5


def test_apply_says_which_jobs_would_start(api: Api) -> None:
    jobs = [api.submit(gpus=8) for _ in range(3)]
    larger = CLUSTERS.replace("n[1-2]", "n[1-3]")
    planned = api.post("/v1/apply", files(clusters=larger, dry_run=True))
    assert [start["job"] for start in planned["starts"]] == [jobs[2]["id"]]
    assert planned["starts"][0]["reason"]["code"] == "started_free"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (files(clusters="["), "tenure.toml: line 1"),
        (files(clusters=CLUSTERS.replace("gpus = 8", "gpus = -8")), "tenure.toml: clusters.main.hosts.n1.gpus"),
        (files(budgets=BUDGETS.replace("0.5", "1.5")), "budgets.toml: lab.language.share"),
        (files(budgets="\x00"), "budgets.toml: line 1"),
        (files(clusters=""), "tenure.toml: clusters"),
    ],
)
def test_a_bad_configuration_names_file_field_and_value(shared: Api, body: dict[str, Any], field: str) -> None:
    problem = shared.post("/v1/apply", body, code=422)
    named = [error["field"] for error in problem["errors"]]
    assert field in named, named
    assert all(error["value"] and error["fix"] for error in problem["errors"])


def test_a_configuration_that_takes_a_host_from_under_a_job_is_refused(api: Api) -> None:
    job = api.submit(gpus=8, replicas=2)
    api.reach(job["id"], "running")
    problem = api.post("/v1/apply", files(clusters=CLUSTERS.replace("n[1-2]", "n[1-1]")), code=422)
    assert problem["reason"] == "host_in_use" and f"{job['id']}.1" in problem["errors"][0]["fix"]


def test_jobs_around_tenure_are_shown_wherever_gpus_are(api: Api) -> None:
    api.executor.surroundings = [
        HostCondition("n1", gpus=3, cpus=4_000, mem=64, what="Slurm job 12 of eve"),
        HostCondition("n2", Health.DRAINING, "slurm:root", "bad disk"),
    ]
    seq = api.engine.last_seq
    api.engine.poke()
    api.engine.wait_change(seq, 30)
    first, second = api.get("/v1/hosts", params={"cluster": "main"})["items"]
    assert (first["free_gpus"], first["others_gpus"], first["others"]) == (5, 3, "Slurm job 12 of eve")
    assert (first["others_cpus"], first["others_memory_mib"]) == (4.0, 64)
    assert (second["state"], second["by"], second["why"]) == ("draining", "slurm:root", "bad disk")
    (main, _) = api.get("/v1/status")["clusters"]
    assert (main["free_gpus"], main["others_gpus"], main["healthy_gpus"]) == (5, 3, 8)
    text = api.call("GET", "/metrics").text
    assert 'tenure_gpus{cluster="main",kind="others"} 3.0' in text
    assert api.post("/v1/hosts/main/n2/resume", {})["state"] == "draining"  # it is out of service elsewhere
    entries = [entry for batch in api.get("/v1/decisions")["items"] for entry in batch["entries"]]
    assert "host main/n1: 3 GPUs used by others: Slurm job 12 of eve" in [entry["text"] for entry in entries]
    table = render.host_table([HostView(**first), HostView(**second)], 1)
    notes = [str(cell) for cell in table.columns[-1].cells]
    assert notes == ["3 GPUs used by others: Slurm job 12 of eve", notes[1]]
    assert notes[1].startswith("bad disk") and notes[1].endswith("(slurm:root)")
