"""Questions about jobs, attempts, evictions and the audit log, on both databases."""

from __future__ import annotations

import pytest
from store_makers import NOW, attempt, audit, batch, eviction, job, lead

from tenure.store import PastRun, Store


@pytest.fixture
def filled(store: Store) -> Store:
    lead(store, 0)
    store.write(
        batch(1),
        jobs=[
            job(1, state="running", client_key="k"),
            job(2, user="bob", budget="lab/language", client_key="k"),
            job(3, user="bob", budget="lab/language-two", cluster="c2"),
            job(4, user="cyd", budget="lab/Language/pretrain", state="failed"),
            job(5, user="cyd", budget="lab/lang_age/x", state="failed"),
        ],
        attempts=[attempt(1, 10), attempt(1, 9), attempt(2, 1)],
        evictions=[eviction(1, 2, at=NOW), eviction(2, 3, at=NOW + 1), eviction(1, 4, at=NOW + 2)],
        audit=[audit("one"), audit("two", at=NOW + 1)],
    )
    return store


@pytest.mark.parametrize(
    ("filters", "ids"),
    [
        ({}, [5, 4, 3, 2, 1]),
        ({"states": ["failed"]}, [5, 4]),
        ({"states": {"failed", "running"}}, [5, 4, 1]),
        ({"users": ["bob", "nobody"]}, [3, 2]),
        ({"budget": "lab/language"}, [2, 1]),
        ({"budget": "lab"}, [5, 4, 3, 2, 1]),
        ({"budget": "la"}, []),
        ({"budget": ""}, [5, 4, 3, 2, 1]),
        ({"budget": "lab/lang_age"}, [5]),
        ({"cluster": "c2"}, [3]),
        ({"since": NOW + 4}, [5, 4]),
        ({"limit": 2}, [5, 4]),
        ({"limit": 2, "after": 4}, [3, 2]),
        ({"limit": None, "after": 1}, []),
        ({"states": ["queued"], "users": ["bob"], "budget": "lab", "cluster": "c1", "since": NOW}, [2]),
    ],
)
def test_lists_of_jobs(filled: Store, filters: dict[str, object], ids: list[int]) -> None:
    assert [row.id for row in filled.list_jobs(**filters)] == ids  # type: ignore[arg-type]


def test_one_job(filled: Store) -> None:
    assert filled.job(1) == job(1, state="running", client_key="k")
    assert filled.job(6) is None
    assert filled.max_job_id() == 5


def test_client_keys_are_each_users_own(filled: Store) -> None:
    ada, bob = filled.find_by_client_key("ada", "k"), filled.find_by_client_key("bob", "k")
    assert ada is not None and bob is not None
    assert (ada.id, bob.id) == (1, 2)
    assert filled.find_by_client_key("cyd", "k") is None


def test_attempts_in_the_order_of_their_numbers(filled: Store) -> None:
    assert [row.id for row in filled.attempts_of(1)] == ["1.9", "1.10"]
    assert filled.attempts_of(3) == []


def test_evictions_by_time_job_and_place(filled: Store) -> None:
    assert [row.id for row in filled.evictions()] == [3, 2, 1]
    assert [row.id for row in filled.evictions(since=NOW + 1)] == [3, 2]
    assert [row.id for row in filled.evictions(limit=1)] == [3]
    assert [row.id for row in filled.evictions(job_id=2)] == [2, 1]
    assert [row.id for row in filled.evictions_since(1)] == [2, 3]
    assert [row.id for row in filled.evictions_since(0, limit=2)] == [1, 2]


def test_the_audit_log(filled: Store) -> None:
    filled.record_audit([audit("three", at=NOW + 2)])
    filled.record_audit([])
    assert [row.action for row in filled.audit_log()] == ["three", "two", "one"]
    assert [row.action for row in filled.audit_log(since=NOW + 1, limit=1)] == ["three"]


def test_past_runs_are_what_a_person_finished_and_how_long_that_took(store: Store) -> None:
    lead(store, 0)
    ended = {"started_at": NOW, "running_at": NOW + 1, "ended_at": NOW + 11, "state": "ended"}
    store.write(
        batch(1),
        jobs=[
            job(1, state="succeeded", name="old"),
            job(2, state="succeeded", name="twice", gpus=8),
            job(3, state="failed"),
            job(4, state="running"),
            job(5, state="succeeded", user="bob"),
            job(6, state="succeeded", name="never ran"),
        ],
        attempts=[
            *(attempt(i, 1, **ended) for i in (1, 2, 3, 4, 5)),
            attempt(2, 2, **{**ended, "ended_at": NOW + 101}),
            attempt(6, 1, ended_at=NOW),
        ],
    )
    assert store.past_runs("ada") == [PastRun(2, "twice", 8, 900_000, 110), PastRun(1, "old", 16, 900_000, 10)]
    assert store.past_runs("ada", limit=2) == [PastRun(2, "twice", 8, 900_000, 110)]
    assert store.past_runs("nobody") == []
