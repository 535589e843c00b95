"""Preemption by QOS beside a real Slurm's: who is left alone, who is requeued for whom, and who comes first.

slurmctld, slurmdbd and MariaDB run in a network namespace of these tests' own.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import datetime

import pytest

from support.network import own_network
from support.scavengers import LAYOUTS, Layout, chosen, drawn
from support.slurmdb import AccountedCluster, accounted

pytestmark = pytest.mark.slow

CONF = """PriorityType=priority/multifactor
PreemptType=preempt/qos
PreemptMode=REQUEUE
AccountingStorageEnforce=associations,qos
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_interval=1,sched_min_interval=0,default_queue_depth=10000,bf_interval=1"""
EXEMPT_S = 6


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AccountedCluster]:
    with ExitStack() as stack:
        try:
            stack.enter_context(own_network())
        except (OSError, subprocess.CalledProcessError) as error:
            fails = bool(os.environ.get("CI")) and os.geteuid() == 0
            (pytest.fail if fails else pytest.skip)(f"no network namespace can be made, which needs root: {error}")
        for cluster in accounted(tmp_path_factory.mktemp("preempt"), nodes=4, conf=CONF):
            _qualities(cluster)
            yield cluster


def _qualities(cluster: AccountedCluster) -> None:
    """``normal`` may preempt all others: ``scavenger``, and those that are exempt for some seconds or for an hour."""
    cluster.run("sacctmgr", "-i", "add", "account", "lab")
    for name, exempt in (("scavenger", "-1"), ("brief", f"00:00:{EXEMPT_S:02d}"), ("hour", "01:00:00")):
        cluster.run("sacctmgr", "-i", "add", "qos", name, f"PreemptExemptTime={exempt}")
    cluster.run("sacctmgr", "-i", "modify", "qos", "normal", "set", "Preempt=scavenger,brief,hour")
    cluster.run("sacctmgr", "-i", "add", "user", "root", "account=lab")
    cluster.run("sacctmgr", "-i", "modify", "user", "root", "set", "qos=normal,scavenger,brief,hour")


@pytest.fixture(autouse=True)
def empty(slurm: AccountedCluster) -> Iterator[None]:
    yield
    slurm.run("scancel", "--user=root")
    slurm._wait(lambda: not _states(slurm), "all jobs have gone")


def _states(cluster: AccountedCluster) -> dict[str, str]:
    return dict(line.split() for line in cluster.run("squeue", "-h", "-o", "%i %T").splitlines())


def submit(cluster: AccountedCluster, qos: str, gpus: int, hosts: int = 1, *more: str) -> str:
    options = (f"--qos={qos}", f"-N{hosts}", f"--gres=gpu:{gpus}", "--account=lab", "--requeue", *more)
    return cluster.run("sbatch", "--parsable", "--chdir=/", "--output=/dev/null", *options, "--wrap=sleep 600").strip()


def runs(cluster: AccountedCluster, job: str) -> None:
    cluster._wait(lambda: _states(cluster).get(job) == "RUNNING", f"job {job} runs")


def started(cluster: AccountedCluster, job: str) -> datetime:
    return datetime.fromisoformat(cluster.run("squeue", "-h", "-j", job, "-o", "%S").strip())


def preempted(cluster: AccountedCluster, layout: Layout) -> tuple[int, ...]:
    """Let the layout run, ask for one job more, and see who does not run any more when it does."""
    there = []
    for number, (gpus, where) in enumerate(layout.running):
        qos = "normal" if number in layout.kept else "scavenger"
        there.append(submit(cluster, qos, gpus, len(where), f"--nodelist={','.join(where)}"))
        runs(cluster, there[-1])
    runs(cluster, submit(cluster, "normal", *layout.asks))
    states = _states(cluster)
    return tuple(number for number, job in enumerate(there) if states.get(job) != "RUNNING")


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.what.replace(" ", "-"))
def test_slurm_preempts_whom_the_layouts_say(slurm: AccountedCluster, layout: Layout) -> None:
    assert preempted(slurm, layout) == layout.gone


@pytest.mark.parametrize("layout", [one for one in map(drawn, range(9)) if chosen(one)], ids=lambda one: one.what)
def test_slurm_preempts_whom_the_policy_chooses(slurm: AccountedCluster, layout: Layout) -> None:
    assert preempted(slurm, layout) == chosen(layout)


def test_who_is_exempt_is_left_alone_and_the_next_goes(slurm: AccountedCluster) -> None:
    """By size and age the exempt ones would come first."""
    exempt = [submit(slurm, "hour", 8) for _ in range(2)]
    pair = submit(slurm, "scavenger", 8, 2)
    for job in (*exempt, pair):
        runs(slurm, job)
    runs(slurm, submit(slurm, "normal", 8))
    states = _states(slurm)
    assert [states[job] for job in exempt] == ["RUNNING", "RUNNING"] and states[pair] == "PENDING"


def test_a_scavenger_goes_as_soon_as_it_has_run_for_the_exempt_time(slurm: AccountedCluster) -> None:
    brief = [submit(slurm, "brief", 8) for _ in range(4)]
    for job in brief:
        runs(slurm, job)
    since = min(started(slurm, job) for job in brief)
    job = submit(slurm, "normal", 8)
    runs(slurm, job)
    assert (started(slurm, job) - since).total_seconds() >= EXEMPT_S
    assert [_states(slurm)[one] for one in brief] == ["PENDING", "RUNNING", "RUNNING", "RUNNING"]


def test_nobody_goes_for_a_scavenger_nor_for_an_equal(slurm: AccountedCluster) -> None:
    there = [submit(slurm, qos, 8) for qos in ("normal", "normal", "scavenger", "scavenger")]
    for job in there:
        runs(slurm, job)
    waits = submit(slurm, "scavenger", 8)
    gang = submit(slurm, "normal", 8, 3)
    small = submit(slurm, "normal", 8)
    runs(slurm, small)  # it may go before the gang, which lacks more than scavengers have
    states = _states(slurm)
    assert states[waits] == states[gang] == states[there[2]] == "PENDING"
    assert [states[job] for job in (*there[:2], there[3])] == ["RUNNING"] * 3


def test_who_may_preempt_comes_first_whatever_the_priorities(slurm: AccountedCluster) -> None:
    full = submit(slurm, "normal", 8, 4)
    runs(slurm, full)
    older = submit(slurm, "scavenger", 8, 4)
    job = submit(slurm, "normal", 8, 4)
    slurm.run("scontrol", "update", f"jobid={older}", "priority=5000")
    slurm.run("scontrol", "update", f"jobid={job}", "priority=5")
    slurm.run("scancel", full)
    runs(slurm, job)
    assert _states(slurm)[older] == "PENDING"
