"""Clusters, roles and slots for the tests of capacity and placement."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from tenure.core.model import Host, Label, Role, Slots
from tenure.core.placement import Misfit, Room

NEAR = Label("rack", None, False)


def hosts_of(count: int, gpus: int = 8, racks: int = 0) -> list[Host]:
    """Equal hosts h0, h1, ... with 8 CPUs and 80 MiB per GPU, in racks of equal size if asked for."""
    return [
        Host(
            f"h{i}",
            gpus,
            8000 * gpus,
            80 * gpus,
            (("rack", f"r{i * racks // count}"),) if racks else (),
        )
        for i in range(count)
    ]


def role(replicas: int, gpus: int, cpus: int = 0, mem: int = 0) -> Role:
    return Role("r", replicas, gpus, cpus, mem)


def hold(host: str, *gpus: int, cpus: int = 0, mem: int = 0) -> Slots:
    return Slots(0, 0, host, gpus, cpus, mem)


def placed(room: Room, roles: Sequence[Role], labels: Sequence[Label] = ()) -> tuple[Slots, ...]:
    found = room.fit(roles, labels)
    assert not isinstance(found, Misfit), found
    return found


def refused(room: Room, roles: Sequence[Role], labels: Sequence[Label] = ()) -> Misfit:
    found = room.fit(roles, labels)
    assert isinstance(found, Misfit), found
    return found


def where(slots: Sequence[Slots]) -> list[tuple[str, tuple[int, ...]]]:
    return [(slot.host, slot.gpus) for slot in slots]


State = list[tuple[str, bool, int, int, int, int]]


def snapshot(room: Room) -> State:
    """Everything a room knows about its hosts, for comparing."""
    return [
        (host.name, room.is_open(host.name), room._held[i], room._doubled[i], room._cpus[i], room._mem[i])
        for i, host in enumerate(room.hosts)
    ]


CPUS = st.sampled_from([0, 1000, 3000])
MEM = st.sampled_from([0, 2, 5])


@st.composite
def clusters(draw: st.DrawFn, most: int = 5, labelled: bool = False) -> list[Host]:
    """Up to ``most`` hosts of up to 4 GPUs; some without a rack or zone, unless ``labelled``."""
    labels = {"rack": st.sampled_from("pqr"), "zone": st.sampled_from("xy")}
    some = st.fixed_dictionaries(labels) if labelled else st.fixed_dictionaries({}, optional=labels)
    return [
        Host(
            f"h{i}",
            draw(st.sampled_from([4, 4, 4, 2, 0])),
            draw(st.sampled_from([9000, 4000])),
            draw(st.sampled_from([20, 6])),
            tuple(draw(some).items()),
        )
        for i in range(draw(st.integers(1, most)))
    ]


@st.composite
def rooms(draw: st.DrawFn, labelled: bool = False) -> Room:
    """A room with some GPUs, CPUs and memory held, some of it twice, and some hosts closed."""
    room = Room(draw(clusters(labelled=labelled)))
    for host in room.hosts:
        for _ in range(draw(st.integers(0, 2))):
            gpus = draw(st.sets(st.integers(0, host.gpus - 1))) if host.gpus else set()
            room.take([hold(host.name, *sorted(gpus), cpus=draw(CPUS), mem=draw(MEM))])
        room.set_open(host.name, draw(st.sampled_from([True, True, True, False])))
    return room
