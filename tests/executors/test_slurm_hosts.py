"""Slurm's nodes both ways, and jobs around Tenure, on a real cluster whose nodes are in another partition as well."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import executor_kit
import pytest
import slurm_kit
from executor_contract import heeds, kill_all
from executor_kit import PATIENCE_S, Line, Watched, launch_of
from slurm_kit import wait_until

from support.slurm import SlurmCluster, cluster
from tenure.executors.base import Health, HostCondition, HostWish

CONF = """SlurmdTimeout=10
SelectTypeParameters=CR_Core_Memory
PartitionName=gpu Nodes=node[001-003] Default=YES MaxTime=UNLIMITED State=UP
PartitionName=other Nodes=ALL MaxTime=UNLIMITED DefMemPerNode=100 State=UP"""


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmCluster]:
    yield from cluster(tmp_path_factory.mktemp("slurm"), nodes=4, conf=CONF)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "runs"


@pytest.fixture
def watched(slurm: SlurmCluster, root: Path) -> Iterator[Watched]:
    with slurm_kit.nodes_as_hosts(slurm):
        watched = Watched(slurm_kit.executor(slurm, root))
        yield watched
        kill_all(watched)
        slurm.run("scancel", "-u", "root", check=False)
        for name in slurm.names:
            slurm.run("scontrol", "update", f"NodeName={name}", "State=RESUME", check=False)
        wait_until(lambda: slurm.run("squeue", "-h").strip() == "" and len(slurm.idle()) == 4, "all is quiet again")


def until(watched: Watched, name: str, wanted: Callable[[HostCondition], bool]) -> HostCondition:
    """The condition of a node as soon as it is ``wanted``. Only ``on_change`` makes this look again."""
    while True:
        watched._news.clear()
        found = {one.name: one for one in watched.executor.conditions()}
        if wanted(found[name]):
            return found[name]
        assert watched._news.wait(PATIENCE_S), f"no news; the last was {found[name]}"


def node(slurm: SlurmCluster, name: str) -> tuple[set[str], str]:
    """Its states and its reason, as Slurm says them."""
    line = slurm.run("scontrol", "show", "node", "-o", name)
    states = next(word for word in line.split() if word.startswith("State=")).removeprefix("State=")
    return set(states.split("+")), line.partition(" Reason=")[2].rpartition(" [")[0].strip()


def update(slurm: SlurmCluster, name: str, *changes: str) -> None:
    slurm.run("scontrol", "update", f"NodeName={name}", *changes)


def batch(slurm: SlurmCluster, *options: str) -> str:
    done = subprocess.run(
        ("sbatch", "--parsable", "-o", "/dev/null", *options),
        env=slurm.env,
        input="#!/bin/sh\nsleep 1000\n",
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def quiet(slurm: SlurmCluster, name: str) -> HostCondition:
    """In service, and all of it free."""
    return HostCondition(name, has=(slurm.gpus, slurm.cpus * 1000, slurm.mem))


def test_nodes_of_the_partition_are_fit_and_unused(watched: Watched, slurm: SlurmCluster) -> None:
    assert list(watched.executor.conditions()) == [quiet(slurm, name) for name in slurm.names[:3]]


@pytest.mark.parametrize(
    ("state", "health"), [("DRAIN", Health.DRAINING), ("FAIL", Health.DRAINING), ("DOWN", Health.FAILED)]
)
def test_an_administrator_takes_a_node_out_and_brings_it_back(
    watched: Watched, slurm: SlurmCluster, state: str, health: Health
) -> None:
    name = slurm.names[1]
    update(slurm, name, f"State={state}", "Reason=bad disk [sdb]; ask ops")
    found = until(watched, name, lambda one: one.health is not Health.FIT)
    assert (found.health, found.by, found.why) == (health, "slurm:root", "bad disk [sdb]; ask ops")
    update(slurm, name, "State=RESUME")
    until(watched, name, lambda one: one.health is Health.FIT)


def test_maintenance_and_reservations(watched: Watched, slurm: SlurmCluster) -> None:
    name = slurm.names[2]
    common = ("starttime=now", "duration=60", "users=root", f"nodes={name}")
    slurm.run("scontrol", "create", "reservation", "reservationname=later", *common, "flags=ignore_jobs")
    try:
        held = until(watched, name, lambda one: one.gpus > 0)
    finally:
        slurm.run("scontrol", "delete", "reservationname=later")
    everything = quiet(slurm, name).has
    assert ((held.gpus, held.cpus, held.mem), held.what) == (everything, "reserved in Slurm")
    until(watched, name, lambda one: one == quiet(slurm, name))
    slurm.run("scontrol", "create", "reservation", "reservationname=fans", *common, "flags=maint,ignore_jobs")
    try:
        out = until(watched, name, lambda one: one.health is not Health.FIT)
    finally:
        slurm.run("scontrol", "delete", "reservationname=fans")
    assert (out.health, out.why) == (Health.DRAINING, "maintenance in Slurm")
    until(watched, name, lambda one: one == quiet(slurm, name))


def test_a_node_that_dies_and_comes_back(watched: Watched, slurm: SlurmCluster) -> None:
    name = slurm.names[0]
    slurm.crash_node(name)
    try:
        found = until(watched, name, lambda one: one.health is Health.FAILED)
    finally:
        slurm.start_node(name)
    assert found.why == "Not responding"
    until(watched, name, lambda one: one == quiet(slurm, name))


def test_a_drain_of_tenures_is_one_in_slurm_and_no_condition(watched: Watched, slurm: SlurmCluster, root: Path) -> None:
    first, second = slurm.names[:2]
    out = [HostWish("main", first, True, "ada", "new\nfans", 7), HostWish("main", second, False)]
    watched.executor.keep_out(out)
    wait_until(lambda: "DRAIN" in node(slurm, first)[0], "the node is drained")
    assert node(slurm, first)[1] == "tenure: new fans (ada)"
    assert all(one.health is Health.FIT for one in watched.executor.conditions())
    watched.executor.keep_out([HostWish("main", first, False), HostWish("main", second, False)])
    wait_until(lambda: "DRAIN" not in node(slurm, first)[0], "the node is back")


def test_a_person_who_resumes_the_node_is_not_overruled(watched: Watched, slurm: SlurmCluster, root: Path) -> None:
    name, other = slurm.names[:2]
    out = HostWish("main", name, True, "ada", "fans", 7)
    watched.executor.keep_out([out])
    wait_until(lambda: "DRAIN" in node(slurm, name)[0], "the node is drained")
    wait_until((root / "drained.json").exists, "it is written down")
    update(slurm, name, "State=RESUME")
    watched.executor.close()
    again = Watched(slurm_kit.executor(slurm, root), epoch=2)
    # The next server is told the same, and one thing more, which shows that it has listened.
    again.executor.keep_out([out, HostWish("main", other, True, "ada", "fans", 8)])
    wait_until(lambda: "DRAIN" in node(slurm, other)[0], "the other node is drained")
    assert "DRAIN" not in node(slurm, name)[0]
    # A new drain is a new wish.
    again.executor.keep_out([HostWish("main", name, True, "ada", "fans again", 9)])
    wait_until(lambda: node(slurm, name)[1] == "tenure: fans again (ada)", "drained for the new reason")
    again.executor.keep_out([HostWish("main", name, False), HostWish("main", other, False)])
    wait_until(lambda: not any("DRAIN" in node(slurm, one)[0] for one in (name, other)), "both are back")
    again.executor.close()


def test_an_administrators_drain_is_neither_replaced_nor_taken_back(watched: Watched, slurm: SlurmCluster) -> None:
    name, other = slurm.names[:2]
    update(slurm, name, "State=DRAIN", "Reason=bad disk")
    until(watched, name, lambda one: one.health is Health.DRAINING)
    both = [HostWish("main", name, True, "ada", "fans", 7), HostWish("main", other, True, "ada", "fans", 7)]
    watched.executor.keep_out(both)
    wait_until(lambda: "DRAIN" in node(slurm, other)[0], "the other node is drained")
    assert node(slurm, name)[1] == "bad disk"
    watched.executor.keep_out([HostWish("main", name, False), HostWish("main", other, False)])
    wait_until(lambda: "DRAIN" not in node(slurm, other)[0], "the other node is back")
    assert (node(slurm, name)[1], "DRAIN" in node(slurm, name)[0]) == ("bad disk", True)


def test_a_drain_while_the_server_was_away_is_known_when_it_opens(slurm: SlurmCluster, root: Path) -> None:
    name = slurm.names[0]
    update(slurm, name, "State=DRAIN", "Reason=bad disk")
    executor = slurm_kit.executor(slurm, root)
    executor.open(1, lambda: None)
    try:
        found = executor.conditions()[0]
        assert (found.name, found.health, found.by, found.why) == (name, Health.DRAINING, "slurm:root", "bad disk")
    finally:
        executor.close()
        update(slurm, name, "State=RESUME")


def test_jobs_around_count_where_they_are_and_ours_do_not(watched: Watched, slurm: SlurmCluster, line: Line) -> None:
    first, second = slurm.names[:2]
    job = launch_of(replicas=[executor_kit.replica(heeds(line), 0, (0, 1, 2), first)])
    watched.executor.start(job)
    assert line.hear() == "ready"
    gang = batch(slurm, "-p", "other", "--gres=gpu:2", "-N2", "-n3", "--mem=64M", "-w", f"{first},{second}")
    found = until(watched, first, lambda one: one.gpus > 0)
    at_second = until(watched, second, lambda one: one.gpus > 0)
    assert found.what == at_second.what == f"Slurm job {gang} of root"
    assert (found.gpus, found.mem, at_second.gpus, at_second.mem) == (2, 64, 2, 64)
    assert sorted((found.cpus, at_second.cpus)) == [1000, 2000]
    more = batch(slurm, "-p", "other", "-c5", "--mem=10M", "-w", second, "--comment=tenure:main:1.0:8g8c:00000000")
    both = until(watched, second, lambda one: one.mem == 74)
    assert (both.gpus, both.what) == (2, f"Slurm jobs {gang}, {more} of root")
    beside = batch(slurm, "-p", "gpu", "--gres=gpu:1", "-w", slurm.names[2])  # in Tenure's own partition
    assert until(watched, slurm.names[2], lambda one: one.gpus > 0).what == f"Slurm job {beside} of root"
    slurm.run("scancel", gang, more, beside)
    for name in slurm.names[:3]:
        until(watched, name, lambda one, name=name: one == quiet(slurm, name))


def test_a_job_may_claim_anything_in_its_name(watched: Watched, slurm: SlurmCluster) -> None:
    name, other = slurm.names[:2]
    text = f"x Nodes={other} CPU_IDs=0-63 Mem=500000 GRES=gpu:8(IDX:0-7) State=DOWN"
    batch(slurm, "-p", "other", "--gres=gpu:1", "-w", name, "-J", text, f"--comment={text}")
    assert until(watched, name, lambda one: one.gpus > 0).gpus == 1
    assert list(watched.executor.conditions())[1] == quiet(slurm, other)


@pytest.fixture
def own_slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmCluster]:
    yield from cluster(tmp_path_factory.mktemp("slurm"), nodes=2)


def test_nothing_is_concluded_while_slurmctld_is_away(own_slurm: SlurmCluster, root: Path) -> None:
    first, second = own_slurm.names
    update(own_slurm, first, "State=DRAIN", "Reason=bad disk")
    watched = Watched(slurm_kit.executor(own_slurm, root))
    drained = replace(quiet(own_slurm, first), health=Health.DRAINING, by="slurm:root", why="bad disk")
    before = [drained, quiet(own_slurm, second)]
    assert list(watched.executor.conditions()) == before
    own_slurm.kill_controller()
    watched.executor.keep_out([HostWish("main", second, True, "ada", "fans", 7)])
    own_slurm.start_controller()
    wait_until(lambda: "DRAIN" in node(own_slurm, second)[0], "what was wanted meanwhile is done")
    assert watched.executor.conditions()[1] == before[1]
    watched.executor.close()


@pytest.fixture
def line(tmp_path: Path) -> Iterator[Line]:
    line = Line(tmp_path / "line")
    yield line
    line.close()
