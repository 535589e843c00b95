"""Nodes of Slurm, watched: who has taken one out and why, what is used around Tenure, and drains carried over.

A thread of its own asks about all nodes at once, about every second, and about all that occupies them; about what a
job holds only when a job is new that is not ours. A node that Tenure has out of service is drained in Slurm, once: the
drain is written down, and a person who resumes the node there is not overruled.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Sequence, Set
from pathlib import Path

import structlog

from tenure.executors import procs
from tenure.executors.base import HostCondition, HostWish, StaleEpoch
from tenure.executors.slurm import machines
from tenure.executors.slurm.machines import OURS, Holding, Machine, Occupant
from tenure.slurm.commands import CommandFailed, Commands

log = structlog.get_logger()

LOOK_S = 1.0
PART_OF_TIME = 5
"""However slow Slurm answers, it is left alone for so many times as long."""
COMPLAIN_MS = 60_000
REFUSED_MS = 30_000
"""How long Slurm is not asked again to change a node when it has refused to: Tenure may lack the right."""
LEAK_MS = 10_000
"""So long GPUs must count as used by nobody: for a moment they do whenever a job starts or ends."""
LONGEST_REASON = 160
_CONTROL = re.compile(r"[\x00-\x1f\x7f]+")

Drained = dict[str, int]
"""Node -> since when (ms UTC) it is to be out, as Slurm was told."""


class HostWatch:
    """The nodes of ``partition`` ('': all). Methods may be called by any thread.

    ``commands`` are those of the newest leader. ``others``: those jobs in Slurm that are not Tenure's. ``root``
    keeps what Slurm was told.
    """

    def __init__(
        self, commands: Commands, root: Path, partition: str, others: Callable[[Sequence[Occupant]], list[Occupant]]
    ) -> None:
        self._commands = commands
        self._partition = partition
        self._not_ours = others
        self._file = root / "drained.json"
        self._told: Drained = {}
        self._conditions: tuple[HostCondition, ...] = ()
        self._wishes: tuple[HostWish, ...] | None = None
        self._holdings: dict[tuple[int, str], dict[str, Holding]] = {}
        self._leaks: dict[str, int] = {}
        """Nodes on which GPUs count as used by nobody -> since when, by the clock since boot."""
        self._complained = self._refused_until = 0
        self._wake = threading.Event()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None
        self._on_change: Callable[[], None] = lambda: None

    def open(self, on_change: Callable[[], None]) -> None:
        """Look once, and go on looking. Raises StaleEpoch."""
        self.close()
        self._closing.clear()
        self._on_change = on_change
        self._complained = self._refused_until = 0
        self._told = dict(procs.read_json(self._file) or {})
        self._wishes, self._conditions = None, ()
        self._turn()
        self._thread = threading.Thread(target=self._watch, name="tenure-slurm-hosts", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._closing.set()
        self._wake.set()
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.join()

    def conditions(self) -> Sequence[HostCondition]:
        return self._conditions

    def keep_out(self, wishes: Sequence[HostWish]) -> None:
        if (now := tuple(wishes)) != self._wishes:
            self._wishes = now
            self._wake.set()

    # ---- the watcher's thread

    def _watch(self) -> None:
        took = 0.0
        while not self._closing.is_set():
            self._wake.wait(max(LOOK_S, PART_OF_TIME * took))
            self._wake.clear()
            if self._closing.is_set():
                return
            began = procs.boottime_ms()
            try:
                self._turn()
            except StaleEpoch:
                return
            except Exception as error:  # the next look may do better
                log.error("slurm_nodes_look_failed", error=repr(error), exc_info=True)
            took = (procs.boottime_ms() - began) / 1000

    def _turn(self) -> None:
        """Look at all nodes, and carry over what is wanted of them. Nothing is concluded from silence."""
        try:
            found = self._read()
        except CommandFailed as error:
            now = procs.boottime_ms()
            if not self._complained or now - self._complained >= COMPLAIN_MS:
                self._complained = now
                log.error("slurm_not_answering", error=str(error))
            return
        seen = self._conditions_of(found)
        if seen != self._conditions:
            self._conditions = seen
            self._on_change()
        wishes = self._wishes
        if wishes is not None and procs.boottime_ms() >= self._refused_until:
            self._carry_over(wishes, found)

    def _read(self) -> dict[str, Machine]:
        """The nodes by name, without those of which slurmctld itself knows nothing yet. Raises CommandFailed."""
        text = self._commands.run("scontrol", "show", "node", "-d", "-o")
        found = machines.parse_machines(text)
        return {
            name: one
            for name, one in found.items()
            if one.known and (not self._partition or self._partition in one.partitions)
        }

    def _conditions_of(self, found: dict[str, Machine]) -> tuple[HostCondition, ...]:
        used = any(amount for machine in found.values() for amount in machine.used)
        jobs = self._occupants(found.keys()) if used else []
        others: dict[str, list[Occupant]] = {}
        for one in self._others(jobs):
            for node in one.nodes:
                others.setdefault(node, []).append(one)
        now = procs.boottime_ms()
        # A job that is suspended has GPUs without a CPU, and its memory may not be counted at all.
        occupied = {node for one in jobs for node in one.nodes}
        leaking = [name for name, machine in found.items() if machine.leaks and name not in occupied]
        self._leaks = {name: self._leaks.get(name, now) for name in leaking}
        leaked = {name for name, since in self._leaks.items() if now - since >= LEAK_MS}
        return tuple(
            machines.condition_of(machine, others.get(name, ()), self._holdings, name in leaked)
            for name, machine in found.items()
        )

    def _occupants(self, nodes: Set[str]) -> list[Occupant]:
        """All jobs on these nodes, Tenure's too. Raises CommandFailed."""
        listing = ("squeue", "-h", "-a", "-t", machines.OCCUPYING, "-o", machines.JOBS_FORMAT)
        jobs = machines.parse_occupants(self._commands.run(*listing))
        return [one for one in jobs if nodes & set(one.nodes)]

    def _others(self, jobs: Sequence[Occupant]) -> list[Occupant]:
        """Those of these jobs that are not Tenure's, with what they hold looked up. Raises CommandFailed."""
        others = self._not_ours(jobs)
        new = [one for one in others if one.key not in self._holdings]
        if new:
            some = (str(new[0].key[0]),) if len(new) == 1 else ()
            held = machines.parse_holdings(self._commands.run("scontrol", "show", "job", "-d", "-o", *some))
            for one in new:
                if one.key[0] in held:
                    self._holdings[one.key] = held[one.key[0]]
        kept = {one.key for one in others}
        self._holdings = {key: held for key, held in self._holdings.items() if key in kept}
        return others

    # ---- what Tenure wants

    def _carry_over(self, wishes: Iterable[HostWish], found: dict[str, Machine]) -> None:
        drain: dict[str, list[HostWish]] = {}
        back: list[str] = []
        told = {wish.name: self._told[wish.name] for wish in wishes if wish.out and wish.name in self._told}
        for wish in wishes:
            machine = found.get(wish.name)
            if machine is None:
                continue
            if not wish.out:
                if machine.ours:
                    back.append(wish.name)
            elif machine.ours:
                told[wish.name] = wish.since
            elif told.get(wish.name) != wish.since and not machine.out:
                drain.setdefault(_reason(wish), []).append(wish)
        for reason, some in drain.items():
            names = [wish.name for wish in some]
            if self._update(names, "State=DRAIN", f"Reason={reason}"):
                told.update({wish.name: wish.since for wish in some})
        for state, names in _by_state(back, found):
            self._update(names, f"State={state}")
        if told != self._told:
            self._told = told
            procs.write_json(self._file, told)

    def _update(self, names: list[str], *changes: str) -> bool:
        try:
            self._commands.run("scontrol", "update", f"NodeName={','.join(names)}", *changes)
        except CommandFailed as error:
            log.warning("slurm_command_failed", error=str(error))
            self._refused_until = procs.boottime_ms() + REFUSED_MS
            return False
        log.info("slurm_nodes_updated", nodes=names, changes=changes)
        self._wake.set()  # look whether it is so
        return True


def _by_state(names: list[str], found: dict[str, Machine]) -> Iterable[tuple[str, list[str]]]:
    """A node that is down stays so when its drain is taken back."""
    down = [name for name in names if "DOWN" in found[name].states]
    fit = [name for name in names if name not in down]
    return [(state, some) for state, some in (("RESUME", fit), ("UNDRAIN", down)) if some]


def _reason(wish: HostWish) -> str:
    """``tenure: new fans (ada)``, on one line."""
    why = _CONTROL.sub(" ", wish.why).replace("[", "(").replace("]", ")")[:LONGEST_REASON].strip()
    return f"{OURS}{why} ({_CONTROL.sub(' ', wish.by)})"
