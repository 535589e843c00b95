"""From a request to a complete ``JobSpec``: every default filled in, and said with what it means. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from tenure import units
from tenure.api.models import Note
from tenure.api.requests import JobRequest, RoleRequest
from tenure.core.ledger import Kind
from tenure.core.model import MINUTE, Cluster, Contract, Execution, JobSpec, Label, Role
from tenure.core.reasons import Reason, Refusal
from tenure.core.state import State

_ONE_ROLE = ("gpus", "replicas", "cpus", "memory", "memory_mib", "command")
_INTERPRETERS = ("python", "python3", "bash", "sh", "torchrun")
_LITTLE = Role("", 1, 0, 1000, 1024)
"""CPUs and memory of a replica without GPUs that does not say."""


@dataclass(frozen=True, slots=True)
class Completed:
    spec: JobSpec
    notes: tuple[Note, ...]


def complete(request: JobRequest, state: State, user: str) -> Completed:
    """The job that ``user`` asks for. Raises Refusal for values that do not go together.

    Whether it could ever run is not looked at here: admission does that with the complete job.
    """
    notes: list[Note] = []
    clusters = _clusters(request, state, notes)
    bounds = [state.clusters[name].spec for name in clusters if name in state.clusters]
    bounds = bounds or [cluster.spec for cluster in state.clusters.values()][:1]
    if not bounds:
        raise Refusal(Reason.UNKNOWN_CLUSTER, "clusters", "(none)", "no cluster is configured yet; apply one")
    roles = _roles(request, bounds, notes)
    timeout = _duration(request, "timeout")
    contract = _contract(request, bounds, timeout, notes)
    spec = JobSpec(
        name=request.name or _name_of(roles),
        user=user,
        budget=request.budget,
        roles=roles,
        contract=contract,
        clusters=clusters,
        priority=request.priority,
        labels=_labels(request, bounds, roles, notes),
        timeout=timeout,
        grace=_grace(request, bounds, contract, notes),
        retries=request.retries,
        execution=_execution(request),
    )
    return Completed(spec, tuple(notes))


def _clusters(request: JobRequest, state: State, notes: list[Note]) -> tuple[str, ...]:
    if request.clusters is not None:
        return tuple(dict.fromkeys(request.clusters))
    names = list(state.clusters)
    funded = [name for name in names if _has_share(state, name, request.budget)]
    chosen = (funded or names)[:1]
    if len(names) > 1:
        why = "the first on which the budget has a share" if funded else "the first one"
        others = ", ".join(name for name in names if name not in chosen)
        notes.append(Note(field="clusters", value=chosen[0], text=f"{why}; others that you may name: {others}"))
    return tuple(chosen)


def _has_share(state: State, cluster: str, budget: str) -> bool:
    tree = state.the_tree()
    return budget in tree.nodes and state.clusters[cluster].ledger.account(tree.leaf_of(budget)).allocation > 0


def _roles(request: JobRequest, bounds: Sequence[Cluster], notes: list[Note]) -> tuple[Role, ...]:
    if request.roles is None:
        if request.command is None:
            raise Refusal(Reason.BAD_VALUE, "command", "(missing)", 'say what to run, like ["python", "train.py"]')
        wanted = [_one_role(request, request.command, notes)]
    else:
        for field in _ONE_ROLE:
            if getattr(request, field) is not None:
                shown = str(getattr(request, field))
                raise Refusal(Reason.BAD_VALUE, field, shown, "there are roles: say it in each of them")
        wanted = request.roles
    names = [role.name for role in wanted]
    for i, name in enumerate(names):
        if name in names[:i]:
            raise Refusal(Reason.BAD_VALUE, f"roles[{i}].name", name, "give each role a name of its own")
    roles = tuple(_role(role, i, request, bounds) for i, role in enumerate(wanted))
    if any(role.cpus is None or (role.memory is None and role.memory_mib is None) for role in wanted):
        first = roles[0]
        notes.append(
            Note(
                field="cpus, memory",
                value=f"{units.format_cpus(first.cpus)} CPUs, {units.format_memory(first.mem)} a replica",
                text="the part of a host that goes with its GPUs; more than that is charged as more GPUs",
            )
        )
    return roles


def _one_role(request: JobRequest, command: list[str], notes: list[Note]) -> RoleRequest:
    if request.gpus is None:
        notes.append(Note(field="gpus", value="1", text="for each replica"))
    return RoleRequest(
        replicas=1 if request.replicas is None else request.replicas,
        gpus=1 if request.gpus is None else request.gpus,
        cpus=request.cpus,
        memory=request.memory,
        memory_mib=request.memory_mib,
        command=command,
    )


def _role(role: RoleRequest, index: int, request: JobRequest, bounds: Sequence[Cluster]) -> Role:
    place = f"roles[{index}]." if request.roles is not None else ""
    if role.memory is not None and role.memory_mib is not None:
        raise Refusal(Reason.BAD_VALUE, f"{place}memory_mib", str(role.memory_mib), "there is memory: say it once")
    cpus, mem = _part_of_host(role.gpus, bounds)
    if role.cpus is not None:
        cpus = units.parse_cpus(str(role.cpus))
    if role.memory is not None:
        mem = units.parse_memory(role.memory)
    elif role.memory_mib is not None:
        mem = role.memory_mib
    return Role(role.name, role.replicas, role.gpus, cpus, mem, tuple(role.command))


def _part_of_host(gpus: int, bounds: Sequence[Cluster]) -> tuple[int, int]:
    """CPUs and memory that go with ``gpus`` GPUs on every host that the job may get."""
    hosts = [host for cluster in bounds for host in cluster.hosts if host.gpus > 0]
    if not gpus or not hosts:
        return _LITTLE.cpus, _LITTLE.mem
    return min(host.cpus * gpus // host.gpus for host in hosts), min(host.mem * gpus // host.gpus for host in hosts)


def _labels(
    request: JobRequest, bounds: Sequence[Cluster], roles: Sequence[Role], notes: list[Note]
) -> tuple[Label, ...]:
    """What is asked for; a gang that asks for nothing is kept together as its first cluster says."""
    together = bounds[0].gang_label
    if request.labels or not together or sum(role.replicas for role in roles) == 1:
        return tuple(Label(wish.key, wish.value, wish.required) for wish in request.labels)
    text = f"its replicas go where {together} is the same, or to as few of them as possible; it never waits for that"
    notes.append(Note(field="labels", value=f"{together} (preferred)", text=text))
    return (Label(together, None, required=False),)


def _contract(request: JobRequest, bounds: Sequence[Cluster], timeout: int | None, notes: list[Note]) -> Contract:
    first = bounds[0]
    min_runtime = _duration(request, "min_runtime")
    if min_runtime is None:
        min_runtime = first.default_min_runtime
        if timeout is not None and first.min_runtime_floor <= timeout < min_runtime:
            min_runtime = timeout
        notes.append(Note(field="min_runtime", value=units.format_duration(min_runtime), text=_meaning(min_runtime)))
    resumable = request.resumable
    if resumable is None:
        resumable = first.default_resumable
        meaning = (
            "when it is evicted, it queues again and starts anew with its checkpoint directory"
            if resumable
            else "when it is evicted, it ends; say resumable if it can go on from a checkpoint"
        )
        notes.append(Note(field="resumable", value="yes" if resumable else "no", text=meaning))
    return Contract(min_runtime, resumable)


def _meaning(min_runtime: int) -> str:
    if not min_runtime:
        return "free of charge, and may be evicted at any time"
    length = units.format_duration(min_runtime)
    return (
        f"nobody evicts it before it has run for {length}; after that it runs on for as long as nothing that comes "
        "first needs its GPUs; its budget is charged for all of it"
    )


def _grace(request: JobRequest, bounds: Sequence[Cluster], contract: Contract, notes: list[Note]) -> int:
    grace = _duration(request, "grace")
    if grace is not None:
        return grace
    grace = min(5 * MINUTE, *(cluster.max_grace for cluster in bounds))
    kind = Kind.CHARGED if contract.min_runtime else Kind.UNALLOCATED
    real = grace if kind is Kind.CHARGED else min(grace, *(cluster.unallocated_grace for cluster in bounds))
    text = f"between the warning ({request.warn_signal}) and the kill, when it is evicted"
    notes.append(Note(field="grace", value=units.format_duration(real), text=text))
    return grace


def _duration(request: JobRequest, name: str) -> int | None:
    """Milliseconds from the text field or the one in ms, None when neither was given."""
    text, ms = getattr(request, name), getattr(request, f"{name}_ms")
    if text is not None and ms is not None:
        raise Refusal(Reason.BAD_VALUE, f"{name}_ms", str(ms), f"there is {name} = {text} already: say it once")
    return units.parse_duration(text) if text is not None else ms


def _execution(request: JobRequest) -> Execution:
    for name in request.env:
        if "=" in name:
            raise Refusal(Reason.BAD_VALUE, "env", name, "a variable's name has no =")
    if request.workdir is not None and not request.workdir.startswith("/"):
        raise Refusal(Reason.BAD_VALUE, "workdir", request.workdir, "write the whole path, from / on")
    return Execution(
        workdir=request.workdir or "",
        env=tuple(sorted(request.env.items())),
        launch=request.launch,
        warn_signal=request.warn_signal,
    )


def _name_of(roles: Sequence[Role]) -> str:
    """``python -m lab.train`` -> ``lab.train``; ``python train.py`` -> ``train.py``."""
    words = [PurePosixPath(word).name or word for word in roles[0].command[:8]]
    if (words[0] in _INTERPRETERS or words[0].startswith("python3.")) and "-c" not in words:
        for word in words[1:]:
            if word and not word.startswith("-"):
                return _short(word)
    return _short(words[0])


def _short(word: str) -> str:
    """What is left of a word without what a name cannot have."""
    kept = "".join(c for c in word if c.isprintable())[:60]
    return kept or "job"
