"""A configuration back to the texts of its two files. ``parse`` gives the same configuration again."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import fields
from itertools import groupby

from tenure.config.problems import key_text
from tenure.config.ranges import fold
from tenure.config.settings import COUNTS, Config, Discover, Notice, Server, Slurm, Smtp
from tenure.core.model import Budget, Cluster, Grant, Host, Policy
from tenure.units import format_cpus, format_duration, format_fraction, format_memory, format_time


def dump(config: Config, *, server: bool = True) -> tuple[str, str]:
    """``tenure.toml`` and ``budgets.toml``. Without ``server`` no paths and no database address are shown."""
    blocks = [_table("server", _settings(config.server))] if server else []
    if server and config.slurm != Slurm():
        blocks.append(_table("slurm", _slurm(config.slurm)))
    if server:
        blocks += [_table(f"slurm.{key_text(name)}", _slurm(own)) for name, own in config.slurm_of]
    if server and config.notice != Notice():
        blocks += _notice(config.notice)
    blocks.append(_table("policy", _settings(config.policy)))
    blocks += [_cluster(cluster, config.discover) for cluster in config.clusters]
    tree = [_budget(budget) for budget in config.budgets] + [_grant(grant) for grant in config.grants]
    return "\n".join(blocks), "\n".join(tree)


def _settings(record: Server | Slurm | Notice | Smtp | Policy | Cluster) -> dict[str, str]:
    """Every scalar of a record as TOML; numbers are durations but for the few that are counts."""
    lines: dict[str, str] = {}
    for field in fields(record):
        value = getattr(record, field.name)
        if field.name in ("name", "hosts") or value in ("", None) or isinstance(value, tuple | Smtp):
            continue
        if isinstance(value, bool):
            lines[field.name] = "true" if value else "false"
        elif isinstance(value, int) and field.name not in COUNTS:
            lines[field.name] = _text(format_duration(value, exact=True))
        else:
            lines[field.name] = str(value) if isinstance(value, int) else _text(str(value))
    return lines


def _slurm(slurm: Slurm) -> dict[str, str]:
    lines = _settings(slurm)
    if slurm.submit_as:
        lines["submit_as"] = f"[{', '.join(_text(word) for word in slurm.submit_as)}]"
    if slurm.accounts:
        lines["accounts"] = _inline({account: _text(path) for account, path in slurm.accounts})
    return lines


def _notice(notice: Notice) -> list[str]:
    lines = _settings(notice)
    for name, items in (("webhook_hosts", notice.webhook_hosts), ("mail_domains", notice.mail_domains)):
        if items:
            lines[name] = _list(items)
    smtp = _settings(notice.smtp)
    if "sender" in smtp:
        smtp["from"] = smtp.pop("sender")
    return [_table("notice", lines)] + ([_table("notice.smtp", smtp)] if notice.smtp != Smtp() else [])


def _cluster(cluster: Cluster, discover: Iterable[Discover]) -> str:
    lines = _settings(cluster)
    entries = [_inline(entry) for entry in _host_entries(cluster.hosts)]
    entries += [
        _inline({"discover": "true", **_machine(place.cpus, place.mem, place.labels)})
        for place in discover
        if place.cluster == cluster.name
    ]
    lines["hosts"] = "[\n" + "".join(f"    {entry},\n" for entry in entries) + "]"
    return _table(f"clusters.{key_text(cluster.name)}", lines)


def _host_entries(hosts: Iterable[Host]) -> Iterable[dict[str, str]]:
    """One entry for each run of hosts that differ only in their number."""
    for (gpus, cpus, mem, labels), run in groupby(hosts, key=lambda h: (h.gpus, h.cpus, h.mem, h.labels)):
        for name in fold(host.name for host in run):
            yield {"name": _text(name), "gpus": str(gpus), **_machine(cpus, mem, labels)}


def _machine(cpus: int, mem: int, labels: tuple[tuple[str, str], ...]) -> dict[str, str]:
    entry: dict[str, str] = {}
    if cpus:
        entry["cpus"] = format_cpus(cpus)
    if mem:
        entry["memory"] = _text(format_memory(mem))
    if labels:
        entry["labels"] = _inline({key: _text(value) for key, value in labels})
    return entry


def _budget(budget: Budget) -> str:
    lines: dict[str, str] = {}
    if "/" in budget.path:
        lines["share"] = format_fraction(budget.share)
    if budget.cluster_shares:
        lines["cluster_shares"] = _inline({name: format_fraction(share) for name, share in budget.cluster_shares})
    for kind, people in (("managers", budget.managers), ("members", budget.members)):
        if people:
            lines[kind] = _list(people)
    if budget.moved_from is not None:
        lines["moved_from"] = _text(budget.moved_from)
    return _table(".".join(key_text(part) for part in budget.path.split("/")), lines)


def _grant(grant: Grant) -> str:
    lines = {
        "to": _text(grant.to),
        "from": _list(grant.taken_from),
        "gpu_hours": str(grant.amount),
        "cluster": _text(grant.cluster),
        "start": format_time(grant.start),
        "end": format_time(grant.end),
    }
    return "[[grants]]\n" + "".join(f"{key} = {value}\n" for key, value in lines.items())


def _table(name: str, lines: Mapping[str, str]) -> str:
    return f"[{name}]\n" + "".join(f"{key} = {value}\n" for key, value in lines.items())


def _inline(entries: Mapping[str, str]) -> str:
    return "{ " + ", ".join(f"{key_text(key)} = {value}" for key, value in entries.items()) + " }"


def _list(items: Iterable[str]) -> str:
    return "[" + ", ".join(_text(item) for item in items) + "]"


def _text(text: str) -> str:
    """A TOML basic string: JSON's escapes are TOML's but for DEL, which JSON leaves as it is."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
