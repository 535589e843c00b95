"""The whole state as plain data and back. Indices and timers are derived again; the ledger's sums come from spans.

The spans are the truth of the ledger, so a snapshot leaves closed ones out: whoever restores brings those that end
inside the lookback. What is restored equals what was running, which tests hold.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import fields
from typing import Any

from tenure.core import codec, effects, waits
from tenure.core.configure import rebuild_room
from tenure.core.ledger import Kind, Ledger, OpenSpan, Span
from tenure.core.model import MINUTE, Budget, Cluster, Contract, Grant, JobSpec, Policy
from tenure.core.state import (
    ArrayRecord,
    Attempt,
    ClusterState,
    Due,
    Foreign,
    HostRecord,
    Job,
    Pending,
    State,
    protected,
)
from tenure.core.tree import Tree

VERSION = 1


def save(state: State) -> dict[str, Any]:
    """Everything that ``load`` needs but closed spans."""
    return {
        "version": VERSION,
        "now": state.now,
        "policy": codec.plain(state.policy),
        "budgets": codec.plain(state.budgets),
        "grants": codec.plain(state.grants),
        "paused_starts": state.paused_starts,
        "paused_evictions": state.paused_evictions,
        "clock_alarm": state.clock_alarm,
        "configured": state.tree is not None,
        "clusters": [_save_cluster(cluster, state.now - state.policy.lookback) for cluster in state.clusters.values()],
        "arrays": [codec.plain(record) for record in state.arrays.values()],
        "pending": [codec.plain(pending) for pending in state.pending.values()],
        "jobs": [_save_job(state, job) for job in state.jobs.values()],
    }


def _save_job(state: State, job: Job) -> dict[str, Any]:
    """A job; what it shares with its array is kept there once (``spec`` is then None)."""
    record = state.arrays.get(job.array)
    shared = record is not None and record.spec is job.spec
    return {
        field.name: None if shared and field.name == "spec" else codec.plain(getattr(job, field.name))
        for field in fields(Job)
    }


def _save_cluster(cluster: ClusterState, since: int) -> dict[str, Any]:
    ledger = cluster.ledger
    return {
        "spec": codec.plain(cluster.spec),
        "hosts": codec.plain(cluster.hosts),
        "foreign": codec.plain(cluster.foreign),
        "recent_evictions": list(cluster.recent_evictions),
        "recent_moves": list(cluster.recent_moves),
        "headroom": list(cluster.headroom),
        "shorts": [list(short) for short in cluster.shorts],
        "first_record": ledger.first_record,
        "healthy_gpus": ledger.healthy_gpus,
        "entitled": {
            path: [account.created, account.allocation, *account.entitled.since(since)]
            for path, account in ledger.accounts.items()
            if account.created is not None
        },
        "open": codec.plain(ledger.open),
    }


def load(data: dict[str, Any], closed: dict[str, Iterable[Span]]) -> State:
    """The state that was saved. ``closed``: per cluster the closed spans that end inside the lookback.

    Raises CodecError or ValueError for data of another version.
    """
    if data["version"] != VERSION:
        raise ValueError(f"snapshot version {data['version']}: this release reads version {VERSION}")
    state = State()
    state.now = data["now"]
    state.policy = codec.record(Policy, data["policy"])
    state.budgets = codec.record(tuple[Budget, ...], data["budgets"])
    state.grants = codec.record(tuple[Grant, ...], data["grants"])
    state.paused_starts, state.paused_evictions = data["paused_starts"], data["paused_evictions"]
    state.clock_alarm = data["clock_alarm"]
    if data["configured"]:
        state.tree = Tree(state.budgets, state.grants)
    for saved in data.get("arrays", ()):
        waits.restore_array(state, codec.record(ArrayRecord, saved))
    for saved in data.get("pending", ()):
        waits.wait_for(state, codec.record(Pending, saved))
    for saved in data["jobs"]:
        job = _load_job(state, saved)
        state.jobs[job.id] = job
        waits.restore_job(state, job)
        if job.attempt is not None:
            state.attempts[job.attempt.id] = job.attempt
    for saved in data["clusters"]:
        _load_cluster(state, saved, closed)
    for job in state.jobs.values():
        if job.reservation is not None:
            effects.index_reservation(state, job)
        if job.attempt is None:
            state.enqueue(job)
    _restore_timers(state)
    return state


def _load_job(state: State, saved: dict[str, Any]) -> Job:
    if saved["spec"] is not None:
        return codec.record(Job, saved)
    # Read with a small record in its place: ten thousand of them share one.
    job = codec.record(Job, {**saved, "spec": _NO_SPEC})
    job.spec = state.arrays[job.array].spec
    return job


_NO_SPEC = codec.plain(JobSpec("", "", "", (), Contract(0, False), ()))


def _load_cluster(state: State, saved: dict[str, Any], closed: dict[str, Iterable[Span]]) -> None:
    cluster = ClusterState(codec.record(Cluster, saved["spec"]))
    name = cluster.spec.name
    cluster.hosts = codec.record(dict[str, HostRecord], saved["hosts"])
    cluster.foreign = codec.record(dict[str, Foreign], saved.get("foreign", {}))
    cluster.recent_evictions = deque(saved["recent_evictions"])
    cluster.recent_moves = deque(saved.get("recent_moves", ()))
    state.clusters[name] = cluster
    open_spans = codec.record(dict[str, OpenSpan], saved["open"])
    first = saved["first_record"]
    cluster.ledger = rebuild(_its_own(closed.get(name, ()), first), open_spans)
    cluster.ledger.first_record = first
    cluster.ledger.healthy_gpus = saved["healthy_gpus"]
    for path, (created, allocation, times, cums, rates) in saved["entitled"].items():
        account = cluster.ledger.account(path)
        account.created, account.allocation = created, allocation
        account.entitled.times, account.entitled.cums, account.entitled.rates = list(times), list(cums), list(rates)
    rebuild_room(state, cluster)
    cluster.shorts = deque((at, gpus) for at, gpus in saved.get("shorts", ()))
    effects.keep_free(cluster, tuple(saved.get("headroom", ())))
    for attempt_id in sorted(state.attempts):
        attempt = state.attempts[attempt_id]
        if attempt.cluster == name:
            _index(state, cluster, attempt)


def _its_own(closed: Iterable[Span], first_record: int | None) -> list[Span]:
    """A cluster that was taken away and added again begins anew: what was before is another one's of its name."""
    return [span for span in closed if first_record is None or span.end > first_record]


