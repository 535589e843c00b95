"""An attempt as its nodes tell it: the statuses of all their supervisors, and what they amount to together."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from tenure.executors import files, procs
from tenure.executors.base import Phase, Report, StopOrder
from tenure.executors.files import AttemptFiles, Order, Status
from tenure.executors.slurm.node import directory_of
from tenure.executors.slurm.plan import Plan

GANG_GRACE_MS = 5_000
"""After a replica has failed: as the supervisor gives to those of its own host."""
UNSTARTED_CODE = -signal.SIGTERM
"""Exit code of a replica whose host was stopped before its supervisor had begun, in a gang that ran elsewhere."""


@dataclass(frozen=True, slots=True)
class Stop:
    """``stop.json`` of an attempt. ``kill_at``: CLOCK_BOOTTIME of the boot ``boot``, in ms."""

    kill_at: int
    boot: str
    warn_signal: str
    why: str
    again: bool

    def left_ms(self, boot: str) -> int:
        """Until the kill. Of an order from before a restart of this host nobody knows; nothing is left."""
        return max(0, self.kill_at - procs.boottime_ms()) if self.boot == boot else 0


def shortened(before: Stop | None, order: StopOrder) -> Stop:
    """An order as it counts now, after ``before``."""
    boot = procs.boot_id()
    left = max(0, order.grace)
    if before is not None and before.boot == boot:
        left = min(left, before.left_ms(boot))
    again = order.again or (before is not None and before.again)
    return Stop(procs.boottime_ms() + left, boot, order.warn_signal, order.why, again)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the statuses of ended nodes, or Slurm's word, come to. ``again`` and ``cancelled_by``: as in ``Report``."""

    phase: str
    exit_codes: tuple[int, ...]
    message: str
    again: bool = False
    cancelled_by: str = ""


class FileClock:
    """The clock of the file system: it tells how old a file is, whatever the hosts think what time it is."""

    def __init__(self, root: Path) -> None:
        self._probe = root / "clock"

    def age_ms(self, written_ns: int) -> int:
        self._probe.touch()
        return max(0, self._probe.stat().st_mtime_ns - written_ns) // 1_000_000


