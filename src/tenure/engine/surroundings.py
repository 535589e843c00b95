"""Hosts that another system rules as well: what it says becomes events, what Tenure decides is told to it.

Nothing is remembered that the state does not have: conditions are compared with it each time they are looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tenure.core.events import Event, ForeignUse, HostStateChanged
from tenure.core.model import HostState
from tenure.core.records import Foreign, HostRecord
from tenure.core.state import ClusterState, State
from tenure.executors.base import Health, HostCondition, HostWish, Phase, Report

_STATES = {Health.FIT: HostState.HEALTHY, Health.DRAINING: HostState.DRAINING, Health.FAILED: HostState.FAILED}
_NOTHING = Foreign(0, 0, 0)


def elsewhere(record: HostRecord) -> bool:
    """Whether another system put a host into its state: names of people have no colon."""
    return ":" in record.by


def events_of(
    state: State, conditions: Sequence[HostCondition], reports: Sequence[Report], now: int
) -> Iterator[Event]:
    """What the conditions say that the state does not know yet."""
    for cluster in state.clusters.values():
        for condition in conditions:
            if condition.cluster in ("", cluster.spec.name) and condition.name in cluster.hosts:
                yield from _state_of(state, cluster, condition, reports, now)
                yield from _use_of(cluster, condition, now)


def _state_of(
    state: State, cluster: ClusterState, condition: HostCondition, reports: Sequence[Report], now: int
) -> Iterator[HostStateChanged]:
    record, wanted = cluster.hosts[condition.name], _STATES[condition.health]
    if wanted is HostState.HEALTHY:
        if record.state is not HostState.HEALTHY and elsewhere(record):
            yield HostStateChanged(now, cluster.spec.name, condition.name, wanted, record.by, "in service again")
        return
    # What a person has taken out here stays so, until that person brings it back.
    mine = record.state is not HostState.HEALTHY and not elsewhere(record)
    if not mine and (record.state, record.by, record.why) != (wanted, condition.by, condition.why):
        at = _lost_since(cluster, condition.name, reports, now) if wanted is HostState.FAILED else now
        yield HostStateChanged(
            max(at, state.now), cluster.spec.name, condition.name, wanted, condition.by, condition.why
        )


def _lost_since(cluster: ClusterState, host: str, reports: Sequence[Report], now: int) -> int:
    """A host that took attempts with it failed before they were lost."""
    there = cluster.on_host[host]
    lost = [now - one.age_ms for one in reports if one.phase is Phase.LOST and one.attempt_id in there]
    return min(lost, default=now)


def _use_of(cluster: ClusterState, condition: HostCondition, now: int) -> Iterator[ForeignUse]:
    host = cluster.room.hosts[cluster.room.index[condition.name]]
    parts = (
        (condition.gpus, condition.has[0], host.gpus),
        (condition.cpus, condition.has[1], host.cpus),
        (condition.mem, condition.has[2], host.mem),
    )
    # What Tenure has not been given of the host is theirs first.
    gpus, cpus, mem = (max(0, used - max(0, has - declared)) for used, has, declared in parts)
    used = Foreign(gpus, cpus, mem, condition.what) if gpus or cpus or mem else _NOTHING
    if cluster.foreign.get(condition.name, _NOTHING) != used:
        yield ForeignUse(now, cluster.spec.name, condition.name, used.gpus, used.cpus, used.mem, used.what)


def out_of_service(conditions: Sequence[HostCondition], cluster: str, host: str) -> HostCondition | None:
    """What another system has against a host; None: nothing that is known."""
    for one in conditions:
        if one.name == host and one.cluster in ("", cluster) and one.health is not Health.FIT:
            return one
    return None


def state_of(condition: HostCondition) -> HostState:
    return _STATES[condition.health]


def wishes_of(state: State) -> list[HostWish]:
    """Every host: out of service when Tenure or a person here has taken it out."""
    found = []
    for name, cluster in state.clusters.items():
        for host, record in cluster.hosts.items():
            out = record.state is not HostState.HEALTHY and not elsewhere(record)
            said = (record.by, record.why or record.state.value, record.since) if out else ("", "", 0)
            found.append(HostWish(name, host, out, *said))
    return found
