"""What would help a job that waits: changes of it, each tried on the state as it is, and kept only if it has an effect.

A change is made by cancelling the job and submitting it again, so what is told holds for that. Where the job has
something to lose by it (hosts that are held for it and that others would take, its place in an array, others that wait
for it), the changed one is tried *beside* it: it may be submitted first, and the job cancelled when that has started.
Of each kind of change the smallest one that works is told.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain

from tenure import units, words
from tenure.core import admission
from tenure.core.decisions import Claim, Reserve, Start
from tenure.core.lifecycle import JobState
from tenure.core.model import MINUTE, SECOND, SHORT_GPUS, SHORT_RUNTIME, JobSpec, Role, Word
from tenure.core.reasons import Refusal
from tenure.core.state import Job, State
from tenure.core.trial import Trials, hypothetical
from tenure.why.plan import Victim, starts_by, victim

MOST = 5
"""Options that are told."""
NAMED = 3
"""Victims that a sentence names at most."""


class Change(Word):
    """In the order in which they are told: the least change first."""

    LABELS = "labels"
    CLUSTER = "cluster"
    MIN_RUNTIME = "min_runtime"
    REPLICAS = "replicas"
    GPUS = "gpus"
    SHORT = "short"
    UNALLOCATED = "unallocated"


@dataclass(frozen=True, slots=True)
class Option:
    """One change and its effect. ``spec``: the job with it. ``options``: as ``tenure submit`` takes it."""

    kind: Change
    change: str
    options: str
    spec: JobSpec
    plan: Start | Claim | Reserve
    victims: tuple[Victim, ...]
    starts_at: int
    """When it has its GPUs at the latest, ms UTC."""
    beside: bool
    """Told of a submission beside the job, which stays in the queue; else of one in its place."""

    @property
    def text(self) -> str:
        """Change and effect in a sentence."""
        beside = " submitted beside it" if self.beside else ""
        return f"With {self.change}{beside} {self.effect}."

    @property
    def effect(self) -> str:
        """``it would start now``; for a claim and a reservation by when, and at whose cost."""
        if isinstance(self.plan, Start):
            return "it would start now"
        by = f"it would start by {words.moment(self.starts_at)}"
        if isinstance(self.plan, Reserve):
            count = len(self.plan.hosts)
            return f"{by}, on {count} host{'s' if count > 1 else ''} held for it from the next look on"
        if not self.victims:
            return f"{by}, on what goes for others and leaves enough for it"
        named = [f"{each.evict.attempt_id} of {each.user}" for each in self.victims[:NAMED]]
        more = f" and {len(self.victims) - NAMED} more" if len(self.victims) > NAMED else ""
        return f"{by}, when {', '.join(named)}{more} {'has' if len(self.victims) == 1 else 'have'} been evicted for it"


@dataclass(frozen=True, slots=True)
class _Variant:
    kind: Change
    change: str
    options: str
    spec: JobSpec


def help_for(state: State, job: Job) -> tuple[Option, ...]:
    """What would get a queued job its GPUs, or get them to it earlier than it has been told, at ``state.now``.

    Nothing for jobs that no pass tries: those that are held, back off or wait for others, and all while starts are
    paused.
    """
    if job.state is not JobState.QUEUED or job.held_by or job.not_before > state.now or state.paused_starts:
        return ()
    if job.behind or job.submission in state.pending:
        return ()
    told = job.reservation.starts_by if job.reservation is not None else None
    trials, new = Trials(state, job.id, hasty=True), max(state.jobs) + 1
    beside = _has_something_to_lose(state, job) or trials.contested()
    if beside:
        trials = Trials(state, hasty=True)
    if told is None and not beside and (held := trials.reserve(replace(job, id=new))) is not None:
        told = starts_by(state, held)
    found: list[Option] = []
    for variants in _kinds(state, job):
        option = next(
            (each for one in variants if (each := _tried(trials, one, new, told, beside=beside)) is not None), None
        )
        if option is not None:
            found.append(option)
    # A short contract on few GPUs is what is left when less does not do.
    if any(each.kind in (Change.MIN_RUNTIME, Change.REPLICAS, Change.GPUS) for each in found):
        found = [each for each in found if each.kind is not Change.SHORT]
    return tuple(found[:MOST])


def _has_something_to_lose(state: State, job: Job) -> bool:
    awaited = (job.id, False) in state.dependents or (bool(job.array) and (job.array, True) in state.dependents)
    return job.array in state.places or awaited


def _tried(trials: Trials, variant: _Variant, new: int, told: int | None, *, beside: bool) -> Option | None:
    """The variant, as job ``new``, if it is admitted and starts, or starts earlier than ``told``."""
    state = trials.state
    try:
        admission.check_job(state, variant.spec)
    except Refusal:
        return None
    plan = trials.plan(hypothetical(state, variant.spec, new))
    if plan is None:
        return None
    at = starts_by(state, plan)
    if isinstance(plan, Reserve) and told is not None and at >= told:
        return None
    victims = tuple(victim(state, evict) for evict in plan.victims) if isinstance(plan, Claim) else ()
    return Option(variant.kind, variant.change, variant.options, variant.spec, plan, victims, at, beside)


def _kinds(state: State, job: Job) -> Iterator[Iterator[_Variant]]:
    """Changes of each kind, the smallest first."""
    spec = replace(job.spec, budget=job.budget)
    yield _labels(spec)
    yield _clusters(state, spec)
    yield _contracts(state, spec)
    yield chain(_replicas(spec), _gpus(spec))
    yield _short(spec)
    yield _unallocated(spec)


def _labels(spec: JobSpec) -> Iterator[_Variant]:
    """A required label is preferred only; at last all of them are."""
    required = [label for label in spec.labels if label.required]
    wishes = [{label} for label in required] + ([set(required)] if len(required) > 1 else [])
    for dropped in wishes:
        names = [label.key if label.value is None else f"{label.key}={label.value}" for label in required]
        shown = [name for name, label in zip(names, required, strict=True) if label in dropped]
        labels = tuple(replace(each, required=each.required and each not in dropped) for each in spec.labels)
        options = " ".join(f"--prefer {name}" for name in shown)
        yield _Variant(
            Change.LABELS, f"{', '.join(shown)} preferred, not required,", options, replace(spec, labels=labels)
        )


def _clusters(state: State, spec: JobSpec) -> Iterator[_Variant]:
    for name in state.clusters:
        if name not in spec.clusters:
            clusters = (*spec.clusters, name)
            changed = replace(spec, clusters=clusters)
            yield _Variant(
                Change.CLUSTER, f"cluster {name} accepted as well", f"--cluster {','.join(clusters)}", changed
            )


def _contracts(state: State, spec: JobSpec) -> Iterator[_Variant]:
    """Shorter contracts, down to the floor of its clusters, and 15 min, where a contract of its size is a short one."""
    least = spec.contract.min_runtime
    floor = max(state.clusters[name].spec.min_runtime_floor for name in spec.clusters if name in state.clusters)
    lengths = {floor, *(SHORT_RUNTIME,) * (spec.gpus <= SHORT_GPUS)}
    half = least // 2
    while half > floor:
        lengths.add(half - half % (MINUTE if half >= MINUTE else SECOND))
        half //= 2
    for length in sorted(lengths, reverse=True):
        if floor <= length < least:
            shown = units.format_duration(length)
            contract = replace(spec.contract, min_runtime=length)
            change = f"a min_runtime of {shown} instead of {units.format_duration(least)}"
            yield _Variant(Change.MIN_RUNTIME, change, f"--min-runtime {shown}", replace(spec, contract=contract))


def _replicas(spec: JobSpec) -> Iterator[_Variant]:
    """Half as many replicas, and so on; only where there is one role."""
    if len(spec.roles) > 1:
        return
    role = spec.roles[0]
    count = role.replicas // 2
    while count:
        change = f"{count} replica{'s' if count > 1 else ''} instead of {role.replicas}"
        smaller = replace(spec, roles=(replace(role, replicas=count),))
        yield _Variant(Change.REPLICAS, change, f"--replicas {count}", smaller)
        count //= 2


def _gpus(spec: JobSpec) -> Iterator[_Variant]:
    """One replica with half of its GPUs, and so on."""
    if len(spec.roles) > 1:
        return
    role = spec.roles[0]
    gpus = role.gpus // 2
    while gpus:
        one = " on one host" if role.replicas > 1 else ""
        change = f"{gpus} GPU{'s' if gpus > 1 else ''}{one} instead of {spec.gpus}"
        options = f"--gpus {gpus}" + (" --replicas 1" if role.replicas > 1 else "")
        yield _Variant(Change.GPUS, change, options, replace(spec, roles=(_with_gpus(role, gpus),)))
        gpus //= 2


def _short(spec: JobSpec) -> Iterator[_Variant]:
    """A short contract, which is let in where others are not: at most 8 GPUs for 15 min."""
    if len(spec.roles) > 1 or not spec.charged:
        return
    role, length = spec.roles[0], min(SHORT_RUNTIME, spec.contract.min_runtime)
    smaller = _with_gpus(role, min(role.gpus, SHORT_GPUS)) if spec.gpus > SHORT_GPUS else role
    if smaller is role and length == spec.contract.min_runtime:
        return
    gpus = smaller.gpus * smaller.replicas
    shown = units.format_duration(length)
    changed = replace(spec, roles=(smaller,), contract=replace(spec.contract, min_runtime=length))
    change = f"a short contract, {gpus} GPU{'s' if gpus > 1 else ''} for {shown},"
    options = f"--gpus {smaller.gpus} --replicas {smaller.replicas} --min-runtime {shown}"
    yield _Variant(Change.SHORT, change, options, changed)


def _unallocated(spec: JobSpec) -> Iterator[_Variant]:
    if spec.charged:
        free = replace(spec, contract=replace(spec.contract, min_runtime=0))
        change = "min_runtime 0 (free, and evictable at any time)"
        yield _Variant(Change.UNALLOCATED, change, "--min-runtime 0", free)


def _with_gpus(role: Role, gpus: int) -> Role:
    """One replica of so many GPUs, with their part of its CPUs and memory."""
    return replace(role, replicas=1, gpus=gpus, cpus=role.cpus * gpus // role.gpus, mem=role.mem * gpus // role.gpus)
