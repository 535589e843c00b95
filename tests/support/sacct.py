"""Reports of sacct by hand, for a small site of which everything else is given, too."""

from __future__ import annotations

import time
from collections.abc import Iterable

BEGIN = 1_780_272_000
"""2026-06-01, midnight UTC."""
H = 3600
HEADER = (
    "JobID|User|Account|Partition|QOS|State|Submit|Eligible|Start|End|Elapsed|Timelimit|NNodes|AllocTRES|ReqTRES|"
    "NodeList"
)
ASSOCIATIONS = """Cluster|Account|ParentName|User|Share|
site|root|||1|
site|root||root|1|
site|science|root||100|
site|language|science||60|
site|language||ada|1|
site|vision|science||40|
site|vision||grace|1|
"""
"""As ``--parsable`` prints them: science has all, language 60 % of it and vision 40 %."""
NODES = """NodeName=n1 Arch=x86_64 CoresPerSocket=32
   CPUAlloc=0 CPUEfctv=64 CPUTot=64 CPULoad=0.00
   AvailableFeatures=(null)
   Gres=gpu:8
   RealMemory=512000 AllocMem=0
   State=IDLE ThreadsPerCore=1
   Partitions=gpu,short

NodeName=n2 Arch=x86_64 CoresPerSocket=32
   CPUAlloc=0 CPUEfctv=64 CPUTot=64 CPULoad=0.00
   AvailableFeatures=(null)
   Gres=gpu:8
   RealMemory=512000 AllocMem=0
   State=IDLE ThreadsPerCore=1
   Partitions=gpu,short
"""
CONFIG = """Configuration data as of 1780272000
ClusterName             = site
PreemptType             = preempt/none
PriorityType            = priority/multifactor
PriorityDecayHalfLife   = 14-00:00:00
PriorityMaxAge          = 1-00:00:00
PriorityFlags           =
PriorityWeightAge       = 10
PriorityWeightFairShare = 20000
PriorityWeightJobSize   = 0
PriorityWeightQOS       = 0
PriorityWeightTRES      = (null)
SchedulerType           = sched/backfill
SelectTypeParameters    = CR_CORE
"""


def clock(seconds: int | None) -> str:
    return "Unknown" if seconds is None else time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(BEGIN + seconds))


def row(
    id: str,
    who: str = "ada@language",
    *,
    submitted: int = 0,
    started: int | None = None,
    ended: int | None = None,
    gpus: int = 8,
    state: str = "",
    now: int = 24 * H,
    eligible: int | None = -1,
    hosts: str = "",
    limit: str = "1-00:00:00",
    qos: str = "normal",
    partition: str = "gpu",
) -> str:
    """Times in seconds after BEGIN. ``now``: when the report is made. ``eligible`` -1: since its submission."""
    user, account = who.split("@")
    state = state or ("COMPLETED" if ended is not None else "RUNNING" if started is not None else "PENDING")
    ran = 0 if started is None else (now if ended is None else ended) - started
    tres = f"billing={gpus},cpu={gpus},gres/gpu={gpus},node={-(-gpus // 8)}" if gpus else "cpu=1,mem=1G,node=1"
    given = tres if started is not None else ""
    elapsed = f"{ran // 86_400}-{ran % 86_400 // H:02}:{ran % H // 60:02}:{ran % 60:02}"
    times = [clock(submitted), clock(submitted if eligible == -1 else eligible), clock(started), clock(ended)]
    cells = [id, user, account, partition, qos, state, *times, elapsed, limit, str(-(-gpus // 8)), given, tres]
    return "|".join([*cells, hosts or ("None assigned" if started is None else "n1")])


def text(rows: Iterable[str], header: str = HEADER) -> str:
    return "\n".join([header, *rows]) + "\n"


def month() -> list[str]:
    """Two days on 16 GPUs: language's jobs have both hosts for 11 h of every 12, vision's short ones wait for that."""
    rows = []
    for n in range(4):
        at = n * 12 * H
        both = {"submitted": max(0, at - H), "started": at, "ended": at + 11 * H}
        rows.append(row(str(100 + n), **both, gpus=16, hosts="n[1-2]"))
        for task in range(6):
            runs = {"started": at + 11 * H, "ended": at + 11 * H + 2400, "hosts": f"n{1 + task % 2}"}
            rows.append(row(f"{200 + n}_{task}", "grace@vision", submitted=at + (2 * task + 1) * 1800, **runs, gpus=2))
    return rows
