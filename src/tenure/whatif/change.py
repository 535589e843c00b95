"""What is tried: another policy, other settings, other budgets and clusters; and how live jobs are fitted into them.

Nothing is dropped silently: whatever a change refuses or cuts is counted in ``Told``, by what and with which jobs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from tenure.core import admission
from tenure.core.configure import apply_config
from tenure.core.effects import change_leaf
from tenure.core.events import (
    AttemptExited,
    CancelRequested,
    ConfigApplied,
    Event,
    ExitKind,
    HostStateChanged,
)
from tenure.core.model import Budget, Cluster, Grant, HostState, JobSpec, Policy
from tenure.core.reasons import Refusal
from tenure.core.state import Job, State
from tenure.sim.loop import within
from tenure.sim.settings import Pairs, with_settings
from tenure.sim.setup import Setup
from tenure.sim.work import AsSigned, Workload
from tenure.units import counted
from tenure.whatif.quiet import Quiet

BY = "what if"
BUDGETS = "budgets"


@dataclass(slots=True)
class Told:
    """What had to be changed about jobs, by the words for it: the jobs, each once, as people call them."""

    jobs: dict[str, dict[str, None]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def of(self, what: str, *jobs: str) -> None:
        self.jobs.setdefault(what, {}).update(dict.fromkeys(jobs))

    def lines(self) -> list[str]:
        return [*self.notes, *(f"{_jobs(list(jobs))} {what}" for what, jobs in self.jobs.items())]


def _jobs(names: list[str]) -> str:
    shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    return f"{len(names)} job{'s' if len(names) > 1 else ''} ({shown})"


@dataclass(frozen=True, slots=True)
class Wanted:
    """A configuration that is tried in place of the live one: what a ``Config`` says, hosts filled in."""

    clusters: tuple[Cluster, ...]
    policy: Policy
    budgets: tuple[Budget, ...]
    grants: tuple[Grant, ...] = ()


@dataclass(frozen=True, slots=True)
class Variant:
    """One thing to try. ``wanted``: None keeps the configuration. ``settings``: on top of either. ``moves``: the path
    of a budget -> its new one. ``later``: everything that people did comes so many ms later, and a start takes a
    second more.
    """

    label: str
    policy: str = BUDGETS
    wanted: Wanted | None = None
    settings: Pairs = ()
    moves: Mapping[str, str] = field(default_factory=dict)
    later: int = 0

    @property
    def changes(self) -> bool:
        """Whether the configuration is another one."""
        return self.wanted is not None or bool(self.settings) or self.policy != BUDGETS

    def setup(self, title: str, config: ConfigApplied, start: int, duration: int) -> Setup:
        """The simulator's setup under ``config`` as this variant has it. Raises SettingError."""
        wanted = self.wanted if self.wanted is not None else config
        scheduling = wanted.policy
        if self.policy != BUDGETS:  # the others know neither reservations nor headroom
            scheduling = replace(scheduling, reserved_percent=0, headroom_percent=0, moves_per_hour=0)
        setup = Setup(
            title,
            wanted.clusters,
            wanted.budgets,
            _quiet,
            AsSigned.under,
            self.policy,
            0,
            duration,
            scheduling=scheduling,
            start=start,
            warmup=0,
        )
        return with_settings(setup, self.settings) if self.settings else setup

    def configuration(self, config: ConfigApplied) -> ConfigApplied:
        """``config`` as this variant has it."""
        made = self.setup("", config, 0, 1)
        grants = self.wanted.grants if self.wanted is not None else config.grants
        return ConfigApplied(config.at, made.clusters, made.scheduling, made.budgets, grants, BY)


def _quiet(_seed: int) -> Workload:
    return Quiet()


def configuration_of(state: State) -> ConfigApplied:
    """The configuration that is in force."""
    clusters = tuple(cluster.spec for cluster in state.clusters.values())
    return ConfigApplied(state.now, clusters, state.policy, state.budgets, state.grants, BY)


