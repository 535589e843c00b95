"""Invariants of the scheduler, asserted after every step of a test's world. All that fail say what is wrong."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING

from tenure.core import codec, cycle, explain, scheduler, snapshot, waits
from tenure.core.apply import apply
from tenure.core.decisions import Claim, Start, Stop
from tenure.core.events import ConfigApplied, Event
from tenure.core.ledger import Kind, Span
from tenure.core.lifecycle import JobState
from tenure.core.model import HostState
from tenure.core.preemption import Contest
from tenure.core.reasons import Reason
from tenure.core.reservation import Doors
from tenure.core.state import Job, State

if TYPE_CHECKING:
    from support.world import World

WAITS = frozenset(reason for reason in Reason if reason.name.startswith(("WAITING_", "HELD_", "PAUSED_"))) | {
    Reason.BACKING_OFF
}
Spans = list[tuple[str, Span]]


def check(world: World) -> None:
    """What can be read off a state and the step just made. Cheap: after every step of every test."""
    check_gpus(world.state)
    check_held(world.state)
    _check_queues(world.state)
    check_waits(world.state)
    _check_evictions(world)
    _check_ledger(world)
    check_promises(world.state)
    _check_tree(world.state)


def fingerprint(result: scheduler.Result) -> str:
    """The bytes of a step's decisions."""
    return codec.dumps([codec.tagged(d) for d in (*result.outcomes, *result.plans)])


def saved(state: State) -> str:
    """The bytes of a snapshot."""
    return codec.dumps(snapshot.save(state))


def restored(data: str, spans: Spans) -> State:
    """The state of these bytes, with the closed spans that end inside the lookback."""
    plain = json.loads(data)
    since = plain["now"] - plain["policy"]["lookback"]
    closed: dict[str, list[Span]] = {}
    for cluster, span in spans:
        if span.end > since:
            closed.setdefault(cluster, []).append(span)
    return snapshot.load(plain, closed)


# ---- the state itself


def check_gpus(state: State) -> None:
    """Gangs whole, no GPU twice, a claim's GPUs free or with one of its victims; indices agree with records."""
    holders: dict[tuple[str, str, int], str] = {}
    claims: dict[tuple[str, str, int], str] = {}
    on_host: dict[tuple[str, str], set[str]] = {}
    for attempt in state.attempts.values():
        job = state.jobs[attempt.job_id]
        assert job.attempt is attempt and job.state.active
        assert (job.state is JobState.CLAIMING) == (attempt.started_at is None)
        assert bool(attempt.waiting_for) == (attempt.started_at is None), "a claim that never opens"
        assert attempt.waiting_for <= state.attempts.keys()
        assert (job.state is JobState.STOPPING) == (attempt.stop is not None)
        gang = sorted((s.role, s.replica) for s in attempt.slots)
        assert gang == [(r, i) for r, role in enumerate(job.spec.roles) for i in range(role.replicas)]
        mine = holders if attempt.started_at is not None else claims
        for slot in attempt.slots:
            assert len(slot.gpus) == job.spec.roles[slot.role].gpus
            on_host.setdefault((attempt.cluster, slot.host), set()).add(attempt.id)
            for gpu in slot.gpus:
                place = (attempt.cluster, slot.host, gpu)
                assert place not in mine, f"{place} given twice: {mine[place]} and {attempt.id}"
                mine[place] = attempt.id
    for place, claim in claims.items():
        if place in holders:
            assert holders[place] in state.attempts[claim].waiting_for, f"{claim} claims {place} of {holders[place]}"
    for name, cluster in state.clusters.items():
        for host, ids in cluster.on_host.items():
            assert ids == on_host.get((name, host), set())
        _check_room(state, name, holders, claims)


def _check_room(state: State, name: str, holders: dict, claims: dict) -> None:  # type: ignore[type-arg]
    cluster = state.clusters[name]
    free = 0
    for host in cluster.spec.hosts:
        is_open = cluster.hosts[host.name].state is HostState.HEALTHY
        assert cluster.room.is_open(host.name) == is_open
        places = [(name, host.name, gpu) for gpu in range(host.gpus)]
        unheld = sum(p not in holders and p not in claims for p in places)
        used = cluster.foreign.get(host.name)
        here = unheld if used is None else max(0, unheld - used.gpus)
        assert cluster.room.free_count(host.name) == here
        free += is_open * here
    assert cluster.room.free_gpus == free
    exposed: dict[str, int] = {}
    unallocated = 0
    for attempt in state.attempts.values():
        if attempt.cluster != name or attempt.stop is not None or attempt.started_at is None:
            assert attempt.id not in cluster.exposed.get(attempt.leaf, {})
            continue
        evictable = attempt.protected_until is not None and attempt.protected_until <= state.now
        assert (attempt.id in cluster.exposed.get(attempt.leaf, {})) == (attempt.charged and evictable), attempt.id
        assert (attempt.id in cluster.unallocated.get(attempt.leaf, {})) == (not attempt.charged)
        unallocated += attempt.gpus * (not attempt.charged)
        if attempt.charged and evictable:
            for path in state.the_tree().line(attempt.leaf):
                exposed[path] = exposed.get(path, 0) + attempt.gpus
    assert cluster.pools[Kind.CHARGED].gpus == exposed
    assert cluster.unallocated_gpus == unallocated
    _check_pools(state, name)


