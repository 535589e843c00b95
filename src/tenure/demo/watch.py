"""Follows what happens through the API, in the order in which it happened, tells it, and remembers it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from tenure.api.models import AttemptView, BatchView, EntryView, JobDetail, JobView
from tenure.client import Client
from tenure.demo import entries
from tenure.demo.tell import Teller

POLL_MS = 300
SETTLE_MS = 700
"""A protection that has ended is told so much later, so that what happened before it is told before it."""


@dataclass(frozen=True, slots=True)
class Fact:
    """Something that happened. ``kind`` as in the feed, or ``exposed``, or ``log`` with a line of output."""

    kind: str
    at: int
    job: int
    attempt: str = ""
    code: str = ""
    numbers: dict[str, Any] = field(default_factory=dict)
    text: str = ""

    def plain(self) -> dict[str, Any]:
        return {key: value for key, value in asdict(self).items() if value not in ("", {})}


@dataclass(slots=True)
class _Run:
    """An attempt that is being followed. ``offset``: how much of its log has been read."""

    job: int
    number: int
    protected_until: int | None = None
    exposed: bool = False
    leaving: bool = False
    over: bool = False
    offset: int = 0
    rest: bytes = b""
    unsaid: list[str] = field(default_factory=list)
    progress: str = ""


class Watch:
    """What the story knows. ``client`` is the administrator's."""

    def __init__(self, client: Client, tell: Teller, say: entries.Words) -> None:
        self.client = client
        self.tell = tell
        self.say = say
        self.facts: list[Fact] = []
        self.jobs: dict[int, JobView] = {}
        self.on_requeue: Callable[[int], None] = lambda job: None
        self._runs: dict[str, _Run] = {}
        self._after = client.status().seq

    # ---- asking

    def find(self, kind: str, job: int | None = None, attempt: str = "", code: str = "", text: str = "") -> Fact | None:
        """The last fact of that kind."""
        for fact in reversed(self.facts):
            if (
                fact.kind == kind
                and (job is None or fact.job == job)
                and attempt in ("", fact.attempt)
                and code in ("", fact.code)
                and text in fact.text
            ):
                return fact
        return None

    def detail(self, job: int) -> JobDetail:
        return self.client.job(job)

    def attempt(self, attempt_id: str) -> AttemptView | None:
        found = self.client.job(int(attempt_id.partition(".")[0])).attempts
        return next((attempt for attempt in found if attempt.id == attempt_id), None)

    def until(self, done: Callable[[], object], limit_s: float, hope: str) -> bool:
        """Follow until ``done`` says so. False after ``limit_s``. ``hope`` says what is waited for."""
        end = time.monotonic() + limit_s
        while not done():
            if time.monotonic() > end:
                return False
            self.look()
            self.tell.idle(f"{hope} ({self._progress()})" if self._progress() else hope)
        return True

    # ---- following

    def look(self, wait_ms: int = POLL_MS) -> None:
        """Tell what is new. Logs are read before decisions and told after them: that keeps cause before effect."""
        live = [(attempt_id, run) for attempt_id, run in self._runs.items() if not run.over]
        for attempt_id, run in live:
            self._read(attempt_id, run)
        hurry = any(run.unsaid for _, run in live)
        page = self.client.decisions(self._after, wait_ms=0 if hurry else wait_ms)
        self._after = page.next or self._after
        if page.items:
            self.jobs = {job.id: job for job in self.client.jobs(all=True)}
        for batch in page.items:
            self._tell_exposed(batch.at)
            for entry in batch.entries:
                self._take(batch, entry)
        for _, run in live:
            self._tell_log(run)
        self._tell_exposed(_now() - SETTLE_MS)

    def _take(self, batch: BatchView, entry: EntryView) -> None:
        job = self.jobs.get(entry.job) if entry.job is not None else None
        if job is None:
            return
        attempt = self.attempt(entry.attempt) if entry.attempt and entry.kind in ("start", "running") else None
        self._follow(entry, attempt)
        line = entries.line(entry, job, attempt, self.say)
        if line is not None:
            self.tell.line(batch.at, line.text, line.style, line.why)
        code, numbers = (entry.reason.code, entry.reason.numbers) if entry.reason is not None else ("", {})
        self.facts.append(Fact(entry.kind, batch.at, job.id, entry.attempt or "", code, numbers, _text(entry)))
        if entry.kind == "evict":
            self._tell_price(entry.attempt or "")
        if entry.kind == "requeued":
            self.on_requeue(job.id)

    def _follow(self, entry: EntryView, attempt: AttemptView | None) -> None:
        if entry.attempt is None:
            return
        if entry.kind == "start":
            job, _, number = entry.attempt.partition(".")
            self._runs[entry.attempt] = _Run(int(job), int(number))
        run = self._runs.get(entry.attempt)
        if run is None:
            return
        if entry.kind == "running" and attempt is not None:
            run.protected_until = attempt.protected_until
        if entry.kind in ("evict", "stop"):
            run.leaving = True
        if entry.kind == "attempt_ended":
            # What it said last comes before its end.
            self._read(entry.attempt, run)
            self._tell_log(run)
            run.over = True

    def _tell_price(self, attempt_id: str) -> None:
        job = int(attempt_id.partition(".")[0])
        for eviction in self.client.evictions(job=job).items:
            if eviction.attempt == attempt_id and eviction.gainer is not None:
                gained, risk = eviction.gained_gpu_hours * 3600, eviction.at_risk_gpu_hours * 3600
                self.tell.note(
                    f"{self.say.name(eviction.gainer)} gains {gained:.0f} GPU-s of protected time by it; "
                    f"{risk:.0f} GPU-s of work since the last checkpoint are at risk until that is saved."
                )
                return

    def _tell_exposed(self, up_to: int) -> None:
        """Protections that ended by then. No decision comes of them, so the feed does not have them."""
        due = [(run.protected_until, key) for key, run in self._runs.items() if run.protected_until is not None]
        for at, attempt_id in sorted(due):
            run = self._runs[attempt_id]
            if at > up_to or run.exposed or run.leaving or run.over:
                continue
            run.exposed = True
            job = self.jobs[run.job]
            if job.charged:
                over = f"its {entries.seconds(job.min_runtime_ms)} of protection are over"
                self.tell.line(at, f"{self.say.name(job.id)} is exposed: {over}", "magenta")
                self.facts.append(Fact("exposed", at, job.id, attempt_id))

    def _read(self, attempt_id: str, run: _Run) -> None:
        """What its first replica has written since."""
        chunk = self.client.logs(run.job, attempt=run.number, offset=run.offset)
        run.offset = chunk.next
        *lines, run.rest = (run.rest + chunk.data).split(b"\n")
        for raw in lines:
            text = raw.decode("utf-8", "replace")
            if text.startswith("step "):
                run.progress = text.partition(" loss")[0]
            self.facts.append(Fact("log", _now(), run.job, attempt_id, text=text))
            run.unsaid.append(text)

    def _tell_log(self, run: _Run) -> None:
        for text in run.unsaid:
            if _worth_telling(text, run):
                self.tell.log(self.say.name(run.job), text)
        run.unsaid.clear()

    def _progress(self) -> str:
        """Where charged jobs are, and how long they are protected."""
        now = _now()
        parts = []
        for run in self._runs.values():
            job = self.jobs.get(run.job)
            if run.over or job is None or not job.charged or not run.progress:
                continue
            left = (run.protected_until or 0) - now
            parts.append(
                f"{self.say.name(run.job)}: {run.progress}, {'protected' if left > 0 else 'exposed'}"
                + (f" {left / 1000:.0f} s more" if left > 0 else "")
            )
        return "; ".join(parts)


def _now() -> int:
    return time.time_ns() // 1_000_000


def _text(entry: EntryView) -> str:
    return entry.text + (f". {entry.reason.text}" if entry.reason is not None else "")


def _worth_telling(text: str, run: _Run) -> bool:
    if text.startswith("job "):
        return "resumed from" in text or "replica 0 of 2" in text
    if text.startswith("checkpoint "):
        return run.leaving
    return text.startswith(("done", "warned"))