def look_further_back(state: State, closed: dict[str, Iterable[Span]]) -> None:
    """Before a longer lookback is applied: the sums of usage, from spans that the shorter one let go as well.

    ``closed``: per cluster the closed spans that end inside the longer one.
    """
    for name, cluster in state.clusters.items():
        ledger = cluster.ledger
        ledger.take_usage(rebuild(_its_own(closed.get(name, ()), ledger.first_record), ledger.open))


def rebuild(closed: Iterable[Span], open_spans: dict[str, OpenSpan]) -> Ledger:
    """A ledger with the sums of these spans, written in time order as they once were."""
    ledger = Ledger()
    spans = list(closed)
    changes: list[tuple[int, Span | OpenSpan, int]] = []
    for closed_span in spans:
        if closed_span.kind is not Kind.CREDIT:
            changes.append((closed_span.start, closed_span, closed_span.amount))
            changes.append((closed_span.end, closed_span, -closed_span.amount))
    changes.extend((s.start, s, s.amount) for s in open_spans.values())
    for at, span, delta in sorted(changes, key=lambda change: change[0]):
        for account in ledger.touched(span.leaf, span.user):
            account.used[span.kind].change(at, delta)
    ledger.open.update(open_spans)
    for closed_span in spans:
        if closed_span.kind is Kind.CREDIT:
            ledger.credit(closed_span)
    return ledger


def _index(state: State, cluster: ClusterState, attempt: Attempt) -> None:
    """Put a restored attempt back into the indices and the promises."""
    for victim in attempt.waiting_for:
        state.claims.setdefault(victim, set()).add(attempt.id)
    if attempt.stop is not None:
        if not attempt.unreleased:
            effects.index_leaving(cluster, attempt)
        return
    if attempt.promised_until is not None:
        effects.promise(cluster, attempt, amount=attempt.amount, end=attempt.promised_until)
    elif attempt.charged and attempt.running_since is None:
        effects.promise(cluster, attempt, fixed=attempt.amount * attempt.min_runtime)
    kept = protected(attempt, state.now) or attempt.promised_until is not None
    if attempt.started_at is not None and not (attempt.charged and kept):
        effects.index_evictable(state, cluster, attempt)


def _restore_timers(state: State) -> None:
    """Every time that something waits for; those that have passed come up at once, in their old order."""
    for job in state.jobs.values():
        if job.not_before:
            state.due(job.not_before, Due.BACKOFF, str(job.id))
    for attempt in state.attempts.values():
        spec = state.jobs[attempt.job_id].spec
        if attempt.stop is not None:
            state.signal(attempt.stop.warn_at, attempt.id)
            state.signal(attempt.stop.kill_at, attempt.id)
            if not attempt.unreleased:
                state.due(attempt.stop.release_by, Due.RELEASE_BY, attempt.id)
        if attempt.started_at is None:
            continue
        if attempt.promised_until is not None:
            kind = Due.EXPOSED if attempt.charged else Due.TURN_OVER
            state.due(attempt.promised_until, kind, attempt.id)
        if attempt.running_since is None:
            effects.await_start(state, attempt)
        elif spec.timeout is not None:
            state.due(attempt.running_since + spec.timeout, Due.TIMEOUT, attempt.id)
    for cluster in state.clusters.values():
        for at in cluster.recent_evictions:
            state.due(at + MINUTE, Due.EVICTION_CAP, cluster.spec.name)
        for name, host in cluster.hosts.items():
            if host.deadline is not None:
                state.due(host.deadline, Due.DRAIN_DEADLINE, name)
    change = state.tree.next_change(state.now) if state.tree is not None else None
    if change is not None:
        state.due(change, Due.GRANT, "")
