"""Scenarios: a small world in YAML, what happens in it line by line, and what is then decided and said.

A scenario is written for people first::

    - scenario: A budget that is owed more takes a host
      shows: [evicted_standing]
      hosts: 1
      budgets: {lab/a: 50%, lab/b: 50%}
      steps:
      - at: 0s
        do: [submit old to lab/b, 8 GPUs, min_runtime 1h]
        then: [start old on h0]
      - at: 2h
        do: [submit new to lab/a, 8 GPUs, min_runtime 1h]
        then: [claim new on h0, evict old for new]
        says:
          evict old for new: {code: evicted_standing, text: ..., numbers: {...}}

``hosts`` have 8 GPUs, 64 CPUs and 512G, four to a rack, unless ``host`` says otherwise; a map names several clusters.
``policy`` and ``cluster`` are settings by their names in the configuration. ``under``: another policy than Tenure's.
``manual``: replicas come up only by ``up JOB``, and stopped attempts end only by ``exit JOB CODE``. Time begins at
midnight; what happens between two steps is told with the later one, each line with its time. In ``numbers``, times are
counted from the beginning.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tenure import units
from tenure.core import decisions as d
from tenure.core.model import GPU, Cluster, Host, JobSpec, Label, Policy, Role
from tenure.core.reasons import Because, Number, Reason

MIDNIGHT = 1_799_971_200_000
"""2027-01-15, ms UTC."""
TIMES = frozenset(
    {
        *("checkpoint_at", "kill_at", "made_at", "planned_at", "started_at", "starts_by", "told", "turn_until"),
        "until",
    }
)
DURATIONS = frozenset({"limit", "timeout"})
GPU_TIME = frozenset({"gained", "lost"})
"""Thousandths of a GPU x ms."""


@dataclass(frozen=True)
class Said:
    """A reason, or a refusal with its field, value and fix, as it is expected."""

    code: str
    text: str = ""
    numbers: Mapping[str, Any] = field(default_factory=dict)
    field: str = ""
    value: str = ""
    fix: str = ""


@dataclass(frozen=True)
class Step:
    """``at``: ms since the beginning. ``then``: decisions since the step before, as lines. ``says``: by job or line."""

    at: int
    do: tuple[str, ...]
    then: tuple[str, ...]
    says: Mapping[str, Said]
    passes: bool = True
    """Whether a pass follows, or it is looked at before."""


@dataclass(frozen=True)
class Scenario:
    name: str
    shows: tuple[str, ...]
    clusters: tuple[Cluster, ...]
    budgets: Mapping[str, str]
    policy: Policy
    steps: tuple[Step, ...]
    settings: Mapping[str, Any]
    """As written, but for the steps."""

    @property
    def manual(self) -> bool:
        return bool(self.settings.get("manual", False))

    @property
    def under(self) -> str:
        return str(self.settings.get("under", ""))


def load(path: Path) -> list[Scenario]:
    """The scenarios of a file. Raises ValueError for a key that there is not."""
    return [_scenario(one) for one in yaml.safe_load(path.read_text("utf-8"))]


_KEYS = {"scenario", "shows", "hosts", "host", "cluster", "budgets", "policy", "under", "manual", "steps", "members"}


def _scenario(raw: dict[str, Any]) -> Scenario:
    if unknown := raw.keys() - _KEYS:
        raise ValueError(f"{raw.get('scenario')}: no such key: {', '.join(sorted(unknown))}")
    settings = {key: value for key, value in raw.items() if key not in ("scenario", "shows", "steps")}
    counts = raw["hosts"] if isinstance(raw["hosts"], dict) else {"main": raw["hosts"]}
    made = {key: _value(value) for key, value in raw.get("cluster", {}).items()}
    prefixes = dict(zip(counts, "hxyz", strict=False))
    clusters = tuple(
        Cluster(name, _hosts(count, prefixes[name], raw.get("host", {})), **made) for name, count in counts.items()
    )
    policy = Policy(**{key: _value(value) for key, value in raw.get("policy", {}).items()})
    shows, steps = tuple(raw["shows"]), tuple(_step(step) for step in raw["steps"])
    return Scenario(raw["scenario"], shows, clusters, raw["budgets"], policy, steps, settings)


def _value(value: Any) -> Any:
    """A setting: durations are written as such."""
    return units.parse_duration(value) if isinstance(value, str) and value[:1].isdigit() else value


def _hosts(count: int, prefix: str, size: Mapping[str, Any]) -> tuple[Host, ...]:
    gpus, cpus = int(size.get("gpus", 8)), units.parse_cpus(str(size.get("cpus", 64)))
    memory = units.parse_memory(size.get("memory", "512G"))
    return tuple(Host(f"{prefix}{i}", gpus, cpus, memory, (("rack", f"r{i // 4}"),)) for i in range(count))


def _step(raw: dict[str, Any]) -> Step:
    if unknown := raw.keys() - {"at", "do", "then", "says", "pass"}:
        raise ValueError(f"at {raw.get('at')}: no such key: {', '.join(sorted(unknown))}")
    says = {str(about): Said(**said) for about, said in (raw.get("says") or {}).items()}
    return Step(
        units.parse_duration(raw["at"]),
        tuple(raw.get("do") or ()),
        tuple(raw.get("then") or ()),
        says,
        raw.get("pass", True),
    )


# ---- jobs in a line


_GPUS = re.compile(r"(?:(\d+) x )?(\d+) GPUs?")
_EACH = re.compile(r"(\S+) (CPUs|memory) each")


@dataclass
class Wanted:
    """``lab/a, 2 x 8 GPUs, min_runtime 1h, by bob, after ok old``: a job, and what comes with its submission."""

    budget: str
    spec: dict[str, Any] = field(default_factory=dict)
    hold: str = ""
    array: str = ""
    after: list[tuple[str, bool]] = field(default_factory=list)
    """Names, and whether success is needed."""


def wanted(text: str) -> Wanted:
    """Read a job. Raises ValueError for a part that there is not."""
    budget, *parts = text.split(", ")
    job = Wanted(budget)
    shape = {"replicas": 1, "gpus": 8, "cpus": 0, "mem": 0}
    for part in parts:
        word, _, rest = part.partition(" ")
        if match := _GPUS.fullmatch(part):
            shape |= {"replicas": int(match[1] or 1), "gpus": int(match[2])}
        elif match := _EACH.fullmatch(part):
            is_cpus = match[2] == "CPUs"
            shape["cpus" if is_cpus else "mem"] = (units.parse_cpus if is_cpus else units.parse_memory)(match[1])
        elif word in ("min_runtime", "timeout", "grace"):
            job.spec[word] = units.parse_duration(rest)
        elif word in ("priority", "retries"):
            job.spec[word] = int(rest)
        elif part == "unallocated":
            job.spec["min_runtime"] = 0
        elif part == "not resumable":
            job.spec["resumable"] = False
        elif word == "by":
            job.spec["user"] = rest
        elif word == "on":
            job.spec["clusters"] = tuple(rest.split(" or "))
        elif word == "needs":
            key, _, value = rest.removeprefix("one ").partition("=")
            job.spec["labels"] = (Label(key, value or None, True),)
        elif word == "held":
            job.hold = rest.removeprefix("by ")
        elif word == "array":
            job.array = rest
        elif word == "after":
            how, _, name = rest.partition(" ")
            job.after.append((name, how == "ok"))
        else:
            raise ValueError(f"{part!r} says nothing about a job")
    job.spec["roles"] = (Role("main", command=("true",), **shape),)
    return job


# ---- what was decided and said, as it is written


def shown(because: Because, start: int = MIDNIGHT) -> dict[str, Any]:
    """The numbers of a reason: times counted from ``start``, durations and GPU-hours with their units."""
    return {key: _shown(key, value, start) for key, value in because.numbers.items()}


def _shown(key: str, value: Number, start: int) -> Any:
    if key in TIMES and isinstance(value, int):
        return _clock(value - start) if value else 0
    if key in DURATIONS and isinstance(value, int):
        return units.format_duration(value, exact=True)
    if key in GPU_TIME and isinstance(value, int):
        return f"{units.format_gpu_hours(value, 2)} GPU-hours"
    if key == "margin" and isinstance(value, int):
        return f"{units.format_gpu_hours(value * GPU, 2)} GPU-hours"
    if key in ("protected", "for") and isinstance(value, tuple):
        return [f"{name} until {_clock(int(str(until)) - start)}" for name, until in value]  # type: ignore[misc]
    return list(value) if isinstance(value, tuple) else value


def _clock(ms: int) -> str:
    return units.format_duration(ms, exact=True)


def lines(decision: d.Decision, names: Mapping[int, str]) -> Iterator[tuple[str, Because]]:
    """A decision as lines, one more for each victim, and the reason of each. ``names``: of jobs, by their ids."""

    def of(attempt_id: str) -> str:
        return names[int(attempt_id.partition(".")[0])]

    because = getattr(decision, "because", None)
    match decision:
        case d.Start() | d.Claim():
            hosts = ", ".join(sorted({slot.host for slot in decision.slots}))
            word = "start" if isinstance(decision, d.Start) else "claim"
            yield f"{word} {names[decision.job_id]} on {hosts}", decision.because
            for victim in decision.victims if isinstance(decision, d.Claim) else ():
                yield f"evict {of(victim.attempt_id)} for {names[decision.job_id]}", victim.because
        case d.Stop():
            yield f"evict {of(decision.victim.attempt_id)}", decision.victim.because
        case d.Stopping():
            yield f"stop {of(decision.victim.attempt_id)}", decision.victim.because
        case d.Reserve():
            yield f"reserve {', '.join(decision.hosts)} for {names[decision.job_id]}", decision.because
        case d.Headroom():
            yield f"keep {', '.join(decision.hosts) or 'no host'} for short contracts", decision.because
        case d.HostMarked():
            yield f"mark {decision.host} {decision.state}", decision.because
        case d.Credited():
            yield f"credit {of(decision.attempt_id)} with {_clock(decision.end - decision.start)}", decision.because
        case d.JobEnded():
            yield f"{names[decision.job_id]} has {_ENDED.get(decision.state, decision.state)}", decision.because
        case d.Requeued() | d.Unreserve() | d.ReservationLost():
            assert because is not None
            yield f"{_WORDS[type(decision)]} {names[decision.job_id]}", because
        case d.AttemptEnded() | d.ClaimOpened() | d.ClaimDropped():
            assert because is not None
            yield f"{_WORDS[type(decision)]} {of(decision.attempt_id)}", because


_WORDS: dict[type, str] = {
    d.Requeued: "requeue",
    d.Unreserve: "give up what is held for",
    d.ReservationLost: "nothing is held any more for",
    d.AttemptEnded: "attempt over of",
    d.ClaimOpened: "claim complete of",
    d.ClaimDropped: "claim dropped of",
}
_ENDED = {"cancelled": "been cancelled", "preempted": "been preempted"}


def missing(scenarios: Sequence[Scenario]) -> set[Reason]:
    """Reasons that no scenario shows."""
    return set(Reason) - {Reason(code) for one in scenarios for code in one.shows}


def spec_of(job: Wanted, clusters: Sequence[str], make: Any) -> JobSpec:
    """The job as its specification, made by ``World.spec``."""
    made: JobSpec = make(job.budget, **{"clusters": tuple(clusters), **job.spec})
    return made
