"""What people are told: an outbox that is written together with the position in the log up to which it was made."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Engine, Select, case, delete, func, insert, or_, select, update

from tenure import faults
from tenure.store import schema
from tenure.store.database import Database, as_dict, columns_of, upsert
from tenure.store.errors import StaleLeader
from tenure.store.rows import AuditRow, NoticePersonRow, NoticeRow

POSITION = "notice_seq"
"""The fact that says up to which batch the outbox was made."""

_MOST = 500
"""Notices in one message."""
_AT_ONCE = 500
"""Rows in one transaction, and parameters in one statement: the scheduler's commits wait for no more than that."""
_OPEN = ("waiting", "timer")

_notice = as_dict(NoticeRow, without=("id",))
_person = as_dict(NoticePersonRow)
_audit = as_dict(AuditRow, without=("id",))
_table = schema.notices


class Notices(Database):
    """The outbox, and how people want to be told."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._upsert_person = upsert(self.dialect, schema.notice_people)

    # ---- people

    def notice_people(self) -> list[NoticePersonRow]:
        """All who have said how they want to be told, by name."""
        query = columns_of(NoticePersonRow, schema.notice_people).order_by(schema.notice_people.c.user)
        return [NoticePersonRow(*row) for row in self._rows(query)]

    def notice_person(self, user: str) -> NoticePersonRow | None:
        rows = self._rows(columns_of(NoticePersonRow, schema.notice_people).where(schema.notice_people.c.user == user))
        return NoticePersonRow(*rows[0]) if rows else None

    def put_notice_person(
        self, row: NoticePersonRow, audit: AuditRow, due: Callable[[NoticeRow], int] | None = None
    ) -> None:
        """Replace what ``row.user`` had said, together with its entry in the audit log.

        ``due``: when what waits for them, and was not taken for delivery yet, is to be told from now on.
        """
        with self._write() as connection:
            connection.execute(self._upsert_person, [_person(row)])
            connection.execute(insert(schema.audit), [_audit(audit)])
            if due is None:
                return
            theirs = (_table.c.user == row.user) & (_table.c.state == "waiting") & _table.c.message.is_(None)
            for found in connection.execute(_select().where(theirs)).all():
                notice = NoticeRow(*found)
                if (at := due(notice)) != notice.due_at:
                    connection.execute(update(_table).where(_table.c.id == notice.id).values(due_at=at))

    # ---- making notices

    def notice_position(self) -> int | None:
        """The batch up to which the outbox was made; None before the first time."""
        found = self.meta(POSITION)
        return None if found is None else int(found)

    def tell(
        self,
        epoch: int,
        seq: int,
        new: Sequence[NoticeRow] = (),
        over: Collection[tuple[str, int]] = (),
        facts: Mapping[str, str] | None = None,
    ) -> None:
        """Write what follows from the log, and that it was read up to batch ``seq``.

        ``over``: (kind, job) whose timers will not come true any more; ``new`` may set them again. A notice that is
        there already (same key and channel) is left as it is. ``facts``: what the reader wants to find again, kept in
        ``meta``. Very much is written in several transactions, and position and facts with the last: killed before
        it, all is read again, and what was written is there. Raises StaleLeader when another server has taken over.
        """
        pairs, rows, last = sorted(over), list(new), False
        while not last:
            ended, pairs = pairs[:_AT_ONCE], pairs[_AT_ONCE:]
            room = _AT_ONCE - len(ended)  # none while there is more to take back: that goes first
            some, rows = rows[:room], rows[room:]
            last = not pairs and not rows
            with self._step() as connection:
                self._check_epoch(connection, epoch)
                self._take_back(connection, ended)
                self._insert(connection, some)
                if last:
                    for key, value in {**(facts or {}), POSITION: str(seq)}.items():
                        self._set(connection, key, value)
                faults.point("notice.before_commit")
            faults.point("notice.told")

    @staticmethod
    def _take_back(connection: Connection, over: Sequence[tuple[str, int]]) -> None:
        """Timers that will not come true."""
        for kind in sorted({kind for kind, _ in over}):
            same = (_table.c.kind == kind) & _table.c.job_id.in_([job for other, job in over if other == kind])
            connection.execute(delete(_table).where(_table.c.state == "timer", same))

    def add_notices(self, rows: Sequence[NoticeRow]) -> list[int]:
        """Put notices into the outbox that do not follow from the log, such as a test. Returns their ids."""
        keys = {row.key for row in rows}
        with self._write() as connection:
            self._insert(connection, rows)
            query = select(_table.c.id).where(_table.c.key.in_(keys)).order_by(_table.c.id)
            return list(connection.execute(query).scalars())

    def add_tests(self, rows: Sequence[NoticeRow], now: int, gap: int) -> tuple[list[int], int]:
        """Put tests of one kind for one person into the outbox, one for each channel, unless there were enough.

        Nothing when they had one in the last ``gap`` ms; nothing by a channel whose last one is still on its way.
        Returns the ids, and after how many ms another one may be asked for: 0 when nobody can tell.
        """
        first = rows[0]
        theirs = (_table.c.user == first.user) & (_table.c.kind == first.kind)
        # A wall clock that was put back must not forbid tests until it is there again.
        lately = select(func.max(_table.c.at)).where(theirs, _table.c.at > now - gap, _table.c.at <= now)
        with self._write() as connection:
            last = connection.execute(lately).scalar_one_or_none()
            if last is not None:
                return [], last + gap - now
            open_ones = select(_table.c.channel).where(theirs, _table.c.state == "waiting")
            busy = set(connection.execute(open_ones).scalars())
            new = [row for row in rows if row.channel not in busy]
            self._insert(connection, new)
            query = select(_table.c.id).where(_table.c.key.in_({row.key for row in new})).order_by(_table.c.id)
            return list(connection.execute(query).scalars()), 0

    def _insert(self, connection: Connection, rows: Sequence[NoticeRow]) -> None:
        there: set[tuple[str, str]] = set()
        for start in range(0, len(rows), _AT_ONCE):
            keys = [row.key for row in rows[start : start + _AT_ONCE]]
            found = connection.execute(select(_table.c.key, _table.c.channel).where(_table.c.key.in_(keys)))
            there |= {(row.key, row.channel) for row in found}
        values = [_notice(row) for row in rows if (row.key, row.channel) not in there]
        if values:
            connection.execute(insert(_table), values)

    def due_timers(self, now: int) -> list[NoticeRow]:
        """Timers whose time has come."""
        return self._notices(_select().where(_table.c.state == "timer", _table.c.due_at <= now).order_by(_table.c.id))

    def open_timers(self) -> set[tuple[str, int]]:
        """(kind, job) of all timers."""
        return {(row.kind, row.job_id) for row in self._rows(_timers())}

    def open_timers_of(self, jobs: Iterable[int]) -> set[tuple[str, int]]:
        """(kind, job) of the timers of these jobs."""
        left, found = sorted(set(jobs)), set[tuple[str, int]]()
        while left:
            some, left = left[:_AT_ONCE], left[_AT_ONCE:]
            found |= {(row.kind, row.job_id) for row in self._rows(_timers().where(_table.c.job_id.in_(some)))}
        return found

    def fire(self, epoch: int, due: Mapping[int, int | None]) -> None:
        """Timers that came true: id -> when to tell it; None: when it was due. Raises StaleLeader.

        Killed halfway, the others are still there, and due.
        """
        left = list(due.items())
        while left:
            some, left = left[:_AT_ONCE], left[_AT_ONCE:]
            together = defaultdict[int | None, list[int]](list)
            for number, at in some:
                together[at].append(number)
            with self._step() as connection:
                self._check_epoch(connection, epoch)
                for at, ids in together.items():
                    true = update(_table).where(_table.c.id.in_(ids), _table.c.state == "timer")
                    connection.execute(true.values(state="waiting", due_at=_table.c.due_at if at is None else at))

    # ---- delivering them

    def receivers_due(self, now: int) -> list[tuple[str, str]]:
        """(user, channel) of everybody for whom something is due, who has waited longest first.

        Without those for whom a message was put off: what came since goes after it.
        """
        first = func.min(_table.c.due_at)
        put_off = func.max(case((_table.c.message.is_not(None), _table.c.due_at), else_=0))
        query = select(_table.c.user, _table.c.channel).where(_table.c.state == "waiting")
        query = query.group_by(_table.c.user, _table.c.channel).having((first <= now) & (put_off <= now))
        query = query.order_by(first, _table.c.user, _table.c.channel)
        return [(row.user, row.channel) for row in self._rows(query)]

    def next_notice(self, after: int) -> int | None:
        """When the next one after ``after`` is due, timers included."""
        query = select(func.min(_table.c.due_at)).where(_table.c.state.in_(_OPEN), _table.c.due_at > after)
        return self._scalar(query)

    def oldest_due(self, now: int) -> int | None:
        """Since when the one that waits longest could be delivered: it was due then, or tried for the first time."""
        since = func.min(func.coalesce(_table.c.first_try_at, _table.c.due_at))
        late = or_(_table.c.due_at <= now, _table.c.first_try_at.is_not(None))
        return self._scalar(select(since).where(_table.c.state == "waiting", late))

    def take_message(self, epoch: int, user: str, channel: str, now: int) -> list[NoticeRow]:
        """The next message for a receiver: the one that was tried before, else all that is due, as a new one.

        Empty when nothing is due, or when what was tried before is put off: messages stay in order. Raises StaleLeader.
        """
        theirs = (_table.c.user == user) & (_table.c.channel == channel) & (_table.c.state == "waiting")
        begun = select(_table.c.message, _table.c.due_at).where(theirs, _table.c.message.is_not(None))
        with self._write() as connection:
            self._check_epoch(connection, epoch)
            first = connection.execute(begun.order_by(_table.c.id).limit(1)).one_or_none()
            if first is not None and first.due_at > now:
                return []
            message = first.message if first is not None else uuid.uuid4().hex
            if first is None:
                due = select(_table.c.id).where(theirs, _table.c.due_at <= now).order_by(_table.c.id).limit(_MOST)
                ids = connection.execute(due).scalars().all()
                connection.execute(update(_table).where(_table.c.id.in_(ids)).values(message=message))
            rows = connection.execute(_select().where(theirs, _table.c.message == message).order_by(_table.c.id)).all()
        faults.point("notice.taken")
        return [NoticeRow(*row) for row in rows]

    def finish_message(self, message: str, state: str, now: int, error: str = "", *, tried: bool = True) -> None:
        """It is ``sent``, ``failed`` or ``dropped``, and over with that."""
        values: dict[str, Any] = {"state": state, "done_at": now, "error": error}
        if tried:
            values |= {"tries": _table.c.tries + 1, "first_try_at": func.coalesce(_table.c.first_try_at, now)}
        with self._write() as connection:
            connection.execute(update(_table).where(_table.c.message == message).values(values))

    def put_off_message(self, message: str, due_at: int, now: int, error: str) -> None:
        """It did not go through, and is tried again at ``due_at``."""
        values: dict[str, Any] = {"due_at": due_at, "error": error, "tries": _table.c.tries + 1}
        values["first_try_at"] = func.coalesce(_table.c.first_try_at, now)
        with self._write() as connection:
            connection.execute(update(_table).where(_table.c.message == message).values(values))

    # ---- looking

    def notice_log(self, user: str, limit: int = 100, after: int | None = None) -> list[NoticeRow]:
        """What ``user`` was and will be told, newest first. ``after``: the last id of the page before."""
        query = _select().where(_table.c.user == user, _table.c.state != "timer").order_by(_table.c.id.desc())
        if after is not None:
            query = query.where(_table.c.id < after)
        return self._notices(query.limit(limit))

    def notices_put_off(self, user: str) -> dict[str, int]:
        """Channel -> when the message is tried again that did not go through to ``user``: all that is new waits."""
        query = select(_table.c.channel, func.max(_table.c.due_at).label("due_at")).group_by(_table.c.channel)
        tried = (_table.c.user == user) & (_table.c.state == "waiting") & (_table.c.tries > 0)
        return {row.channel: row.due_at for row in self._rows(query.where(tried))}

    def notices_waiting(self) -> int:
        """How many are on their way, put off or not; timers do not count."""
        return self._scalar(select(func.count()).where(_table.c.state == "waiting")) or 0

    def _notices(self, query: Select[Any]) -> list[NoticeRow]:
        return [NoticeRow(*row) for row in self._rows(query)]

    def _rows(self, query: Select[Any]) -> Sequence[Any]:
        with self._read() as connection:
            return connection.execute(query).all()

    def _scalar(self, query: Select[Any]) -> int | None:
        with self._read() as connection:
            found: int | None = connection.execute(query).scalar_one_or_none()
        return found

    def _check_epoch(self, connection: Connection, epoch: int) -> None:
        row = select(schema.meta.c.value).where(schema.meta.c.key == "epoch").with_for_update(read=True)
        current = int(connection.execute(row).scalar_one())
        if current != epoch:
            raise StaleLeader(epoch, current)


def _timers() -> Select[Any]:
    return select(_table.c.kind, _table.c.job_id).where(_table.c.state == "timer").distinct()


def _select() -> Select[Any]:
    return columns_of(NoticeRow, _table)
