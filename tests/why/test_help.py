"""What would help a job that waits, in worlds with one answer each."""

from __future__ import annotations

from dataclasses import replace

from support.world import World, hosts
from tenure.core.decisions import Claim, Reserve, Start
from tenure.core.model import HOUR, MINUTE, Cluster, Label, Policy, Role
from tenure.why.help import Change, Option, help_for


def options(w: World, job: int) -> dict[Change, Option]:
    return {each.kind: each for each in help_for(w.state, w.job(job))}


def test_half_a_gang_where_half_of_the_hosts_are_free() -> None:
    w = World(hosts(4))
    w.submit("lab/b", 8, replicas=2)
    waits = w.submit("lab/a", 8, replicas=4, min_runtime=HOUR, cpus=8_000)
    found = options(w, waits)
    assert found.keys() == {Change.REPLICAS}
    (half,) = found.values()
    assert half.text == "With 2 replicas instead of 4 it would start now." and half.options == "--replicas 2"
    assert isinstance(half.plan, Start) and half.starts_at == w.now and half.spec.gpus == 16


def test_fewer_gpus_take_their_part_of_cpus_and_memory() -> None:
    w = World(hosts(1))
    w.submit("lab/b", 6)
    found = options(w, w.submit("lab/a", 8, cpus=64_000, mem=512 * 1024))
    assert found.keys() == {Change.GPUS}
    role = found[Change.GPUS].spec.roles[0]
    assert (role.gpus, role.cpus, role.mem) == (2, 16_000, 128 * 1024)
    assert found[Change.GPUS].text == "With 2 GPUs instead of 8 it would start now."


def test_whom_it_would_evict_is_named_with_the_time() -> None:
    w = World(hosts(2))
    free = w.submit("lab/b", 8, min_runtime=0, user="bob")
    w.submit("lab/b", 8)
    found = options(w, w.submit("lab/a", 8, replicas=2))
    half = found[Change.REPLICAS]
    assert isinstance(half.plan, Claim) and half.starts_at == w.now + 10_000
    assert [(v.evict.attempt_id, v.user) for v in half.victims] == [(f"{free}.1", "bob")]
    assert half.text.endswith(f"when {free}.1 of bob has been evicted for it.")


def test_a_shorter_contract_is_let_in_on_held_hosts() -> None:
    w = World(hosts(1), {"lab/a": 0.5, "lab/b": 0.4, "lab/c": 0.1}, policy=Policy(reserved_percent=100))
    w.submit("lab/b", 4, min_runtime=8 * HOUR)
    w.advance(5 * HOUR, tick=HOUR)
    w.submit("lab/a", 8)  # the host is held for it until the other's protection is over, in 3 h
    w.advance(5 * MINUTE)
    waits = w.submit("lab/c", 4, min_runtime=4 * HOUR)
    found = options(w, waits)
    assert list(found) == [Change.MIN_RUNTIME, Change.UNALLOCATED]
    shorter = found[Change.MIN_RUNTIME]
    assert shorter.text == "With a min_runtime of 2h instead of 4h it would start now."
    assert found[Change.UNALLOCATED].options == "--min-runtime 0"


def test_an_earlier_reservation_is_an_effect_and_a_later_one_is_none() -> None:
    w = World(hosts(2), {"lab/a": 0.5, "lab/b": 0.5}, policy=Policy(reserved_percent=100))
    w.submit("lab/b", 8, min_runtime=2 * HOUR)
    w.submit("lab/b", 8, min_runtime=4 * HOUR)
    waits = w.submit("lab/a", 8, replicas=2, min_runtime=HOUR)
    w.advance(5 * MINUTE)
    told = w.job(waits).reservation
    assert told is not None
    found = options(w, waits)
    half = found[Change.REPLICAS]
    assert isinstance(half.plan, Reserve) and half.starts_at < told.starts_by
    assert "on 1 host held for it from the next look on" in half.text
    assert Change.MIN_RUNTIME not in found  # it would get the same hosts at the same time


def test_another_cluster_and_labels() -> None:
    small = Cluster("small", tuple(replace(h, labels=()) for h in hosts(1, prefix="s")))
    w = World((Cluster("main", hosts(8)), small))
    for _ in range(4):
        w.submit("lab/b", 8, clusters=("main",))  # all of rack r0
    waits = w.submit("lab/a", 8, clusters=("main",), labels=(Label("rack", "r0", True),))
    found = options(w, waits)
    assert found[Change.LABELS].text == "With rack=r0 preferred, not required, it would start now."
    assert Change.CLUSTER not in found  # there are no racks
    for _ in range(4):
        w.submit("lab/b", 8, clusters=("main",))
    plain = w.submit("lab/a", 8, clusters=("main",))
    found = options(w, plain)
    assert found[Change.CLUSTER].text == "With cluster small accepted as well it would start now."
    assert found[Change.CLUSTER].options == "--cluster main,small"


def test_nothing_helps_what_nobody_tries() -> None:
    w = World(hosts(1))
    w.submit("lab/b", 7)
    held = w.submit("lab/a", 8, hold="ann")
    assert help_for(w.state, w.job(held)) == ()
    waits = w.submit("lab/a", 8)
    assert options(w, waits)
    w.pause()
    assert options(w, waits) == {}
    w.resume()
    roles = (Role("a", 1, 4, 0, 0), Role("b", 1, 4, 0, 0))
    assert Change.GPUS not in options(w, w.submit("lab/a", roles=roles))
