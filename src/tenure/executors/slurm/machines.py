"""What Slurm says about its nodes, and about jobs on them that are not ours: text in, records out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tenure.executors.base import Health, HostCondition
from tenure.slurm.reading import expand, read_gres

OURS = "tenure: "
"""How the reason of a node begins that Tenure has drained: ``tenure: WHY (WHO)``."""
OCCUPYING = "RUNNING,SUSPENDED,COMPLETING,CONFIGURING,STOPPED,SIGNALING,STAGE_OUT,RESIZING"
"""States of jobs that hold something of a node."""
JOBS_FORMAT = "%A|%S|%U|%u|%N|%k"
NAMED = 3
"""Jobs that are named at most; of the others there is a count."""
_NAME = re.compile(r"NodeName=(\S+)")
_FIELD = {
    key: re.compile(rf"\s{key}=(\S*)") for key in ("State", "Partitions", "Gres", "GresUsed", "CPUAlloc", "AllocMem")
}
_TOTAL = {key: re.compile(rf"\s{key}=(\d+)") for key in ("CPUTot", "CPUEfctv", "RealMemory", "MemSpecLimit")}
_FREE_TEXT = re.compile(r"\s(?:Reason|Comment|Extra)=")
_REASON = re.compile(
    r"\sReason=(?P<why>.*?)(?:\s\[(?P<by>[^\]\s@]*)@[^\]\s]*\])?(?:\s+(?:Comment|Extra)=.*)?\s*$", re.DOTALL
)
_JOB = re.compile(r"JobId=(\d+)\s")
_HOLDS = re.compile(r"\sNodes=(\S+) CPU_IDs=(\S*) Mem=(\d+) GRES=(\S*)")
_ENDINGS = "*~#!%$@^-+"

_OUT = {
    "FAIL": "it is expected to fail",
    "INVAL": "its configuration is not valid",
    "INVALID_REG": "its configuration is not valid",
    "MAINT": "maintenance",
    "MAINTENANCE": "maintenance",
    "POWER_DOWN": "powering down",
    "POWERING_DOWN": "powering down",
    "POWERED_DOWN": "powered down",
    "REBOOT_REQUESTED": "reboot",
    "REBOOT_ISSUED": "reboot",
    "REBOOT": "reboot",
    "FUTURE": "not there yet",
}
"""States of a node that takes nothing new, and what is said when nobody has given a reason."""
_SHUT = {
    "RESERVED": "reserved in Slurm",
    "NOT_RESPONDING": "not responding in Slurm",
    "NO_RESPOND": "not responding in Slurm",
    "POWERING_UP": "powering up",
}
"""States of a node on which nothing of ours would start for a while: all of it counts as used."""


@dataclass(frozen=True, slots=True)
class Machine:
    """A node. ``used`` and ``has``: whole GPUs, thousandths of a CPU, MiB. ``by`` set the reason ``why``."""

    name: str
    states: frozenset[str]
    partitions: tuple[str, ...]
    used: tuple[int, int, int]
    has: tuple[int, int, int]
    why: str = ""
    by: str = ""

    @property
    def known(self) -> bool:
        """Whether slurmctld has heard of it since it started: what it says before is a guess."""
        return bool(self.states) and "UNKNOWN" not in self.states

    @property
    def ours(self) -> bool:
        """Tenure has drained it, and nobody has given another reason since."""
        return self.why.startswith(OURS) and "DRAIN" in self.states

    @property
    def out(self) -> bool:
        """Somebody has taken it out of service, or it has gone."""
        return "DOWN" in self.states or "DRAIN" in self.states or not self.states.isdisjoint(_OUT)

    @property
    def leaks(self) -> bool:
        """GPUs count as used, and nothing else does. Unless a job is there (suspended, it has no CPU): by nobody.

        Rarely, slurmctld 22.05 forgets to free those of a job that was run again (``dealloc of node ... bad
        node_offset`` in its log), and starts nothing there any more.
        """
        return self.used[0] > 0 and self.used[1:] == (0, 0) and "COMPLETING" not in self.states


def parse_machines(text: str) -> dict[str, Machine]:
    """``scontrol show node -d -o``. What cannot be understood is left out."""
    found = {}
    for line in text.splitlines():
        name = _NAME.match(line)
        if name is None:
            continue
        free = _FREE_TEXT.search(line)  # what people write stands at the end, and may look like anything
        head = line[: free.start()] if free else line
        value = {key: match[1] for key, pattern in _FIELD.items() if (match := pattern.search(head))}
        total = {key: int(match[1]) for key, pattern in _TOTAL.items() if (match := pattern.search(head))}
        reason = _REASON.search(line)
        states = value.get("State", "").upper()
        flags = {part.rstrip(_ENDINGS) for part in states.split("+")} - {""}
        if any(part.endswith("*") for part in states.split("+")):
            flags.add("NOT_RESPONDING")
        found[name[1]] = Machine(
            name=name[1],
            states=frozenset(flags),
            partitions=tuple(value.get("Partitions", "").split(",")),
            used=(_gpus(value.get("GresUsed", "")), 1000 * _int(value.get("CPUAlloc")), _int(value.get("AllocMem"))),
            has=(_gpus(value.get("Gres", "")), *_for_jobs(total)),
            why=reason["why"].strip()[:200] if reason else "",
            by=(reason["by"] or "") if reason else "",
        )
    return found


def _for_jobs(total: Mapping[str, int]) -> tuple[int, int]:
    """CPUs in thousandths and memory in MiB, without what Slurm keeps for the system."""
    cpus, mem = total.get("CPUEfctv") or total.get("CPUTot", 0), total.get("RealMemory", 0)
    return 1000 * cpus, max(0, mem - total.get("MemSpecLimit", 0))


def _gpus(gres: str) -> int:
    return sum(count for _, count in read_gres(gres))


def _int(text: str | None) -> int:
    return int(text) if text is not None and text.isdecimal() else 0


@dataclass(frozen=True, slots=True)
class Occupant:
    """A job that holds something of these nodes. ``key`` tells its runs apart."""

    key: tuple[int, str]
    uid: str
    user: str
    nodes: tuple[str, ...]
    comment: str


def parse_occupants(text: str) -> list[Occupant]:
    """``squeue -o JOBS_FORMAT``."""
    found = []
    for line in text.splitlines():
        fields = line.split("|", 5)
        if len(fields) == 6 and fields[0].isdecimal():
            number, start, uid, user, nodes, comment = fields
            found.append(Occupant((int(number), start), uid, user, tuple(expand(nodes)), comment.strip()))
    return found


Holding = tuple[int, int, int]


def parse_holdings(text: str) -> dict[int, dict[str, Holding]]:
    """``scontrol show job -d -o``: job -> node -> whole GPUs, thousandths of a CPU, MiB."""
    found: dict[int, dict[str, Holding]] = {}
    for line in text.splitlines():
        job = _JOB.match(line)
        if job is not None:
            held: dict[str, Holding] = {}
            for nodes, cpus, mem, gres in _HOLDS.findall(line):
                for node in expand(nodes):
                    held[node] = (_gpus(gres), 1000 * _count(cpus), int(mem))
            found[int(job[1])] = held
    return found


def _count(ids: str) -> int:
    """How many numbers ``0-3,8`` has."""
    total = 0
    for part in ids.split(","):
        first, _, last = part.partition("-")
        if first.isdecimal():
            total += int(last) - int(first) + 1 if last.isdecimal() else 1
    return total


LEAKED = "slurmctld counts {gpus} GPUs as used that no job has: scontrol reconfigure puts that right"


def condition_of(
    machine: Machine,
    others: Iterable[Occupant],
    holdings: Mapping[tuple[int, str], Mapping[str, Holding]],
    leaked: bool = False,
) -> HostCondition:
    """A node as Tenure sees it. ``others``: jobs there that are not Tenure's. ``leaked``: it has leaked for a while."""
    by, why = f"slurm:{machine.by or 'slurmctld'}", machine.why
    health = Health.FIT
    if "DOWN" in machine.states or "ERROR" in machine.states:
        health = Health.FAILED
        if not why or machine.ours:
            by, why = "slurm:slurmctld", "down in Slurm"
    else:
        for state in sorted(machine.states & _OUT.keys()):
            health, why = Health.DRAINING, why if why and not machine.ours else f"{_OUT[state]} in Slurm"
        if "DRAIN" in machine.states and not machine.ours:
            health, why = Health.DRAINING, why or "drained in Slurm"
    if health is Health.FIT and leaked:
        # Nothing runs there, and nothing that waits for it there would ever start.
        health, by, why = Health.FAILED, "slurm:slurmctld", LEAKED.format(gpus=machine.used[0])
    if health is Health.FIT:
        by = why = ""
    gpus, cpus, mem, what = _used(machine, list(others), holdings)
    return HostCondition(machine.name, health, by, why, gpus, cpus, mem, what, machine.has)


def _used(
    machine: Machine, others: list[Occupant], holdings: Mapping[tuple[int, str], Mapping[str, Holding]]
) -> tuple[int, int, int, str]:
    for state in sorted(machine.states & _SHUT.keys()):
        return *machine.has, _SHUT[state]
    parts = [holdings.get(one.key, {}).get(machine.name, (0, 0, 0)) for one in others]
    if not parts:
        return 0, 0, 0, ""
    # A job's text may claim anything; what Slurm counts on the node it cannot exceed.
    sums = (sum(column) for column in zip(*parts, strict=True))
    gpus, cpus, mem = (min(each, most) for each, most in zip(sums, machine.used, strict=True))
    if cpus >= machine.has[1]:  # every job takes a CPU: those of an exclusive one shut all others out
        gpus = machine.has[0]
    jobs = [str(one.key[0]) for one in others]
    more = f" and {len(jobs) - NAMED} more" if len(jobs) > NAMED else ""
    users = ", ".join(list(dict.fromkeys(one.user for one in others))[:NAMED])
    return gpus, cpus, mem, f"Slurm job{'s' if len(jobs) > 1 else ''} {', '.join(jobs[:NAMED])}{more} of {users}"
