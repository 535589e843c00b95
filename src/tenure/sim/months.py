"""Ready-made simulations: a month of synthetic researchers, and a trace on a cluster of its size."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from tenure.core.model import DAY
from tenure.sim.behaviour import Behaviour
from tenure.sim.claims import claims_for
from tenure.sim.insisting import insisting, settled_for
from tenure.sim.researchers import Lab, Machines, Researchers, presets
from tenure.sim.researchers.gaming import names_of
from tenure.sim.researchers.people import places
from tenure.sim.setup import START, Setup, make_cluster
from tenure.sim.traces import Trace
from tenure.sim.work import Workload

MIXES = tuple(presets)
"""How much people ask for: the presets of the synthetic lab."""


def month_of(mix: str, clusters: Mapping[str, int], *, people: int = 150, per_host: int = 8) -> Setup:
    """30 days of the lab ``mix`` on ``clusters``: name -> GPUs. Raises KeyError for an unknown mix, ValueError unless
    hosts come out whole, and for fewer people than budgets.
    """
    machines = tuple(Machines(name, gpus // per_host, per_host) for name, gpus in clusters.items())
    lab = replace(presets[mix], clusters=machines, people=people)
    places(lab)  # raises now, not when the run begins, if some budget would be left without anybody
    made = tuple(make_cluster(gpus, name, per_host) for name, gpus in clusters.items())
    return Setup(mix, made, lab.tree(), partial(researchers, lab), claims_for, "budgets", 0, 30 * DAY)


def researchers(lab: Lab, seed: int) -> Workload:
    """The people of ``lab``, with this seed."""
    return Researchers(replace(lab, seed=seed))


def behaving(setup: Setup, behaviour: Behaviour) -> Setup:
    """A month whose people behave so. Raises KeyError for an unknown trick, ValueError where it cannot be done."""
    lab = lab_of(setup)
    behaviour.workload(lab)  # raises now, not when the run begins
    claims = settled_for if behaviour.settled else setup.claims
    return replace(setup, workload=partial(behave, lab, behaviour), claims=partial(insisting, claims))


def behave(lab: Lab, behaviour: Behaviour, seed: int) -> Workload:
    """The people of ``lab``, with this seed, who behave so."""
    return behaviour.workload(replace(lab, seed=seed))


def lab_of(setup: Setup) -> Lab:
    """The lab of a month in which everybody is honest. Raises TypeError for other setups."""
    workload = setup.workload(setup.seed)
    if not isinstance(workload, Researchers):
        raise TypeError(f"{setup.title}: there are no synthetic people in it")
    return workload.lab


def who_does_what(setup: Setup, behaviour: Behaviour, seed: int) -> list[str]:
    """Notes that name those who do each trick, at the beginning where they learn."""
    names = names_of(replace(lab_of(setup), seed=seed), behaviour.shares)
    return [f"seed {seed}: {trick} is done by {', '.join(people) or 'nobody'}" for trick, people in names.items()]


def trace_of(trace: Trace, duration: int | None = None) -> Setup:
    """``trace`` on the cluster that its options chose; over its own span unless ``duration`` says otherwise."""
    cluster = make_cluster(trace.gpus, per_host=trace.options.gpus_per_host)
    setup = Setup(
        trace.reading.path,
        (cluster,),
        trace.budgets,
        partial(replayed, trace, cluster.name),
        claims_for,
        "budgets",
        0,
        duration or trace.days * DAY,
    )
    start = START if trace.origin is None else trace.origin
    return replace(setup, start=start, notes=tuple(trace.notes()))


def replayed(trace: Trace, cluster: str, seed: int) -> Workload:
    """The trace's jobs. What its options draw when a job is submitted is drawn with this seed."""
    return replace(trace, options=replace(trace.options, seed=seed)).workload(cluster)
