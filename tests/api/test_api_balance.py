"""Statements of budgets over HTTP: who may ask, what of, and that the numbers are those of the database's spans."""

from __future__ import annotations

from typing import Any

import pytest
from api_kit import Api

import tenure
from tenure.core.model import GPU, HOUR
from tenure.units import parse_time

PARTS = ("settled_gpu_hours", "running_gpu_hours", "committed_gpu_hours", "reserved_gpu_hours")


def balance(api: Api, path: str = "lab/language", **query: Any) -> dict[str, Any]:
    found: dict[str, Any] = api.get(f"/v1/budgets/{path}/balance", params=query, user="bob")
    return found


def settled(api: Api, at: int, since: int, user: str | None = None) -> float:
    """GPU-hours on ``main`` below lab/language, from the table of spans."""
    amount = sum(
        row.amount * (min(row.end, at) - max(row.start, since))
        for row in api.engine.store.spans("main")
        if row.kind == "charged" and row.leaf.startswith("lab/language") and user in (None, row.user)
    )
    return round(amount / (GPU * HOUR), 6)


def work(api: Api) -> tuple[int, int]:
    """Ann's job that has ended and bob's that runs, protected for 2 h, in lab/language."""
    ended = api.submit(budget="lab/language/pretrain", gpus=4, name="short", clusters=["main"])["id"]
    running = api.submit(user="bob", gpus=8, min_runtime="2h", name="long", clusters=["main"])["id"]
    for job in (ended, running):
        api.reach(job, "running")
    api.executor.finish(f"{ended}.1")
    api.reach(ended, "succeeded")
    return ended, running


def test_the_numbers_are_those_of_spans_and_attempts(api: Api) -> None:
    ended, running = work(api)
    view = balance(api, cluster="main")
    assert view["path"] == "lab/language" and view["lookback_ms"] == 7 * 24 * HOUR
    at, one = parse_time(view["at"]), view["clusters"]["main"]
    attempt = api.get(f"/v1/jobs/{running}")["attempt"]
    charged = round(8 * (at - parse_time(attempt["started_at"])) / HOUR, 6)
    left = round(8 * (parse_time(attempt["protected_until"]) - at) / HOUR, 6)
    past = settled(api, at, at - view["lookback_ms"])
    assert past > 0
    assert [one[part] for part in PARTS] == [past, charged, left, 0]
    # Half of 16 GPUs for a week.
    assert one["entitled_gpu_hours"] == 8 * 168 and one["allocation_gpus"] == 8
    assert one["left_gpu_hours"] == pytest.approx(8 * 168 - past - charged - left, abs=2e-6)
    assert one["ratio"] == pytest.approx((past + charged + left) / (8 * 168), abs=1e-6) and not one["over"]
    assert one["last_day"]["ratio"] == pytest.approx((past + charged + left) / (8 * 24), abs=1e-6)
    assert one["last_day"]["left_gpu_hours"] == pytest.approx(8 * 24 - past - charged - left, abs=2e-6)
    # The budgets' own page has the same.
    listed = {budget["path"]: budget for budget in api.get("/v1/budgets")["items"]}["lab/language"]["clusters"]["main"]
    assert listed["entitled_gpu_hours"] == one["entitled_gpu_hours"]
    # Who
    assert [(job["job"], job["name"], job["user"], job["budget"]) for job in one["jobs"]] == [
        (running, "long", "bob", "lab/language/self"),
        (ended, "short", "ann", "lab/language/pretrain"),
    ]
    assert [person["user"] for person in one["people"]] == ["bob", "ann"]
    assert [child["path"] for child in one["children"]] == ["lab/language/pretrain", "lab/language/self"]
    assert [child["implicit"] for child in one["children"]] == [False, True]
    for part in PARTS:
        for listing in ("jobs", "people", "children"):
            assert sum(row[part] for row in one[listing]) == pytest.approx(one[part], abs=4e-6)
    # When
    assert [len(one["days"]), len(one["points"])] == [7, 169]
    assert sum(day["used_gpu_hours"] for day in one["days"]) == pytest.approx(past + charged, abs=8e-6)
    today = one["days"][-1]
    assert today["people"] == pytest.approx({"ann": past, "bob": charged}, abs=2e-6)
    assert today["leaves_by"] == one["points"][-1]["at"] and one["points"][0]["at"] == view["at"]
    assert one["lapses_gpu_hours"] == 8 * 24 and one["lapses_by"] == one["days"][0]["leaves_by"]


def test_of_people_and_jobs_only_some(api: Api) -> None:
    ended, running = work(api)
    one = balance(api, person="ann")["clusters"]["main"]
    assert [job["job"] for job in one["jobs"]] == [ended] and one["other_jobs"] == 0
    assert [person["user"] for person in one["people"]] == ["ann"]
    whole = balance(api, jobs=1)["clusters"]["main"]
    assert [job["job"] for job in whole["jobs"]] == [running] and whole["other_jobs"] == 1
    assert whole["settled_gpu_hours"] > 0 and one["running_gpu_hours"] > 0


def test_every_node_of_the_tree_has_one_on_every_cluster(shared: Api) -> None:
    for budget in shared.get("/v1/budgets")["items"]:
        view = balance(shared, budget["path"])
        assert list(view["clusters"]) == list(budget["clusters"]) == ["main", "small"]
        for name, use in budget["clusters"].items():
            assert view["clusters"][name]["entitled_gpu_hours"] == use["entitled_gpu_hours"]
    assert list(balance(shared, cluster="small")["clusters"]) == ["small"]
    nothing = balance(shared, "lab/none")["clusters"]["main"]
    assert nothing["ratio"] is None and nothing["entitled_gpu_hours"] == 0 and nothing["lapses_gpu_hours"] == 0


@pytest.mark.parametrize(
    ("path", "status", "field", "fix"),
    [
        ("lab/langage/balance", 404, "budget", "did you mean lab/language?"),
        ("lab/slf/balance", 404, "budget", "there is no such budget"),
        ("lab/language/balance?person=ane", 404, "person", "there is no such person"),
        ("lab/language/balance?cluster=mian", 404, "cluster", "did you mean main?"),
        ("lab/language/balance?jobs=-1", 422, "jobs", ""),
        ("lab/%00/balance", 422, "path", "no control characters"),
        ("/balance", 404, "budget", "no such budget"),
    ],
)
def test_what_does_not_exist_is_named(shared: Api, path: str, status: int, field: str, fix: str) -> None:
    answer = shared.call("GET", f"/v1/budgets/{path}", user="bob")
    assert answer.status_code == status, answer.text
    error = answer.json()["errors"][0]
    assert error["field"] == field and fix in error["fix"]


def test_the_client_reads_it(shared: Api) -> None:
    with tenure.Client(str(shared.http.base_url), shared.tokens["bob"]) as client:
        view = client.balance("lab/language", "main", person="bob", jobs=3)
        assert view.clusters["main"].people == [] and view.path == "lab/language"
        with pytest.raises(tenure.client.TenureError) as refused:
            client.balance("lab/a b?c#d")
    assert refused.value.status == 404 and "lab/a b?c#d" in refused.value.problem.detail
