"""``tenure.toml``: server, policy, clusters and hosts."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

from tenure.config.problems import MISSING, Problem, dotted, show
from tenure.config.ranges import MAX_HOSTS, expand
from tenure.config.schema import (
    ClusterTable,
    HostDefaults,
    HostTable,
    NoticeTable,
    Place,
    PolicyTable,
    ServerTable,
    SlurmTable,
    SmtpTable,
    Table,
    TopTable,
    validate,
)
from tenure.config.settings import LOOK_AT_LEAST, Discover, Notice, Server, Slurm, Smtp
from tenure.core.model import Cluster, Host, Policy
from tenure.units import UnitError

BUDGETS_FILE = "budgets.toml"


class ClusterFile:
    """What ``tenure.toml`` says, as far as it could be read; ``problems`` has the rest."""

    def __init__(self, data: dict[str, Any], file: str) -> None:
        self.file = file
        self.problems: list[Problem] = []
        self.clusters: list[Cluster] = []
        self.discover: list[Discover] = []
        top = validate(TopTable, data, file, (), self.problems)
        self.budgets_file = top.budgets if top and top.budgets is not None else BUDGETS_FILE
        self.server = self._server(data.get("server", {}))
        slurm = data.get("slurm", {})
        of = (
            {name: table for name, table in slurm.items() if isinstance(table, dict) and name != "accounts"}
            if isinstance(slurm, dict)
            else {}
        )
        self.slurm = self._slurm({key: slurm[key] for key in slurm if key not in of} if of else slurm, ("slurm",))
        self.slurm_of = {name: self._slurm(table, ("slurm", name)) for name, table in of.items()}
        self.notice = self._notice(data.get("notice", {}))
        self.policy = self._policy(data.get("policy", {}))
        self._read_clusters(data.get("clusters"))

    def _server(self, data: object) -> Server:
        table = validate(ServerTable, data, self.file, ("server",), self.problems)
        given = _given(table)
        if "data_dir" in given:
            given["data_dir"] = Path(given["data_dir"])
        return Server(**given)

    def _slurm(self, data: object, place: Place) -> Slurm:
        given = _given(validate(SlurmTable, data, self.file, place, self.problems))
        for name in ("root", "commands", "conf"):
            if name in given:
                given[name] = Path(given[name])
        given["submit_as"] = tuple(given.get("submit_as", ()))
        given["accounts"] = tuple(sorted(given.get("accounts", {}).items()))
        return Slurm(**given)

    def _notice(self, data: object) -> Notice:
        given = _given(validate(NoticeTable, data, self.file, ("notice",), self.problems))
        smtp = _given(validate(SmtpTable, given.pop("smtp", {}), self.file, ("notice", "smtp"), self.problems))
        for table, name in ((given, "secret_file"), (smtp, "password_file")):
            if name in table:
                table[name] = Path(table[name])
        for name in ("webhook_hosts", "mail_domains"):
            given[name] = tuple(given.get(name, ()))
        return Notice(smtp=Smtp(**smtp), **given)

    def _policy(self, data: object) -> Policy:
        given = _given(validate(PolicyTable, data, self.file, ("policy",), self.problems))
        # What is not set follows what is: a short lookback does not ask for three more settings.
        default = Policy()
        lookback = given.get("lookback", default.lookback)
        for name in ("recent", "entitlement_floor", "preemption_margin"):
            given.setdefault(name, min(getattr(default, name), lookback))
        given.setdefault("look_every", min(default.look_every, max(LOOK_AT_LEAST, lookback)))
        given.setdefault("backoff_max", max(default.backoff_max, given.get("backoff_first", 0)))
        return Policy(**given)

    def _read_clusters(self, data: object) -> None:
        if not isinstance(data, dict) or not data:
            value = MISSING if data is None else show(data)
            self.problems.append(
                Problem(self.file, "clusters", value, "declare at least one: [clusters.NAME] with its hosts")
            )
            return
        for name, table in data.items():
            self._read_cluster(name, table)

    def _read_cluster(self, name: str, data: object) -> None:
        place = ("clusters", name)
        table = validate(ClusterTable, data, self.file, place, self.problems)
        if table is None:
            return
        defaults = HostDefaults()
        if table.every_host is not None:
            place_of_defaults = (*place, "every_host")
            defaults = validate(HostDefaults, table.every_host, self.file, place_of_defaults, self.problems) or defaults
        hosts: list[Host] = []
        for index, host in enumerate(table.hosts):
            hosts += self._read_host(name, host, defaults, (*place, "hosts", index))
            if len(hosts) + sum(len(cluster.hosts) for cluster in self.clusters) > MAX_HOSTS:
                self._add((*place, "hosts"), f"more than {MAX_HOSTS}", "that many hosts at most, over all clusters")
                return
        given = _given(table, leave_out={"hosts", "every_host"})
        self.clusters.append(Cluster(name=name, hosts=tuple(hosts), **_fitted(given)))

    def _read_host(self, cluster: str, data: object, defaults: HostDefaults, place: Place) -> list[Host]:
        table = validate(HostTable, data, self.file, place, self.problems)
        if table is None:
            return []
        labels = tuple(sorted({**defaults.labels, **table.labels}.items()))
        cpus = _first(table.cpus, defaults.cpus)
        mem = _first(table.memory, defaults.memory)
        if table.discover:
            if table.name is not None or table.gpus is not None:
                field = "name" if table.name is not None else "gpus"
                value = show(getattr(table, field))
                self._add((*place, field), value, "discover = true finds this out; leave it away")
            self.discover.append(Discover(cluster, cpus or 0, mem or 0, labels))
            return []
        gpus = _first(table.gpus, defaults.gpus)
        if table.name is None:
            self._add((*place, "name"), MISSING, 'name the host, or a range of them: name = "n[01-16]"')
        if gpus is None:
            self._add((*place, "gpus"), MISSING, "say how many GPUs it has: gpus = 8 (or in every_host)")
        for field, amount in (("cpus", cpus), ("memory", mem)):
            if amount == 0:
                self._add((*place, field), "0", f"leave {field} away to take it from the machine")
        try:
            names = expand(table.name or "")
        except UnitError as error:
            self._add((*place, "name"), show(table.name), error.fix)
            return []
        return [Host(name, gpus or 0, cpus or 0, mem or 0, labels) for name in names]

    def _add(self, place: Place, value: str, remedy: str) -> None:
        self.problems.append(Problem(self.file, dotted(place), value, remedy))


def _first(*values: int | None) -> int | None:
    return next((value for value in values if value is not None), None)


def _given(table: Table | None, leave_out: set[str] | None = None) -> dict[str, Any]:
    """What the file sets, without what it leaves to the defaults."""
    return table.model_dump(exclude_none=True, exclude=leave_out) if table is not None else {}


def _fitted(given: dict[str, Any]) -> dict[str, Any]:
    """Defaults of a cluster that are not set follow the bounds that are."""
    default = {f.name: f.default for f in fields(Cluster)}
    floor = given.get("min_runtime_floor", default["min_runtime_floor"])
    longest = given.get("min_runtime_max", default["min_runtime_max"])
    given.setdefault("min_runtime_floor", min(floor, longest))
    given.setdefault("min_runtime_max", max(floor, longest))
    usual = default["default_min_runtime"]
    given.setdefault("default_min_runtime", min(max(usual, given["min_runtime_floor"]), given["min_runtime_max"]))
    grace = given.get("max_grace", default["max_grace"])
    given.setdefault("unallocated_grace", min(default["unallocated_grace"], grace))
    return given
