"""Twenty real cases of ``docs/concepts-cases.md``: picked from simulated days, told in the product's own sentences.

``python docs/cases/why_cases.py`` simulates them and writes the page anew. Same code, same page, to the byte.
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from book import Book, Moment, Story, hours

from tenure.core.model import DAY, HOUR, MINUTE, JobSpec, Policy
from tenure.core.reasons import Number, Reason
from tenure.sim.months import month_of
from tenure.sim.setup import Faults, Setup
from tenure.units import format_duration
from tenure.words import sentence

PAGE = Path(__file__).parents[1] / "concepts-cases.md"
GPUS, DAYS, PEOPLE = 128, 14, 60
SETTLED = 36 * HOUR
"""Cases are taken from then on: before that everybody's ratio begins at nothing."""
WIDTH = 116
SHOWN = 9
"""Moments of a job that a case tells at most."""
BRIEF = 14
"""Jobs with no more moments than that are looked at first: they make the clearer cases."""


# ---- which cases

Found = tuple[Story, Moment]
Test = Callable[[Story, Moment], bool]


def _number(moment: Moment, key: str) -> int:
    value: Number = moment.because.numbers.get(key, 0)
    return value if isinstance(value, int) else 0


def _evicted(reason: Reason, also: Test = lambda story, moment: True) -> Test:
    """A job that is evicted for this reason, and comes to an end, or starts again."""
    return lambda story, m: m.what == "is evicted" and m.because.reason is reason and also(story, m)


def _by_day(_: Story, m: Moment) -> bool:
    """The last day decides against the week."""
    return _number(m, "first_ratio_ppm") > _number(m, "second_ratio_ppm")


def _by_week(story: Story, m: Moment) -> bool:
    return story.spec.charged and max(_number(m, "first_recent_ppm"), _number(m, "second_recent_ppm")) < 1_000_000


def _debug(spec: JobSpec) -> bool:
    return 0 < spec.contract.min_runtime <= 15 * MINUTE and spec.gpus <= 8


def _starts_at_once(story: Story, m: Moment) -> bool:
    return _debug(story.spec) and m.what == "starts" and m.at == story.submitted


def _makes_room(story: Story, m: Moment) -> bool:
    return _debug(story.spec) and m.what == "has its GPUs" and story.waited <= MINUTE


def _reserved_start(story: Story, m: Moment) -> bool:
    return m.because.reason is Reason.STARTED_RESERVED and story.spec.gpus >= 32 and story.waited > 2 * HOUR


def _said(reason: Reason, also: Test = lambda story, moment: True) -> Test:
    return lambda story, m: m.because.reason is reason and also(story, m)


def _often(story: Story, m: Moment) -> bool:
    evicted = story.when("is evicted")
    return len(evicted) >= 4 and m.what == "has succeeded"


def _outlives(story: Story, m: Moment) -> bool:
    """It ran far beyond its contract, and nobody outranked it."""
    alone = len(story.when("starts", "has its GPUs")) == 1 and not story.when("is evicted")
    began = story.started
    ran = m.at - began if began is not None else 0
    long_enough = story.spec.charged and ran > 3 * story.spec.contract.min_runtime and ran > 5 * HOUR
    return m.what == "has succeeded" and alone and long_enough


CASES: tuple[tuple[str, str, Test], ...] = (
    (
        "A debug job that starts at once",
        "Short contracts are welcome nearly everywhere: on free GPUs, on hosts that are held, on those kept for them.",
        _starts_at_once,
    ),
    (
        "A debug job for which somebody makes room",
        "Nothing was free. What ran unallocated, or exposed and outranked, had its grace, and then it was over.",
        _makes_room,
    ),
    (
        "Evicted because the other budget had less of its last day",
        "Over the week the gainer's budget has had more than the victim's. The last day comes first: one budget is "
        "below its allocation there, and the other is not.",
        _evicted(Reason.EVICTED_STANDING, lambda s, m: s.spec.charged and _by_day(s, m)),
    ),
    (
        "Evicted because the other budget had less of its week",
        "Both are below their allocation over the last day, so the lower ratio over the lookback decides, by more than "
        "the margin.",
        _evicted(Reason.EVICTED_STANDING, _by_week),
    ),
    (
        "A budget that was idle",
        "Its people had run nothing for a day and more. So it is far below its allocation of the last day, and "
        "comes first.",
        lambda s, m: s.spec.charged and s.idle > DAY and m.what == "claims",
    ),
    (
        "A person's turn",
        "In one budget, at one priority, whoever was charged less there comes first, although another one "
        "asked earlier.",
        lambda s, m: bool(m.passed),
    ),
    (
        "Free work makes room for a charged job",
        "It cost nothing and was promised nothing. It is resumable, so it goes on when there is room again.",
        _evicted(Reason.EVICTED_UNALLOCATED, lambda s, m: s.spec.contract.resumable),
    ),
    (
        "Free work makes room for free work",
        "After its first hour an unallocated job may be evicted by another one, whose budget has had less free time.",
        _evicted(Reason.EVICTED_STANDING, lambda s, m: not s.spec.charged),
    ),
    (
        "Free work that cannot resume",
        "Without checkpoints an eviction is the end.",
        _said(Reason.PREEMPTED),
    ),
    (
        "A gang waits for hours, and starts when it was told",
        "The hosts that become free to it earliest were held. Ratios that drift meanwhile do not take them away.",
        _reserved_start,
    ),
    (
        "Evicted because its hosts were held for a gang",
        "It was exposed, and its hosts had been promised. The reservation is the licence, whatever the ratios are now.",
        _evicted(Reason.EVICTED_RESERVED, lambda s, m: s.spec.charged),
    ),
    (
        "A reservation goes to a job that came later",
        "The other one is new and comes first by more than the margin, or is of the same budget and sorts before it.",
        _said(Reason.RESERVATION_DISPLACED),
    ),
    (
        "A reservation is made anew",
        "A host that was held is lost. The job is in turn again at once, with its seniority.",
        _said(Reason.RESERVED_HOST_LOST),
    ),
    (
        "A host is cleared for short contracts",
        "Much debugging arrived in the last hour, so a host is kept for it. What ran exposed there makes room.",
        _evicted(Reason.EVICTED_HEADROOM),
    ),
    (
        "Moved to make room for a gang",
        "Enough GPUs were free, on parts of hosts. This job had a place elsewhere, and lost less than the gang gained.",
        _evicted(Reason.EVICTED_MOVED),
    ),
    (
        "A host drains",
        "It is on its way to repair. Whoever is protected there stays until the protection is over.",
        _said(Reason.EVICTED_DRAIN, lambda s, m: m.what == "is evicted"),
    ),
    (
        "A host fails, and the budget gets the time back",
        "What was lost since the last checkpoint is not charged, up to min_runtime.",
        lambda s, m: m.what.endswith(" back") and s.spec.contract.resumable,
    ),
    (
        "Free work gives back what it claimed",
        "Charged jobs that came while its GPUs were being released choose first.",
        _said(Reason.CLAIM_RELEASED),
    ),
    (
        "Evicted again and again, and done in the end",
        "Each time it went back with its seniority, and had a new protection when it started again.",
        _often,
    ),
    (
        "Far beyond its contract, and never disturbed",
        "After its min_runtime an attempt runs on, charged, for as long as nothing that outranks it needs its GPUs.",
        _outlives,
    ),
)


