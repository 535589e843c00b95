"""A log that tests write batch by batch, what is in them, and a teller that reads it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from notice_kit import NOW, Clock, config_of

from tenure.core import codec
from tenure.core.decisions import Claim, Decision, Reserve, Start, Stop, Unreserve
from tenure.core.events import Event
from tenure.core.model import HOUR, Contract, JobSpec, Role
from tenure.core.reasons import Because, Reason
from tenure.core.scheduler import Result
from tenure.engine import record
from tenure.engine.clock import Anchor
from tenure.notice.kinds import Kind
from tenure.notice.teller import Teller
from tenure.store import AttemptRow, AuditRow, JobRow, NoticePersonRow, NoticeRow, Store

FREE = Because(Reason.STARTED_FREE, {"gpus": 8, "free_gpus": 8})
EVICTED = Because(Reason.EVICTED_UNALLOCATED, {"gainer": 2, "gainer_gpus": 8})
DONE = Because(Reason.SUCCEEDED, {"exit_codes": (0,)})


def job_row(number: int, user: str, *, state: str = "queued", budget: str = "lab/language", **more: object) -> JobRow:
    role = Role("main", 1, 8, 0, 0)
    spec = JobSpec(f"job{number}", user, budget, (role,), Contract(HOUR, True), ("main",))
    row = JobRow(
        id=number, client_key=None, user=user, budget=budget, name=f"job{number}", cluster="main", state=state,
        charged=True, gpus=8, min_runtime=HOUR, priority=0, submitted_at=NOW, ended_at=None, first_start_at=None,
        evictions=0, restarts=0, exit_code=None, reason=codec.dumps(codec.plain(FREE)),
        spec=codec.dumps(codec.plain(spec)),
    )  # fmt: skip
    return replace(row, **more)  # type: ignore[arg-type]


class Log:
    """A log that tests write, and a teller that reads it when told to. ``ahead``: engine time less the wall clock."""

    def __init__(self, store: Store, directory: Path) -> None:
        self.store, self.clock, self.ahead, self.pokes, self.seq = store, Clock(), 0, 0, 0
        self.epoch = store.take_leadership()
        self.notice = config_of(directory).notice
        self.teller = self.another()

    def now(self) -> int:
        """Engine time."""
        return self.clock.now + self.ahead

    def another(self) -> Teller:
        def poke() -> None:
            self.pokes += 1

        return Teller(self.store, self.notice, self.epoch, poke, self.now, self.clock)

    def person(self, user: str, **more: object) -> None:
        kinds = json.dumps([kind.value for kind in Kind])
        row = NoticePersonRow(user, "", f"https://hooks.example.com/{user}", "salt", kinds, "[]", 0, "", "UTC", 0, 0)
        self.store.put_notice_person(replace(row, **more), AuditRow(0, user, "", user, "{}"))  # type: ignore[arg-type]

    def write(
        self,
        *decisions: Decision,
        events: Sequence[Event] = (),
        jobs: Sequence[JobRow] = (),
        attempts: Sequence[AttemptRow] = (),
    ) -> None:
        """One more batch."""
        self.seq += 1
        plans = tuple(d for d in decisions if isinstance(d, Start | Claim | Stop | Reserve | Unreserve))
        outcomes = tuple(d for d in decisions if d not in plans)
        result = Result(outcomes, plans)
        batch = record.batch_row(self.seq, self.epoch, list(events), result, self.now(), Anchor(0, "boot", 0))
        self.store.write(batch, jobs=jobs, attempts=attempts)

    def told(self, user: str = "ann") -> list[tuple[str, str]]:
        """(kind, title) of what is to be delivered, oldest first."""
        self.teller.turn()
        return [(row.kind, row.title) for row in reversed(self.store.notice_log(user, 1000))]

    def last(self, user: str = "ann") -> NoticeRow:
        return self.store.notice_log(user, 1)[0]


def start(job: int, attempt: str, at: int = NOW) -> Start:
    return Start(at, job, attempt, "main", (), 8000, FREE)


def reserve(job: int, starts_by: int) -> Reserve:
    why = Because(Reason.RESERVED, {"hosts": 1})
    return Reserve(NOW, job, "main", ("n1",), 8000, starts_by - HOUR, starts_by, (), why)
