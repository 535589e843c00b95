"""Placement against exhaustive search on small clusters, and what every answer must keep."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import combinations_with_replacement

from hypothesis import given, settings
from hypothesis import strategies as st
from placement_helpers import CPUS, MEM, NEAR, placed, refused, role, rooms, snapshot

from tenure.core.model import Host, Label, Role, Slots
from tenure.core.placement import Misfit, Room

LABELS = st.lists(
    st.builds(
        Label,
        st.sampled_from(["rack", "zone"]),
        st.sampled_from([None, None, "p", "x"]),
        st.booleans(),
    ),
    max_size=3,
)
ROLES = st.builds(role, st.integers(1, 4), st.integers(0, 4), CPUS, MEM)


def free_of(room: Room, host: Host) -> tuple[int, int, int]:
    """Free GPUs, CPUs and memory of an open host; nothing at all on a closed one."""
    i = room.index[host.name]
    if not room.is_open(host.name):
        return -1, -1, -1
    return host.gpus - room._held[i].bit_count(), room._cpus[i], room._mem[i]


def holds(free: tuple[int, int, int], wanted: Role, times: int) -> bool:
    asked = (wanted.gpus, wanted.cpus, wanted.mem)
    return free[0] >= 0 and all(have >= times * ask or not ask for have, ask in zip(free, asked, strict=True))


def satisfies(hosts: Sequence[Host], labels: Sequence[Label]) -> bool:
    """The labels by their definition: one common value, and the given one if there is one."""
    for label in labels:
        values = {host.label(label.key) for host in hosts}
        if len(values) != 1 or None in values or (label.value is not None and values != {label.value}):
            return False
    return True


def every_placement(room: Room, wanted: Role) -> Iterator[list[Host]]:
    """Exhaustive search: every way to put the replicas of one role on hosts."""
    for choice in combinations_with_replacement(room.hosts, wanted.replicas):
        if all(holds(free_of(room, host), wanted, times) for host, times in Counter(choice).items()):
            yield list(choice)


def check_slots(room: Room, roles: Sequence[Role], labels: Sequence[Label], slots: Sequence[Slots]) -> None:
    """Whole gang, in order, on open hosts, no GPU twice or held, CPUs and memory and required labels kept."""
    assert [(s.role, s.replica) for s in slots] == [
        (index, replica) for index, wanted in enumerate(roles) for replica in range(wanted.replicas)
    ]
    taken: set[tuple[str, int]] = set()
    for slot in slots:
        wanted = roles[slot.role]
        assert (len(slot.gpus), slot.cpus, slot.mem) == (wanted.gpus, wanted.cpus, wanted.mem)
        assert list(slot.gpus) == sorted(set(slot.gpus))
        for gpu in slot.gpus:
            assert (slot.host, gpu) not in taken
            assert not room._held[room.index[slot.host]] >> gpu & 1
            taken.add((slot.host, gpu))
    for name in {slot.host for slot in slots}:
        host = room.hosts[room.index[name]]
        here = [slot for slot in slots if slot.host == name]
        used = role(1, sum(len(s.gpus) for s in here), sum(s.cpus for s in here), sum(s.mem for s in here))
        assert holds(free_of(room, host), used, 1)
        gpus = [gpu for slot in here for gpu in slot.gpus]
        free = [gpu for gpu in range(host.gpus) if not room._held[room.index[name]] >> gpu & 1]
        assert sorted(gpus) == free[: len(gpus)]
    used_hosts = [room.hosts[room.index[slot.host]] for slot in slots]
    assert satisfies(used_hosts, [label for label in labels if label.required])


@settings(max_examples=200, deadline=None)
@given(rooms(), ROLES, LABELS)
def test_one_role_fits_exactly_when_exhaustive_search_finds_a_place(
    room: Room, wanted: Role, labels: list[Label]
) -> None:
    required = [label for label in labels if label.required]
    oracle = any(satisfies(choice, required) for choice in every_placement(room, wanted))
    before = snapshot(room)
    found = room.fit([wanted], labels)
    assert room.can_fit([wanted], labels) == oracle
    assert isinstance(found, Misfit) != oracle
    if not isinstance(found, Misfit):
        check_slots(room, [wanted], labels, found)
    assert snapshot(room) == before


@settings(max_examples=150, deadline=None)
@given(rooms(), st.lists(ROLES, min_size=1, max_size=3), LABELS)
def test_mixed_roles_get_valid_slots_and_can_fit_agrees(room: Room, roles: list[Role], labels: list[Label]) -> None:
    found = room.fit(roles, labels)
    assert room.can_fit(roles, labels) == (not isinstance(found, Misfit))
    assert room.fit(roles, labels) == found
    if isinstance(found, Misfit):
        return
    check_slots(room, roles, labels, found)
    fork = room.fork()
    fork.take(found)
    used = sum(len(slot.gpus) for slot in found)
    assert fork.free_gpus == room.free_gpus - used
    assert snapshot(fork) != snapshot(room) or not any(s.gpus or s.cpus or s.mem for s in found)
    fork.give(found)
    assert snapshot(fork) == snapshot(room)


@settings(max_examples=150, deadline=None)
@given(rooms(), st.lists(ROLES, min_size=1, max_size=3), LABELS)
def test_the_counts_of_a_misfit_add_up_and_tell_the_truth(room: Room, roles: list[Role], labels: list[Label]) -> None:
    why = room.fit(roles, labels)
    if not isinstance(why, Misfit):
        return
    assert 0 <= why.placed < roles[why.role].replicas
    parts = (why.wrong_labels, why.too_small, why.closed, why.gpus_short, why.cpu_mem_short)
    assert min(parts) >= 0
    assert sum(parts) == why.hosts == len(room.hosts)
    assert why.free_gpus == room.free_gpus >= why.free_gpus_labelled
    required = any(label.required for label in labels)
    assert why.fits_without_labels == (required and room.can_fit(roles, ()))
    opened = room.fork()
    for host in room.hosts:
        opened.set_open(host.name, True)
    assert why.fits_if_open == opened.can_fit(roles, labels)


@settings(max_examples=150, deadline=None)
@given(rooms(), st.integers(0, 4), CPUS, MEM)
def test_one_replica_goes_to_the_best_fit(room: Room, gpus: int, cpus: int, mem: int) -> None:
    wanted = role(1, gpus, cpus, mem)
    candidates = [host for host in room.hosts if holds(free_of(room, host), wanted, 1)]
    if not candidates:
        refused(room, [wanted])
        return
    best = min(candidates, key=lambda host: (free_of(room, host)[0], room.index[host.name]))
    assert [slot.host for slot in placed(room, [wanted])] == [best.name]


@settings(max_examples=150, deadline=None)
@given(rooms(), ROLES, LABELS)
def test_preferred_labels_hold_where_they_can_earlier_ones_first(room: Room, wanted: Role, labels: list[Label]) -> None:
    """The longest run of preferred labels, from the first, that exhaustive search can satisfy holds."""
    required = [label for label in labels if label.required]
    preferred = [label for label in labels if not label.required]
    choices = [choice for choice in every_placement(room, wanted) if satisfies(choice, required)]
    if not choices:
        refused(room, [wanted], labels)
        return
    hosts = [room.hosts[room.index[slot.host]] for slot in placed(room, [wanted], labels)]
    for count in range(len(preferred), 0, -1):
        if any(satisfies(choice, preferred[:count]) for choice in choices):
            assert satisfies(hosts, preferred[:count])
            break


@settings(max_examples=150, deadline=None)
@given(rooms(labelled=True), ROLES)
def test_a_preferred_same_value_label_uses_as_few_values_as_possible(room: Room, wanted: Role) -> None:
    def values(hosts: Sequence[Host]) -> set[str | None]:
        return {host.label("rack") for host in hosts}

    counts = [len(values(choice)) for choice in every_placement(room, wanted)]
    if not counts:
        refused(room, [wanted], [NEAR])
        return
    used = values([room.hosts[room.index[slot.host]] for slot in placed(room, [wanted], [NEAR])])
    assert len(used) == min(counts)