class Places:
    """Where jobs of a budget are in another tree: ``--move`` first, then the same path, then ``moved_from``.

    ``clusters``: those that there are, without such as only run empty.
    """

    def __init__(self, budgets: tuple[Budget, ...], clusters: tuple[Cluster, ...], moves: Mapping[str, str]) -> None:
        self.clusters = {cluster.name: cluster for cluster in clusters}
        self.paths = {budget.path for budget in budgets}
        self.moves = dict(moves)
        self.moved = {budget.moved_from: budget.path for budget in budgets if budget.moved_from}

    def of(self, path: str) -> str | None:
        """None when there is no place for it."""
        found = self._by(self.moves, path)
        if found is None and path in self.paths:
            return path
        return found if found is not None else self._by(self.moved, path)

    def _by(self, moves: Mapping[str, str], path: str) -> str | None:
        line = path.split("/")
        for length in range(len(line), 0, -1):
            target = moves.get("/".join(line[:length]))
            if target is not None:
                below = "/".join([target, *line[length:]])
                return below if below in self.paths else target if target in self.paths else None
        return None


def fitted(state: State, spec: JobSpec, places: Places, told: Told, labels: Sequence[str]) -> JobSpec | None:
    """A submission as it would be made under the configuration of ``state``; None when it is refused.

    ``labels``: what its jobs are called.
    """
    path = places.of(spec.budget)
    if path is None:
        told.of(
            f"of {spec.budget}, which the tree does not have, refused (--move {spec.budget}=NEW keeps them)", *labels
        )
        return None
    clusters = tuple(name for name in spec.clusters if name in places.clusters)
    if not clusters:
        told.of(f"for {', '.join(spec.clusters)} alone, which there is not, refused", *labels)
        return None
    spec = cut(places, replace(spec, budget=path, clusters=clusters), told, labels)
    try:
        admission.check_job(state, spec)
    except Refusal as refusal:
        told.of(f"refused: {refusal.reason.value.replace('_', ' ')}", *labels)
        return None
    return spec


def cut(places: Places, spec: JobSpec, told: Told, labels: Sequence[str]) -> JobSpec:
    """With a contract and a grace that the clusters allow."""
    clusters = [places.clusters[name] for name in spec.clusters]
    made, floor = within(clusters, spec), max(cluster.min_runtime_floor for cluster in clusters)
    if 0 < made.contract.min_runtime < floor:
        made = replace(made, contract=replace(made.contract, min_runtime=floor))
        told.of("signed a contract below the changed floor, which is raised to it", *labels)
    elif made.contract.min_runtime < spec.contract.min_runtime:
        told.of("signed a contract longer than the changed configuration allows, which is cut to that", *labels)
    return made


def enter(state: State, config: ConfigApplied, places: Places, told: Told) -> list[Event]:
    """Fit what is live into ``config``, which is not applied yet. Returns the events that apply it at ``state.now``.

    Jobs whose budgets or clusters are gone end; hosts that are gone, and used, drain first. Raises ValueError for a
    used host that is there with other resources.
    """
    _retarget(state, config, places)
    _sign(state, places, told)
    return follow_on(state, config, places, told, strict=True)


def follow_on(state: State, config: ConfigApplied, places: Places, told: Told, *, strict: bool = False) -> list[Event]:
    """The same of a configuration that was applied meanwhile: what waits keeps what it signed, as it does in life, and
    a used host what it has.
    """
    at = state.now
    before: list[Event] = []
    for job in state.jobs.values():
        label = job.label
        if places.of(job.budget) is None:
            told.of(f"of {job.budget}, which the tree does not have, ended (--move {job.budget}=NEW keeps them)", label)
            before.append(_end(at, job))
        elif job.attempt is None and places.clusters.keys().isdisjoint(job.spec.clusters):
            told.of(f"waiting for {', '.join(job.spec.clusters)}, which there is not, ended", label)
            before.append(_end(at, job))
    clusters, draining = _hosts_kept(state, config.clusters, told, strict)
    return [*before, replace(config, at=at, clusters=clusters), *draining]


def _end(at: int, job: Job) -> Event:
    if job.attempt is not None and job.attempt.started_at is not None:
        return AttemptExited(at, job.attempt.id, ExitKind.EXITED, (0,), cancelled_by=BY)
    return CancelRequested(at, job.id, BY)


