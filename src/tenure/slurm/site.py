"""A site's Slurm as it is now, read with its own commands. Nothing is changed."""

from __future__ import annotations

import os
import pwd
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from tenure.slurm import reading
from tenure.slurm.commands import CommandFailed, Commands
from tenure.slurm.reading import Association, Node, Partition, Settings, SlurmUser, Switch

FILES = ("gres.conf", "cgroup.conf", "job_submit.lua")
_LARGEST_FILE = 1024 * 1024
_T = TypeVar("_T")


@dataclass(slots=True)
class Site:
    """``unread``: what could not be read, and why. ``associations`` and ``users`` are None without accounting.

    ``user``: under whose name Tenure is to run. ``files``: texts of the files beside slurm.conf that are here, too.
    ``clock_off``: slurmctld's clock less this machine's, in whole seconds; None where it cannot be told.
    """

    user: str = ""
    settings: Settings = field(default_factory=Settings)
    nodes: tuple[Node, ...] = ()
    partitions: tuple[Partition, ...] = ()
    switches: tuple[Switch, ...] = ()
    associations: tuple[Association, ...] | None = None
    users: tuple[SlurmUser, ...] | None = None
    files: dict[str, str] = field(default_factory=dict)
    clock_off: int | None = None
    unread: dict[str, str] = field(default_factory=dict)

    @property
    def answers(self) -> bool:
        return "config" not in self.unread

    @property
    def cluster(self) -> str:
        return self.settings.text("ClusterName")

    def members(self, partition: str) -> list[Node]:
        return [node for node in self.nodes if partition in node.partitions]

    def with_gpus(self) -> list[str]:
        """Names of the partitions that have GPUs, in Slurm's order."""
        there = {name for node in self.nodes if node.gpu_count for name in node.partitions}
        return [partition.name for partition in self.partitions if partition.name in there]

    def unknown(self, names: Sequence[str]) -> list[str]:
        known = {partition.name for partition in self.partitions}
        return [name for name in names if name not in known]


def read_site(commands: Commands, user: str = "") -> Site:
    """``user``: under whose name Tenure is to run, else who asks."""
    site = Site(user=user or _me())
    before = time.time()
    text = _try(site, "config", lambda: commands.run("scontrol", "show", "config"))
    if text is None:
        return site
    after = time.time()
    site.settings = reading.read_settings(text)
    site.clock_off = _clock_off(site.settings.at, before, after)
    show = ("scontrol", "show")
    site.nodes = reading.read_nodes(_try(site, "nodes", lambda: commands.run(*show, "-o", "nodes")) or "")
    parts = _try(site, "partitions", lambda: commands.run(*show, "-a", "-o", "partitions"))
    site.partitions = reading.read_partitions(parts or "")
    if site.settings.text("TopologyPlugin").rpartition("/")[2] not in ("none", "default", "flat", ""):
        site.switches = reading.read_topology(
            _try(site, "topology", lambda: commands.run(*show, "-o", "topology")) or ""
        )
    if site.settings.text("AccountingStorageType").endswith("/slurmdbd"):
        _read_accounting(site, commands)
    _read_files(site)
    return site


def _read_accounting(site: Site, commands: Commands) -> None:
    ask = ("sacctmgr", "-n", "-P", "show")
    of = (f"cluster={site.cluster}",) if site.cluster else ()
    fields = f"format={reading.ASSOCIATION_FIELDS}"
    rows = _try(site, "associations", lambda: commands.run(*ask, "assoc", *of, fields))
    site.associations = reading.read_associations(rows) if rows is not None else None
    people = _try(site, "users", lambda: commands.run(*ask, "user", "WithCoord", f"format={reading.USER_FIELDS}"))
    site.users = reading.read_users(people) if people is not None else None


def _read_files(site: Site) -> None:
    conf = site.settings.text("SLURM_CONF")
    for name in FILES if conf else ():
        try:
            with Path(conf).with_name(name).open("rb") as file:
                raw = file.read(_LARGEST_FILE + 1)
        except (OSError, ValueError):  # not there, not for us, or no path at all
            continue
        if len(raw) <= _LARGEST_FILE:
            site.files[name] = raw.decode(errors="replace")


def _try(site: Site, what: str, ask: Callable[[], _T]) -> _T | None:
    try:
        return ask()
    except CommandFailed as error:
        site.unread[what] = str(error)
        return None


def _clock_off(at: int, before: float, after: float) -> int | None:
    """0 where the controller's second lies between ours."""
    if not at:
        return None
    if at < int(before):
        return at - int(before)
    return max(0, at - int(after))


def _me() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def uid_of(user: str) -> int | None:
    """None for a name that this machine does not know."""
    try:
        return int(user) if re.fullmatch("[0-9]{1,9}", user) else pwd.getpwnam(user).pw_uid
    except KeyError:
        return None