def _check_pools(state: State, name: str) -> None:
    """What may be evicted, counted by node and by host, is what the attempts say."""
    cluster = state.clusters[name]
    expected: dict[Kind, dict[str, int]] = {Kind.CHARGED: {}, Kind.UNALLOCATED: {}}
    in_turn = 0
    for kind, index in ((Kind.CHARGED, cluster.exposed), (Kind.UNALLOCATED, cluster.unallocated)):
        for leaf, attempts in index.items():
            for attempt in attempts.values():
                by_host = cluster.room.by_host(attempt.slots)
                in_turn += by_host * (kind is Kind.UNALLOCATED)
                for path in state.the_tree().line(leaf) if attempt.promised_until is None else ():
                    expected[kind][path] = expected[kind].get(path, 0) + by_host
        assert cluster.pools[kind].tallies == expected[kind]
    assert cluster.unallocated_tally == in_turn


def check_held(state: State) -> None:
    """A host is held once, for a job that could be tried; what clusters keep of reservations is what jobs say."""
    for name, cluster in state.clusters.items():
        mine = {job.id: job.reservation for job in state.jobs.values() if job.reservation is not None}
        mine = {job_id: held for job_id, held in mine.items() if held.cluster == name}
        for job_id in mine:
            job = state.jobs[job_id]
            assert job.state is JobState.QUEUED and not job.held_by and job.not_before <= state.now
            assert job.spec.charged and name in job.spec.clusters
        places = [(host, job_id) for job_id, held in mine.items() for host in held.hosts]
        assert cluster.held == dict(places) and len(cluster.held) == len(places), f"{name}: a host is held twice"
        assert {job_id: held.reservation for job_id, held in cluster.reservations.items()} == mine
        index = cluster.room.index
        for held in cluster.reservations.values():
            assert held.mask == sum(1 << index[host] for host in held.reservation.hosts)
            assert held.gpus == sum(cluster.room.hosts[index[host]].gpus for host in held.reservation.hosts)
        assert cluster.held_gpus == sum(held.gpus for held in cluster.reservations.values())
        assert all(cluster.hosts[host].state is HostState.HEALTHY for host in cluster.held)
        assert cluster.foreign.keys().isdisjoint(cluster.held), "held where others are"
        assert len(set(cluster.headroom)) == len(cluster.headroom)
        assert cluster.headroom_mask == sum(1 << index[host] for host in cluster.headroom)


def _check_queues(state: State) -> None:
    """Every job that could be tried is queued exactly once in each of its clusters, and nothing else is."""
    for name, cluster in state.clusters.items():
        for kind, queue in cluster.queues.items():
            found = sorted(
                job_id
                for groups in queue.leaves.values()
                for group in groups.values()
                for jobs in group.people.values()
                for _, job_id in jobs
            )
            expected = sorted(
                job.id
                for job in state.jobs.values()
                if job.state is JobState.QUEUED
                and job.kind is kind
                and name in job.spec.clusters
                and not job.held_by
                and job.not_before <= state.now
                and not job.behind
                and job.submission not in state.pending
            )
            assert found == expected, f"queue {name} {kind}: {found} instead of {expected}"
            for leaf, groups in queue.leaves.items():
                assert not state.the_tree().nodes[leaf].children, leaf
                assert groups and all(len(group) for group in groups.values())


