"""What Slurm's commands print, as records. A line that cannot be understood is left out, never an error.

``scontrol show ... --oneliner`` and ``sacctmgr --parsable2`` are read: all versions have them, in the same form.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice

MAX_NAMES = 16_384
"""Names that one host list may stand for."""
PARENT = -1
"""The share of an association that says ``parent``."""
_NOTHING = frozenset({"", "(null)", "N/A", "None", "none", "Unknown"})
_KEY = re.compile(r"(?:^|\s)([A-Za-z][\w/:.\[\]-]*)=")
_SETTING = re.compile(r"(\S+)\s*=(?: (.*))?")
_FREE_TEXT = re.compile(r"\s(?:Reason|Comment|Extra)=")
_REASON = re.compile(r"\sReason=(.*?)(?:\s\[[^\]\s]*@[^\]\s]*\])?(?:\s+(?:Comment|Extra)=.*)?\s*$")
_AS_OF = re.compile(r"Configuration data as of (\d{1,15})\s*$")
_BRACKETS = re.compile(r"([^\[\]]*)\[([^\[\]]*)\](.*)", re.DOTALL)
_NUMBERS = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")
_LEADING = re.compile(r"\s*([0-9]{1,15})\b")
_VERSION = re.compile(r"(\d{2})\.(\d{2})")


@dataclass(frozen=True, slots=True)
class Settings:
    """``scontrol show config``, with what it says of cgroup.conf. ``at``: slurmctld's clock in seconds; 0: unknown."""

    values: Mapping[str, str] = field(default_factory=dict)
    cgroup: Mapping[str, str] = field(default_factory=dict)
    at: int = 0

    def text(self, key: str) -> str:
        """'' for what is not set."""
        value = self.values.get(key.lower(), "")
        return "" if value in _NOTHING else value

    def number(self, key: str) -> int | None:
        """Seconds for times. None where there is no number, as in UNLIMITED."""
        match = _LEADING.match(self.values.get(key.lower(), ""))
        return int(match[1]) if match else None

    def words(self, key: str) -> tuple[str, ...]:
        """Parts of a comma-separated value, in lower case."""
        return tuple(word for part in self.text(key).split(",") if (word := part.strip().lower()))


@dataclass(frozen=True, slots=True)
class Node:
    """``mem`` in MiB, without what Slurm keeps for the system. ``gpus``: of each type, '' where none is named."""

    name: str
    gpus: tuple[tuple[str, int], ...] = ()
    cpus: int = 0
    mem: int = 0
    features: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ()
    states: frozenset[str] = frozenset()
    reason: str = ""
    version: str = ""

    @property
    def gpu_count(self) -> int:
        return sum(count for _, count in self.gpus)


@dataclass(frozen=True, slots=True)
class Partition:
    """``values``: all that Slurm says of it, keys in lower case."""

    name: str
    default: bool
    values: Mapping[str, str]

    def text(self, key: str) -> str:
        value = self.values.get(key.lower(), "")
        return "" if value in _NOTHING else value


@dataclass(frozen=True, slots=True)
class Switch:
    """``level`` 0 is nearest to the nodes."""

    name: str
    level: int
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Association:
    """An account (``user`` is '') or a person in one. ``share``: fair-share value, or PARENT."""

    cluster: str
    account: str
    user: str
    partition: str
    parent: str
    share: int


@dataclass(frozen=True, slots=True)
class SlurmUser:
    name: str
    level: str
    coordinates: tuple[str, ...] = ()


def version_of(text: str) -> tuple[int, int] | None:
    """(22, 5) of ``slurm-wlm 22.05.8``."""
    match = _VERSION.search(text)
    return (int(match[1]), int(match[2])) if match else None


def read_settings(text: str) -> Settings:
    values: dict[str, str] = {}
    cgroup: dict[str, str] = {}
    into, at = values, 0
    for line in text.splitlines():
        stripped = line.strip()
        if stripped.endswith(":") and "=" not in stripped:
            into = cgroup if stripped.lower().startswith("cgroup") else {}
            continue
        as_of = _AS_OF.match(stripped)
        match = _SETTING.fullmatch(stripped)
        if as_of:
            at = int(as_of[1])
        elif match:
            into.setdefault(match[1].lower(), (match[2] or "").strip())
    return Settings(values, cgroup, at)


def pairs(line: str) -> dict[str, str]:
    """``Key=value Key=value`` with keys in lower case. Values may have spaces; the first of two equal keys counts."""
    found: dict[str, str] = {}
    marks = list(_KEY.finditer(line))
    for i, mark in enumerate(marks):
        end = marks[i + 1].start() if i + 1 < len(marks) else len(line)
        found.setdefault(mark[1].lower(), line[mark.end() : end].strip())
    return found


def read_nodes(text: str) -> tuple[Node, ...]:
    return tuple(node for line in text.splitlines() if (node := _node(line)) is not None)


