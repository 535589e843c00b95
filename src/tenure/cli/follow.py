"""Staying with a job: its logs, its end, and ``run``."""

from __future__ import annotations

import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from typing import IO, TYPE_CHECKING, Annotated

import typer

from tenure.cli.context import (
    FOLLOWING_S,
    ONE_SHOT_S,
    JobArgument,
    JobArguments,
    Json,
    connect,
    print_json,
    print_line,
)
from tenure.cli.errors import CliError, Exit
from tenure.cli.naming import Named, array_of, named, one, some

if TYPE_CHECKING:
    from tenure.api.models import JobDetail, JobView, Submitted
    from tenure.client import Client

TIMED_OUT = 124
"""Exit code of ``wait --timeout`` when it is over, as of timeout(1)."""
_POLL_MS = 20_000
_STREAMED = 16
"""Replicas whose output ``run`` shows."""
_write_lock = threading.Lock()


def exit_code(job: JobView, *, own: bool = False) -> int:
    """What a job's end means for a shell. ``own``: the job's exit code itself, where it has one."""
    if job.state == "succeeded":
        return Exit.OK
    if job.state != "failed":
        return Exit.STOPPED
    code = job.exit_code
    if not own or not code:
        return Exit.FAILED
    return 128 - code if code < 0 else code & 255 or 1


def logs(
    job: JobArgument,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the job has ended.")] = False,
    replica: Annotated[int, typer.Option("--replica", "-r", help="Which one, counted over all roles.", min=0)] = 0,
    stderr: Annotated[bool, typer.Option("--stderr", "-E", help="stderr instead of stdout.")] = False,
    attempt: Annotated[int | None, typer.Option(metavar="N", help="Which run \\[the last one].", min=1)] = None,
    tail: Annotated[int | None, typer.Option(metavar="LINES", help="Only the last lines.", min=0)] = None,
) -> None:
    """Show a job's output."""
    given = named(job)
    stream = "stderr" if stderr else "stdout"
    with connect(FOLLOWING_S if follow else ONE_SHOT_S) as client:
        number, start = one(client, given), 0
        if tail is not None:
            attempt, start, last = _tail(client, number, replica, stream, attempt, tail)
            _write(sys.stdout, last)
        _copy(client, number, replica, stream, attempt, start, follow=follow)


def _tail(
    client: Client, number: int, replica: int, stream: str, attempt: int | None, lines: int
) -> tuple[int | None, int, bytes]:
    """The last lines, and where to go on. Of very long lines what fits into 1 MiB."""
    chunk = client.logs(number, replica=replica, stream=stream, attempt=attempt, offset=-(1 << 20), limit=1 << 20)
    kept = b"".join(chunk.data.splitlines(keepends=True)[-lines:]) if lines else b""
    return chunk.attempt or attempt, chunk.next, kept


def _copy(
    client: Client, number: int, replica: int, stream: str, attempt: int | None, start: int, *, follow: bool
) -> None:
    """Print from ``start`` on; with ``follow`` later attempts, too."""
    wanted = attempt
    while True:
        chunk = client.logs(
            number,
            replica=replica,
            stream=stream,
            attempt=attempt,
            offset=start,
            limit=1 << 20,
            wait_ms=_POLL_MS if follow else 0,
        )
        _write(sys.stdout, chunk.data)
        start, attempt = chunk.next, chunk.attempt or attempt
        if not chunk.data and not follow:
            return
        if chunk.complete and not chunk.data:
            later = next_attempt(client, number, attempt or 0) if follow and wanted is None else None
            if later is None:
                return
            attempt, start = later, 0


def next_attempt(client: Client, number: int, after: int) -> int | None:
    """The number of the attempt that follows ``after``, waited for; None when the job has ended instead."""
    while True:
        job = client.job(number)
        later = [a.number for a in job.attempts if a.number > after and a.started_at is not None]
        if later or job.ended:
            return later[0] if later else None
        client.wait_once(number, wait_ms=_POLL_MS, unless=job.state)


def _write(stream: IO[str], data: bytes) -> None:
    if data:
        with _write_lock:
            stream.buffer.write(data)  # type: ignore[attr-defined]  # bytes go through as they are
            stream.flush()


def wait(
    jobs: JobArguments,
    timeout: Annotated[str | None, typer.Option(metavar="TIME", help="Give up after this, with code 124.")] = None,
    json: Json = False,
) -> None:
    """Wait until jobs, or all jobs of an array, have ended.

    The exit code says how: 0 succeeded, 1 failed, 5 stopped otherwise.
    """
    from tenure import units

    given = [named(text) for text in jobs]
    try:
        limit = units.parse_duration(timeout) / 1000 if timeout is not None else None
    except units.UnitError as error:
        raise CliError(f"timeout = {error.value}: {error.fix}") from error
    end = None if limit is None else time.monotonic() + limit
    ended: list[JobView] = []
    with connect(FOLLOWING_S) as client:
        for each in given:
            for last in _ended(client, each, end):
                if not last.ended:
                    print(f"job {last.label} has not ended yet", file=sys.stderr)
                    raise typer.Exit(TIMED_OUT)
                ended.append(last)
                if not json:
                    print_line(f"job {last.label} {last.state.replace('_', ' ')}: {last.reason.text}")
    if json:
        print_json(ended)
    raise typer.Exit(max(exit_code(job) for job in ended))


