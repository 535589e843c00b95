"""Several policies or settings on the same workload, side by side, with what can be said about the differences.

Runs are grouped into *variants*: one policy with one set of settings, on one workload. Seeds repeat a variant. A
difference is said to exceed the spread by one rule, which is printed with every comparison (``rule``): when the ranges
over the seeds do not overlap. That needs no unit and no assumption about how waits are distributed, and how often it
happens by chance is known: of the ways to deal 2 n values to two variants, two have all of one above all of the other
(the extreme of the rank-sum test: H. B. Mann and D. R. Whitney, 1947).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import comb
from statistics import median

from tenure.reports.catalogue import HIGHER, SECTIONS, Figure, difference, written
from tenure.reports.metrics import Summary, summary
from tenure.reports.records import Run

DIGITS = 6
FIGURES = tuple(figure for section in SECTIONS.values() for figure in section)


@dataclass(frozen=True, slots=True)
class Variant:
    """``by_seed``: seed -> summary, in the order of seeds. ``place``: workload and size, which pairing needs equal."""

    label: str
    place: tuple[str, int]
    by_seed: dict[int, Summary]

    def values(self, figure: Figure) -> dict[int, float]:
        """Seed -> value, without those that have none."""
        found = {seed: figure.of(summary) for seed, summary in self.by_seed.items()}
        return {seed: value for seed, value in found.items() if value is not None}

    def listed(self, figure: Figure) -> list[float]:
        return list(self.values(figure).values())

    @property
    def varies(self) -> bool:
        """Whether any figure depends on the seed."""
        return any(len({figure.of(summary) for summary in self.by_seed.values()}) > 1 for figure in FIGURES)


@dataclass(frozen=True, slots=True)
class Finding:
    """One figure of ``variant`` against ``base``, over the seeds that both have.

    ``shift``: the median of the differences by seed, variant - base. ``exceeds``: whether the ranges are apart, and
    ``agree``: whether all seeds agree on the sign; None when nothing can be said: with one seed, or when nothing of
    both variants depends on the seed.
    """

    figure: Figure
    base: str
    variant: str
    base_values: tuple[float, ...]
    variant_values: tuple[float, ...]
    shift: float
    exceeds: bool | None
    agree: bool | None

    @property
    def better(self) -> bool | None:
        """Whether the variant is better than the base; None where neither way is better."""
        return None if not self.figure.better or not self.shift else (self.shift > 0) == (self.figure.better == HIGHER)


@dataclass(frozen=True, slots=True)
class Comparison:
    variants: tuple[Variant, ...]
    findings: tuple[Finding, ...]
    warnings: tuple[str, ...]

    @property
    def seeds(self) -> int:
        return max(len(variant.by_seed) for variant in self.variants)

    @property
    def varies(self) -> bool:
        """Whether anything depends on the seed."""
        return any(variant.varies for variant in self.variants)

    def about(self, base: str, variant: str) -> list[Finding]:
        return [found for found in self.findings if (found.base, found.variant) == (base, variant)]

    def pairs(self) -> list[tuple[str, str]]:
        return list(dict.fromkeys((found.base, found.variant) for found in self.findings))


def compare(runs: Iterable[Summary | Run]) -> Comparison:
    """Compare every variant with the first one on the same workload and size.

    Raises ValueError without any run, and for two runs of one variant with the same seed.
    """
    summaries = [summary(run) if isinstance(run, Run) else run for run in runs]
    if not summaries:
        raise ValueError("nothing to compare: there is no run")
    variants = _variants(summaries)
    findings: list[Finding] = []
    for variant in variants:
        base = next(other for other in variants if other.place == variant.place)
        if base is not variant:
            varies = base.varies or variant.varies
            findings += [found for figure in FIGURES if (found := _find(figure, base, variant, varies)) is not None]
    return Comparison(tuple(variants), tuple(findings), tuple(_warnings(variants)))


def _variants(summaries: Sequence[Summary]) -> list[Variant]:
    """In the order in which they first come. A label names what is not the same in all runs."""
    names = sorted({name for one in summaries for name in one["settings"]})
    differing = [name for name in names if len({one["settings"].get(name) for one in summaries}) > 1]
    several_loads = len({one["workload"] for one in summaries}) > 1
    several_sizes = len({one["gpus"] for one in summaries}) > 1
    found: dict[str, Variant] = {}
    for one in summaries:
        parts = [str(one["policy"])]
        parts += [f"{name}={one['settings'][name]}" for name in differing if name in one["settings"]]
        parts += [str(one["workload"])] if several_loads else []
        parts += [f"{one['gpus']} GPUs"] if several_sizes else []
        label = ", ".join(parts)
        variant = found.setdefault(label, Variant(label, (one["workload"], one["gpus"]), {}))
        if one["seed"] in variant.by_seed:
            raise ValueError(f"two runs of {label} with seed {one['seed']}")
        variant.by_seed[one["seed"]] = one
    return [Variant(v.label, v.place, dict(sorted(v.by_seed.items()))) for v in found.values()]


def _find(figure: Figure, base: Variant, variant: Variant, varies: bool) -> Finding | None:
    """None when no seed has the figure under both. ``varies``: whether seeds make any difference to these two."""
    ours, theirs = variant.values(figure), base.values(figure)
    seeds = [seed for seed in ours if seed in theirs]
    if not seeds:
        return None
    ours_now, theirs_now = tuple(ours[seed] for seed in seeds), tuple(theirs[seed] for seed in seeds)
    differences = [a - b for a, b in zip(ours_now, theirs_now, strict=True)]
    several = varies and len(seeds) > 1
    apart = min(ours_now) > max(theirs_now) or max(ours_now) < min(theirs_now)
    agree = all(d > 0 for d in differences) or all(d < 0 for d in differences)
    return Finding(
        figure,
        base.label,
        variant.label,
        theirs_now,
        ours_now,
        round(median(differences), DIGITS),
        apart if several else None,
        agree if several else None,
    )


def _warnings(variants: Sequence[Variant]) -> Iterable[str]:
    summaries = [one for variant in variants for one in variant.by_seed.values()]
    for one in summaries:
        if not one["complete"]:
            yield f"{one['policy']}, seed {one['seed']}, was interrupted at {one['simulated_until']}."
    lengths = sorted({one["measured_days"] for one in summaries})
    if len(lengths) > 1:
        yield f"The runs are not equally long: {', '.join(f'{days:g}' for days in lengths)} measured days."
    if len({tuple(variant.by_seed) for variant in variants}) > 1:
        yield "Not every variant has the same seeds: differences are over those that both have."
    fixed = [variant.label for variant in variants if len(variant.by_seed) > 1 and not variant.varies]
    if fixed and len(fixed) < len(variants):
        yield f"Nothing depends on the seed for {', '.join(fixed)}: its seeds are one run, not several."


def rule(seeds: int, *, varies: bool = True) -> str:
    """How differences are judged, in words, for so many seeds. ``varies``: whether anything depends on the seed."""
    if seeds < 2:
        return (
            "There is one seed, so nothing can be said about the spread: differences are shown, and none is called "
            "larger than chance."
        )
    if not varies:
        return (
            f"Nothing in these runs depends on the seed: all {seeds} seeds of each variant give the same figures, so "
            "they are one run and not several. Nothing can be said about the spread: differences are shown, and none "
            "is called larger than chance."
        )
    return (
        "A difference exceeds the spread when the ranges over the seeds do not overlap: the lowest seed of one variant "
        f"is above the highest of the other. With {seeds} seeds each, mere chance does that to a figure in 1 of "
        f"{comb(2 * seeds, seeds) // 2} cases, and many figures are compared. Differences below are medians of the "
        "differences by seed. Where all seeds agree on the sign and the ranges overlap (by chance: 1 of "
        f"{2 ** (seeds - 1)}), it is called a tendency."
    )


BETTER, WORSE, DIFFERENT, TENDENCY, WITHIN, NO_SPREAD = (
    "better",
    "worse",
    "different",
    "a tendency: all seeds agree, and the ranges overlap",
    "within the spread",
    "without a spread to compare with",
)


def sentences(comparison: Comparison, base: str, variant: str) -> dict[str, list[str]]:
    """What is to be said about ``variant`` against ``base``, by kind of difference. Equal figures are within."""
    said: dict[str, list[str]] = {kind: [] for kind in (BETTER, WORSE, DIFFERENT, TENDENCY, WITHIN, NO_SPREAD)}
    for found in comparison.about(base, variant):
        said[_kind(found)].append(_sentence(found))
    return {kind: lines for kind, lines in said.items() if lines}


def _kind(found: Finding) -> str:
    if found.exceeds is None:
        return NO_SPREAD
    if not found.exceeds:
        return TENDENCY if found.agree else WITHIN
    return DIFFERENT if found.better is None else BETTER if found.better else WORSE


def _sentence(found: Finding) -> str:
    unit = found.figure.unit
    ours, theirs = (spread(values, unit) for values in (found.variant_values, found.base_values))
    return f"{found.figure.label}: {ours} against {theirs}, {difference(found.shift, unit)}"


def spread(values: Sequence[float], unit: str) -> str:
    """``99.3 % (99.1 to 99.5)``: median and range; without a range where all are the same. ``-`` without any."""
    if not values:
        return "-"
    middle, low, high = (written(value, unit) for value in (median(values), min(values), max(values)))
    if low == high:
        return middle
    name = f" {middle.rpartition(' ')[2]}"
    if all(text.endswith(name) for text in (middle, low, high)):
        low, high = low.removesuffix(name), high.removesuffix(name)
    return f"{middle} ({low} to {high})"