class Gang:
    """The nodes of one attempt. ``read`` looks at their files; everything else goes by what was read last."""

    def __init__(self, attempt: AttemptFiles, plan: Plan) -> None:
        self.plan = plan
        self._attempt = attempt
        self.nodes = {host: AttemptFiles(directory_of(attempt.directory, host)) for host in plan.hosts}
        self.statuses: dict[str, Status | None] = dict.fromkeys(plan.hosts)
        self.written: dict[str, int] = {}
        """By host, when its status was written, in ns by the file system's clock."""
        self._seen: dict[str, tuple[int, int, int]] = {}
        """By host, the file that its status was read from: what ends at once writes two within a tick of that clock."""
        self.closed = False
        """It has failed or was told to stop: what has not begun must not."""

    def read(self) -> None:
        for host, node in self.nodes.items():
            status = self.statuses[host]
            if status is not None and status.final:
                continue
            try:
                found = node.status.stat()
            except FileNotFoundError:
                continue
            if (seen := files.version(found)) != self._seen.get(host):
                self.statuses[host], self.written[host] = node.read_status(), found.st_mtime_ns
                self._seen[host] = seen

    def begun(self, hosts: Iterable[str]) -> bool:
        """On one of them at least."""
        return any(self.statuses[host] is not None for host in hosts)

    def ended(self, hosts: Iterable[str] | None = None) -> bool:
        """On all of them."""
        found = [self.statuses[host] for host in (self.nodes if hosts is None else hosts)]
        return all(status is not None and status.final for status in found)

    @property
    def up(self) -> bool:
        """All replicas have been up: none of the nodes is still to come."""
        return all(
            status is not None and status.phase in (files.RUNNING, files.EXITED) for status in self.statuses.values()
        )

    def failed_on(self) -> str | None:
        """The host whose replica failed first, while others may still go on; None while nothing has failed."""
        failed = [host for host, status in self.statuses.items() if status is not None and _failure(status)]
        # The others have been told to stop because of it.
        first = [host for host in failed if len(failed) > 1 and self.nodes[host].read_order() is None]
        return min(first or failed, key=lambda host: self.written[host], default=None)

    def order(self, stop: Order, hosts: Mapping[str, AttemptFiles] | None = None) -> None:
        """Hand an order to the supervisors that have not ended. Nodes where none has begun will not begin."""
        for host, node in (self.nodes if hosts is None else hosts).items():
            status = self.statuses[host]
            if status is None or not status.final:
                node.write_order(stop)

    def stop_others(self, failed: str) -> None:
        status = self.statuses[failed]
        assert status is not None  # it has failed
        why = f"{status.message}; the other replicas are stopped"
        rest = {host: node for host, node in self.nodes.items() if host != failed and node.read_order() is None}
        self.order(Order(0, "SIGTERM", why, GANG_GRACE_MS), rest)

    def bar(self, hosts: Iterable[str], why: str = files.STOPPED_BEFORE) -> None:
        """Where no supervisor has begun none will."""
        for host in hosts:
            if self.statuses[host] is None:
                self.nodes[host].bar(why)
        self.read()

    def write_off(self, hosts: Iterable[str], why: str, *, unlocked: bool) -> None:
        """Record as lost what left no word of its end. A supervisor that holds its lock is alive, wherever it is.

        ``unlocked``: do not ask for the lock any more, Slurm has long given the node up.
        """
        for host in hosts:
            node, status = self.nodes[host], self.statuses[host]
            if status is not None and status.final:
                continue
            lock = procs.try_lock(node.lock)
            if lock is None and not unlocked:
                continue
            try:
                found = node.read_status()
                if found is None or not found.final:
                    node.write_status(files.LOST, message=why)
            finally:
                if lock is not None:
                    os.close(lock)
        self.read()

    def outcome(self, first_failure: str | None) -> Outcome:
        """To be asked when all have ended. ``first_failure``: the host where the gang's end began."""
        statuses = {host: status for host, status in self.statuses.items() if status is not None}
        complaints = [
            status.message
            for status in statuses.values()
            if status.phase == files.NOT_STARTED and status.message != files.STOPPED_BEFORE
        ]
        if complaints:
            return Outcome(files.NOT_STARTED, (), complaints[0])
        if all(status.phase == files.NOT_STARTED for status in statuses.values()):
            return Outcome(files.NOT_STARTED, (), files.STOPPED_BEFORE)
        lost = {host: status for host, status in statuses.items() if status.phase == files.LOST}
        if lost:
            hosts = ", ".join(sorted(lost))
            return Outcome(files.LOST, (), f"{next(iter(lost.values())).message} (on {hosts})")
        message = statuses[first_failure].message if first_failure is not None else ""
        return Outcome(files.EXITED, self._exit_codes(statuses), message)

    def _exit_codes(self, statuses: Mapping[str, Status]) -> tuple[int, ...]:
        codes: dict[int, int] = {}
        for host, ranks in self.plan.ranks.items():
            told = statuses[host].exit_codes or (UNSTARTED_CODE,) * len(ranks)
            codes |= dict(zip(ranks, told, strict=True))
        return tuple(codes[rank] for rank in sorted(codes))


def _failure(status: Status) -> bool:
    """A replica failed or its command is not there; not: it was stopped before."""
    return bool(status.message) and status.message != files.STOPPED_BEFORE


def write_end(attempt: AttemptFiles, outcome: Outcome, age_ms: int) -> Status:
    """The final status of the whole attempt, entered ``age_ms`` ago."""
    status = Status(
        phase=outcome.phase,
        at=procs.boottime_ms() - age_ms,
        wall=procs.wall_ms() - age_ms,
        boot=procs.boot_id(),
        exit_codes=outcome.exit_codes,
        done=attempt.done.exists(),
        message=outcome.message,
        again=outcome.again,
        cancelled_by=outcome.cancelled_by,
    )
    procs.write_json(attempt.status, asdict(status))
    return status


def report_of(attempt_id: str, status: Status, boot: str, checkpoint_age_ms: int | None) -> Report:
    same = boot == status.boot
    return Report(
        attempt_id=attempt_id,
        phase=Phase(status.phase),
        age_ms=max(0, procs.boottime_ms() - status.at if same else procs.wall_ms() - status.wall),
        exit_codes=status.exit_codes,
        done=status.done,
        message=status.message,
        checkpoint_age_ms=checkpoint_age_ms,
        again=status.again,
        cancelled_by=status.cancelled_by,
    )