def cases(book: Book) -> Iterator[tuple[str, str, Found]]:
    """The first of each kind that is not in another case already. Raises LookupError where there is none."""
    taken: set[int] = set()
    for title, text, test in CASES:
        others = sorted((s for s in book.since(SETTLED) if s.id not in taken), key=lambda s: len(s.moments) > BRIEF)
        found = ((story, moment) for story in others for moment in story.moments if test(story, moment))
        story, moment = next(found, (None, None))
        if story is None or moment is None:
            raise LookupError(f"no case of: {title}")
        taken.add(story.id)
        yield title, text, (story, moment)


# ---- the page

_HEAD = f"""\
# Twenty cases

What the rules do on ordinary days. {GPUS} GPUs in hosts of 8 and {PEOPLE} simulated people who ask for more than there
is ([the simulator](simulator.md), mix `saturated`). Each case is the first of its kind after a day and a half, jobs
with a short story before those with a long one. What is quoted are the product's own sentences, with the numbers of
that moment. `python docs/cases/why_cases.py` writes this page, and a test compares it with a new run.

How to read the numbers is in [Concepts](concepts.md); what each sentence can say, in [Reasons](reasons.md).
"""


def page() -> str:
    """The page, from a new simulation."""
    book = Book(setup())
    parts = [_HEAD]
    for n, (title, text, found) in enumerate(cases(book), 1):
        parts += [f"## {n}. {title}", "", text, "", *_told(book, *found), ""]
    return "\n".join(parts)


def setup() -> Setup:
    month = month_of("saturated", {"main": GPUS}, people=PEOPLE)
    policy = Policy(reserved_percent=30, headroom_percent=7, moves_per_hour=4)
    return replace(month, seed=SEED, duration=DAYS * DAY, scheduling=policy, faults=Faults(between=8 * DAY))


SEED = 5


def _told(book: Book, story: Story, moment: Moment) -> Iterator[str]:
    yield f"{_who(story)} Submitted {book.clock(story.submitted)}."
    yield ""
    yield "```text"
    at = story.moments.index(moment)
    first = max(0, min(at - SHOWN // 2, len(story.moments) - SHOWN))
    if first:
        yield f"... {first} moments before"
    for m in story.moments[first : first + SHOWN]:
        yield f"{book.clock(m.at)}  {m.what}"
        yield from textwrap.wrap(sentence(m.because), WIDTH, initial_indent=" " * 4, subsequent_indent=" " * 4)
        if m.victim is not None and m.victim.gainer:
            gainer = book.stories[m.victim.gainer]
            yield f"    {_contract(gainer)} of {gainer.spec.budget}"
            yield f"    gained by this: {hours(m.victim.gained)}; at risk: {hours(m.victim.at_risk)}"
        if m.passed:
            yield from textwrap.wrap(m.passed, WIDTH, initial_indent=" " * 4, subsequent_indent=" " * 4)
    if len(story.moments) > first + SHOWN:
        yield f"... {len(story.moments) - first - SHOWN} moments after"
    yield "```"


def _who(story: Story) -> str:
    spec = story.spec
    resumable = "resumable" if spec.contract.resumable else "not resumable"
    return f"{_contract(story)}, {resumable}, by {spec.user} in `{spec.budget}`."


def _contract(story: Story) -> str:
    spec = story.spec
    least = spec.contract.min_runtime
    contract = f"min_runtime {format_duration(least)}" if least else "unallocated"
    limit = f", timeout {format_duration(spec.timeout)}" if spec.timeout is not None else ""
    return f"Job {story.id}: {spec.gpus} GPU{'s' if spec.gpus > 1 else ''}, {contract}{limit}"


if __name__ == "__main__":
    made = page()
    if sys.argv[1:] == ["--print"]:
        print(made, end="")
    else:
        PAGE.write_text(made, "utf-8")
