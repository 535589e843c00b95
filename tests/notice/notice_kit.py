"""An outbox with people in it, a clock that tests turn, and notices made by hand."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from tenure.config import Config, Smtp, parse
from tenure.core import codec
from tenure.notice.courier import Courier
from tenure.notice.kinds import Kind
from tenure.store import AuditRow, NoticePersonRow, NoticeRow, Store

NOW = 1_790_000_000_000
CLUSTERS = '[clusters.main]\nhosts = [{ name = "n1", gpus = 8, cpus = 64, memory = "512G" }]\n'
BUDGETS = "[lab]\n"
_numbers = itertools.count(1)


class Clock:
    """``now``: ms UTC, as it stands until a test turns it."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> int:
        return self.now


def config_of(directory: Path, *, hooks: int = 0, mail: int = 0, **more: object) -> Config:
    """Webhooks may go to this machine at port ``hooks``; mail goes to port ``mail``."""
    config = parse(CLUSTERS, BUDGETS)
    smtp = Smtp("127.0.0.1", mail, "none", sender="tenure@lab.example") if mail else Smtp()
    listed = (f"127.0.0.1:{hooks}", f"localhost:{hooks}")
    notice = replace(config.notice, smtp=smtp, webhook_hosts=listed, **{"timeout": 2000, **more})  # type: ignore[arg-type]
    return replace(config, notice=notice, server=replace(config.server, data_dir=directory))


class Outbox:
    """A store that somebody leads, with a courier that delivers from it."""

    def __init__(self, config: Config, store: Store) -> None:
        self.config, self.store = config, store
        self.epoch = store.take_leadership()
        self.clock = Clock()
        self.courier = Courier(config, store, self.epoch, self.clock)

    def person(self, user: str, *, webhook: str = "", email: str = "", kinds: tuple[str, ...] = tuple(Kind)) -> None:
        listed = codec.dumps([*kinds])
        row = NoticePersonRow(user, email, webhook, f"salt of {user}", listed, "[]", 0, "", "UTC", 0, 0)
        self.store.put_notice_person(row, AuditRow(0, user, "notice changed", user, "{}"))

    def secret(self, user: str) -> str:
        return self.courier.keys.secret(f"salt of {user}")

    def add(self, user: str, channel: str, title: str = "Job 1 has failed", **more: object) -> int:
        """Put one notice into the outbox; its id."""
        number = next(_numbers)
        job = more.get("job_id", 1)
        data = codec.dumps({"kind": "failed", "job": job, "title": title})
        row = NoticeRow(
            f"failed:{number}", number, self.clock.now, user, channel, "failed", 1, title, "Failed: exit code 3.", data,
            "waiting", self.clock.now,
        )  # fmt: skip
        return self.store.add_notices([replace(row, **more)])[0]  # type: ignore[arg-type]

    def row(self, user: str, number: int) -> NoticeRow:
        return next(row for row in self.store.notice_log(user, 1000) if row.id == number)

    def later(self, ms: int) -> None:
        """Turn the clock, and let the courier look at it."""
        self.clock.now += ms
        self.courier.poke()


@contextmanager
def outbox(directory: Path, config: Config) -> Iterator[Outbox]:
    with Store.open(f"sqlite:///{directory / 'tenure.db'}") as store:
        made = Outbox(config, store)
        made.courier.start()
        try:
            yield made
        finally:
            made.courier.stop()
