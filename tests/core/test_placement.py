"""Placement (rule 9): best fit, whole gangs, labels, and why something does not fit."""

from __future__ import annotations

from dataclasses import replace

from placement_helpers import NEAR, hold, hosts_of, placed, refused, role, where

from tenure.core.model import Host, Label
from tenure.core.placement import Room, possible


def test_best_fit_leaves_the_least_behind() -> None:
    room = Room(hosts_of(4))
    room.take([hold("h1", 0, 1, 2), hold("h2", 0, 2, 4, 6, 7), hold("h3", 0, 1, 2, 3, 4)])
    assert where(placed(room, [role(1, 2)])) == [("h2", (1, 3))]
    assert where(placed(room, [role(1, 4)])) == [("h1", (3, 4, 5, 6))]
    assert where(placed(room, [role(1, 8)])) == [("h0", tuple(range(8)))]


def test_a_full_host_gang_takes_the_lowest_whole_hosts_and_starts_whole_or_not_at_all() -> None:
    room = Room(hosts_of(5))
    room.take([hold("h1", 3)])
    gang = placed(room, [role(4, 8)])
    assert [slot.host for slot in gang] == ["h0", "h2", "h3", "h4"]
    assert [slot.replica for slot in gang] == [0, 1, 2, 3]
    assert not room.can_fit([role(5, 8)], ())
    why = refused(room, [role(5, 8)])
    assert (why.whole_free, why.whole_needed, why.placed, why.gpus_short) == (4, 5, 4, 5)
    assert why.free_gpus == 39


def test_larger_replicas_come_first_and_slots_are_in_the_order_of_the_roles() -> None:
    room = Room(hosts_of(2))
    slots = placed(room, [role(2, 1), role(1, 8), role(1, 4)])
    assert [(s.role, s.replica, s.host, s.gpus) for s in slots] == [
        (0, 0, "h1", (0,)),
        (0, 1, "h1", (1,)),
        (1, 0, "h0", tuple(range(8))),
        (2, 0, "h1", (2, 3, 4, 5)),
    ]


def test_a_role_without_gpus_goes_where_the_fewest_are_free() -> None:
    room = Room(hosts_of(2))
    room.take([hold("h1", *range(8), cpus=60000)])
    slots = placed(room, [role(3, 0, cpus=2000)])
    assert where(slots) == [("h0", ()), ("h1", ()), ("h1", ())]


def test_hosts_of_different_sizes() -> None:
    room = Room([Host("a", 8, 0, 0), Host("b", 4, 0, 0), Host("c", 0, 8000, 8)])
    assert where(placed(room, [role(1, 4)])) == [("b", (0, 1, 2, 3))]
    assert where(placed(room, [role(1, 0, cpus=8000)])) == [("c", ())]
    assert room.whole_free() == 2
    why = refused(room, [role(2, 8)])
    assert (why.too_small, why.gpus_short, why.whole_free, why.whole_needed) == (2, 1, 1, 2)


def test_cpus_and_memory_send_a_replica_to_the_next_host() -> None:
    room = Room(hosts_of(3))
    room.take([hold("h0", 0, cpus=64000), hold("h1", 0, mem=640)])
    assert where(placed(room, [role(1, 1, cpus=1, mem=1)])) == [("h2", (0,))]
    # Memory is not asked for here: two on h1, whose CPUs are free, then h2.
    assert [slot.host for slot in placed(room, [role(4, 1, cpus=24000)])] == ["h1", "h1", "h2", "h2"]
    assert not room.can_fit([role(5, 1, cpus=24000)], ())


def test_replicas_that_keep_apart_have_hosts_of_their_own() -> None:
    room = Room(hosts_of(3))
    room.take([hold("h0", *range(6))])
    apart = replace(role(3, 2), apart=True)
    assert [slot.host for slot in placed(room, [apart])] == ["h0", "h1", "h2"]
    assert [slot.host for slot in placed(room, [role(3, 2)])] == ["h0", "h1", "h1"]
    assert not room.can_fit([replace(apart, replicas=4)], ())
    assert refused(room, [replace(apart, replicas=4)]).placed == 3


def test_several_replicas_fill_one_host() -> None:
    room = Room(hosts_of(2))
    assert [slot.host for slot in placed(room, [role(4, 4, cpus=32000)])] == ["h0", "h0", "h1", "h1"]
    assert room.can_fit([role(4, 4, cpus=32000)], ())
    assert not room.can_fit([role(5, 4)], ())
    assert not room.can_fit([role(3, 4, cpus=32001)], ())


def test_the_roles_of_a_job_share_the_cpus_and_memory_of_a_host() -> None:
    room = Room(hosts_of(1))
    assert room.can_fit([role(1, 3, cpus=32000), role(1, 2, cpus=16000), role(1, 1, cpus=16000)], ())
    why = refused(room, [role(1, 3, cpus=32000), role(1, 2, cpus=16000), role(1, 1, cpus=16001)])
    assert (why.role, why.cpu_mem_short) == (2, 1)
    assert not room.can_fit([role(1, 3, mem=320), role(1, 2, mem=160), role(1, 1, mem=161)], ())


def test_why_names_cpu_and_memory_when_the_gpus_are_there() -> None:
    room = Room(hosts_of(2))
    room.take([hold("h0", *range(8))])
    why = refused(room, [role(3, 1, cpus=24000)])
    assert (why.placed, why.gpus_short, why.cpu_mem_short, why.too_small) == (2, 1, 1, 0)


