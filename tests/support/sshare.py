"""Association trees with usage in a real Slurm, and what its ``sshare`` makes of them."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from support.slurmdb import AccountedCluster
from tenure.policies.fairtree import Association, Key
from tenure.slurm.reading import ASSOCIATION_FIELDS, PARENT, read_associations

CONF = """PriorityType=priority/multifactor
PriorityDecayHalfLife=0
PriorityUsageResetPeriod=YEARLY
PriorityWeightFairshare=10000
AccountingStorageEnforce=associations,limits
PartitionName=gpu Nodes=ALL Default=YES State=UP TRESBillingWeights=CPU=1.0,GRES/gpu=1000.0"""
"""Without decay usage stays what it was and can be compared to the unit. Without `limits` Slurm counts nothing of a job
that ends before it next looks at usage."""
ROOT = "root"
_HEADER = 10
"""Bytes of the file of usage before its records: version and time."""
_FIELDS = "Account,User,RawUsage,FairShare,LevelFS"


@dataclass(frozen=True, slots=True)
class Row:
    """An association as ``sacctmgr`` is told: of a user when ``user`` is set. ``shares`` None is ``parent``."""

    account: str
    user: str
    parent: str
    """Of an account: the one above."""
    shares: int | None

    @property
    def key(self) -> Key:
        return (self.account, self.user)


@dataclass(frozen=True, slots=True)
class Shown:
    """What ``sshare`` shows of an association."""

    usage: int
    factor: float | None
    level: float | None


@dataclass(frozen=True, slots=True)
class Known:
    """An association as the database has it."""

    key: Key
    above: str
    """The account that it is in, or below."""
    shares: int | None
    number: int
    place: int
    """In the order in which tied accounts are ranked."""


def grow(cluster: AccountedCluster, rows: Iterable[Row]) -> tuple[Known, ...]:
    """Stop slurmctld and make these associations, an account before what is in it, in place of those that are there.

    And the user root in the account root, which every cluster has.
    """
    _end(cluster)
    lines = ["Cluster - 'tenure':Fairshare=1"]
    for row in rows:
        shares = "parent" if row.shares is None else str(row.shares)
        lines.append(f"Parent - '{row.account if row.user else row.parent}'")
        if row.user:
            lines.append(f"User - '{row.user}':DefaultAccount='{row.account}':Fairshare={shares}")
        else:
            lines.append(f"Account - '{row.account}':Description='x':Organization='x':Fairshare={shares}")
    file = cluster.base / "associations"
    file.write_text("\n".join(lines) + "\n")
    cluster.run("sacctmgr", "-i", "load", "clean", f"file={file}")
    return _known(cluster)


def put_usage(cluster: AccountedCluster, known: Iterable[Known], usage: Mapping[Key, int]) -> None:
    """Write the users' usage into the file where slurmctld keeps that, and start it anew."""
    _end(cluster)
    file = _usage_file(cluster)
    made = [file.read_bytes()[:_HEADER]]
    for one in known:
        if one.key in usage:
            text = f"{usage[one.key]}.000000\0".encode()
            # Usage as text, none by resource, no wall time.
            made.append(struct.pack(">II", one.number, len(text)) + text + struct.pack(">II", 0, 0))
    file.write_bytes(b"".join(made))
    start(cluster)


def stop(cluster: AccountedCluster) -> None:
    """It writes down what it knows."""
    process = _controller(cluster)
    if process is not None:
        cluster.run("scontrol", "shutdown", "slurmctld")
        cluster._wait(lambda: not process.exists(), "slurmctld has ended")


def _end(cluster: AccountedCluster) -> None:
    """As soon as can be: only the first time it has to write down how its file of usage begins."""
    process = _controller(cluster)
    if process is None or not _usage_file(cluster).exists():
        stop(cluster)
    else:
        cluster.kill_controller()
        cluster._wait(lambda: not process.exists(), "slurmctld is gone")


def _usage_file(cluster: AccountedCluster) -> Path:
    return cluster.base / "state" / "assoc_usage"


def _controller(cluster: AccountedCluster) -> Path | None:
    """The directory of slurmctld's process, if it runs: when it ends by itself it takes its file of the pid away."""
    file = cluster.base / "run" / "slurmctld.pid"
    process = Path("/proc", file.read_text().strip()) if file.exists() else None
    return process if process is not None and process.exists() else None


def start(cluster: AccountedCluster) -> None:
    """Until it has ranked everybody, which it does when it starts; it notes the time afterwards."""
    noted = cluster.base / "state" / "priority_last_decay_ran"
    noted.unlink(missing_ok=True)
    cluster.start_controller()
    cluster._wait(noted.exists, "slurmctld has made priorities")


def read(cluster: AccountedCluster) -> dict[Key, Shown]:
    """What ``sshare`` shows, by account and user."""
    found: dict[Key, Shown] = {}
    for line in cluster.run("sshare", "-h", "-P", "-l", "-a", "-o", _FIELDS).splitlines():
        account, user, usage, factor, level = (field.strip() for field in line.split("|"))
        found[account, user] = Shown(int(usage), float(factor) if factor else None, float(level) if level else None)
    return found


def tree(known: Iterable[Known], shown: Mapping[Key, Shown]) -> tuple[Association, ...]:
    """What is below root, in the order of the database, with the usage that ``sshare`` shows."""
    below: dict[str, list[Known]] = {}
    for one in sorted(known, key=lambda one: one.place):
        below.setdefault(one.above, []).append(one)

    def made(account: str) -> tuple[Association, ...]:
        return tuple(
            Association(one.key, one.shares, shown[one.key].usage, () if one.key[1] else made(one.key[0]))
            for one in below.get(account, ())
        )

    return made(ROOT)


def _known(cluster: AccountedCluster) -> tuple[Known, ...]:
    text = cluster.run("sacctmgr", "-n", "-P", "show", "assoc", f"format={ASSOCIATION_FIELDS},ID,LFT")
    lines = [line.rsplit("|", 2) for line in text.splitlines()]
    rows = read_associations("\n".join(line for line, _, _ in lines))
    return tuple(
        Known(
            (one.account, one.user),
            one.account if one.user else one.parent,
            None if one.share == PARENT else one.share,
            int(number),
            int(place),
        )
        for one, (_, number, place) in zip(rows, lines, strict=True)
        if one.account != ROOT or one.user
    )
