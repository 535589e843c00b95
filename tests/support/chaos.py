"""A world in which anything happens, for property tests: random histories of commands."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from hypothesis import strategies as st

from support import invariants
from support.world import World
from tenure.core import admission, explain, scheduler
from tenure.core.events import (
    AttemptExited,
    CancelRequested,
    CheckpointReported,
    ClockAlarm,
    Event,
    EvictRequested,
    ExitKind,
    ForeignUse,
    Held,
    HostStateChanged,
    Paused,
    PauseScope,
    PriorityChanged,
    Released,
    ReplicasUp,
    Resumed,
    ServerBack,
    Submitted,
)
from tenure.core.model import (
    DAY,
    HOUR,
    MINUTE,
    SECOND,
    SHARE_ONE,
    After,
    Array,
    Budget,
    Cluster,
    Grant,
    Host,
    HostState,
    JobSpec,
    Label,
    Policy,
    Role,
)
from tenure.core.placement import Room, possible
from tenure.core.reasons import Reason, Refusal
from tenure.core.state import State

LEAVES = ("lab/a/x", "lab/a/y", "lab/b/x", "lab/b", "lab/a", "lab/c", "lab")
USERS = ("ann", "bob")
SHARES = (0, 100_000, 250_000, 333_333, 500_000)
STEPS = (
    0,
    1,
    SECOND,
    11 * SECOND,
    MINUTE,
    3 * MINUTE,
    6 * MINUTE,
    *(20 * MINUTE, HOUR) * 4,
    9 * HOUR,
    2 * DAY,
    8 * DAY,
)


class Command(NamedTuple):
    """Something that happens; the numbers choose what it happens to, modulo how many of that there are."""

    kind: str
    a: int
    b: int
    c: int


CONFIGURE = ("shares", "move", "grant", "add_host", "remove_host")
KINDS = (
    *("submit",) * 40,
    *("exit",) * 8,
    *("lazy",) * 3,
    *("cancel", "hold", "release", "priority", "checkpoint", "evict") * 2,
    *("host",) * 4,
    *("mend",) * 6,
    *("others",) * 5,
    *("pause", "alarm", "back"),
    *("resume",) * 4,
    *CONFIGURE,
)
numbers = st.integers(0, 11)
commands = st.builds(Command, st.sampled_from(KINDS), numbers, numbers, numbers)
histories = st.lists(st.tuples(st.sampled_from(STEPS), st.lists(commands, max_size=4)), max_size=30)


class Chaos:
    """A world in which anything happens, and a twin that was restored from a snapshot and must stay the same."""

    def __init__(self, start: int) -> None:
        many = start % 3 == 0
        made = [Cluster("main", _hosts("h", 3, 4), max_grace=5 * MINUTE, start_timeout=15 * MINUTE)]
        if many:
            made.append(Cluster("aux", _hosts("x", 2, 2)))
        self.world = World(
            made,
            tree=_tree(start),
            policy=_policy(start),
            auto_up=False,
            auto_release=False,
        )
        self.twin: State | None = None

    def step(self, after: int, todo: list[Command]) -> None:
        """Time passes, with what usually happens meanwhile unless something is slow, then the commands."""
        end = self.world.now + after
        if all(command.kind != "lazy" for command in todo):
            while usual := tuple(self._usual(end)):
                self._make(max(self.world.now, usual[0].at) - self.world.now, usual)
        after = end - self.world.now
        self.world.now = end
        events = self._events(todo)
        self.world.now -= after
        self._make(after, events)

    def settle(self) -> None:
        """Every brake is let go and nothing fails any more: every job comes to an end, none waits for ever."""
        world, state = self.world, self.world.state
        world.auto_up = world.auto_release = True
        healthy = HostState.HEALTHY
        world.step(
            *(Resumed(world.now, scope, "op") for scope in PauseScope),
            ClockAlarm(world.now, False),
            *(
                HostStateChanged(world.now, name, host, healthy, "op", "test")
                for name, cluster in state.clusters.items()
                for host in cluster.hosts
            ),
            *(
                ForeignUse(world.now, name, host, 0, 0, 0)
                for name, cluster in state.clusters.items()
                for host in sorted(cluster.foreign)
            ),
            *(Released(world.now, job, "op") for job in state.jobs),
        )
        world.advance(8 * HOUR, tick=HOUR)  # grants and time-outs, starts that were missed, backing off
        for _ in range(2 + 3 * len(state.jobs)):
            exits = [
                AttemptExited(world.now, attempt.id, ExitKind.EXITED, (0,))
                for attempt in state.attempts.values()
                if attempt.stop is None and attempt.running_since is not None
            ]
            world.step(*exits)
            world.advance(10 * MINUTE, tick=HOUR)
        stuck = {job.id: explain.why(state, job).reason for job in state.jobs.values() if self._possible(job.spec)}
        behind = {Reason.WAITING_DEPENDENCY, Reason.WAITING_THROTTLE}
        # What others wait for may itself be stuck, or impossible.
        causes = {job.id for job in state.jobs.values() if explain.why(state, job).reason not in behind}
        assert set(stuck.values()) <= {Reason.HELD_NO_SHARE, *(behind if causes else ())}, stuck

    def _possible(self, spec: JobSpec) -> bool:
        """Hosts may have been taken away that a job waits for."""
        clusters = [cluster for cluster in self.world.clusters if cluster.name in spec.clusters]
        return any(possible(Room(cluster.hosts), spec.roles, spec.labels) is None for cluster in clusters)

    def _make(self, after: int, events: tuple[Event, ...]) -> None:
        world = self.world
        before, spans = invariants.saved(world.state), list(world.spans)
        world.step(*events, after=after)
        now, events, result = world.log[-1]
        invariants.check_codec(events, result)
        invariants.check_settled(world.state, world.spans)
        invariants.check_prefix(before, spans, events, result, now)
        data = invariants.saved(world.state)
        if self.twin is None:
            self.twin = invariants.check_redo(before, spans, events, result, now)
        else:
            assert invariants.fingerprint(scheduler.step(self.twin, events, now)) == invariants.fingerprint(result)
            if now % 5 == 0:
                self.twin = None
        assert self.twin is None or invariants.saved(self.twin) == data

    def _events(self, todo: list[Command]) -> tuple[Event, ...]:
        """The events of some commands. A configuration comes alone: admission has judged what is, not what comes."""
        for command in todo:
            if command.kind in CONFIGURE:
                event = getattr(self, f"_{command.kind}")(command)
                return () if event is None else (event,)
        events = (getattr(self, f"_{command.kind}")(command) for command in todo if command.kind != "lazy")
        return tuple(event for event in events if event is not None)

    def _usual(self, end: int) -> Iterator[Event]:
        """What happens next until ``end``: replicas come up at once, stopped attempts are gone when killed."""
        attempts = sorted(self.world.state.attempts.items())
        kills = [a.stop.kill_at for _, a in attempts if a.stop is not None and a.stop.kill_at <= end]
        soon = min(kills, default=end)
        for attempt_id, attempt in attempts:
            if attempt.stop is None and attempt.started_at is not None and attempt.running_since is None:
                yield ReplicasUp(self.world.now, attempt_id)
                soon = self.world.now
        for attempt_id, attempt in attempts:
            if attempt.stop is not None and attempt.stop.kill_at <= soon:
                yield AttemptExited(max(self.world.now, soon), attempt_id, ExitKind.EXITED, (-9,))

    # ---- commands

    def submission(self, c: Command) -> Submitted | None:
        """A job that could be submitted now."""
        event = self._submit(c)
        return event if isinstance(event, Submitted) else None

    def _submit(self, c: Command) -> Event | None:
        shapes = (
            (Role("main", 1, 1, 0, 0),),
            (Role("main", 1, 4, 0, 0),),
            (Role("main", 2, 4, 0, 0),),
            (Role("main", 3, 2, 1_000, 10),),
            (Role("main", 1, 2, 9_000, 10),),
            (Role("actor", 2, 1, 2_000, 0), Role("learner", 1, 3, 0, 50)),
            (Role("main", 3, 4, 0, 0),),
            (Role("main", 1, 2, 0, 0), Role("data", 1, 0, 4_000, 0)),
        )
        labels = ((), (), (Label("rack", None, True),), (Label("rack", "r1", True),), (Label("rack", None, False),))
        spec = self.world.spec(
            LEAVES[c.a % len(LEAVES)],
            roles=shapes[c.b % len(shapes)],
            min_runtime=(0, 0, 15 * MINUTE, HOUR, 8 * HOUR)[c.c % 5],
            resumable=c.a % 3 != 0,
            user=USERS[c.b % 2],
            priority=(0, 0, 5)[c.c % 3],
            labels=labels[(c.a + c.b) % len(labels)],
            timeout=(None, 10 * HOUR)[c.a % 2],
            grace=(5 * MINUTE, MINUTE, 0)[c.b % 3],
            retries=c.c % 2,
        )
        if c.a % 4 == 0:
            spec = replace(spec, clusters=tuple(reversed(spec.clusters)))
        try:
            admission.check_job(self.world.state, spec)
        except Refusal:
            return None
        return self.world.queue_spec(spec, "ann" if c.c == 11 else "", self._array(c), self._after(c))

    def _array(self, c: Command) -> Array | None:
        """Sometimes an array of a few jobs, with a throttle or without."""
        if (c.a + c.b + c.c) % 3:
            return None
        return Array(tuple(range(c.a % 3, c.a % 3 + 5, 1 + c.b % 2))[: 1 + c.c % 4], c.b % 3)

    def _after(self, c: Command) -> tuple[After, ...]:
        """Sometimes one or two jobs that live, or whole arrays, to wait for."""
        jobs = list(self.world.state.jobs.values())
        if (c.a + c.c) % 4 or not jobs:
            return ()
        chosen = dict.fromkeys((jobs[c.b % len(jobs)].id, jobs[c.c % len(jobs)].submission))
        arrays = self.world.state.arrays
        return tuple(After(i, i in arrays and c.b % 2 == 0, (c.c + n) % 2 == 0) for n, i in enumerate(chosen))

    def _attempt(self, c: Command) -> str | None:
        ids = sorted(self.world.state.attempts)
        return ids[c.a % len(ids)] if ids else None

    def _job(self, c: Command) -> int | None:
        ids = sorted(self.world.state.jobs)
        return ids[c.a % len(ids)] if ids else None

    def _exit(self, c: Command) -> Event | None:
        attempt = self._attempt(c)
        if attempt is None:
            return None
        kind = (ExitKind.EXITED, ExitKind.EXITED, ExitKind.EXITED, ExitKind.LOST, ExitKind.NOT_STARTED)[c.b % 5]
        codes = ((0,), (1,), (-15,))[c.c % 3] if kind is ExitKind.EXITED else ()
        late = (0, 0, SECOND, 5 * MINUTE)[c.c % 4]  # heard of after steps that followed
        ended_at = self.world.now - late if late else 0
        return AttemptExited(self.world.now, attempt, kind, codes, done=c.c == 3, ended_at=ended_at)

    def _cancel(self, c: Command) -> Event | None:
        job = self._job(c)
        return None if job is None else CancelRequested(self.world.now, job, "ann")

    def _hold(self, c: Command) -> Event | None:
        job = self._job(c)
        return None if job is None else Held(self.world.now, job, "ann")

    def _release(self, c: Command) -> Event | None:
        held = [job.id for job in self.world.state.jobs.values() if job.held_by]
        return Released(self.world.now, held[c.a % len(held)], "ann") if held else None

    def _priority(self, c: Command) -> Event | None:
        job = self._job(c)
        return None if job is None else PriorityChanged(self.world.now, job, c.b % 4 - 1, "ann")

    def _checkpoint(self, c: Command) -> Event | None:
        attempt = self._attempt(c)
        return None if attempt is None else CheckpointReported(self.world.now, attempt)

    def _evict(self, c: Command) -> Event | None:
        attempt = self._attempt(c)
        return None if attempt is None else EvictRequested(self.world.now, attempt, "op", "test")

    def _host(self, c: Command) -> Event | None:
        cluster = self.world.clusters[c.a % len(self.world.clusters)]
        host = cluster.hosts[c.b % len(cluster.hosts)].name
        healthy, draining = HostState.HEALTHY, HostState.DRAINING
        to = (healthy, healthy, healthy, draining, draining, HostState.FAILED, HostState.REPAIRING)[c.c % 7]
        guilty = self._attempt(c) or ""
        deadline = self.world.now + HOUR if to is draining and c.a % 2 else None
        fault = guilty if c.b == 5 else ""
        return HostStateChanged(self.world.now, cluster.name, host, to, "op", "test", fault, deadline)

    def _mend(self, c: Command) -> Event | None:
        for name, cluster in self.world.state.clusters.items():
            for host, record in cluster.hosts.items():
                if record.state is not HostState.HEALTHY:
                    return HostStateChanged(self.world.now, name, host, HostState.HEALTHY, "op", "test")
        return None

    def _others(self, c: Command) -> Event | None:
        """Jobs around Tenure come and go, also on top of what is held and claimed."""
        cluster = self.world.clusters[c.a % len(self.world.clusters)]
        host = cluster.hosts[c.b % len(cluster.hosts)]
        gpus, cpus, mem = ((0, 0, 0), (0, 0, 0), (1, 0, 0), (host.gpus, host.cpus, host.mem), (2, 9_000, 60))[c.c % 5]
        return ForeignUse(self.world.now, cluster.name, host.name, gpus, cpus, mem, "job 7 of eve" if gpus else "")

    def _pause(self, c: Command) -> Event | None:
        return Paused(self.world.now, tuple(PauseScope)[c.a % 2], "op")

    def _resume(self, c: Command) -> Event | None:
        scope = PauseScope.STARTS if self.world.state.paused_starts else PauseScope.EVICTIONS
        return Resumed(self.world.now, scope, "op")

    def _alarm(self, c: Command) -> Event | None:
        return ClockAlarm(self.world.now, c.a % 3 == 0)

    def _back(self, c: Command) -> Event | None:
        return ServerBack(self.world.now)

    def _apply(self) -> Event | None:
        known = {budget.path for budget in self.world.tree}
        self.world.grants = tuple(g for g in self.world.grants if {g.to, *g.taken_from} <= known)
        event = self.world.config()
        try:
            admission.check_config(self.world.state, event)
        except Refusal:
            return None
        return event

    def _shares(self, c: Command) -> Event | None:
        """Shares change, budgets come and go."""
        old = self.world.tree
        self.world.tree = _tree(c.a * 144 + c.b * 12 + c.c)
        event = self._apply()
        if event is None:
            self.world.tree = old
        return event

    def _move(self, c: Command) -> Event | None:
        old = self.world.tree
        paths = {budget.path for budget in old}
        ends = ("lab/a/x", "lab/b/x", "lab/c", "lab/a/y")
        source, target = ends[c.a % 4], ends[(c.a + 1 + c.b % 3) % 4]
        parent = target.rpartition("/")[0]
        if source not in paths or target in paths or parent not in paths:
            return None
        moved = tuple(replace(b, path=target, moved_from=source) if b.path == source else b for b in old)
        self.world.tree = _scaled(sorted(moved, key=lambda b: b.path))
        event = self._apply()
        if event is None:
            self.world.tree = old
        return event

    def _grant(self, c: Command) -> Event | None:
        paths = [budget.path for budget in self.world.tree if "/" in budget.path]
        to = paths[c.a % len(paths)]
        siblings = tuple(p for p in paths if p != to and p.rpartition("/")[0] == to.rpartition("/")[0])
        old = self.world.grants
        start = self.world.now + (0, HOUR, DAY)[c.b % 3]
        grant = Grant(to, siblings, 1 + c.c * 5, "main", start, start + (DAY, 3 * DAY)[c.a % 2])
        if siblings:
            self.world.grants = (*(g for g in old if g.end > self.world.now), grant)
        event = self._apply()
        if event is None:
            self.world.grants = old
        return event

    def _add_host(self, c: Command) -> Event | None:
        return self._reshape(c, [*self.world.clusters[0].hosts, *_hosts(f"n{len(self.world.log)}_", 1, 4)][:6])

    def _remove_host(self, c: Command) -> Event | None:
        hosts = list(self.world.clusters[0].hosts)
        if len(hosts) > 3:
            del hosts[c.a % len(hosts)]
        return self._reshape(c, hosts)

    def _reshape(self, c: Command, hosts: list[Host]) -> Event | None:
        old, policy = self.world.clusters, self.world.policy
        self.world.policy = replace(policy, reserved_percent=(0, 50, 100)[c.c % 3], headroom_percent=c.a % 2 * 30)
        timeout = (15 * MINUTE, 5 * MINUTE, 30 * MINUTE)[c.b % 3]
        self.world.clusters = (replace(old[0], hosts=tuple(hosts), start_timeout=timeout), *old[1:])
        event = self._apply()
        if event is None:
            self.world.clusters, self.world.policy = old, policy
        return event


def _policy(start: int) -> Policy:
    """Few evictions at once or many; reservations and headroom at times."""
    return Policy(
        evictions_per_minute=(60, 1, 3)[start % 3],
        reserved_percent=(0, 50, 100)[start // 3 % 3],
        reserve_from=(8, 4, 2)[start // 2 % 3],
        headroom_percent=(0, 30, 60)[start // 5 % 3],
        moves_per_hour=(0, 3)[start // 7 % 2],
        look_every=(5, 1)[start % 2] * MINUTE,
    )


def _hosts(prefix: str, count: int, gpus: int) -> tuple[Host, ...]:
    return tuple(Host(f"{prefix}{i}", gpus, 10_000, 100, (("rack", f"r{i % 2}"),)) for i in range(count))


def _tree(seed: int) -> tuple[Budget, ...]:
    """One of many trees; ``lab`` and ``lab/a`` are always there."""
    made = [Budget("lab", SHARE_ONE)]
    for i, path in enumerate(("lab/a", "lab/a/x", "lab/a/y", "lab/b", "lab/b/x", "lab/c")):
        digit = seed // 3 ** (i % 4) + i * seed
        if path == "lab/a" or digit % 5:
            here = (("aux", SHARES[(digit + 2) % 5]),) if digit % 3 == 0 else ()
            made.append(Budget(path, SHARES[digit % 5], here))
    paths = {budget.path for budget in made}
    return _scaled([b for b in made if b.path.count("/") < 2 or b.path.rpartition("/")[0] in paths])


def _scaled(tree: list[Budget]) -> tuple[Budget, ...]:
    """Halve shares until siblings add up to at most their parent, on every cluster."""
    out = {budget.path: budget for budget in tree}
    for cluster in ("main", "aux"):
        for parent in list(out):
            children = [b for b in out.values() if b.path.rpartition("/")[0] == parent]
            while sum(out[b.path].share_on(cluster) for b in children) > SHARE_ONE:
                for b in children:
                    old = out[b.path]
                    halved = tuple((name, share // 2) for name, share in old.cluster_shares)
                    out[b.path] = replace(old, share=old.share // 2, cluster_shares=halved)
    return tuple(out.values())
