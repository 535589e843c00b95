"""How many replicas, and what each of them gets, from nodes, tasks, GPUs, CPUs and memory as sbatch counts them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from tenure.scripts import values
from tenure.scripts.errors import COMMAND_LINE, Given
from tenure.scripts.values import Gpus

T = TypeVar("T")
FAMILIES = (("mem", "mem-per-cpu", "mem-per-gpu"), ("gpus-per-node", "gres"))
"""Only one of each can be said."""
MEMORY = ("mem", "mem-per-cpu", "mem-per-gpu")
GPUS = ("gpus", "gpus-per-node", "gpus-per-task", "gres")
OPTIONS = ("nodes", "ntasks", "ntasks-per-node", "cpus-per-task", "cpus-per-gpu", "mincpus", *GPUS, *MEMORY)


@dataclass(frozen=True, slots=True)
class Shape:
    """``gpus``, ``cpus`` and ``memory`` (MiB) are of each node; None was not said.

    ``kind``: the option that names a type of GPU. ``made_of``: which options said it.
    """

    nodes: int = 1
    tasks: int = 1
    tasks_per_node: int = 1
    gpus: int | None = None
    cpus: int | None = None
    memory: int | None = None
    kind: Given | None = None
    made_of: Mapping[str, tuple[Given, ...]] | None = None

    def origin(self, field: str) -> str:
        return ", ".join(f"{one.text} ({one.place})" for one in (self.made_of or {}).get(field, ()))

    def typed(self, field: str) -> bool:
        """Whether the command line has a part in it."""
        return any(one.place == COMMAND_LINE for one in (self.made_of or {}).get(field, ()))


def value_of(given: Given, parse: Callable[[str], T]) -> T:
    """The value of an option. Raises ScriptError with its place."""
    try:
        return parse(given.value or "")
    except ValueError as error:
        raise given.error(str(error)) from error


class _Counting:
    """One option after the other, remembering which were used."""

    def __init__(self, given: Mapping[str, Given]) -> None:
        self.given = given
        self.made_of: dict[str, tuple[Given, ...]] = {}

    def get(self, name: str, parse: Callable[[str], T]) -> T | None:
        return value_of(self.given[name], parse) if name in self.given else None

    def count(self, name: str) -> int | None:
        return self.get(name, values.parse_count)

    def used(self, field: str, *names: str) -> None:
        self.made_of[field] = tuple(self.given[name] for name in names if name in self.given)


def shape(given: Mapping[str, Given]) -> Shape:
    """What these options ask for. Raises ScriptError for values that do not work or do not go together."""
    for one, other in (("cpus-per-task", "cpus-per-gpu"), *(pair for family in FAMILIES for pair in _pairs(family))):
        if one in given and other in given:
            raise given[other].error(f"there is --{one} as well ({given[one].place}): say one of them")
    counting = _Counting(given)
    nodes, tasks = _nodes_and_tasks(counting)
    here = -(-tasks // nodes)
    gpus, kind = _gpus(counting, nodes, tasks, here)
    cpus = _cpus(counting, here, gpus)
    return Shape(
        nodes=nodes,
        tasks=tasks,
        tasks_per_node=here,
        gpus=gpus,
        cpus=cpus,
        memory=_memory(counting, cpus or here, gpus),
        kind=kind,
        made_of=counting.made_of,
    )


def _pairs(names: tuple[str, ...]) -> list[tuple[str, str]]:
    return [(one, other) for i, one in enumerate(names) for other in names[i + 1 :]]


def _nodes_and_tasks(counting: _Counting) -> tuple[int, int]:
    given = counting.given
    nodes = counting.get("nodes", values.parse_nodes)
    tasks, each = counting.count("ntasks"), counting.count("ntasks-per-node")
    in_all, on_node = counting.get("gpus", values.parse_gpus), _on_node(counting)[0]
    for_task = counting.get("gpus-per-task", values.parse_gpus)
    if nodes is None and tasks is not None and each is not None:
        nodes = -(-tasks // each)
    if nodes is None and in_all and on_node and on_node.number:
        nodes = _divided(given["gpus"], in_all.number, on_node.number, "GPUs of a node")
    if tasks is None and each is None and in_all and for_task and for_task.number:
        tasks = _divided(given["gpus"], in_all.number, for_task.number, "GPUs of a task")
    nodes = max(1, nodes or 1)
    if tasks is None:
        tasks = nodes * (each or 1)
    elif each is not None and tasks > nodes * each:
        raise given["ntasks"].error(
            f"{nodes} nodes with {each} tasks each hold {nodes * each}: say fewer, or more nodes"
        )
    counting.used("replicas", "nodes", "ntasks", "ntasks-per-node", "gpus")
    # As sbatch: a node without a task is not asked for.
    return min(nodes, tasks), tasks


def _divided(given: Given, number: int, by: int, of_what: str) -> int:
    if number % by:
        raise given.error(f"it is no multiple of the {by} {of_what}")
    return number // by


def _on_node(counting: _Counting) -> tuple[Gpus | None, str]:
    if "gres" in counting.given:
        return counting.get("gres", values.parse_gres), "gres"
    return counting.get("gpus-per-node", values.parse_gpus), "gpus-per-node"


def _gpus(counting: _Counting, nodes: int, tasks: int, here: int) -> tuple[int | None, Given | None]:
    """GPUs of a node, and the option that names a type of them."""
    given = counting.given
    on_node, name = _on_node(counting)
    in_all = counting.get("gpus", values.parse_gpus)
    for_task = counting.get("gpus-per-task", values.parse_gpus)
    said: list[tuple[str, int]] = []
    kinds = [(one, gpus) for one, gpus in ((name, on_node), ("gpus", in_all), ("gpus-per-task", for_task)) if gpus]
    if on_node:
        said.append((name, on_node.number))
    if for_task:
        said.append(("gpus-per-task", for_task.number * here))
    if in_all:
        said.append(("gpus", _divided(given["gpus"], in_all.number, nodes, "nodes")))
    if not said:
        return None, None
    for other, number in said[1:]:
        if number != said[0][1]:
            first, count = said[0]
            raise given[other].error(
                f"that is {number} GPUs a node with {nodes} nodes and {tasks} tasks, and --{first} says {count}"
            )
    if said[0][1] == 0:
        raise given[said[0][0]].error("a job has at least one GPU here; leave it out, and it gets one")
    counting.used("gpus", *(one for one, _ in said))
    types = {gpus.kind: one for one, gpus in kinds if gpus.kind}
    if len(types) > 1:
        raise given[list(types.values())[1]].error(f"one job has one type of GPU, not {' and '.join(types)}")
    return said[0][1], given[next(iter(types.values()))] if types else None


def _cpus(counting: _Counting, here: int, gpus: int | None) -> int | None:
    for_task, for_gpu = counting.count("cpus-per-task"), counting.count("cpus-per-gpu")
    least = counting.get("mincpus", lambda text: values.parse_count(text, least=0))
    counting.used("cpus", "cpus-per-task", "cpus-per-gpu", "mincpus")
    if for_gpu is not None and not gpus:
        raise counting.given["cpus-per-gpu"].error("say how many GPUs: --gpus-per-node=N")
    if for_task is not None:
        return max(for_task * here, least or 0)
    if for_gpu is not None and gpus:
        return max(for_gpu * gpus, least or 0)
    # Otherwise the GPUs' part of a host, which is better than the one CPU a task of sbatch.
    return max(least, here) if least is not None else None


def _memory(counting: _Counting, cpus: int, gpus: int | None) -> int | None:
    whole, for_cpu, for_gpu = (counting.get(name, values.parse_memory) for name in MEMORY)
    counting.used("memory", *MEMORY)
    if for_gpu and not gpus:
        raise counting.given["mem-per-gpu"].error("say how many GPUs: --gpus-per-node=N")
    return whole or (for_cpu or 0) * cpus or (for_gpu or 0) * (gpus or 0) or None