def _hosts_kept(
    state: State, clusters: tuple[Cluster, ...], told: Told, strict: bool
) -> tuple[tuple[Cluster, ...], list[HostStateChanged]]:
    """``clusters`` with the hosts that something runs on and that they lack, and what lets those run empty.

    ``strict``: raises ValueError for a used host that is there with other resources; else it keeps what it has.
    """
    found = {cluster.name: cluster for cluster in clusters}
    draining = []
    for name, cluster in state.clusters.items():
        there = found.get(name)
        declared = {host.name: host for host in there.hosts} if there is not None else {}
        for host in cluster.spec.hosts:
            if not cluster.on_host[host.name]:
                continue
            other = declared.get(host.name)
            if other is None:
                base = found.get(name) or replace(cluster.spec, hosts=())
                found[name] = replace(base, hosts=(*base.hosts, host))
                draining.append(
                    HostStateChanged(state.now, name, host.name, HostState.DRAINING, BY, "not in the changed clusters")
                )
            elif (other.gpus, other.cpus, other.mem) != (host.gpus, host.cpus, host.mem):
                if not strict:
                    kept = tuple(host if one.name == host.name else one for one in found[name].hosts)
                    found[name] = replace(found[name], hosts=kept)
                    told.notes.append(f"{host.name} was changed meanwhile and is in use here: it stays as it was.")
                    continue
                raise ValueError(
                    f"clusters.{name}.hosts.{host.name} = {other.gpus} GPUs: something runs there when the run begins, "
                    "so its resources cannot change; give the changed host another name"
                )
    if draining:
        named = ", ".join(event.host for event in draining[:5]) + (", ..." if len(draining) > 5 else "")
        which, when = ("changed", "when the run began") if strict else ("later", "when it came")
        told.notes.append(
            f"{counted(len(draining), 'host')} ({named}) that the {which} configuration does not have "
            f"{'was' if len(draining) == 1 else 'were'} in use {when}: what is left out so drains, and is gone when "
            "what runs there is exposed or over."
        )
    return tuple(found.values()), draining


def _retarget(state: State, config: ConfigApplied, places: Places) -> None:
    """Let live jobs be charged where ``--move`` says, and sign what they may, before the new tree is there."""
    target = {job.id: path for job in state.jobs.values() if (path := places.of(job.budget)) is not None}
    moving = [job for job in state.jobs.values() if target.get(job.id, job.budget) != job.budget]
    if not moving:
        return
    known = {budget.path for budget in state.budgets}
    more = tuple(replace(b, share=0, cluster_shares=(), moved_from=None) for b in config.budgets if b.path not in known)
    both = replace(configuration_of(state), budgets=tuple(sorted((*state.budgets, *more), key=lambda b: b.path)))
    apply_config(state, both)
    tree = state.the_tree()
    for job in moving:
        path = target[job.id]
        state.dequeue(job)
        job.budget, job.leaf = path, tree.leaf_of(path)
        job.spec = replace(job.spec, budget=path)
        if job.attempt is not None and job.attempt.leaf != job.leaf:
            change_leaf(state, job.attempt, job.leaf, state.now)
        elif job.attempt is None:
            state.enqueue(job)
        state.touched_jobs.add(job.id)


def _sign(state: State, places: Places, told: Told) -> None:
    """What waits signs what it may; what runs keeps what it was promised."""
    for job in state.jobs.values():
        clusters = tuple(name for name in job.spec.clusters if name in places.clusters)
        if job.attempt is None and clusters and places.of(job.budget) is not None:
            spec = cut(places, replace(job.spec, clusters=clusters), told, [job.label])
            if spec != job.spec:
                state.dequeue(job)
                job.spec = spec
                state.enqueue(job)


def doubt(state: State, told: Told) -> None:
    """Tell of what waits and could not be submitted under the configuration that is in force now."""
    for job in state.jobs.values():
        if job.attempt is None:
            try:
                admission.check_job(state, job.spec)
            except Refusal as refusal:
                what = refusal.reason.value.replace("_", " ")
                told.of(f"waiting already could not be submitted now: {what}", job.label)
