"""What Slurm says about nodes, and about jobs around Tenure, as text. No Slurm is needed for this."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tenure.executors.base import Health, HostCondition
from tenure.executors.slurm import hosts
from tenure.executors.slurm.hosts import HostWatch
from tenure.executors.slurm.machines import (
    Machine,
    Occupant,
    condition_of,
    parse_holdings,
    parse_machines,
    parse_occupants,
)
from tenure.slurm.commands import Commands

FIT, OUT, GONE = Health.FIT, Health.DRAINING, Health.FAILED
CTLD, SILENT = "slurm:slurmctld", "not responding in Slurm"
NODE = (
    "NodeName={name} Arch=x86_64 CoresPerSocket=64  CPUAlloc=7 CPUEfctv=62 CPUTot=64 CPULoad=1.04 "
    "AvailableFeatures=(null) ActiveFeatures=(null) Gres=gpu:a100:8(S:0-1) GresDrain=N/A GresUsed=gpu:a100:2(IDX:0,3) "
    "NodeAddr=127.0.0.1 NodeHostName=localhost Port=23593 Version=22.05.8 OS=Linux #1 SMP @0  RealMemory=512000 "
    "AllocMem=4096 FreeMem=22398 Sockets=1 Boards=1 MemSpecLimit=2000 State={state} ThreadsPerCore=1 TmpDisk=0 "
    "Weight=1 Owner=N/A MCS_label=N/A Partitions=gpu,other  BootTime=2026-11-30T06:53:32 CfgTRES=cpu=64,mem=500G "
    "AllocTRES=cpu=7 CapWatts=n/a ExtSensorsTemp=n/s"
)
JOB = (
    "JobId={number} JobName=sbatch UserId=root(0) Partition=other NodeList=n[1-2] NumNodes=2 JOB_GRES=gpu:4   "
    "Nodes=n1 CPU_IDs=0-1,5 Mem=64 GRES=gpu:a100:2(IDX:0,3)   Nodes=n[2-3] CPU_IDs=0 Mem=64 GRES= MinCPUsNode=1"
)


def machine(state: str = "MIXED", reason: str = "") -> Machine:
    (found,) = parse_machines(NODE.format(name="n1", state=state) + reason).values()
    return found


def condition(state: str, reason: str = "") -> tuple[Health, str, str, int, str]:
    found = condition_of(machine(state, reason), (), {})
    return found.health, found.by, found.why, found.gpus, found.what


def test_a_node() -> None:
    found = machine(reason=" Reason=bad disk [sdb] State=DOWN [root@2026-11-30T07:06:20]")
    assert (found.used, found.has) == ((2, 7_000, 4096), (8, 62_000, 510_000))
    assert (found.partitions, found.states) == (("gpu", "other"), {"MIXED"})
    assert (found.why, found.by) == ("bad disk [sdb] State=DOWN", "root")
    assert parse_machines("nonsense\n\nNodeName=\nNo nodes in the system\n") == {}


@pytest.mark.parametrize(
    ("state", "reason", "wanted"),
    [
        ("IDLE", "", (FIT, "", "", 0, "")),
        ("IDLE+PLANNED", "", (FIT, "", "", 0, "")),
        ("IDLE", " Reason=old news [root@1]", (FIT, "", "", 0, "")),
        ("IDLE+DRAIN", " Reason=Kill task failed [slurm@1]", (OUT, "slurm:slurm", "Kill task failed", 0, "")),
        ("MIXED+DRAIN", "", (OUT, CTLD, "drained in Slurm", 0, "")),
        ("IDLE+DRAIN", " Reason=tenure: fans (ada) [root@1]", (FIT, "", "", 0, "")),
        ("DOWN", " Reason=Not responding [slurm@1]", (GONE, "slurm:slurm", "Not responding", 0, "")),
        ("DOWN+DRAIN", " Reason=tenure: fans (ada) [root@1]", (GONE, CTLD, "down in Slurm", 0, "")),
        ("DOWN*", "", (GONE, CTLD, "down in Slurm", 8, SILENT)),
        ("IDLE+FAIL", "", (OUT, CTLD, "it is expected to fail in Slurm", 0, "")),
        ("MIXED+MAINTENANCE+RESERVED", "", (OUT, CTLD, "maintenance in Slurm", 8, "reserved in Slurm")),
        ("IDLE+RESERVED", "", (FIT, "", "", 8, "reserved in Slurm")),
        ("ALLOCATED*", "", (FIT, "", "", 8, SILENT)),
        ("IDLE+NOT_RESPONDING", "", (FIT, "", "", 8, SILENT)),
        ("IDLE+POWERED_DOWN", "", (OUT, CTLD, "powered down in Slurm", 0, "")),
    ],
)
def test_states(state: str, reason: str, wanted: tuple[Health, str, str, int, str]) -> None:
    assert condition(state, reason) == wanted


@pytest.mark.parametrize(
    ("state", "known"), [("UNKNOWN", False), ("UNKNOWN+DRAIN", False), ("IDLE", True), ("", False)]
)
def test_what_slurmctld_does_not_know_yet_is_not_known(state: str, known: bool) -> None:
    assert machine(state).known is known


def test_jobs_around_and_what_they_hold() -> None:
    text = "12|2026-11-30T07:05:57|1000|eve|n[1-2]|a | b\n13|N/A|0|root||(null)\nnonsense\n"
    first, second = parse_occupants(text)
    assert first == Occupant((12, "2026-11-30T07:05:57"), "1000", "eve", ("n1", "n2"), "a | b")
    assert second.nodes == ()
    held = parse_holdings(JOB.format(number=12) + "\n\nJobId=13 JobName=x\nnonsense\n")
    assert held == {12: {"n1": (2, 3_000, 64), "n2": (0, 1_000, 64), "n3": (0, 1_000, 64)}, 13: {}}
    found = condition_of(machine(), [first], {first.key: held[12]})
    assert found == HostCondition(
        "n1", gpus=2, cpus=3_000, mem=64, what="Slurm job 12 of eve", has=(8, 62_000, 510_000)
    )


def test_a_job_cannot_claim_more_than_slurm_counts() -> None:
    some = [Occupant((number, "t"), "0", "eve", ("n1",), "") for number in range(5)]
    found = condition_of(machine(), some, {one.key: {"n1": (8, 62_000, 500_000)} for one in some})
    assert (found.gpus, found.cpus, found.mem) == (2, 7_000, 4096)
    assert found.what == "Slurm jobs 0, 1, 2 and 2 more of eve"


def test_who_has_all_cpus_has_the_host() -> None:
    """Every job in Slurm takes a CPU: beside an exclusive one none starts, whatever GPUs are free."""
    full = NODE.format(name="n1", state="ALLOCATED").replace("CPUAlloc=7", "CPUAlloc=62")
    (found,) = parse_machines(full).values()
    alone = Occupant((3, "t"), "0", "eve", ("n1",), "")
    said = condition_of(found, [alone], {alone.key: {"n1": (0, 62_000, 64)}})
    assert (said.gpus, said.cpus) == (8, 62_000)


IDLE = NODE.format(name="n1", state="IDLE").replace("CPUAlloc=7", "CPUAlloc=0").replace("AllocMem=4096", "AllocMem=0")
"""Real output of slurmctld 22.05.8 that had lost count; Tenure's job waited for ``Resources`` there for ever."""


