"""The book-keeping of free resources, and the charged amount (rule 1)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from placement_helpers import CPUS, MEM, clusters, hold, hosts_of, placed, role, snapshot, where

from tenure.core.model import Host, Slots
from tenure.core.placement import Room


def test_a_gpu_is_held_by_its_holder_and_one_claim_and_no_more() -> None:
    room = Room(hosts_of(1))
    victim, claim = hold("h0", 0, 1), hold("h0", 1, 2)
    room.take([victim])
    room.take([claim])
    assert room.free_gpus == 5
    with pytest.raises(ValueError, match=r"host h0: GPU 1 "):
        room.take([hold("h0", 1)])
    room.give([victim])
    assert room.free_gpus == 6  # GPU 1 is the claim's now
    with pytest.raises(ValueError, match=r"host h0: GPU 0 is not held"):
        room.give([victim])
    room.give([claim])
    assert room.free_gpus == 8
    assert room.whole_free() == 1


def test_a_gpu_that_does_not_exist_cannot_be_taken() -> None:
    with pytest.raises(ValueError, match=r"host h0: GPU 8 "):
        Room(hosts_of(1)).take([hold("h0", 7, 8)])
    with pytest.raises(KeyError, match="h9"):
        Room(hosts_of(1)).take([hold("h9", 0)])


def test_two_hosts_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="names"):
        Room([Host("a", 1, 1, 1), Host("a", 1, 1, 1)])


def test_a_take_or_give_that_fails_changes_nothing() -> None:
    room = Room(hosts_of(2))
    room.take([hold("h1", 0), hold("h1", 0)])
    before = snapshot(room)
    with pytest.raises(ValueError, match="claimed"):
        room.take([hold("h0", 0, cpus=1000), hold("h1", 0)])
    assert snapshot(room) == before
    with pytest.raises(ValueError, match="not held"):
        room.give([hold("h1", 0), hold("h0", 0)])
    assert snapshot(room) == before


def test_cpus_and_memory_go_negative_while_a_claim_waits() -> None:
    room = Room(hosts_of(1, gpus=2))
    first, second = hold("h0", 0, cpus=12000, mem=100), hold("h0", 0, cpus=12000, mem=100)
    room.take([first])
    room.take([second])
    assert not room.can_fit([role(1, 1, cpus=1)], ())
    assert room.can_fit([role(1, 1)], ())
    room.give([first])
    assert room.can_fit([role(1, 1, cpus=4000, mem=60)], ())
    assert not room.can_fit([role(1, 1, cpus=4001)], ())


def test_a_closed_host_takes_nothing_new_and_keeps_what_it_holds() -> None:
    room = Room(hosts_of(2))
    room.take([hold("h0", 0)])
    room.set_open("h0", False)
    room.set_open("h0", False)
    assert (room.is_open("h0"), room.is_open("h1")) == (False, True)
    assert (room.free_gpus, room.whole_free()) == (8, 1)
    assert where(placed(room, [role(1, 1)])) == [("h1", (0,))]
    assert not room.can_fit([role(9, 1)], ())
    room.give([hold("h0", 0)])
    assert room.free_gpus == 8
    room.set_open("h0", True)
    assert (room.free_gpus, room.whole_free()) == (16, 2)


def test_a_fork_and_its_origin_do_not_see_each_other() -> None:
    room = Room(hosts_of(2))
    fork = room.fork()
    fork.take([hold("h0", 0, cpus=1)])
    fork.set_open("h1", False)
    assert (room.free_gpus, room.whole_free(), room.is_open("h1")) == (16, 2, True)
    room.take([hold("h1", 0)])
    assert (fork.free_gpus, fork.whole_free()) == (7, 0)


@pytest.mark.parametrize(
    ("slots", "amount"),
    [
        pytest.param([hold("h0", 0, mem=640)], 8000, id="one GPU and all the memory is the whole host"),
        pytest.param([hold("h0", 0, cpus=32000)], 4000, id="half the CPUs is half the host"),
        pytest.param([hold("h0", 0, 1, cpus=8000, mem=80)], 2000, id="GPUs are the largest part"),
        pytest.param([hold("h0", 0, cpus=8001)], 1001, id="rounded up"),
        pytest.param([hold("h0", cpus=1)], 1, id="no GPU is not free of charge"),
        pytest.param([hold("h0", 0, cpus=24000), hold("h0", 1, 2, 3)], 4000, id="added before the largest"),
        pytest.param([hold("h0", 0, cpus=24000), hold("h1", 1, 2, 3)], 6000, id="hosts apart"),
        pytest.param([], 0, id="nothing"),
    ],
)
def test_amount_is_the_largest_share_of_each_host(slots: list[Slots], amount: int) -> None:
    assert Room(hosts_of(2)).amount(slots) == amount


def test_a_resource_that_the_host_does_not_declare_is_not_charged() -> None:
    assert Room([Host("a", 4, 0, 0)]).amount([hold("a", 0)]) == 1000


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_any_takes_and_gives_leave_what_a_plain_count_says(data: st.DataObject) -> None:
    room = Room(data.draw(clusters(most=3)))
    live: list[Slots] = []
    for _ in range(data.draw(st.integers(1, 12))):
        if data.draw(st.booleans()) and live:
            room.give([live.pop(data.draw(st.integers(0, len(live) - 1)))])
        else:
            host = data.draw(st.sampled_from(room.hosts))
            gpus = data.draw(st.sets(st.integers(0, host.gpus - 1))) if host.gpus else set()
            slot = hold(host.name, *sorted(gpus), cpus=data.draw(CPUS), mem=data.draw(MEM))
            held = Counter((s.host, gpu) for s in live for gpu in s.gpus)
            if any(held[host.name, gpu] == 2 for gpu in gpus):
                with pytest.raises(ValueError, match=f"host {host.name}"):
                    room.take([slot])
            else:
                room.take([slot])
                live.append(slot)
        room.set_open(data.draw(st.sampled_from(room.hosts)).name, data.draw(st.booleans()))
        check_counts(room, live)


def check_counts(room: Room, live: Sequence[Slots]) -> None:
    held = Counter((slot.host, gpu) for slot in live for gpu in slot.gpus)
    free = {host.name: sum(not held[host.name, gpu] for gpu in range(host.gpus)) for host in room.hosts}
    is_open = [host for host in room.hosts if room.is_open(host.name)]
    assert room.free_gpus == sum(free[host.name] for host in is_open)
    assert room.whole_free() == sum(free[host.name] == host.gpus > 0 for host in is_open)
    for host in is_open:
        mine = [slot for slot in live if slot.host == host.name]
        cpus, mem = host.cpus - sum(s.cpus for s in mine), host.mem - sum(s.mem for s in mine)
        alone = room.fork()
        for other in room.hosts:
            alone.set_open(other.name, other is host)
        assert alone.can_fit([role(1, free[host.name], max(cpus, 0), max(mem, 0))], ())
        assert not alone.can_fit([role(1, free[host.name] + 1)], ())
        assert not alone.can_fit([role(1, 0, cpus=max(cpus, 0) + 1)], ())
        assert not alone.can_fit([role(1, 0, mem=max(mem, 0) + 1)], ())