def test_why_names_the_role_that_failed() -> None:
    why = refused(Room(hosts_of(2)), [role(9, 1), role(1, 8)])
    assert (why.role, why.placed, why.gpus_short) == (0, 8, 2)


def test_why_tells_closed_hosts() -> None:
    room = Room(hosts_of(3))
    room.set_open("h2", False)
    why = refused(room, [role(3, 8)])
    assert (why.closed, why.gpus_short, why.fits_if_open, why.fits_without_labels) == (1, 2, True, False)
    assert not refused(room, [role(4, 8)]).fits_if_open


SAME_RACK = Label("rack", None, True)


def test_a_required_value() -> None:
    room = Room(hosts_of(4, racks=2))
    label = Label("rack", "r1", True)
    assert {slot.host for slot in placed(room, [role(2, 8)], [label])} == {"h2", "h3"}
    assert not room.can_fit([role(3, 8)], [label])
    why = refused(room, [role(3, 8)], [label])
    assert (why.wrong_labels, why.gpus_short, why.free_gpus_labelled) == (2, 2, 16)
    assert (why.fits_without_labels, why.whole_free) == (True, 2)
    assert refused(room, [role(1, 1)], [Label("rack", "r9", True)]).wrong_labels == 4


def test_one_rack_is_the_fullest_that_is_enough_then_the_first_by_name() -> None:
    room = Room(hosts_of(8, racks=4))
    room.take([hold("h0", *range(8)), hold("h4", 0, 1)])
    assert {s.host for s in placed(room, [role(1, 8)], [SAME_RACK])} == {"h1"}
    assert {s.host for s in placed(room, [role(4, 3)], [SAME_RACK])} == {"h4", "h5"}
    assert [s.host for s in placed(room, [role(2, 8)], [SAME_RACK])] == ["h2", "h3"]
    why = refused(room, [role(3, 8)], [SAME_RACK])
    assert (why.wrong_labels, why.gpus_short, why.placed, why.free_gpus_labelled) == (6, 2, 2, 16)
    assert why.fits_without_labels


def test_two_same_value_labels_combine() -> None:
    hosts = [
        Host(f"h{i}", 8, 0, 0, (("rack", rack), ("zone", zone)))
        for i, (rack, zone) in enumerate([("r0", "a"), ("r0", "b"), ("r1", "b"), ("r1", "b")])
    ]
    both = [SAME_RACK, Label("zone", None, True)]
    assert [s.host for s in placed(Room(hosts), [role(2, 8)], both)] == ["h2", "h3"]
    assert refused(Room(hosts[:3]), [role(2, 8)], both).fits_without_labels


def test_preferred_labels_are_kept_while_the_job_fits() -> None:
    room = Room(hosts_of(4, racks=2))
    assert [s.host for s in placed(room, [role(1, 8)], [Label("rack", "r1", False)])] == ["h2"]
    assert len(placed(room, [role(3, 8)], [Label("rack", "r1", False)])) == 3
    assert len(placed(room, [role(1, 8)], [Label("disk", "fast", False)])) == 1
    contradicting = [Label("rack", "r1", False), Label("rack", "r0", False)]
    assert [s.host for s in placed(room, [role(1, 8)], contradicting)] == ["h2"]


def test_a_preferred_rack_that_is_too_small_becomes_as_few_racks_as_possible() -> None:
    room = Room(hosts_of(12, racks=3))
    room.take([hold("h0", 0), hold("h1", 0), hold("h2", 0), hold("h4", 0)])  # whole: 1, 3 and 4 hosts
    assert {s.host for s in placed(room, [role(4, 8)], [NEAR])} == {"h8", "h9", "h10", "h11"}
    assert {s.host for s in placed(room, [role(5, 8)], [NEAR])} == {"h3", "h8", "h9", "h10", "h11"}
    assert "h3" not in {s.host for s in placed(room, [role(6, 8)], [NEAR])}
    assert len(placed(room, [role(8, 8)], [NEAR])) == 8


def test_a_preferred_rack_inside_a_required_zone() -> None:
    hosts = [Host(f"h{i}", 8, 0, 0, (("rack", f"r{i // 2}"), ("zone", f"z{i // 6}"))) for i in range(12)]
    room = Room(hosts)
    room.take([hold("h0", 0), hold("h2", 0), hold("h4", 0)])
    slots = placed(room, [role(3, 8)], [Label("zone", None, True), NEAR])
    assert {s.host for s in slots} == {"h6", "h7", "h8"}  # two racks of z1, not three of z0


def test_possible_asks_the_empty_cluster() -> None:
    hosts = hosts_of(4, racks=2)
    assert possible(Room(hosts), [role(4, 8, cpus=64000)], [NEAR]) is None
    assert possible(Room(hosts), [role(2, 8)], [SAME_RACK]) is None
    larger = possible(Room(hosts), [role(1, 9)], ())
    assert larger is not None
    assert larger.too_small == larger.hosts == 4
    several = possible(Room(hosts), [role(3, 8)], [SAME_RACK])
    assert several is not None
    assert several.fits_without_labels
    nowhere = possible(Room([]), [role(1, 1)], ())
    assert nowhere is not None
    assert nowhere.hosts == 0
