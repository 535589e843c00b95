"""What people often get wrong in a submission: said before it costs anybody anything. Nothing is refused here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tenure import units
from tenure.core.model import GPU, HOUR, MINUTE, SHORT_RUNTIME, Word
from tenure.store import PastRun
from tenure.why.plan import Planned

LONG = HOUR
"""A contract from here on is a long one, ms."""
ENOUGH = 3
"""Past jobs from which their usual length can be told."""
LOOKED_AT = 20
"""The last so many of them count."""
NINE_IN_TEN = 9, 10
STEP = 15 * MINUTE


class Mistake(Word):
    LONG_CONTRACT = "long_contract"
    WHOLE_TIMEOUT = "whole_timeout"
    LARGE_CONTRACT = "large_contract"
    LOST_AFTER_CONTRACT = "lost_after_contract"
    LOST_AT_ANY_TIME = "lost_at_any_time"
    ABOVE_ALLOCATION = "above_allocation"


@dataclass(frozen=True, slots=True)
class Warned:
    """``text``: what is unwise about it, and what would be better."""

    code: Mistake
    text: str


def warnings(planned: Planned, past: Sequence[PastRun]) -> list[Warned]:
    """What to think about before submitting it. ``past``: jobs of the same person that succeeded, newest first."""
    found = (
        _long_contract(planned, past),
        _whole_timeout(planned),
        _large_contract(planned),
        _lost(planned),
        _above_allocation(planned),
    )
    return [each for each in found if each is not None]


def _long_contract(planned: Planned, past: Sequence[PastRun]) -> Warned | None:
    spec, least = planned.spec, planned.spec.contract.min_runtime
    if least < LONG:
        return None
    what, alike = f"named {spec.name}", [run for run in past if run.name == spec.name]
    if len(alike) < ENOUGH:
        what, alike = f"of {spec.gpus} GPU{'s' if spec.gpus > 1 else ''}", [r for r in past if r.gpus == spec.gpus]
    lengths = sorted(run.ran for run in alike[:LOOKED_AT])
    if len(lengths) < ENOUGH:
        return None
    many, of = NINE_IN_TEN
    usual = lengths[-(-len(lengths) * many // of) - 1]
    better = max(planned.floor, -(-max(usual, 1) // STEP) * STEP)
    if 2 * better > least:
        return None
    text = (
        f"min_runtime is {_time(least)}, and your last {len(lengths)} jobs {what} ran for "
        f"{_time(usual)} or less, nine in ten of them: {_time(better)} protects them as well. A longer contract waits "
        "longer, and while it lasts it counts against the budget whether it is used or not"
    )
    return Warned(Mistake.LONG_CONTRACT, text)


def _whole_timeout(planned: Planned) -> Warned | None:
    spec = planned.spec
    if spec.timeout is None or not SHORT_RUNTIME < spec.contract.min_runtime >= spec.timeout:
        return None
    text = (
        f"min_runtime is as long as the timeout, {_time(spec.timeout)}: it is protected until it is ended. "
        "min_runtime is for the shortest run that makes progress; after it a job runs on while nobody needs its GPUs"
    )
    return Warned(Mistake.WHOLE_TIMEOUT, text)


def _large_contract(planned: Planned) -> Warned | None:
    if not planned.promise or 2 * planned.promise <= planned.week:
        return None
    part = planned.promise * 100 // planned.week if planned.week else 100
    whose = "its contract alone" if planned.jobs == 1 else f"the contracts of its {planned.jobs} jobs together"
    verb = "is" if planned.jobs == 1 else "are"
    text = (
        f"{whose}, {_hours(planned.promise)} GPU-hours, {verb} {part} % of what {planned.leaf} gets in a whole "
        f"lookback ({_hours(planned.week)}): for as long as that counts, others come first nearly always. Shorter "
        "contracts with checkpoints run as long, in parts"
    )
    return Warned(Mistake.LARGE_CONTRACT, text)


def _lost(planned: Planned) -> Warned | None:
    contract = planned.spec.contract
    if contract.resumable:
        return None
    if not contract.min_runtime:
        text = "min_runtime is 0 and it is not resumable: it may be evicted from its first second, and then it ends"
        return Warned(Mistake.LOST_AT_ANY_TIME, text)
    if contract.min_runtime < LONG:
        return None
    text = (
        f"it is not resumable: evicted after its {_time(contract.min_runtime)}, it ends and what it has not saved is "
        "lost. Let it save checkpoints and say resumable, and it goes on from them"
    )
    return Warned(Mistake.LOST_AFTER_CONTRACT, text)


def _above_allocation(planned: Planned) -> Warned | None:
    if planned.spec.contract.min_runtime <= SHORT_RUNTIME or planned.amount <= planned.allocation:
        return None
    has = units.format_gpus(planned.allocation // (GPU // 10) * (GPU // 10))
    text = (
        f"it is charged as {units.format_gpus(planned.amount)} GPUs, and {planned.leaf} has {has} of {planned.cluster} "
        "at any moment: it uses what others leave or lend, so its budget's ratio rises while it runs, and after its "
        "min_runtime they may evict it"
    )
    return Warned(Mistake.ABOVE_ALLOCATION, text)


def _time(ms: int) -> str:
    return units.format_duration(ms)


def _hours(amount_ms: int) -> str:
    return units.format_gpu_hours(amount_ms)
