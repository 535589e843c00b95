"""What will be: the state of now, and what people submitted lately, submitted again.

The same people do the same things at the same time of the day, and of the week if it is whole weeks. All times ms UTC.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tenure import units
from tenure.core.events import CancelRequested, Event, Held, PriorityChanged, Released, Submitted
from tenure.core.model import DAY, SECOND
from tenure.engine.past import let_time_pass
from tenure.forecast.follow import Follower
from tenure.forecast.guesses import REPAIR, Guesses
from tenure.reports.catalogue import wait
from tenure.sim.work import Work
from tenure.store import Store
from tenure.whatif.course import Course, NothingKept, Progress, Reading, Works, kept_from

MOST_TIMES = 60
"""What was submitted lately comes again no more often: an hour says nothing of a year."""
_OF_PEOPLE = (CancelRequested, Held, Released, PriorityChanged)


@dataclass(frozen=True, slots=True)
class _Lately:
    """What was submitted in a window, with what people did to those jobs meanwhile."""

    events: Sequence[Event]
    jobs: frozenset[int]

    @classmethod
    def of(cls, events: Sequence[Event]) -> _Lately:
        jobs = {
            event.job_id + i
            for event in events
            if isinstance(event, Submitted)
            for i in range(1 if event.array is None else len(event.array.indices))
        }
        mine = [e for e in events if isinstance(e, Submitted) or (isinstance(e, _OF_PEOPLE) and e.job_id in jobs)]
        return cls(mine, frozenset(jobs))

    def again(self, later: int, offset: int) -> Iterator[Event]:
        """All of it ``later`` ms later, as jobs whose ids are larger by ``offset``."""
        for event in self.events:
            if isinstance(event, Submitted):
                after = tuple(
                    replace(one, job_id=one.job_id + offset) for one in event.after if one.job_id in self.jobs
                )
                yield replace(
                    event, at=event.at + later, job_id=event.job_id + offset, after=after, broken=None, client_key=""
                )
            elif isinstance(event, _OF_PEOPLE):
                yield replace(event, at=event.at + later, job_id=event.job_id + offset)


def ahead(store: Store, length: int, seed: int, progress: Progress) -> Course:
    """``length`` ms from now on. Raises NothingKept, also for more than a short history can say."""
    follower = Follower(store)
    now = follower.now()
    since, short = kept_from(store, now - length)
    back = now - since
    if back > DAY:
        back -= back % DAY  # at the same time of the day
    since = now - max(back, SECOND)
    if length > MOST_TIMES * (now - since):
        most = units.format_duration(MOST_TIMES * (now - since))
        raise NothingKept(
            f"ahead = {units.format_duration(length)}: the log reaches back {units.format_duration(now - since)}, and "
            f"what was submitted then comes again at most {MOST_TIMES} times; look at most {most} ahead"
        )
    reading = Reading(store, since, now)
    reading.read(follower.seq, progress)
    let_time_pass(follower.state, now)
    guesses = Guesses(follower.state, follower.past, now)
    made = Works(guesses, reading.lives.all, seed)
    known = {job_id: made.of(job_id, life) for job_id, life in sorted(reading.lives.all.items())}
    works: dict[int, Work] = {job_id: known[job_id] for job_id in follower.state.jobs}
    done = {job_id: reading.lives.all[job_id].done for job_id in follower.state.jobs}
    lately, events = _Lately.of(reading.events), list[Event]()
    step, cycles = store.max_job_id() + 1, -(-length // (now - since))
    for cycle in range(1, cycles + 1):
        events += (event for event in lately.again(cycle * (now - since), cycle * step) if event.at <= now + length)
        works |= {job_id + cycle * step: known[job_id] for job_id in lately.jobs}
    hosts = guesses.scenario("", now, arrivals=False).hosts
    events = sorted([*events, *hosts], key=lambda event: event.at)
    notes = [*([_short(short, now - since, length)] if short else []), *_assumed(lately, now - since, len(hosts))]
    if follower.state.paused_starts or follower.state.paused_evictions:
        notes.append("Starts or evictions are paused now, and stay so in every run.")
    return Course(
        now, now + length, pickle.dumps(follower.state), works, done, {}, tuple(events), None, tuple(notes), fit=True
    )


def _short(kept: str, back: int, length: int) -> str:
    """``kept``: how far the history reaches."""
    return (
        f"{kept.partition(',')[0]}: what was submitted in the last {wait(back / SECOND)} comes again, as often "
        f"as it takes for {wait(length / SECOND)}."
    )


def _assumed(lately: _Lately, back: int, hosts: int) -> list[str]:
    said = [
        f"What was submitted in the last {wait(back / SECOND)} ({units.counted(len(lately.jobs), 'job')}) is "
        "submitted again, with the work that those jobs had, and people cancel and hold as they did. Nobody answers "
        "to waiting: it is the same work in every run.",
        "How long the jobs of now run on is estimated from how long jobs of the same people, budgets and sizes ran; it "
        "is the same in every run.",
        "No host breaks, since nobody knows which one will.",
    ]
    if hosts:
        said.append(
            f"{units.counted(hosts, 'host')} that {'is' if hosts == 1 else 'are'} out of service now "
            f"{'is' if hosts == 1 else 'are'} back {wait(REPAIR / SECOND)} after they went."
        )
    if back % (7 * DAY):
        said.append("That is no whole number of weeks, so working days may come on weekends.")
    return said
