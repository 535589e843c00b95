"""What is said of estimates: the newest one, and how past ones of the size class came true."""

from __future__ import annotations

from dataclasses import replace

from api_kit import Api

from tenure import words
from tenure.core.model import DAY, HOUR, MINUTE
from tenure.store import EstimateRow
from tenure.units import parse_time


def estimate(api: Api, job: int, size_class: str = "small", *, ago: int = 0) -> EstimateRow:
    made = api.engine.now() - ago
    return EstimateRow(
        job, made, 1, size_class, made + HOUR, made + 2 * HOUR, made + 4 * HOUR, made + 2 * DAY, made, made, 85
    )


def waiting(api: Api) -> int:
    """A job that waits for two that run for ever."""
    for _ in range(2):
        api.reach(api.submit(gpus=8, min_runtime="8h")["id"], "running")
    job: int = api.submit(gpus=8, min_runtime="1h")["id"]
    return job


def test_there_is_none_yet_then_the_newest_one(api: Api) -> None:
    job = waiting(api)
    none = api.get(f"/v1/jobs/{job}/eta", user="bob")
    assert none["estimate"] is None and none["text"].startswith("No estimate yet.")
    assert none["past"] == {
        "size_class": "small", "count": 0, "inside": 0, "inside_percent": None, "median_error_ms": None
    }  # fmt: skip
    rows = [estimate(api, job, ago=10 * MINUTE), estimate(api, job)]
    api.engine.store.write_estimates((row, None) for row in rows)
    told = api.get(f"/v1/jobs/{job}/eta")
    assert 0 <= told["estimate"]["age_ms"] < MINUTE and told["estimate"]["percent"] == 85
    why = api.get(f"/v1/jobs/{job}/why")
    assert {**why["estimate"], "age_ms": 0} == {**told["estimate"], "age_ms": 0}
    assert told["text"].startswith("Between 1h and 4h from now, most likely about 2h.")
    api.engine.store.write_estimates([(replace(rows[1], made_at=rows[1].made_at + 1, high=None, likely=None), None)])
    later = api.get(f"/v1/jobs/{job}/eta")
    assert later["estimate"]["high"] is None and "and maybe later than 2d from now." in later["text"]


def test_a_range_that_has_passed_says_so(api: Api) -> None:
    job = waiting(api)
    api.engine.store.write_estimates([(estimate(api, job, ago=5 * HOUR), None)])
    told = api.get(f"/v1/jobs/{job}/eta")
    by = words.moment(parse_time(told["estimate"]["high"]))
    assert told["text"].startswith(f"It should have started by {by}, by the estimate of 5h ago.")


def test_what_is_decided_already_bounds_it(api: Api) -> None:
    """It claims the GPUs of one that may be evicted: they are there when that one is killed."""
    free = api.submit(gpus=8, replicas=2, min_runtime="0", resumable=True, grace="5m", clusters=["main"])
    api.reach(free["id"], "running")
    api.executor.stop = lambda order: None  # type: ignore[method-assign]  # it takes its grace
    job = api.submit(gpus=8, min_runtime="1h", clusters=["main"])["id"]
    api.reach(job, "claiming")
    api.engine.store.write_estimates([(estimate(api, job), None)])
    told = api.get(f"/v1/jobs/{job}/eta")
    latest = parse_time(api.get(f"/v1/jobs/{job}/why")["claiming"]["until"])
    assert parse_time(told["estimate"]["latest"]) == latest < parse_time(told["estimate"]["low"])
    assert told["text"].startswith(("At any moment.", "Between now and "))
    assert "h from now" not in told["text"]


def test_what_waits_for_its_arrays_throttle_has_none(api: Api) -> None:
    job = waiting(api)
    first = api.submit(gpus=8, min_runtime="1h", array="0-3%1")["id"]
    api.engine.store.write_estimates([(estimate(api, number), None) for number in (job, first, first + 1)])
    assert api.get(f"/v1/jobs/{first}/eta")["estimate"] is not None
    behind = api.get(f"/v1/jobs/{first + 1}/eta")
    assert behind["estimate"] is None
    assert behind["text"].startswith("No estimate: waiting: at most 1 jobs of array")
    assert api.get(f"/v1/jobs/{first + 1}/why")["estimate"] is None


def test_only_those_that_are_a_day_old_are_judged(api: Api) -> None:
    job = waiting(api)
    rows = [estimate(api, 1, ago=DAY - MINUTE), estimate(api, 2, ago=DAY + MINUTE)]
    api.engine.store.write_estimates((row, None) for row in rows)
    api.engine.store.estimates_came_true([(1, rows[0].made_at + HOUR), (2, rows[1].made_at + HOUR)])
    told = api.get(f"/v1/jobs/{job}/eta")
    assert told["past"]["count"] == 1 and "Of 1 past estimates of small jobs 1 came true" in told["text"]
    ran = api.get("/v1/jobs", params={"state": "running"})["items"][0]["id"]
    assert api.get(f"/v1/jobs/{ran}/eta")["text"] == f"Job {ran} does not wait: it is running."


def test_the_error_of_past_ones_is_counted_by_size_class(api: Api) -> None:
    job = waiting(api)
    rows = [estimate(api, number, "large" if number == 10 else "small", ago=2 * DAY) for number in range(1, 11)]
    store = api.engine.store
    store.write_estimates((row, None) for row in rows)
    # Six inside their hour to four, three off by at least three hours; one is of another class.
    for row in rows:
        hours = 5 + row.job_id if row.job_id <= 3 else 3
        store.estimates_came_true([(row.job_id, row.made_at + hours * HOUR)])
    past = api.get(f"/v1/jobs/{job}/eta")["past"]
    assert (past["count"], past["inside"], past["inside_percent"]) == (9, 6, 66.7)
    assert past["median_error_ms"] == HOUR
    assert (
        "Of 9 past estimates of small jobs 6 came true (66.7 %); half were off by less than 1h."
        in (api.get(f"/v1/jobs/{job}/eta")["text"])
    )


def test_what_has_started_or_is_held_has_none(api: Api) -> None:
    job = waiting(api)
    api.engine.store.write_estimates([(estimate(api, job), None)])
    api.post(f"/v1/jobs/{job}/hold", user="ann")
    held = api.get(f"/v1/jobs/{job}/eta")
    assert held["text"].startswith(f"No estimate: job {job} is held by ann.") and held["estimate"] is None
    runs = api.get("/v1/jobs", params={"state": "running"})["items"][0]["id"]
    assert f"Job {runs} does not wait: it is running." in api.get(f"/v1/jobs/{runs}/eta")["text"]
    assert api.call("GET", "/v1/jobs/999/eta").status_code == 404
