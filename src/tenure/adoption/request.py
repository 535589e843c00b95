"""From a held job of Slurm to a complete ``JobSpec``. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydantic import ValidationError

from tenure.adoption import wishes
from tenure.adoption.accounts import budget_of
from tenure.adoption.asked import Asked, spread
from tenure.api.requests import JobRequest
from tenure.api.submission import complete
from tenure.core.model import JobSpec
from tenure.core.reasons import Reason, Refusal
from tenure.core.state import State
from tenure.executors.slurm.marks import Mark
from tenure.executors.slurm.rows import Row
from tenure.scripts import values

_LONGEST_NAME = 60
_PRIORITY = 1_000_000
_REQUEUE = {"yes": True, "no": False}


def spec_of(
    row: Row,
    mark: Mark,
    asked: Asked,
    state: State,
    accounts: Mapping[str, str],
    clusters: Sequence[str],
    adopted: str,
) -> JobSpec:
    """The job that ``row`` is in Slurm. ``adopted``: what it is called there for good. Raises Refusal.

    ``clusters``: those of Tenure whose hosts are in this Slurm; empty: all.
    """
    wished = wishes.read(row.comment)
    bounds = [one.spec for name, one in state.clusters.items() if not clusters or name in clusters]
    largest = max((host.gpus for cluster in bounds for host in cluster.hosts), default=0)
    nodes, gpus = spread(asked, largest)
    body: dict[str, Any] = {
        "name": _printable(asked.name) or "job",
        "replicas": nodes,
        "gpus": gpus,
        "cpus": -(-asked.cpus_in_all // nodes),
        "command": [_printable(asked.command) or "job"],
        "timeout_ms": asked.timeout,
        "resumable": _REQUEUE.get(mark.said.get("requeue", "")) if row.batch else False,
        "priority": _priority(mark),
        "labels": _labels(asked, state),
        **_warning(mark, state),
    }
    if clusters:
        body["clusters"] = list(clusters)
    if asked.alone:
        body["cpus"] = min(host.cpus for cluster in bounds for host in cluster.hosts if host.gpus) // 1000
    if asked.memory_in_all is not None:
        body["memory_mib"] = -(-asked.memory_in_all // nodes)
    if "min_runtime" not in wished and asked.time_min is not None:
        body["min_runtime_ms"] = asked.time_min
    if wished.get("resumable") and not row.batch:
        fix = "srun and salloc have no script that could be run again; take it out of the comment"
        raise Refusal(Reason.BAD_VALUE, "resumable", "yes", fix)
    if "grace" in wished:
        body.pop("grace_ms", None)
    body |= wished
    if "budget" not in body:
        body["budget"] = budget_of(row.account, accounts, state.the_tree().budgets)
    try:
        request = JobRequest.model_validate(body)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        raise Refusal(Reason.BAD_VALUE, field, str(first["input"])[:100], first["msg"]) from error
    spec = complete(request, state, row.user).spec
    return replace(
        spec,
        roles=tuple(replace(role, apart=True) for role in spec.roles),
        execution=replace(spec.execution, workdir=asked.workdir, adopted=adopted),
    )


def _priority(mark: Mark) -> int:
    """Slurm's nice counts the other way round."""
    said = mark.number("priority")
    value = said if said is not None else -(mark.number("nice") or 0)
    return max(-_PRIORITY, min(value, _PRIORITY))


def _warning(mark: Mark, state: State) -> dict[str, Any]:
    """Signal and grace of the job's own ``--signal``; a longer grace than clusters give is cut to theirs."""
    try:
        signal, seconds = values.parse_signal(mark.said.get("signal", ""))
    except ValueError:
        return {}  # none, or one that no job of Tenure can be warned by
    if seconds is None:
        return {"warn_signal": signal}
    longest = min((cluster.spec.max_grace for cluster in state.clusters.values()), default=0)
    return {"warn_signal": signal, "grace_ms": min(seconds * 1000, longest)}


def _labels(asked: Asked, state: State) -> list[dict[str, Any]]:
    """Features as the import names them, and the type of GPU where hosts have one as a label."""
    keys = {key for cluster in state.clusters.values() for host in cluster.spec.hosts for key, _ in host.labels}
    labels = [{"key": feature, "value": "yes", "required": True} for feature in asked.features]
    if asked.kind and "gpu" in keys:
        labels.append({"key": "gpu", "value": asked.kind, "required": True})
    return labels


def _printable(text: str) -> str:
    return "".join(c for c in text if c.isprintable())[:_LONGEST_NAME]