def check_waits(state: State) -> None:
    """Throttles are kept and used, what is waited for is live, and what waits has no GPUs."""
    arrays: dict[int, list[Job]] = {}
    for job in state.jobs.values():
        if job.array:
            arrays.setdefault(job.array, []).append(job)
    assert arrays.keys() == state.arrays.keys()
    for array, jobs in arrays.items():
        record = state.arrays[array]
        assert state.array_live[array] == len(jobs)
        assert [record.array.indices[job.id - array] for job in jobs] == [job.index for job in jobs]
        let_in = [job for job in jobs if not job.behind]
        assert all(not job.state.active for job in jobs if job.behind)
        if record.array.throttle:
            assert len(let_in) == state.places[array].taken <= record.array.throttle
            wants = [job for job in jobs if job.behind and not job.held_by and array not in state.pending]
            assert not wants or len(let_in) == record.array.throttle, f"array {array}: a place is left empty"
        else:
            assert let_in == jobs
    for submission, pending in state.pending.items():
        assert pending.after and (submission in state.jobs or submission in state.arrays)
        for one in pending.after:
            assert one.job_id in (state.arrays if one.whole else state.jobs), "it waits for what has ended"
            assert not (one.whole and one.ok and state.arrays[one.job_id].failed)
            assert submission in state.dependents[one.job_id, one.whole]
        assert all(job.state is JobState.QUEUED and not job.attempts for job in waits.jobs_of(state, submission))


def _check_evictions(world: World) -> None:
    _, _, result = world.log[-1]
    for plan in result.plans:
        if isinstance(plan, Start | Claim):
            cluster = world.state.clusters[plan.cluster]
            assert all(cluster.hosts[s.host].state is HostState.HEALTHY for s in plan.slots)
        victims = plan.victims if isinstance(plan, Claim) else (plan.victim,) if isinstance(plan, Stop) else ()
        assert len({v.kill_at for v in victims}) <= 1, "graces of a plan end together"
        for victim in victims:
            attempt = world.state.attempts[victim.attempt_id]
            assert not world.protects(attempt, world.now), f"{attempt.id} was protected"
            assert world.now <= victim.warn_at <= victim.kill_at <= victim.release_by


def _check_ledger(world: World) -> None:
    """Window sums equal brute force over spans, for every node and every person."""
    state, now = world.state, world.state.now
    for name, cluster in state.clusters.items():
        ledger = cluster.ledger
        spans = [s for where, s in world.spans if where == name]
        spans += [Span(a, o.leaf, o.user, o.kind, o.amount, o.start, now) for a, o in ledger.open.items()]
        open_ids = {a.id for a in state.attempts.values() if a.cluster == name and a.started_at is not None}
        assert ledger.open.keys() == open_ids
        for window in (state.policy.lookback, state.policy.recent):
            brute: dict[tuple[str, Kind], int] = {}
            people: dict[tuple[str, str, Kind], int] = {}
            for span in spans:
                overlap = min(span.end, now) - max(span.start, now - window)
                if overlap <= 0:
                    continue
                kind, sign = (Kind.CHARGED, -1) if span.kind is Kind.CREDIT else (span.kind, 1)
                worth = sign * span.amount * overlap
                people[span.leaf, span.user, kind] = people.get((span.leaf, span.user, kind), 0) + worth
                parts = span.leaf.split("/")
                for i in range(len(parts)):
                    key = ("/".join(parts[: i + 1]), kind)
                    brute[key] = brute.get(key, 0) + worth
            for kind in (Kind.CHARGED, Kind.UNALLOCATED):
                for path, account in ledger.accounts.items():
                    assert account.usage(kind, now - window, now) == brute.get((path, kind), 0), (path, kind)
                for (leaf, user), account in ledger.people.items():
                    assert account.usage(kind, now - window, now) == people.get((leaf, user, kind), 0), (leaf, user)


def check_promises(state: State) -> None:
    """What counts as promised is what live attempts have left of their protection, or of their hour."""
    for name, cluster in state.clusters.items():
        expected: dict[tuple[str, Kind], int] = {}
        for attempt in state.attempts.values():
            if attempt.cluster != name or attempt.stop is not None:
                continue
            if attempt.charged:
                until = attempt.protected_until
                left = attempt.min_runtime if until is None else max(0, until - state.now)
            elif attempt.started_at is not None:
                left = max(0, attempt.started_at + state.policy.unallocated_turn - state.now)
            else:
                left = 0
            for path in state.the_tree().line(attempt.leaf):
                key = (path, attempt.kind)
                expected[key] = expected.get(key, 0) + attempt.amount * left
        for job in state.jobs.values():
            if job.reservation is not None and job.reservation.cluster == name:
                for path in state.the_tree().line(job.leaf):
                    worth = job.reservation.amount * job.spec.contract.min_runtime
                    expected[path, Kind.CHARGED] = expected.get((path, Kind.CHARGED), 0) + worth
        for path, account in cluster.ledger.accounts.items():
            for kind in (Kind.CHARGED, Kind.UNALLOCATED):
                assert account.promised[kind].at(state.now) == expected.get((path, kind), 0), (path, kind)