def _ended(client: Client, given: Named, end: float | None) -> list[JobView]:
    """The job, or those of an array, when all have ended; one that has not when it took too long."""
    if given.indices is None and array_of(client, given) is None:
        return [_last(client, given.number, end)]
    while live := client.jobs_page(array=given.number, indices=given.indices, limit=1).items:
        job = _last(client, live[0].id, end)  # the highest index, which mostly ends last
        if not job.ended:
            return [job]
    return some(client, given)


def _last(client: Client, number: int, end: float | None) -> JobView:
    *_, last = _until_ended(client, number, end)
    return last


def _until_ended(client: Client, number: int, end: float | None) -> Iterator[JobView]:
    """The job each time that it was looked at, with a spinner when it takes longer and somebody looks."""
    from rich.text import Text

    from tenure.cli import render

    began = time.monotonic()
    job = client.wait_once(number, wait_ms=_left(end, 2000))
    yield job
    with render.errors().status("") as spinner:
        while not job.ended and (end is None or time.monotonic() < end):
            spent = render.span(int(1000 * (time.monotonic() - began)))
            place = render.where(job, render.now_ms())
            spinner.update(Text(f"waiting for job {job.label} ({job.state}, {spent}): {place}"))
            job = client.wait_once(number, wait_ms=_left(end, 5000))
            yield job


def _left(end: float | None, most: int) -> int:
    return most if end is None else max(0, min(most, int(1000 * (end - time.monotonic()))))


class Session:
    """``tenure run``: output and news of one job until it has ended."""

    def __init__(self, client: Client, done: Submitted, *, quiet: bool) -> None:
        self.client, self.job, self.quiet = client, done.job, quiet
        self.interrupted = self._cancelled = False
        self._notes = deque(done.notes)
        self._unread: deque[tuple[int, str, bytes]] | None = None
        """Streams that nobody reads yet: replica, name, what stands before its lines."""
        self._readers: list[threading.Thread] = []
        self._said = ""

    def _begin(self) -> None:
        """Say what was submitted, and read all its output. Called again, it does what is left: Ctrl-C may come."""
        while self._notes:
            note = self._notes.popleft()
            self._say(f"{note.field} = {note.value} (default): {note.text}")
        if self._unread is None:
            detail: JobDetail = self.client.job(self.job.id)
            replicas = sum(role.replicas for role in detail.roles)
            if replicas > _STREAMED:
                self._say(f"output of the first {_STREAMED} of {replicas} replicas; tenure logs -r N shows the others")
            ranks = [(rank, f"[{rank}] ".encode() if replicas > 1 else b"") for rank in range(min(replicas, _STREAMED))]
            self._unread = deque((rank, stream, before) for rank, before in ranks for stream in ("stdout", "stderr"))
        while self._unread:
            self._read(*self._unread.popleft())

    def run(self) -> int:
        """Stay until the end. Returns the exit code."""
        while not self.job.ended:
            try:
                if self.interrupted and not self._cancelled:
                    self._cancel()
                self._begin()
                self._news()
                self.job = self.client.wait_once(self.job.id, wait_ms=_POLL_MS, unless=self.job.state)
            except KeyboardInterrupt:
                if self.interrupted:  # perhaps while the cancellation is under way
                    self._say(f"job {self.job.id} is left to itself; tenure logs -f {self.job.id} shows it again")
                    return Exit.INTERRUPTED
                self.interrupted = True
        self._begin()
        for reader in self._readers:
            reader.join(timeout=10)
        self._news()
        return Exit.INTERRUPTED if self.interrupted and self.job.state == "cancelled" else exit_code(self.job, own=True)

    def _cancel(self) -> None:
        from tenure.client import TenureError

        self._say(f"cancelling job {self.job.id}; Ctrl-C again leaves it to itself")
        try:
            self.job = self.client.cancel(self.job.id)
        except TenureError as error:
            self._say(str(error))  # it has ended meanwhile
        self._cancelled = True

    def _news(self) -> None:
        from tenure.cli import render

        now = render.now_ms()
        news = f"job {self.job.id} {self.job.state.replace('_', ' ')}"
        details = self.job.reason.text if self.job.ended else render.where(self.job, now)
        if news != self._said:
            self._said = news
            self._say(f"{news}: {details}")

    def _say(self, text: str) -> None:
        from tenure.cli import render

        if not self.quiet:
            with _write_lock:
                render.errors().print(f"tenure: {text}", style="dim", markup=False, soft_wrap=True)

    def _read(self, rank: int, stream: str, prefix: bytes) -> None:
        reader = threading.Thread(target=self._stream, args=(rank, stream, prefix), daemon=True)
        self._readers.append(reader)
        reader.start()

    def _stream(self, rank: int, stream: str, prefix: bytes) -> None:
        """Copy one stream of one replica, whole lines with a prefix when there are several."""
        out = sys.stdout if stream == "stdout" else sys.stderr
        attempt, offset, rest = None, 0, b""
        while True:
            chunk = self.client.logs(
                self.job.id, replica=rank, stream=stream, attempt=attempt, offset=offset, wait_ms=_POLL_MS
            )
            offset, attempt = chunk.next, chunk.attempt or attempt
            if prefix:
                *lines, rest = (rest + chunk.data).split(b"\n")
                _write(out, b"".join(prefix + line + b"\n" for line in lines))
            else:
                _write(out, chunk.data)
            if chunk.complete and not chunk.data:
                _write(out, prefix + rest + b"\n" if rest else b"")
                attempt, offset, rest = next_attempt(self.client, self.job.id, attempt or 0), 0, b""
                if attempt is None:
                    return
