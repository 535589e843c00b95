"""The thread that reads the log behind the engine and writes down whom to tell what.

It reads committed batches only, and holds no lock of the engine's. What it makes of them is written no later than the
position that it has read up to, so whatever is killed, each thing is told once and nothing is left out.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice

import structlog
from sqlalchemy.exc import SQLAlchemyError

from tenure.config.settings import Notice
from tenure.core.events import ConfigApplied, ReplicasUp
from tenure.core.reasons import Because, Reason
from tenure.core.tree import Tree
from tenure.engine import record
from tenure.engine.clock import wall_ms
from tenure.notice import text
from tenure.notice.derive import WANTED, Derived, Told, derive
from tenure.notice.kinds import Kind
from tenure.notice.person import Person, by_default, due_at, person_of
from tenure.store import StaleLeader
from tenure.store.rows import BatchRow, JobRow, NoticeRow
from tenure.store.store import Store

log = structlog.get_logger()

PAGE = 100
"""Batches that are gone through together."""
PAUSE_S = 0.1
"""Between two turns: on a busy server several batches are read in one."""
LOOK_WITHIN_S = 5.0
"""So often it looks for timers that have come true when nothing is committed, and for estimates that have not."""
REMEMBER_WITHIN = 1000
"""Batches in which there was nothing to tell are noted as read once there are so many."""
_UNFUNDED = "notice_unfunded"
"""The fact that says which budgets had no share of which cluster in the last configuration."""


class People:
    """Who wants to be told what, as it is now."""

    def __init__(self, store: Store, notice: Notice) -> None:
        self._known = {row.user: person_of(row) for row in store.notice_people()}
        self._domain = notice.default_domain

    def __bool__(self) -> bool:
        """Whether there is anybody at all."""
        return bool(self._known or self._domain)

    def get(self, user: str) -> Person | None:
        return self._known.get(user) or by_default(user, self._domain)


class Teller:
    """Reads from where the last one stopped, as the server that leads ``epoch``.

    ``deliver``: called when there is something new to deliver. ``now``: engine time, by which things are true or not;
    ``clock``: the wall clock, by which they are delivered, and which may be far from it. Both in ms UTC.
    """

    def __init__(
        self,
        store: Store,
        notice: Notice,
        epoch: int,
        deliver: Callable[[], None],
        now: Callable[[], int],
        clock: Callable[[], int] = wall_ms,
    ) -> None:
        self._store, self._notice, self._epoch = store, notice, epoch
        self._deliver, self._now, self._clock = deliver, now, clock
        self._closing, self._news = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="notice-teller", daemon=True)
        position = self._store.notice_position()
        # A database that has never told anybody anything does not begin with its whole past.
        self._read = self._written = self._store.last_seq() if position is None else position
        if position is None:
            self._store.tell(epoch, self._read)
        self._timers = self._store.open_timers()
        """(kind, job) of all timers: most of what would end one is about a job that has none."""
        self._looked: int | None = None
        """When it last looked who waits longer than was estimated: what was late by then is known; None: nothing is."""

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._closing.set()
        self._news.set()
        self._thread.join()

    def poke(self) -> None:
        """A batch was committed. This costs whoever calls it next to nothing."""
        self._news.set()

    def _run(self) -> None:
        while not self._closing.is_set():
            try:
                self.turn()
            except StaleLeader:
                return
            except SQLAlchemyError as error:
                log.warning("notices_wait", error=str(error))
                self._closing.wait(1)
            except Exception as error:  # the next turn may do better, and nobody else tells
                log.error("notices_failed", error=repr(error), exc_info=True)
                self._closing.wait(LOOK_WITHIN_S)
            self._news.wait(LOOK_WITHIN_S)
            self._closing.wait(PAUSE_S)
            self._news.clear()

    def turn(self) -> None:
        """Read what is new, then see which timers have come true. Raises StaleLeader and SQLAlchemyError."""
        people = People(self._store, self._notice)
        try:
            self._read_on(people)
        except (StaleLeader, SQLAlchemyError):
            raise  # what has not been read yet may say that a timer is over
        except Exception:  # it may never be read: what was told to come true does so all the same
            self._come_true(people)
            raise
        self._come_true(people)

    def _come_true(self, people: People) -> None:
        self._overdue_estimates(people)
        self._fire(people)

    def _read_on(self, people: People) -> None:
        if not people:
            self._read = max(self._read, self._store.last_seq())
        batches = self._store.batches(after=self._read) if people else iter(())
        while (page := list(islice(batches, PAGE))) and not self._closing.is_set():
            self._tell(page, people)
        if self._read - self._written >= REMEMBER_WITHIN:
            self._write(self._read, [])

    def _tell(self, page: Sequence[BatchRow], people: People) -> None:
        """Write what is to be told of these batches, each by itself; what that needs is read for all at once."""
        try:
            derived = self._derived(page)
            jobs = self._jobs(told for found in derived.values() for told in found.told)
        except (StaleLeader, SQLAlchemyError):
            raise
        except Exception as error:
            if len(page) > 1:  # whichever it is, the others are told
                for batch in page:
                    self._tell([batch], people)
            else:
                log.error("batch_not_told", seq=page[0].seq, error=repr(error), exc_info=True)
                self._read = page[0].seq
            return
        for batch in page:
            with _else_left_out("batch_not_told", seq=batch.seq):
                self._tell_of(batch, derived[batch.seq], people, jobs)
            self._read = batch.seq

    def _derived(self, page: Sequence[BatchRow]) -> dict[int, Derived]:
        happened = {batch.seq: record.happenings(batch, WANTED) for batch in page}
        up = [item.attempt_id for items in happened.values() for item in items if isinstance(item, ReplicasUp)]
        protections = self._store.protections_of(up) if up else {}
        return {seq: derive(items, protections) for seq, items in happened.items()}

    def _tell_of(self, batch: BatchRow, found: Derived, people: People, jobs: dict[int, JobRow]) -> None:
        facts: dict[str, str] = {}
        with _else_left_out("batch_not_told", seq=batch.seq, part="shares"):
            facts = self._share_changes(found, batch, jobs)
        new = rows_of(found.told, batch.seq, people, jobs, self._clock())
        over = found.over & self._timers
        if new or over or facts:
            self._write(batch.seq, new, over, facts)
        if any(row.state == "waiting" for row in new):
            self._deliver()

    def _write(
        self,
        seq: int,
        new: list[NoticeRow],
        over: Collection[tuple[str, int]] = (),
        facts: Mapping[str, str] | None = None,
    ) -> None:
        """All of a batch."""
        timers = {(row.kind, row.job_id) for row in new if row.state == "timer"}
        self._timers |= timers  # before: of a write that fails halfway some are there
        self._store.tell(self._epoch, seq, new, over, facts)
        self._timers -= set(over) - timers
        self._written = seq

    def _jobs(self, told: Iterable[Told]) -> dict[int, JobRow]:
        wanted = {number for one in told for number in (one.job_id, one.gainer) if number}
        return self._store.jobs_of(wanted) if wanted else {}

    def _share_changes(self, derived: Derived, batch: BatchRow, jobs: dict[int, JobRow]) -> dict[str, str]:
        """Add jobs that wait in budgets whose share of all their clusters became 0. Returns what to remember."""
        if derived.config is None:
            return {}
        now = unfunded(derived.config)
        before = {(budget, cluster) for budget, cluster in json.loads(self._store.meta(_UNFUNDED) or "[]")}
        lost = {budget for budget, _ in now - before}
        for job in self._store.waiting_in(sorted(lost)) if lost else ():
            with _else_left_out("job_not_told", seq=batch.seq, job=job.id):
                clusters = json.loads(job.spec)["clusters"]
                if job.charged and job.submitted_at <= batch.at and all((job.budget, name) in now for name in clusters):
                    why = Because(Reason.HELD_NO_SHARE, {"budget": job.budget, "cluster": clusters[0]})
                    derived.add(Told(Kind.HELD, job.id, derived.config.at, why))
                    jobs[job.id] = job
        return {_UNFUNDED: json.dumps(sorted(now))}

    def _overdue_estimates(self, people: People) -> None:
        """Jobs that have not started within the range that was estimated first, each once; of an array the first."""
        now = self._now()
        if not people:
            self._looked = None
            return
        if self._looked is not None and 0 <= now - self._looked < LOOK_WITHIN_S * 1000:
            return
        new = self._store.overdue_estimates(now, self._looked)
        if new:
            jobs = self._store.jobs_of({job for job, _ in new})
            told = [Told(Kind.WAITS_LONGER, job, now, None, by=high, timer=high) for job, high in new]
            rows = rows_of(told, self._read, people, jobs, self._clock())
            self._write(self._read, _once_an_array(rows, jobs))
        self._looked = now

    def _fire(self, people: People) -> None:
        now = self._clock()
        due: dict[int, int | None] = {}
        rows = self._store.due_timers(self._now())
        for row in rows:
            person, at = people.get(row.user), min(now, row.due_at)
            told_at = due_at(at, row.kind, person) if person is not None else at
            due[row.id] = None if told_at == row.due_at else told_at
        if due:
            self._store.fire(self._epoch, due)
            # A job may have another one of the same kind, for another time.
            self._timers -= {(row.kind, row.job_id) for row in rows}
            self._timers |= self._store.open_timers_of(row.job_id for row in rows)
            self._deliver()


def unfunded(config: ConfigApplied) -> set[tuple[str, str]]:
    """(budget, cluster) of every budget that has no share of a cluster, by its path; grants do not count."""
    tree = Tree(config.budgets)
    found = set()
    for cluster in config.clusters:
        allocations = tree.allocations(cluster.name, 1, config.at)
        found |= {(path, cluster.name) for path in tree.budgets if not allocations[tree.leaf_of(path)]}
    return found


@contextmanager
def _else_left_out(event: str, **names: object) -> Iterator[None]:
    """What goes wrong here is logged and left out: it must not silence all that comes after."""
    try:
        yield
    except (StaleLeader, SQLAlchemyError):
        raise
    except Exception as error:
        log.error(event, error=repr(error), exc_info=True, **names)


def _once_an_array(rows: Iterable[NoticeRow], jobs: Mapping[int, JobRow]) -> list[NoticeRow]:
    """Those of an array have one key, under which only the first is written: not one a job, nor another later."""
    found: dict[tuple[str, str], NoticeRow] = {}
    for row in rows:
        array = jobs[row.job_id].array_id
        one = row if array is None else replace(row, key=f"{row.kind}:array {array}")
        found.setdefault((one.key, one.channel), one)
    return list(found.values())


def rows_of(told: Collection[Told], seq: int, people: People, jobs: Mapping[int, JobRow], now: int) -> list[NoticeRow]:
    """One row for each thing and each way to tell it to somebody who wants to know. ``now``: by the wall clock.

    A job that cannot be put into words is logged and left out.
    """
    found: list[NoticeRow] = []
    for one in told:
        with _else_left_out("job_not_told", seq=seq, job=one.job_id):
            found += _rows_of_one(one, seq, people, jobs, now)
    return found


def _rows_of_one(one: Told, seq: int, people: People, jobs: Mapping[int, JobRow], now: int) -> list[NoticeRow]:
    job = jobs.get(one.job_id)
    person = people.get(job.user) if job is not None else None
    if job is None or person is None or one.kind not in person.kinds or one.who == job.user:
        return []  # gone with its history; nobody to tell; their own doing
    if one.at < person.since:
        return []
    gainer = jobs.get(one.gainer)
    row = NoticeRow(
        key=f"{one.kind}:{one.attempt_id or one.job_id}:{one.timer or seq}",
        seq=seq,
        at=one.at,
        user=job.user,
        channel="",
        kind=one.kind.value,
        job_id=job.id,
        title=text.title(one, job),
        body=text.body(one, job, gainer),
        data=text.data(one, job, gainer),
        state="timer" if one.timer else "waiting",
        due_at=one.timer or due_at(min(one.at, now), one.kind, person),
    )
    return [replace(row, channel=channel.value) for channel in person.channels()]
