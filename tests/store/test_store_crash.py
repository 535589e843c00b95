"""A server killed between any two statements of a write has written all of the batch or none of it."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import pytest
from sqlalchemy import event
from store_makers import attempt, audit, batch, eviction, job, lead, span

from tenure import faults
from tenure.store import Store

STATEMENTS = ("BEGIN", "SELECT", "batches", "jobs", "attempts", "spans", "evictions", "audit")


def _write(store: Store) -> None:
    store.write(
        batch(2),
        jobs=[job(1), job(2)],
        attempts=[attempt(1, 1)],
        spans=[span(0, 1)],
        evictions=[eviction(1)],
        audit=[audit("x")],
    )


def _killed(url: str, prepare: Callable[[Store], None]) -> None:
    """Write in a child that dies by SIGKILL where ``prepare`` says."""
    child = os.fork()
    if child == 0:
        try:
            store = Store.open(url)
            prepare(store)
            _write(store)
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL


def _content(url: str) -> list[int]:
    with Store.open(url) as store:
        return [
            len(list(store.batches())) - 1,
            len(store.list_jobs()),
            len(store.attempts_of(1)),
            len(list(store.spans())),
            len(store.evictions()),
            len(store.audit_log()),
        ]


NOTHING = [0, 0, 0, 0, 0, 0]
ALL = [1, 2, 1, 1, 1, 1]


@pytest.mark.parametrize("after", range(len(STATEMENTS)), ids=STATEMENTS)
def test_killed_after_a_statement(url: str, after: int) -> None:
    with Store.open(url) as store:
        lead(store, 1)

    def prepare(store: Store) -> None:
        # PostgreSQL's driver begins by itself, with the first statement.
        countdown = after + (1 if store.dialect == "sqlite" else 0)

        def executed(*_args: object) -> None:
            nonlocal countdown
            countdown -= 1
            if countdown <= 0:
                os.kill(os.getpid(), signal.SIGKILL)

        event.listen(store._engine, "after_cursor_execute", executed)

    _killed(url, prepare)
    assert _content(url) == NOTHING
    with Store.open(url) as store:
        _write(store)
    assert _content(url) == ALL


@pytest.mark.parametrize(("point", "content"), [("store.before_commit", NOTHING), ("store.after_commit", ALL)])
def test_killed_around_the_commit(url: str, point: str, content: list[int]) -> None:
    with Store.open(url) as store:
        lead(store, 1)

    def prepare(_store: Store) -> None:
        os.environ["TENURE_FAULT"] = point

    _killed(url, prepare)
    assert _content(url) == content
    assert point in faults.POINTS