def _check_tree(state: State) -> None:
    """Allocations of children add up to their parent's, exactly."""
    tree = state.the_tree()
    for name, cluster in state.clusters.items():
        gpus = sum(host.gpus for host in cluster.spec.hosts)
        allocations = tree.allocations(name, gpus, state.now)
        assert min(allocations.values()) >= 0
        for path, node in tree.nodes.items():
            account = cluster.ledger.account(path)
            assert account.allocation == allocations[path], path
            if node.children:
                below = sum(allocations[child] for child in node.children)
                assert below == allocations[path] * tree.denominator(node.children[0]) // tree.denominator(path)


# ---- the state and what may follow from it: dearer, for property tests


def check_settled(state: State, spans: Spans) -> None:
    """A second pass decides nothing, parked groups tried again or not; saved and restored is the same."""
    data = saved(state)
    assert cycle.run(state) == [], "the second of two passes decided something"
    copy = restored(data, spans)
    assert saved(copy) == data
    again = cycle.run(copy)
    assert again == [], f"parked groups could have been placed: {again}"
    _check_unallocated(state)
    _check_reasons(state)


def _check_unallocated(state: State) -> None:
    """No charged job waits for what unallocated ones hold."""
    if state.paused_starts or not state.evictions_allowed():
        return
    for name, cluster in state.clusters.items():
        trial, doors = cluster.room.fork(), Doors(Contest(state, cluster))
        everywhere = (1 << len(cluster.spec.hosts)) - 1
        for leaf in cluster.unallocated.values():
            for attempt in leaf.values():
                trial.give(attempt.slots)
        for leaf_name, groups in cluster.queues[Kind.CHARGED].leaves.items():
            if not cluster.ledger.account(leaf_name).allocation:
                continue
            for group in groups.values():
                if group.parked is not None and group.parked.reason is Reason.WAITING_EVICTION_CAP:
                    continue
                some = state.jobs[group.heads()[0][1][1]]
                inside = everywhere & ~doors.shut(group)
                fits = trial.can_fit(some.spec.roles, some.spec.labels, inside)
                assert not fits, f"{name}: {some.id} waits for unallocated"


def _check_reasons(state: State) -> None:
    explainer = explain.Explainer(state)
    for job in state.jobs.values():
        because = explainer.why(job)
        if job.state in (JobState.QUEUED, JobState.CLAIMING):
            assert because.reason in WAITS - {Reason.WAITING_NEW}, f"job {job.id}: {because}"
        codec.dumps(codec.plain(because))


def check_prefix(before: str, spans: Spans, events: Iterable[Event], result: scheduler.Result, now: int) -> None:
    """From the state before a step: any prefix of its plans leaves a valid state; all of them the same state."""
    count = now // 7 % (len(result.plans) + 1)
    state = restored(before, spans)
    outcomes = scheduler.absorb(state, tuple(events), now)
    assert [codec.plain(o) for o in outcomes] == [codec.plain(o) for o in result.outcomes]
    for plan in result.plans[:count]:
        apply(state, plan)
    check_gpus(state)
    check_held(state)
    _check_queues(state)
    check_waits(state)
    check_promises(state)
    cycle.run(state)
    check_gpus(state)
    check_promises(state)


def check_redo(before: str, spans: Spans, events: Iterable[Event], result: scheduler.Result, now: int) -> State:
    """Recorded plans applied after a restart give what was running."""
    state = restored(before, spans)
    scheduler.redo(state, tuple(events), result.plans, now)
    return state


def check_codec(events: Iterable[Event], result: scheduler.Result) -> None:
    for event in events:
        text = codec.dumps(codec.tagged(event))
        assert codec.event(json.loads(text)) == event
        assert codec.dumps(codec.tagged(codec.event(json.loads(text)))) == text
    for decision in (*result.outcomes, *result.plans):
        text = codec.dumps(codec.tagged(decision))
        assert codec.decision(json.loads(text)) == decision


def check_replay(log: Iterable[tuple[int, tuple[Event, ...], scheduler.Result]]) -> State:
    """The log through a fresh state gives every decision again, byte for byte."""
    state = State()
    for now, events, result in log:
        decoded = tuple(codec.event(json.loads(codec.dumps(codec.tagged(event)))) for event in events)
        assert fingerprint(scheduler.step(state, decoded, now)) == fingerprint(result)
    return state


def is_config(events: Iterable[Event]) -> bool:
    return any(isinstance(event, ConfigApplied) for event in events)
