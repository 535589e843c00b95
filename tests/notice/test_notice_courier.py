"""Delivery from the outbox: signed, in order, again when it fails, and nobody waits for somebody else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from notice_kit import NOW, Outbox, config_of, outbox
from receivers import Hook, Post, hook, mail_server, until

from tenure.core.model import DAY, HOUR, MINUTE, SECOND
from tenure.notice.courier import PER_PLACE, pause
from tenure.store import StaleLeader


@pytest.fixture
def web() -> Iterator[Hook]:
    with hook() as made:
        yield made


@pytest.fixture
def post() -> Iterator[Post]:
    with mail_server() as made:
        yield made


@pytest.fixture
def box(tmp_path: Path, web: Hook) -> Iterator[Outbox]:
    with outbox(tmp_path, config_of(tmp_path, hooks=web.port)) as made:
        yield made


@pytest.fixture
def patient(tmp_path: Path, web: Hook) -> Iterator[Outbox]:
    """For tests in which nobody is left: it waits for answers longer than any test does."""
    with outbox(tmp_path, config_of(tmp_path, hooks=web.port, timeout=10 * MINUTE)) as made:
        yield made
        web.let_go.set()


def send(box: Outbox, user: str, title: str = "Job 1 has failed") -> int:
    number = box.add(user, "webhook", title)
    box.courier.poke()
    return number


def test_a_webhook_gets_what_slack_shows_and_programs_read(box: Outbox, web: Hook) -> None:
    box.person("ann", webhook=f"{web.url}/ann")
    number = send(box, "ann", "Job 7 (<!channel> & co) has failed")
    web.wait(lambda: bool(web.got))
    (got,) = web.got
    assert got.json["text"] == "Job 7 (&lt;!channel&gt; &amp; co) has failed\nFailed: exit code 3."
    header, section = got.json["blocks"]
    assert header["text"] == {
        "type": "plain_text",
        "text": "Job 7 (<!channel> & co) has failed",
        "emoji": False,
    }
    assert section["text"]["text"] == "Failed: exit code 3."
    ours = got.json["tenure"]
    assert (ours["kind"], ours["job"], ours["count"]) == ("failed", 1, 1)
    assert got.signed_with(box.secret("ann")) and not got.signed_with(box.secret("bob"))
    assert got.headers["x-tenure-timestamp"] == str(NOW // 1000) and got.headers["content-type"] == "application/json"
    until(lambda: box.row("ann", number).state == "sent")
    assert got.id == box.row("ann", number).message == ours["id"]
    assert box.courier.tally.delivered == {"webhook": 1}


def test_what_fails_is_tried_again_with_the_same_id_until_it_goes_through(box: Outbox, web: Hook) -> None:
    box.person("ann", webhook=f"{web.url}/ann")
    web.answers["/ann"] = [500, 503, 200]
    number = send(box, "ann")
    waits = []
    for tries in (1, 2):
        until(lambda tries=tries: box.row("ann", number).tries == tries)  # type: ignore[misc]
        row = box.row("ann", number)
        assert row.state == "waiting" and row.error.startswith("answered 50")
        waits.append(row.due_at - box.clock.now)
        box.later(waits[-1] - 1)
        box.later(1)
    until(lambda: box.row("ann", number).state == "sent")
    first = box.config.notice.retry_first
    assert 0.75 * first <= waits[0] <= 1.25 * first < 1.5 * first <= waits[1] <= 2.5 * first
    assert len({got.id for got in web.at("/ann")}) == 1 and len({got.body for got in web.at("/ann")}) == 1
    assert len({got.headers["x-tenure-timestamp"] for got in web.at("/ann")}) == 3  # each try is signed anew
    assert all(got.signed_with(box.secret("ann")) for got in web.at("/ann"))


def test_a_receiver_that_asks_for_time_gets_it(box: Outbox, web: Hook) -> None:
    box.person("ann", webhook=f"{web.url}/ann")
    web.answers["/ann"], web.headers["Retry-After"] = [429, 200], "1800"
    number = send(box, "ann")
    until(lambda: box.row("ann", number).tries == 1)
    assert box.row("ann", number).due_at == box.clock.now + 1800 * SECOND
    box.later(1800 * SECOND)
    until(lambda: box.row("ann", number).state == "sent")


def test_it_gives_up_after_a_day_and_says_so(box: Outbox, web: Hook) -> None:
    box.person("ann", webhook=f"{web.url}/ann")
    web.answers["/ann"] = [500]
    number = send(box, "ann")
    until(lambda: box.row("ann", number).tries == 1)
    box.later(DAY - 1)
    until(lambda: box.row("ann", number).tries == 2)
    assert box.row("ann", number).state == "waiting"
    box.later(2 * HOUR)
    until(lambda: box.row("ann", number).state == "failed")
    assert box.row("ann", number).error == "answered 500: said"
    assert box.courier.tally.failed == {"webhook": 1}


@pytest.mark.parametrize("answer", [400, 404, 410, 301, 307])
def test_a_refusal_for_good_is_not_tried_again(box: Outbox, web: Hook, answer: int) -> None:
    box.person("ann", webhook=f"{web.url}/ann")
    web.answers["/ann"], web.headers["Location"] = [answer], f"{web.url}/elsewhere"
    number = send(box, "ann")
    until(lambda: box.row("ann", number).state == "failed")
    assert str(answer) in box.row("ann", number).error
    assert len(web.got) == 1  # no redirect is followed
    web.answers["/ann"] = [200]
    after = send(box, "ann")
    until(lambda: box.row("ann", after).state == "sent")


def test_messages_to_one_receiver_stay_in_order(box: Outbox, web: Hook) -> None:
    box.person("ann", webhook=f"{web.url}/ann")
    web.answers["/ann"] = [500, 200]
    first = send(box, "ann", "first")
    until(lambda: box.row("ann", first).tries == 1)
    second = send(box, "ann", "second")
    until(lambda: box.courier.tally.waiting == 2)
    assert box.row("ann", second).tries == 0
    box.later(MINUTE)
    until(lambda: box.row("ann", second).state == "sent")
    assert [got.json["text"].split("\n")[0] for got in web.good("/ann")] == ["first", "second"]


@pytest.mark.parametrize("way", ["hang", "drip"])
def test_one_that_hangs_holds_up_nobody(patient: Outbox, web: Hook, way: str) -> None:
    box = patient
    web.answers["/slow"] = [getattr(web, way)]
    people = [f"slow{i}" for i in range(3)]
    for name in people:
        box.person(name, webhook=f"{web.url}/slow")
    box.person("ann", webhook=f"{web.url}/ann")
    stuck = [send(box, name) for name in people]
    web.wait(lambda: web.hanging == 3)
    send(box, "ann")
    web.wait(lambda: len(web.good("/ann")) == 1, "whoever answers is told meanwhile")
    assert [box.row(name, number).tries for name, number in zip(people, stuck, strict=True)] == [0, 0, 0]


@pytest.mark.parametrize("way", ["hang", "drip"])
def test_one_that_hangs_is_left_in_time(box: Outbox, web: Hook, way: str) -> None:
    web.answers["/slow"] = [getattr(web, way)]
    box.person("slow", webhook=f"{web.url}/slow")
    number = send(box, "slow")
    until(lambda: box.row("slow", number).tries == 1)
    assert box.row("slow", number).error == "no answer within 2 s"


def test_a_host_that_hangs_leaves_room_for_others(patient: Outbox, web: Hook) -> None:
    """However many are told there, only so many deliveries wait for it."""
    box = patient
    web.answers["/slow"] = [web.hang]
    for number in range(3 * PER_PLACE):
        box.person(f"slow{number}", webhook=f"{web.url}/slow")
        box.add(f"slow{number}", "webhook")
    box.person("ann", webhook=f"http://localhost:{web.port}/ann")
    box.courier.poke()
    web.wait(lambda: web.hanging == PER_PLACE)
    send(box, "ann")
    web.wait(lambda: len(web.good("/ann")) == 1)
    assert web.hanging == PER_PLACE


def test_a_receiver_that_is_not_there(patient: Outbox, web: Hook) -> None:
    box = patient  # a name may take long to look up
    box.person("ann", webhook=f"http://127.0.0.1:{web.port}/ann")
    box.person("bob", webhook="https://nowhere.invalid/bob")
    box.person("eve", webhook="http://127.0.0.1:1/eve")
    numbers = {name: send(box, name) for name in ("bob", "eve", "ann")}
    until(lambda: box.row("ann", numbers["ann"]).state == "sent")
    until(lambda: box.row("bob", numbers["bob"]).tries == 1)
    assert "nowhere.invalid cannot be found" in box.row("bob", numbers["bob"]).error
    until(lambda: box.row("eve", numbers["eve"]).state == "failed")
    assert "use https" in box.row("eve", numbers["eve"]).error  # its port is not listed


def test_what_our_own_fault_keeps_back_is_given_up_in_time_too(box: Outbox, web: Hook) -> None:
    box.person("ann", webhook=f"{web.url}/ann")
    number = box.add("ann", "webhook", data="not JSON")  # which no message can be made of
    box.courier.poke()
    until(lambda: box.row("ann", number).tries == 1)
    row = box.row("ann", number)
    assert row.state == "waiting" and row.due_at > box.clock.now
    assert row.error == "the server failed with JSONDecodeError; its log says where"
    box.later(2 * DAY)
    until(lambda: box.row("ann", number).state == "failed")
    after = send(box, "ann")
    until(lambda: box.row("ann", after).state == "sent")


def test_all_that_is_due_is_one_message(box: Outbox, web: Hook) -> None:
    box.person("ann", webhook=f"{web.url}/ann")
    numbers = [box.add("ann", "webhook", f"Job {i} has failed", job_id=i, due_at=NOW + HOUR) for i in range(1, 31)]
    box.later(HOUR - 1)
    until(lambda: box.courier.tally.waiting == 30)
    assert not web.got
    box.later(1)
    until(lambda: all(row.state == "sent" for row in box.store.notice_log("ann", 100)))
    (got,) = web.got
    lines = got.json["text"].splitlines()
    assert lines[:2] == ["Tenure: 30 notices about 30 jobs", "- Job 1 has failed"]
    assert lines[-2:] == ["- Job 10 has failed", "... and 20 more: tenure notice log"] and len(lines) == 12
    assert got.json["blocks"][-1]["elements"][0]["text"] == "... and 10 more: tenure notice log"
    assert len(got.json["blocks"]) <= 50  # Slack takes no more
    assert len(got.json["tenure"]["notices"]) == 30
    assert {box.row("ann", number).message for number in numbers} == {got.id}


def test_whoever_takes_the_address_away_is_not_told_any_more(box: Outbox, web: Hook) -> None:
    box.person("ann", webhook=f"{web.url}/ann")
    number = box.add("ann", "webhook", due_at=NOW + HOUR)
    box.person("ann")
    box.store.add_user("bob", "user", 1)
    box.store.set_user_disabled("bob", True)
    box.person("bob", webhook=f"{web.url}/bob")
    other = box.add("bob", "webhook", due_at=NOW + HOUR)
    box.later(HOUR)
    until(lambda: box.row("ann", number).state == box.row("bob", other).state == "dropped")
    assert not web.got


def test_a_server_that_was_replaced_delivers_nothing(box: Outbox, web: Hook) -> None:
    box.person("ann", webhook=f"{web.url}/ann")
    box.add("ann", "webhook")
    box.store.take_leadership()
    with pytest.raises(StaleLeader):
        box.store.take_message(box.epoch, "ann", "webhook", NOW)
    with pytest.raises(StaleLeader):
        box.store.tell(box.epoch, 5)
    box.courier.poke()
    box.courier.stop()
    assert not web.got


def test_mail_is_plain_text_in_one_thread_for_each_job(tmp_path: Path, post: Post) -> None:
    with outbox(tmp_path, config_of(tmp_path, mail=post.port, link="https://tenure.lab.example/jobs/{job}")) as box:
        box.person("ann", email="ann@lab.example")
        for title, job in (("Job 1 (näme) has started", 1), ("Job 1 has failed", 1), ("Job 2 has failed", 2)):
            number = box.add("ann", "email", title, job_id=job)
            box.courier.poke()
            until(lambda number=number: box.row("ann", number).state == "sent")  # type: ignore[misc]
        first, second, third = post.got
        assert first["Subject"] == "Job 1 (näme) has started" and first["To"] == "ann@lab.example"
        assert first["From"] == "tenure@lab.example" and first["Auto-Submitted"] == "auto-generated"
        assert first["Message-ID"] == f"<{box.store.notice_log('ann')[2].message}@lab.example>"
        assert first["References"] == second["References"] == "<tenure-job-1@lab.example>" != third["References"]
        assert first.get_content_type() == "text/plain"
        text = first.get_content()
        assert "Failed: exit code 3." in text and "https://tenure.lab.example/jobs/1" in text
        assert len({mail["Message-ID"] for mail in post.got}) == 3


def test_nothing_that_people_write_makes_a_header(tmp_path: Path, post: Post) -> None:
    evil = "Job 1 (x\r\nBcc: eve@lab.example\r\n\r\nHi\u2028\u0085there) has failed"
    with outbox(tmp_path, config_of(tmp_path, mail=post.port)) as box:
        box.person("ann", email="ann@lab.example")
        box.add("ann", "email", evil)
        box.courier.poke()
        post.wait(lambda: len(post.got) == 1)
        assert post.got[0]["Bcc"] is None and post.to == [["ann@lab.example"]]
        assert post.got[0]["Subject"] == "Job 1 (x Bcc: eve@lab.example Hi there) has failed"


def test_a_mail_server_that_refuses_for_now_or_for_good(tmp_path: Path, post: Post) -> None:
    with outbox(tmp_path, config_of(tmp_path, mail=post.port)) as box:
        for name in ("ann", "bob", "eve"):
            box.person(name, email=f"{name}@lab.example")
        post.refuse = {"bob@lab.example": "550 no such person", "eve@lab.example": "451 greylisted"}
        numbers = {name: box.add(name, "email") for name in ("ann", "bob", "eve")}
        box.courier.poke()
        until(lambda: box.row("ann", numbers["ann"]).state == "sent")
        until(lambda: box.row("bob", numbers["bob"]).state == "failed")
        until(lambda: box.row("eve", numbers["eve"]).tries == 1)
        assert box.row("bob", numbers["bob"]).error == "the mail server answered 550: no such person"
        assert box.row("eve", numbers["eve"]).error == "the mail server answered 451: greylisted"
        post.refuse = {}
        box.later(MINUTE)
        until(lambda: box.row("eve", numbers["eve"]).state == "sent")


def test_pauses_double_up_to_an_hour() -> None:
    assert [pause(10 * SECOND, tries, 0.5) for tries in (1, 2, 3)] == [10 * SECOND, 20 * SECOND, 40 * SECOND]
    assert pause(10 * SECOND, 500, 0.5) == HOUR
    assert (pause(1000, 1, 0.0), pause(1000, 1, 1.0)) == (750, 1250)


def test_the_key_is_its_owners_alone_and_stays(box: Outbox, tmp_path: Path) -> None:
    secret = box.secret("ann")
    file = tmp_path / "notice.key"
    assert file.stat().st_mode & 0o777 == 0o600
    assert Outbox(box.config, box.store).secret("ann") == secret != box.secret("bob")
    assert file.read_text() not in secret