class Told:
    """A watch over what ``scontrol`` and ``squeue`` are made to say. ``others``: which jobs are not Tenure's."""

    def __init__(self, folder: Path, others: Callable[[Sequence[Occupant]], list[Occupant]] = list) -> None:
        self._folder = folder
        for program in ("scontrol", "squeue"):
            (folder / program).write_text(f"#!/bin/sh\nexec cat {folder}/{program}.said\n")
            (folder / program).chmod(0o755)
        self.jobs("")
        self._watch = HostWatch(Commands(folder), folder, "gpu", others)

    def jobs(self, text: str) -> None:
        (self._folder / "squeue.said").write_text(text)

    def healths(self, nodes: str) -> list[tuple[Health, str]]:
        (self._folder / "scontrol.said").write_text(nodes + "\n")
        self._watch.open(lambda: None)
        self._watch.close()
        return [(one.health, one.why) for one in self._watch.conditions()]


def test_gpus_that_slurm_counts_as_used_by_nobody_are_gone_after_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    healths, idle = Told(tmp_path).healths, IDLE
    assert healths(idle) == [(FIT, "")]  # it may have ended this moment
    monkeypatch.setattr(hosts, "LEAK_MS", 0)
    why = "slurmctld counts 2 GPUs as used that no job has: scontrol reconfigure puts that right"
    assert healths(idle) == [(GONE, why)]
    assert healths(idle.replace("State=IDLE", "State=IDLE+COMPLETING")) == [(FIT, "")]
    assert healths(NODE.format(name="n1", state="MIXED")) == [(FIT, "")]
    assert healths(idle.replace("gpu:a100:2(IDX:0,3)", "gpu:0")) == [(FIT, "")]


@pytest.mark.parametrize("ours", [False, True])
def test_a_suspended_job_has_its_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ours: bool) -> None:
    """Where memory is not counted nothing else of it is."""
    monkeypatch.setattr(hosts, "LEAK_MS", 0)
    told = Told(tmp_path, (lambda _: []) if ours else list)
    told.jobs("12|1800000000|1000|eve|n[1-2]|\n")
    assert told.healths(IDLE) == [(FIT, "")]
    told.jobs("12|1800000000|1000|eve|n2|\n")
    assert [health for health, _ in told.healths(IDLE)] == [GONE]
