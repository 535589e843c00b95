"""The site that a report of ``sacct`` is of: live, or from what its other commands printed, or made up where neither is
at hand. All of it becomes a ``Site``, and goes the way of ``tenure slurm import`` from there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tenure.config.ranges import MAX_HOSTS
from tenure.shadow.lives import Life
from tenure.slurm import reading
from tenure.slurm.reading import Association, Node, Partition
from tenure.slurm.shares import ROOT
from tenure.slurm.site import Site

MADE = "main"
"""The partition, and so the cluster, of hosts that are made up."""
_CPUS_PER_GPU, _MIB_PER_GPU = 16, 128 * 1024
_NAMES = {"parentname": "parent", "par name": "parent", "share": "share", "fairshare": "share", "shares": "share"}
_FIELDS = ("cluster", "account", "user", "partition", "parent", "share")


class SiteError(ValueError):
    """What was given of a site cannot be used; the message says what, why, and what would do."""


@dataclass(slots=True)
class Given:
    """Texts of files: what ``sacctmgr show associations``, ``scontrol show config`` and ``show node`` print.

    ``cluster``: of Slurm, '' for the only one. ``gpus``: of hosts that are made up, with ``per_host`` each; None: as
    ``nodes`` says, or as many as the report had in use at a time.
    """

    associations: str | None = None
    config: str | None = None
    nodes: str | None = None
    cluster: str = ""
    gpus: int | None = None
    per_host: int = 8


def site_of(given: Given) -> Site:
    """Without accounts, unless they are given, and without hosts, unless nodes are. Raises SiteError."""
    site = Site()
    if given.config is not None:
        site.settings = reading.read_settings(given.config)
        if not site.settings.values:
            raise SiteError("slurm-config: this is not what `scontrol show config` prints")
    if given.nodes is not None:
        set_nodes(site, reading.read_nodes(_one_line_each(given.nodes)))
    if given.associations is not None:
        rows = read_associations(given.associations)
        names = sorted({row.cluster for row in rows if row.cluster})
        wanted = given.cluster or site.cluster
        if wanted and names and wanted not in names:
            raise SiteError(f"cluster = {wanted}: the associations are of {', '.join(names)}")
        if len(names) > 1 and not wanted:
            raise SiteError(f"associations: they are of several clusters ({', '.join(names)}); choose with --cluster")
        # Whatever the cluster is called elsewhere: these are its own.
        site.associations = tuple(replace(row, cluster="") for row in rows if not wanted or row.cluster in ("", wanted))
        if all(row.account == ROOT for row in site.associations):
            raise SiteError("associations: there is no account below root in them")
    return site


def set_nodes(site: Site, nodes: Sequence[Node]) -> None:
    """Hosts, and the partitions that they name. Raises SiteError."""
    if not any(node.gpu_count for node in nodes):
        raise SiteError("nodes: no node with GPUs (Gres=gpu:N) is in it; it takes what `scontrol show node` prints")
    site.nodes = tuple(nodes)
    names = dict.fromkeys(name for node in nodes for name in node.partitions)
    if not names:
        raise SiteError("nodes: no node names its partitions (Partitions=...)")
    site.partitions = tuple(Partition(name, False, {}) for name in names)


def make_hosts(site: Site, gpus: int, per_host: int) -> None:
    """As many equal hosts as it takes for ``gpus`` GPUs, in one partition. Raises SiteError for too many."""
    count = -(-gpus // per_host)
    if count > MAX_HOSTS:
        raise SiteError(
            f"gpus = {gpus}: with {per_host} in each that makes {count:,} hosts, and there are at most {MAX_HOSTS:,}; "
            "say what is there with --gpus and --gpus-per-host"
        )
    width = len(str(count))
    site.nodes = tuple(
        Node(
            f"host{number:0{width}d}",
            (("", per_host),),
            per_host * _CPUS_PER_GPU,
            per_host * _MIB_PER_GPU,
            partitions=(MADE,),
        )
        for number in range(1, count + 1)
    )
    site.partitions = (Partition(MADE, True, {}),)


def make_accounts(site: Site, lives: Sequence[Life], since: int, until: int) -> None:
    """Accounts below the root, each with a share by the GPU time that it used from ``since`` to ``until``, seconds
    since 1970.
    """
    time: dict[str, int] = {}
    for life in lives:
        spans = ((max(run.started, since), min(run.ended or until, until)) for run in life.runs)
        used = sum(max(0, end - start) for start, end in spans) * life.last.gpus
        time[life.last.account] = time.get(life.last.account, 0) + used
    rows = [Association("", ROOT, "", "", "", 1)]
    rows += [
        Association("", account, "", "", ROOT, max(1, used // 3600))
        for account, used in sorted(time.items())
        if account
    ]
    site.associations = tuple(rows)


def read_associations(text: str) -> tuple[Association, ...]:
    """``sacctmgr --parsable2 show associations``, with any ``format``: the header line names the columns. Without one
    (``--noheader``) the columns are those that ``tenure slurm import`` asks for. Raises SiteError.
    """
    lines = [line for line in text.splitlines() if line.strip()]
    columns = [_NAMES.get(name, name) for name in _cells(lines[0].lower().rstrip("|\r\n "))] if lines else []
    if "account" not in columns:
        rows = reading.read_associations(text)
        if not rows:
            raise SiteError(
                "associations: no header line with Account; print them with `sacctmgr --parsable2 show associations "
                f"format={reading.ASSOCIATION_FIELDS}`"
            )
        return rows
    if lacking := [name for name in ("parent", "share") if name not in columns]:
        named = {"parent": "ParentName", "share": "Share"}
        raise SiteError(f"associations: no column {', '.join(named[one] for one in lacking)}; name it in format=")
    found = []
    for line in lines[1:]:
        cells = _cells(line)
        if len(cells) == len(columns) + 1 and not cells[-1]:  # --parsable ends lines with a bar
            cells.pop()
        if len(cells) == len(columns):
            found.append(_association(dict(zip(columns, cells, strict=True))))
    return tuple(one for one in found if one.account)


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.split("|")]


def _association(row: Mapping[str, str]) -> Association:
    share = row["share"]
    number = reading.PARENT if share == "parent" else int(share) if share.isascii() and share.isdecimal() else 0
    values = {name: row.get(name, "") for name in _FIELDS if name != "share"}
    return Association(**values, share=number)


def _one_line_each(text: str) -> str:
    """``scontrol show node`` with or without ``-o``: there a node is a paragraph."""
    lines: list[str] = []
    for line in text.splitlines():
        if line.lstrip().startswith("NodeName="):
            lines.append(line.strip())
        elif lines and line.strip():
            lines[-1] += f" {line.strip()}"
    return "\n".join(lines)
