"""Who gains and who loses in plain sentences, the most important first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tenure.core.model import SECOND
from tenure.reports import evicted
from tenure.reports.catalogue import many, wait
from tenure.reports.side_waits import starts, told
from tenure.reports.sides import Found
from tenure.reports.verdicts import BOTH, GAINS, LOSES, NEITHER, longer, more_time

_MOST = 12
"""Budgets that have a sentence of their own."""
_FEW = 10
"""Fewer jobs than this say little about whoever has them."""
_MANY_TIMES = 10
"""From so many times as much on it is as if there had been nothing before."""
_POINTS = 0.005
"""From half a point on a share is said to differ."""


@dataclass(frozen=True, slots=True)
class _Pair:
    """The base and another side: their labels, and how sentences say where something happens."""

    base: str
    other: str
    there: str
    here: str

    def figures(self, row: Found) -> tuple[Found, Found]:
        return row["figures"][self.base], row["figures"][self.other]

    def change(self, row: Found) -> Found:
        found: Found = row["changes"][self.other]
        return found

    def weight(self, row: Found) -> float:
        """How much it matters: GPU-hours more or less, where that makes a difference, and jobs that start sooner or
        later.
        """
        change = self.change(row)
        time = abs(change["net_gpu_hours"]) if more_time(*self.figures(row)) else 0
        return float(time + abs(change["sooner"] - change["later"]))


def sentences(found: Found, label: str) -> list[str]:
    """What is to be said about one side against the base. ``found``: what ``compare_sides`` gives."""
    base, phrases = found["base"], found["phrases"]
    pair = _Pair(base, label, phrases[base], phrases[label])
    return [
        _owed(found, pair),
        *_starts(found["all"], pair),
        *_evictions(found["evicted"], pair),
        *_budgets(found["budgets"], pair),
        *_people(found["people"], pair),
        *_sizes(found["sizes"], pair),
        *_never(found, pair),
    ]


def _owed(found: Found, pair: _Pair) -> str:
    there, here = (found["overall"][side]["m1_delivered"] for side in (pair.base, pair.other))
    length = wait((found["until"] - found["from"]) / SECOND)
    if there is None and here is None:
        asked = any(figures["jobs"] for figures in found["all"]["figures"].values())
        return f"Over {length} {nothing_owed(asked=asked)}"
    if there is None or here is None:
        return f"Over {length} budgets {_due(there)} {pair.there}, and {_due(here)} {pair.here}."
    more = "the same" if abs(here - there) < _POINTS else _percent(here)
    return f"Over {length} budgets get {_percent(there)} of what they are owed {pair.there}, and {more} {pair.here}."


def nothing_owed(*, asked: bool) -> str:
    """Why there is no M1. ``asked``: somebody has had jobs all the same."""
    why = "no charged job ran, or was ready to" if asked else "nobody asked for GPUs"
    return f"no budget was owed anything: {why}."


def _due(share: float | None) -> str:
    return "are owed nothing" if share is None else f"get {_percent(share)} of what they are owed"


def _starts(row: Found, pair: _Pair) -> Iterator[str]:
    moved, (before, now) = pair.change(row), pair.figures(row)
    if not before["compared"]:
        return
    never = now["never_started"] - moved["neither"]
    parts = [
        f"{moved['sooner']:,} {_verb('start', moved['sooner'])} sooner {pair.here}",
        f"{moved['later']:,} later{' or never' if never else ''}",
        f"{moved['same']:,} at the same time",
        *([f"{moved['neither']:,} on neither side"] if moved["neither"] else []),
    ]
    line = f"Of {many(before['compared'], 'job')}, {', '.join(parts[:-1])}, and {parts[-1]}"
    yield f"{line}; {_waits(row, pair) or _alike(before)}."


def _alike(figures: Found) -> str:
    return "the wait is about the same" if figures["compared"] == 1 else "the waits are about the same"


def _waits(row: Found, pair: _Pair) -> str:
    """How the median and the longest waits change; '' where that makes no difference."""
    before, now = pair.figures(row)
    said = []
    if how := longer(before["p50_s"], now["p50_s"]):
        verb = "rises" if how > 0 else "falls"
        said.append(f"the median wait {verb} from {told(before, 50)} to {told(now, 50)}")
    if longer(before["p90_s"], now["p90_s"]):
        said.append(f"{starts(now, '90 %')} instead of {told(before, 90)}")
    return ", and ".join(said)


def _evictions(found: Found, pair: _Pair) -> Iterator[str]:
    before, now = found[pair.base], found[pair.other]
    if not before["evictions"] and not now["evictions"]:
        yield "Nothing is evicted."
        return
    yield evicted.said(now, pair.here)
    if before["evictions"]:
        yield evicted.said(before, pair.there)


def _budgets(rows: Sequence[Found], pair: _Pair) -> Iterator[str]:
    """Of those that gain or lose, and have no others below them."""
    inner = {row["budget"].rpartition("/")[0] for row in rows}
    leaves = [row for row in rows if row["budget"] not in inner and pair.change(row)["verdict"] != NEITHER]
    leaves.sort(key=lambda row: (-pair.weight(row), row["budget"]))
    for row in leaves[:_MOST]:
        yield _who(row["budget"], row, pair)
    if more := leaves[_MOST:]:
        yield f"{many(len(more), 'further budget')} {'gains or loses' if len(more) == 1 else 'gain or lose'} less."


def _who(name: str, row: Found, pair: _Pair, most: str = "") -> str:
    change, said = pair.change(row), []
    if how := more_time(*pair.figures(row)):
        part = change["net_gpu_hours_share"]
        share = f" ({100 * part:+.0f} %)" if part is not None and abs(part) < _MANY_TIMES else ""
        number = f"{abs(change['net_gpu_hours']):,.0f}"
        amount = f"{number} GPU-hour{'' if number == '1' else 's'} {'more' if how > 0 else 'less'}"
        said.append(f"{name} {most}gets {amount}{share}")
    if waits := _waits(row, pair):
        said.append(waits.replace("the median", "its median") if said else f"{name}{most and ' gains most'}: {waits}")
    return "; ".join(said) + "."


def _people(rows: Sequence[Found], pair: _Pair) -> Iterator[str]:
    if not rows:
        return
    by_verdict: dict[str, list[Found]] = {verdict: [] for verdict in (GAINS, LOSES, BOTH, NEITHER)}
    for row in rows:
        by_verdict[pair.change(row)["verdict"]].append(row)
    yield _counts(rows, by_verdict, pair)
    few = sum(
        0 < row["figures"][pair.base]["compared"] < _FEW for row in rows if pair.change(row)["verdict"] != NEITHER
    )
    if few:
        yield (
            f"{few:,} of those who gain or lose {'has' if few == 1 else 'have'} fewer than {_FEW} jobs: "
            "what becomes of so few may be chance."
        )
    if by_verdict[GAINS]:
        gains = max(by_verdict[GAINS], key=pair.weight)
        yield f"Of those who gain, {_who(gains['user'], gains, pair, 'gains most and ')}"
    losing = [row for row in by_verdict[LOSES] if all(one["p90_s"] is not None for one in pair.figures(row))]
    if losing:
        loses = max(losing, key=lambda row: float(row["figures"][pair.other]["p90_s"]))
        before, now = pair.figures(loses)
        jobs = many(now["compared"], "job")
        yield (
            f"Of those who lose, {loses['user']} waits longest: {starts(now, f'90 % of {jobs}')}, instead of "
            f"{told(before, 90)} {pair.there}."
        )


def _counts(rows: Sequence[Found], by_verdict: dict[str, list[Found]], pair: _Pair) -> str:
    """How many gain and lose; of one person, whether they do."""
    if len(rows) == 1:
        how = {GAINS: "gains", LOSES: "loses", BOTH: "gains in one way and loses in another"}
        does = how.get(pair.change(rows[0])["verdict"], "neither gains nor loses anything that matters")
        return f"The only person, {rows[0]['user']}, {does}."
    gain, lose, both, neither = (len(found) for found in by_verdict.values())
    if neither == len(rows):
        return f"For none of {len(rows):,} people anything changes that matters."
    said = [
        f"{gain:,} {_verb('gain', gain)}" if gain else "nobody gains",
        f"{lose:,} {_verb('lose', lose)}" if lose else "nobody loses",
    ]
    if both:
        said.append(f"{both:,} {_verb('gain', both)} in one way and {_verb('lose', both)} in another")
    if neither:
        said.append(f"for {neither:,} nothing changes that matters")
    first = " and ".join(said[:2]) if len(said) == 2 else ", ".join([*said[:-1], f"and {said[-1]}"])
    return f"Of {len(rows):,} people, {first}."


def _verb(verb: str, count: int) -> str:
    return f"{verb}s" if count == 1 else verb


def _sizes(rows: Sequence[Found], pair: _Pair) -> Iterator[str]:
    for row in rows:
        jobs = row["figures"][pair.base]["compared"]
        if jobs:
            yield f"{row['size']} ({many(jobs, 'job')}): {_waits(row, pair) or 'about the same waits'}."


def _never(found: Found, pair: _Pair) -> Iterator[str]:
    before, now = (figures["never_started"] for figures in pair.figures(found["all"]))
    if before or now:
        yield (
            f"{before:,} of the jobs never {_verb('start', before)} {pair.there} and {now:,} {pair.here}: they count "
            "with what they had waited in the end, so the true waits are longer."
        )
    for label, where in ((pair.base, pair.there), (pair.other, pair.here)):
        if missing := found["missing"][label]:
            yield (
                f"{many(missing, 'job')} {'is' if missing == 1 else 'are'} refused {where}, and left out of the "
                "waits of all sides."
            )


def _percent(part: float) -> str:
    return f"{100 * part:.1f} %"
