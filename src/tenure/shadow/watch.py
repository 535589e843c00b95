"""Watching a site: one look after the other, each written down before the next. Only commands that show are run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tenure.shadow import seen
from tenure.shadow.journal import Journal, jobs_line
from tenure.shadow.seen import Seen
from tenure.slurm import CommandFailed, Commands
from tenure.slurm.reading import Node, read_nodes

HOSTS_EVERY = 60
"""Seconds between two looks at the hosts, and at most between two lines of the record."""
_AT_ONCE = 1000
"""Jobs of accounting in one line."""
_DOWN = frozenset({"DOWN", "FAIL", "NOT_RESPONDING", "POWERED_DOWN", "POWER_DOWN", "FUTURE", "UNKNOWN", "REBOOT"})
_DRAINED = frozenset({"DRAIN", "DRAINING", "DRAINED", "FAILING", "MAINT", "RESERVED"})


@dataclass(slots=True)
class Look:
    """What one look found. ``changed``: since the look before. ``at``: seconds since 1970."""

    at: int
    jobs: dict[str, Seen]
    changed: list[Seen] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)
    hosts: dict[str, str] = field(default_factory=dict)


class Watch:
    """``journal``: where all is written. Raises CommandFailed and OSError from its methods."""

    def __init__(self, commands: Commands, journal: Journal) -> None:
        self.commands = commands
        self.journal = journal
        self._last: dict[str, Seen] = {}
        self._hosts: dict[str, str] = {}
        self._hosts_at = 0
        self._written = 0

    def begin(self, at: int, site: Mapping[str, Any], since: int = 0) -> None:
        """A watch begins or goes on. With accounting, what happened since ``since``, or since the last look, is read.

        Seconds since 1970; 0: from now on.
        """
        record = self.journal.record
        self._hosts = {name: state for _, name, state in record.hosts}
        self.journal.write({"at": at, "site": dict(site)})
        asked = [moment for moment in (since if since < (record.since or at) else 0, record.until) if moment]
        if asked and site["accounting"]:
            self._read_history(min(asked), at)

    def _read_history(self, since: int, at: int) -> None:
        runs = [run for run in seen.history(self.commands, since, at) if run.gpus]
        for first in range(0, len(runs), _AT_ONCE):
            self.journal.write(jobs_line(at, runs[first : first + _AT_ONCE]))
        self.journal.write({"at": at, "history": since})

    def look(self, at: int) -> Look:
        """Ask Slurm, and write down what has changed."""
        jobs = {job.id: job for job in seen.queue(self.commands) if job.gpus}
        found = Look(at, jobs)
        for job in jobs.values():
            kept = replace(job, reason="")
            if self._last.get(job.id) != kept:
                self._last[job.id] = kept
                found.changed.append(job)
        for id in self._last.keys() - jobs.keys():
            del self._last[id]
        found.gone = sorted(self.journal.record.lives.live().keys() - jobs.keys())
        if at - self._hosts_at >= HOSTS_EVERY:
            self._hosts_at = at
            found.hosts = self._look_at_hosts()
        if found.changed or found.gone or found.hosts or at - self._written >= HOSTS_EVERY:
            self._write(found)
        return found

    def _write(self, found: Look) -> None:
        more: dict[str, Any] = {"look": True}
        if found.gone:
            more["gone"] = found.gone
        if found.hosts:
            more["hosts"] = found.hosts
        self.journal.write(jobs_line(found.at, [replace(job, reason="") for job in found.changed], **more))
        self._written = found.at

    def _look_at_hosts(self) -> dict[str, str]:
        """Those whose state has changed."""
        nodes = read_nodes(self.commands.run("scontrol", "show", "-o", "nodes"))
        changed = {}
        for node in nodes:
            state = state_of(node)
            if self._hosts.get(node.name, "up") != state:
                self._hosts[node.name] = changed[node.name] = state
        return changed


def state_of(node: Node) -> str:
    """``up``, ``drained`` or ``down``."""
    if node.states & _DOWN:
        return "down"
    return "drained" if node.states & _DRAINED else "up"


__all__ = ["HOSTS_EVERY", "CommandFailed", "Look", "Watch", "state_of"]
