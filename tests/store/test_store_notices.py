"""The outbox of notices: written with its position, handed out message by message, on both databases."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError
from store_makers import NOW, batch, lead

from support.pauses import TOOK, pauses
from tenure import faults
from tenure.store import AuditRow, NoticePersonRow, NoticeRow, StaleLeader, Store

PERSON = NoticePersonRow("ann", "ann@lab.example", "", "", '["failed"]', "[]", 0, "", "UTC", 1, 1)


def notice(key: str, user: str = "ann", channel: str = "email", **more: object) -> NoticeRow:
    row = NoticeRow(key, 1, NOW, user, channel, "failed", 7, f"title of {key}", "body", "{}", "waiting", NOW)
    return replace(row, **more)  # type: ignore[arg-type]


def keys(store: Store, user: str = "ann") -> list[str]:
    return [row.key for row in reversed(store.notice_log(user))]


@pytest.fixture
def epoch(store: Store) -> int:
    return store.take_leadership()


def test_people_are_kept_with_who_changed_them(store: Store) -> None:
    assert store.notice_person("ann") is None
    store.put_notice_person(PERSON, AuditRow(1, "root", "notice changed", "ann", "{}"))
    changed = replace(PERSON, quiet="22:00-07:00", changed_at=2)
    store.put_notice_person(changed, AuditRow(2, "ann", "notice changed", "ann", "{}"))
    store.put_notice_person(replace(PERSON, user="Abe"), AuditRow(3, "root", "notice changed", "Abe", "{}"))
    assert store.notice_person("ann") == changed and len(store.notice_people()) == 2
    assert [row.who for row in store.audit_log()] == ["root", "ann", "root"]


def test_notices_and_position_are_one(store: Store, epoch: int) -> None:
    assert store.notice_position() is None
    store.tell(epoch, 5, [notice("a"), notice("a", channel="webhook"), notice("b")], facts={"fact": "x"})
    store.tell(epoch, 6, [notice("a", title="again"), notice("c")])
    assert store.notice_position() == 6 and store.meta("fact") == "x"
    assert sorted(keys(store)) == ["a", "a", "b", "c"]
    assert {row.title for row in store.notice_log("ann") if row.key == "a"} == {"title of a"}


def test_an_older_leader_writes_and_takes_nothing(store: Store, epoch: int) -> None:
    store.tell(epoch, 1, [notice("a")])
    store.take_leadership()
    for write in (
        lambda: store.tell(epoch, 2, [notice("b")]),
        lambda: store.take_message(epoch, "ann", "email", NOW),
        lambda: store.fire(epoch, {1: NOW}),
    ):
        with pytest.raises(StaleLeader):
            write()
    assert keys(store) == ["a"] and store.notice_position() == 1


def test_there_is_one_open_test_by_channel_and_one_in_a_while(store: Store, epoch: int) -> None:
    def asked(number: int, at: int, user: str = "ann") -> tuple[int, int]:
        """(how many were sent, when there may be more)."""
        made = notice(f"test:{number}", user, kind="test", at=at, due_at=at)
        ids, again = store.add_tests([made, replace(made, channel="webhook")], at, 60)
        return len(ids), again

    assert asked(1, NOW) == (2, 0)
    assert asked(2, NOW + 59) == (0, 1) and asked(3, NOW + 59, "bob") == (2, 0)
    assert asked(4, NOW + 60) == (0, 0)
    (first, *_) = store.take_message(epoch, "ann", "email", NOW + 60)
    store.put_off_message(str(first.message), NOW + 1000, NOW + 60, "no answer")
    assert asked(5, NOW + 61) == (0, 0)  # it is tried again
    store.finish_message(str(first.message), "failed", NOW + 62, "no answer")
    assert asked(6, NOW + 63) == (1, 0) and store.notice_log("ann", 1)[0].channel == "email"
    assert asked(7, NOW + 64) == (0, 59)
    assert asked(8, NOW - 1000, "bob") == (0, 0)  # the clock was put back, and both are still on their way


def test_errors_do_not_show_what_was_written(store: Store) -> None:
    """They go into the log."""
    row = replace(PERSON, webhook="https://hooks.example.com/very-secret")
    with store._write() as connection:
        connection.execute(text("ALTER TABLE notice_people RENAME TO elsewhere"))
    try:
        with pytest.raises(SQLAlchemyError) as failed:
            store.put_notice_person(row, AuditRow(NOW, "ann", "notice changed", "ann", "{}"))
    finally:
        with store._write() as connection:
            connection.execute(text("ALTER TABLE elsewhere RENAME TO notice_people"))
    assert "notice_people" in str(failed.value) and "very-secret" not in str(failed.value)


def test_timers_come_true_or_are_taken_back(store: Store, epoch: int) -> None:
    timer = notice("t7", kind="waits_longer", state="timer", due_at=NOW + 10)
    store.tell(epoch, 1, [timer, replace(timer, key="t8", job_id=8), replace(timer, key="t9", kind="exposed")])
    assert keys(store) == [] and store.receivers_due(NOW + 100) == [] and store.notices_waiting() == 0
    assert store.next_notice(NOW) == NOW + 10
    store.tell(epoch, 2, [replace(timer, key="t7 anew", due_at=NOW + 20)], over=[("waits_longer", 7)])
    assert [row.key for row in store.due_timers(NOW + 20)] == ["t8", "t9", "t7 anew"]
    (first, *_) = store.due_timers(NOW + 10)
    store.fire(epoch, {first.id: NOW + 50})
    assert keys(store) == ["t8"] and store.notice_log("ann")[0].due_at == NOW + 50
    store.tell(epoch, 3, over=[("waits_longer", 8)])
    assert keys(store) == ["t8"]  # it has come true


def timers(store: Store, count: int) -> list[int]:
    """Ids of so many timers of as many jobs, due one after the other."""
    made = notice("", kind="waits_longer", state="timer")
    rows = [replace(made, key=f"t{job}", job_id=job, due_at=NOW + job) for job in range(count)]
    return store.add_notices(rows)


def test_very_many_come_true_in_pieces_that_let_others_write(
    store: Store, epoch: int, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = timers(store, 1100)
    with pauses(store, url, monkeypatch) as during:
        store.fire(epoch, {number: NOW + 5000 if number % 2 else None for number in ids})
        assert during.take() == ["commit", TOOK] * 3
    assert store.due_timers(NOW + 9000) == []
    due = [(row.id, row.job_id, row.due_at) for row in reversed(store.notice_log("ann", 2000))]
    assert due == [(number, job, NOW + (5000 if number % 2 else job)) for job, number in enumerate(ids)]


def test_very_many_are_told_and_taken_back_in_pieces_and_the_position_moves_with_the_last(
    store: Store, epoch: int, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    timers(store, 1100)
    store.tell(epoch, 1)
    over = [("waits_longer", job) for job in range(700)] + [("exposed", job) for job in range(700, 1100)]
    with pauses(store, url, monkeypatch) as during:
        store.tell(epoch, 2, [notice(str(number)) for number in range(150)], over, {"fact": "x"})
        assert during.take() == ["commit", TOOK] * 3
    assert store.open_timers() == {("waits_longer", job) for job in range(700, 1100)}
    assert store.open_timers_of([699, 700, 701]) == {("waits_longer", 700), ("waits_longer", 701)}
    assert len(keys(store)) == 100 and store.notices_waiting() == 150

    class Killed(BaseException):
        pass

    def killed(_name: str) -> None:
        assert store.notice_position() == 2 and store.meta("fact") == "x"
        raise Killed

    new = [notice(f"new {number}") for number in range(700)]
    with monkeypatch.context() as patch:
        patch.setattr(faults, "point", lambda name: killed(name) if name == "notice.told" else None)
        with pytest.raises(Killed):
            store.tell(epoch, 3, new, facts={"fact": "y"})
    assert 150 < store.notices_waiting() < 850 and store.notice_position() == 2
    store.tell(epoch, 3, new, facts={"fact": "y"})
    assert store.notices_waiting() == 850 and store.notice_position() == 3 and store.meta("fact") == "y"


def test_a_message_is_all_that_is_due_and_stays_what_it_is(store: Store, epoch: int) -> None:
    later = notice("later", due_at=NOW + 1000)
    store.tell(epoch, 1, [notice("a"), notice("b"), later, notice("w", channel="webhook"), notice("o", user="bob")])
    assert store.receivers_due(NOW) == [("ann", "email"), ("ann", "webhook"), ("bob", "email")]
    taken = store.take_message(epoch, "ann", "email", NOW)
    assert [row.key for row in taken] == ["a", "b"]
    message = taken[0].message
    assert message is not None and {row.message for row in taken} == {message}
    store.tell(epoch, 2, [notice("c")])
    again = store.take_message(epoch, "ann", "email", NOW)
    assert [(row.key, row.message) for row in again] == [("a", message), ("b", message)]  # as after a crash
    store.finish_message(message, "sent", NOW + 5)
    assert [row.key for row in store.take_message(epoch, "ann", "email", NOW)] == ["c"]
    done = {row.key: (row.state, row.tries, row.first_try_at, row.done_at) for row in store.notice_log("ann")}
    assert done["a"] == done["b"] == ("sent", 1, NOW + 5, NOW + 5) and done["later"][0] == "waiting"


def test_what_was_put_off_holds_back_what_came_after_it(store: Store, epoch: int) -> None:
    store.tell(epoch, 1, [notice("a")])
    (taken,) = store.take_message(epoch, "ann", "email", NOW)
    assert taken.message is not None
    store.put_off_message(taken.message, NOW + 1000, NOW, "answered 500")
    store.tell(epoch, 2, [notice("b")])
    assert store.receivers_due(NOW + 999) == [] and store.take_message(epoch, "ann", "email", NOW + 999) == []
    assert store.oldest_due(NOW + 999) == NOW and store.next_notice(NOW) == NOW + 1000
    assert store.receivers_due(NOW + 1000) == [("ann", "email")]
    (again,) = store.take_message(epoch, "ann", "email", NOW + 1000)
    assert (again.key, again.tries, again.first_try_at, again.error) == ("a", 1, NOW, "answered 500")


def test_pages_of_the_log(store: Store) -> None:
    ids = store.add_notices([notice(str(number)) for number in range(5)])
    first = store.notice_log("ann", 2)
    assert [row.id for row in first] == [ids[4], ids[3]]
    assert [row.id for row in store.notice_log("ann", 10, after=first[-1].id)] == [ids[2], ids[1], ids[0]]
    assert store.notice_log("bob") == []


def test_compaction_takes_old_ones_away_that_are_over(store: Store) -> None:
    lead(store, 0)
    store.write(batch(1))
    store.add_notices([notice("old", at=10, done_at=11, state="sent"), notice("waits", at=10), notice("new")])
    assert store.compact(NOW - 1, 0).notices == 1
    assert keys(store) == ["waits", "new"]
