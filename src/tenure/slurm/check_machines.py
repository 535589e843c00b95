"""The doctor on hosts, GPUs and partitions."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from tenure.config.ranges import fold
from tenure.core.model import Cluster
from tenure.slurm.findings import Finding, Level
from tenure.slurm.reading import Node, Partition
from tenure.slurm.site import Site
from tenure.units import UnitError, format_duration, parse_duration

_LONGEST = Cluster("", ()).min_runtime_max
_GONE = frozenset({"DOWN", "NOT_RESPONDING", "FAIL", "UNKNOWN"})
_BROKEN_GRES = re.compile(r"gres/gpu|invalid.*gres", re.IGNORECASE)


def check_machines(site: Site, chosen: Sequence[str]) -> Iterable[Finding]:
    yield from _gres_types(site)
    if not chosen:
        why = "Tenure schedules GPUs; a partition without any has nothing for it"
        yield Finding("partitions", Level.MUST, "no partition has GPUs", "at least one", why)
    for partition in site.partitions:
        if partition.name in chosen:
            yield from _partition(site, partition)
    nodes = [node for node in site.nodes if any(name in chosen for name in node.partitions)]
    yield from _gres_files(site, nodes)
    yield from _devices(site)
    yield from _states(nodes)
    yield from _shared(nodes, chosen)


def _gres_types(site: Site) -> Iterable[Finding]:
    types = site.settings.words("GresTypes")
    there = "gpu" in types
    why = "GPUs are no resource for Slurm otherwise"
    line = "" if there else "GresTypes=" + ",".join([*types, "gpu"])
    yield Finding("gres_types", Level.FINE if there else Level.MUST, ",".join(types) or "none", "gpu", why, line)


def _partition(site: Site, partition: Partition) -> Iterable[Finding]:
    members = site.members(partition.name)
    yield _counts(partition.name, members)
    if partition.text("State") not in ("UP", ""):
        found = f"{partition.name} is {partition.text('State')}"
        line = f"PartitionName={partition.name} ... State=UP"
        yield Finding("partition_state", Level.MUST, found, "UP", "nothing starts there otherwise", line)
    sharing = partition.text("OverSubscribe").upper()
    if sharing == "EXCLUSIVE" or sharing.startswith("FORCE"):
        why = "Tenure places by the GPU: EXCLUSIVE gives a job whole hosts, FORCE lets jobs share cores"
        line = f"PartitionName={partition.name} ... OverSubscribe=NO"
        yield Finding("over_subscribe", Level.SHOULD, f"{partition.name}: {sharing}", "NO", why, line)
    yield from _max_time(partition)


def _max_time(partition: Partition) -> Iterable[Finding]:
    limit = partition.text("MaxTime")
    found, wanted = (
        f"{partition.name}: {limit or 'none'}",
        f"{format_duration(_LONGEST)} or more, the longest min_runtime",
    )
    why = "Slurm ends a job at its time limit, protected or not"
    try:
        enough = limit in ("UNLIMITED", "INFINITE", "") or parse_duration(limit) >= _LONGEST
    except UnitError:
        yield Finding("max_time", Level.CANNOT_TELL, found, wanted, why)
        return
    level = Level.FINE if enough else Level.SHOULD
    line = "" if enough else f"PartitionName={partition.name} ... MaxTime=UNLIMITED"
    yield Finding("max_time", level, found, wanted, why, line)


def _counts(name: str, members: Sequence[Node]) -> Finding:
    kinds = Counter(_gpus(node) for node in members)
    found = f"{name}: " + ", ".join(f"{count} x {kind}" for kind, count in kinds.most_common(4))
    types = {kind for node in members for kind, _ in node.gpus}
    wanted = "hosts of one GPU type, with as many GPUs each"
    if not any(node.gpu_count for node in members):
        why = "Tenure schedules GPUs; this partition has none"
        return Finding("gpus", Level.MUST, found, wanted, why, "NodeName=... Gres=gpu:8")
    if len(types) > 1:
        why = "a cluster is hosts of one GPU type: shares and usage would add up unlike things; make one for each type"
        return Finding("gpus", Level.SHOULD, found, wanted, why, "# one partition for each GPU type")
    if len(kinds) > 1:
        why = "hosts without GPUs are left out, and gangs of whole hosts need equal ones"
        return Finding("gpus", Level.FINE, found, wanted, why)
    return Finding("gpus", Level.FINE, found, wanted, "all alike")


def _gpus(node: Node) -> str:
    return "+".join(f"{count} {kind or 'GPUs'}" for kind, count in node.gpus) or "no GPUs"


def _gres_files(site: Site, nodes: Sequence[Node]) -> Iterable[Finding]:
    wanted = "File= (or AutoDetect) in gres.conf for every GPU"
    why = "with a bare count Slurm knows no devices: hosts are invalid, or CUDA_VISIBLE_DEVICES stays empty"
    line = "gres.conf: NodeName=... Name=gpu File=/dev/nvidia[0-7]"
    broken = [node for node in nodes if "INVALID_REG" in node.states or "INVAL" in node.states]
    broken += [node for node in nodes if node not in broken and _BROKEN_GRES.search(node.reason)]
    text = site.files.get("gres.conf")
    if broken:
        found = f"{_names(broken)}: {broken[0].reason or 'invalid registration'}"
        yield Finding("gres_file", Level.MUST, found, wanted, why, line)
    elif text is None:
        yield Finding("gres_file", Level.CANNOT_TELL, "gres.conf is not on this machine", wanted, why)
    else:
        lines = [line.partition("#")[0] for line in text.splitlines()]
        detects = any(re.search(r"\bautodetect=(?!off)\w", line, re.IGNORECASE) for line in lines)
        gpus = [line for line in lines if re.search(r"\bname=gpu\b", line, re.IGNORECASE)]
        bare = [line.strip() for line in gpus if not re.search(r"\bfiles?=|\bmultiplefiles=", line, re.IGNORECASE)]
        if detects or (gpus and not bare):
            yield Finding("gres_file", Level.FINE, "AutoDetect" if detects else "File=", wanted, why)
        else:
            found = bare[0] if bare else "gres.conf has no line for gpu"
            yield Finding("gres_file", Level.MUST, found, wanted, why, line)


def _devices(site: Site) -> Iterable[Finding]:
    cgroup = dict(site.settings.cgroup)
    for line in site.files.get("cgroup.conf", "").lower().splitlines():
        key, equals, value = line.partition("#")[0].partition("=")
        if equals:
            cgroup.setdefault(key.strip(), value.strip())
    tasks = site.settings.words("TaskPlugin")
    on = cgroup.get("constraindevices", "").lower() in ("yes", "true", "1") and "task/cgroup" in tasks
    wanted = "ConstrainDevices=no"
    why = "Tenure chooses GPUs by number and sets CUDA_VISIBLE_DEVICES; Slurm would confine jobs to those it chose"
    if on:
        yield Finding("constrain_devices", Level.MUST, "yes", wanted, why, "cgroup.conf: ConstrainDevices=no")
    elif "task/cgroup" in tasks and not cgroup:
        yield Finding("constrain_devices", Level.CANNOT_TELL, "cgroup.conf is not here", wanted, why)
    else:
        yield Finding("constrain_devices", Level.FINE, "no", wanted, why)
    kind = site.settings.text("ProctrackType")
    level = Level.FINE if kind == "proctrack/cgroup" else Level.SHOULD
    why = "processes that leave their group are not found otherwise, and keep their GPUs after an eviction"
    line = "" if level is Level.FINE else "ProctrackType=proctrack/cgroup"
    yield Finding("proctrack", level, kind, "proctrack/cgroup", why, line)


def _states(nodes: Sequence[Node]) -> Iterable[Finding]:
    away = [node for node in nodes if node.states & _GONE]
    if away:
        why = "they are declared, but nothing can start there"
        yield Finding("nodes_down", Level.SHOULD, _names(away), "all hosts answer", why, "# see scontrol show node")
    versions = Counter(node.version for node in nodes if node.version)
    if len(versions) > 1:
        found = ", ".join(f"{count} x {version}" for version, count in versions.most_common(4))
        yield Finding("node_versions", Level.SHOULD, found, "one version", "Tenure is tested with one on all hosts")


def _shared(nodes: Sequence[Node], chosen: Sequence[str]) -> Iterable[Finding]:
    others = sorted({name for node in nodes for name in node.partitions if name not in chosen})
    wanted = "hosts of Tenure's partitions are in no other"
    if others:
        count = sum(any(name in others for name in node.partitions) for node in nodes)
        found = f"{count} hosts are in {', '.join(others[:5])} as well"
        why = "Slurm starts jobs of those partitions there without asking; Tenure can only count what they occupy"
        yield Finding("shared_nodes", Level.SHOULD, found, wanted, why, "# take them out of one of the two")
    else:
        yield Finding("shared_nodes", Level.FINE, "none is", wanted, "nobody else starts jobs there")


def _names(nodes: Sequence[Node]) -> str:
    folded = fold(node.name for node in nodes)
    return ", ".join(folded[:5]) + (f" and {len(folded) - 5} more" if len(folded) > 5 else "")