def _node(line: str) -> Node | None:
    # What people write may look like anything, and stands at the end.
    free = _FREE_TEXT.search(line)
    found = pairs(line[: free.start()] if free else line)
    name = found.get("nodename", "")
    if not name:
        return None
    reason = _REASON.search(line)
    cpus = _number(found.get("cpuefctv")) or _number(found.get("cputot"))
    kept = _number(found.get("memspeclimit"))
    mem = _number(found.get("realmemory"))
    return Node(
        name=name,
        gpus=read_gres(found.get("gres", "")),
        cpus=cpus,
        mem=mem - kept if kept < mem else mem,
        features=_words(found.get("availablefeatures", "")),
        partitions=_words(found.get("partitions", "")),
        states=frozenset(found.get("state", "").rstrip("*~#!%$@^-").upper().split("+")) - {""},
        reason=reason[1].strip() if reason else "",
        version=found.get("version", ""),
    )


def read_gres(text: str) -> tuple[tuple[str, int], ...]:
    """GPUs in ``gpu:a100:8(S:0-1),nic:2``, by type."""
    counts: dict[str, int] = {}
    for one in re.sub(r"\([^()]*\)", "", text).split(","):
        parts = one.strip().split(":")
        if parts[0] != "gpu":
            continue
        last = re.fullmatch(r"([0-9]{1,6})([kK]?)", parts[-1]) if len(parts) > 1 else None
        count = int(last[1]) * (1024 if last[2] else 1) if last else 1
        kind = ":".join(part for part in (parts[1:-1] if last else parts[1:]) if part != "no_consume")
        counts[kind] = counts.get(kind, 0) + count
    return tuple(sorted(counts.items()))


def read_partitions(text: str) -> tuple[Partition, ...]:
    found = []
    for line in text.splitlines():
        values = pairs(line)
        if name := values.get("partitionname", ""):
            found.append(Partition(name, values.get("default", "").upper() == "YES", values))
    return tuple(found)


def read_topology(text: str) -> tuple[Switch, ...]:
    """Switches of topology/tree, or blocks of topology/block as switches next to their nodes."""
    found = []
    for line in text.splitlines():
        values = pairs(line)
        name = values.get("switchname", "") or values.get("blockname", "")
        if name:
            found.append(Switch(name, _number(values.get("level")), tuple(expand(values.get("nodes", "")))))
    return tuple(found)


def expand(text: str) -> list[str]:
    """Names of a host list such as ``n[01-03,7],gpu-a[1-2]b3``. Brackets that make no sense stand for nothing."""
    if text in _NOTHING:
        return []
    names: list[str] = []
    for part in _split(text):
        for name in _expand_one(part):
            names.append(name)
            if len(names) >= MAX_NAMES:
                return names
    return names


def _split(text: str) -> Iterator[str]:
    depth, start = 0, 0
    for i, character in enumerate(text):
        depth += (character == "[") - (character == "]")
        if character == "," and depth <= 0:
            yield text[start:i]
            start = i + 1
    yield text[start:]


def _expand_one(text: str) -> Iterator[str]:
    match = _BRACKETS.fullmatch(text)
    if match is None:
        if text and "[" not in text and "]" not in text:
            yield text
        return
    before, inside, after = match.groups()
    # Once, not for each number: an end that stands for nothing would be looked for over and over.
    ends = list(islice(_expand_one(after), MAX_NAMES)) if after else [""]
    for number in _numbers(inside) if ends else ():
        for end in ends:
            yield f"{before}{number}{end}"


def _numbers(text: str) -> Iterator[str]:
    for part in text.split(","):
        bounds = _NUMBERS.fullmatch(part.strip())
        if bounds is not None:
            first, last = bounds[1], bounds[2] or bounds[1]
            stop = min(int(last), int(first) + MAX_NAMES)
            yield from (f"{number:0{len(first)}d}" for number in range(int(first), stop + 1))


ASSOCIATION_FIELDS = "Cluster,Account,User,Partition,ParentName,Share"
USER_FIELDS = "User,AdminLevel,Coord"


def read_associations(text: str) -> tuple[Association, ...]:
    """``sacctmgr -n -P show assoc format=ASSOCIATION_FIELDS``."""
    found = []
    for cells in _rows(text, 6):
        cluster, account, user, partition, parent, share = cells
        if not account:
            continue
        number = PARENT if share == "parent" else _number(share)
        found.append(Association(cluster, account, user, partition, parent, number))
    return tuple(found)


def read_users(text: str) -> tuple[SlurmUser, ...]:
    """``sacctmgr -n -P show user WithCoord format=USER_FIELDS``."""
    return tuple(SlurmUser(name, level, _words(coord)) for name, level, coord in _rows(text, 3) if name)


def _rows(text: str, columns: int) -> Iterable[list[str]]:
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) == columns:
            yield cells


def _words(text: str) -> tuple[str, ...]:
    if text in _NOTHING:
        return ()
    return tuple(dict.fromkeys(word for part in text.split(",") if (word := part.strip())))


def _number(text: str | None) -> int:
    match = _LEADING.match(text or "")
    return int(match[1]) if match else 0
