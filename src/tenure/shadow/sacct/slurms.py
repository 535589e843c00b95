"""What of a site's settings the simulator's model of Slurm heeds, and what of them it does not."""

from __future__ import annotations

from collections.abc import Iterator

from tenure import units
from tenure.policies import NAMES
from tenure.shadow.replay import Then
from tenure.sim.traces import slurm
from tenure.sim.traces.records import BadRow
from tenure.slurm.reading import Settings

_TIMES = {"half_life": "PriorityDecayHalfLife", "max_age": "PriorityMaxAge", "calc_period": "PriorityCalcPeriod"}
_WEIGHTS = {
    "weight_age": "PriorityWeightAge",
    "weight_fairshare": "PriorityWeightFairShare",
    "weight_job_size": "PriorityWeightJobSize",
    "weight_qos": "PriorityWeightQOS",
}
_LEFT_OUT = ("PriorityWeightPartition", "PriorityWeightTRES", "PriorityWeightAssoc", "PrioritySiteFactorPlugin")
_MULTIFACTOR, _PREEMPTS, _BACKFILL, _FIFO = "slurm", "slurm-preempt", "backfill", "fifo"


def model_of(settings: Settings, *, scavengers: bool = False) -> tuple[Then, list[str]]:
    """The policy that stands for Slurm, and what people should know about it.

    ``scavengers``: some jobs are of a QOS that others may preempt.
    """
    if not settings.values:
        return Then(_MULTIFACTOR), [
            "The model of Slurm has its own settings (multifactor priority, Fair Tree, usage that decays by half in 7 "
            "days, fair share weighing most): give the site's with --slurm-config."
        ]
    if settings.text("PriorityType").rpartition("/")[2] == "multifactor":
        options = dict(_options(settings))
        if scavengers and _by_qos(settings) and _PREEMPTS in NAMES:
            return _preempting(settings, options)
        said = ", ".join(f"{name} {_shown(name, value)}" for name, value in options.items())
        return Then(_MULTIFACTOR, options), [f"The model of Slurm has the site's own {said}.", *_differs(settings)]
    if settings.text("SchedulerType").rpartition("/")[2] == "builtin":
        return Then(_FIFO), [
            "This Slurm has no priorities (priority/basic) and does not backfill (sched/builtin): its model is first "
            "come, first served.",
            *_differs(settings),
        ]
    return Then(_BACKFILL), [
        "This Slurm has no priorities (priority/basic): its model is first come, first served with backfilling.",
        *_differs(settings),
    ]


def _by_qos(settings: Settings) -> bool:
    return settings.text("PreemptType").rpartition("/")[2] == "qos"


def _preempting(settings: Settings, options: dict[str, int]) -> tuple[Then, list[str]]:
    exempt = _duration(settings, "PreemptExemptTime") or 0
    youngest = int("preempt_youngest_first" in settings.words("SchedulerParameters"))
    said = ", ".join(f"{name} {_shown(name, value)}" for name, value in options.items())
    return Then(_PREEMPTS, {**options, "exempt": exempt, "youngest_first": youngest}), [
        f"The model of Slurm has the site's own {said}. What --unallocated-qos names is requeued there for others, as "
        f"PreemptType=preempt/qos does, after a PreemptExemptTime of {units.format_duration(exempt)}.",
        *_differs(settings, evicts=True),
    ]


def _duration(settings: Settings, key: str) -> int | None:
    """ms; None where there is none."""
    try:
        return slurm.duration(settings.text(key), key)
    except BadRow:
        return None


def _options(settings: Settings) -> Iterator[tuple[str, int]]:
    for option, key in _TIMES.items():
        value = _duration(settings, key)
        if value is not None and (value or option == "half_life"):
            yield option, value
    for option, key in _WEIGHTS.items():
        number = settings.number(key)
        if number is not None:
            yield option, number


def _shown(name: str, value: int) -> str:
    return str(value) if name in _WEIGHTS else units.format_duration(value)


def _differs(settings: Settings, *, evicts: bool = False) -> Iterator[str]:
    """What would make this Slurm decide otherwise than its model."""
    weighs = [key for key in _LEFT_OUT if settings.text(key) not in ("", "0")]
    if weighs:
        yield f"{', '.join(weighs)}: the model of Slurm does not heed this."
    if "no_fair_tree" in settings.words("PriorityFlags"):
        yield "PriorityFlags=NO_FAIR_TREE: the model of Slurm ranks by Fair Tree all the same."
    if not evicts and settings.text("PreemptType").rpartition("/")[2] not in ("", "none"):
        yield f"PreemptType={settings.text('PreemptType')}: the model of Slurm evicts nobody."
    yield (
        "The model of Slurm knows no limits of associations and QOS (GrpTRES, MaxJobs, ...), no reservations, and no "
        "tiers of partitions."
    )
