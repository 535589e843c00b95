"""``tenure slurm shadow`` and ``tenure slurm report``: a watched queue, and what Tenure would have made of it."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tenure import units
from tenure.cli.context import print_json, print_json_line
from tenure.cli.errors import CliError, Exit
from tenure.cli.slurm import Json, Partitions

if TYPE_CHECKING:
    from tenure.shadow.journal import Journal, Record
    from tenure.shadow.now import Now
    from tenure.shadow.terms import Terms
    from tenure.shadow.watch import Look

_LEAST_EVERY = 1000
_PART = 20
"""A decision may take a twentieth of the time between two of them."""

Folder = Annotated[Path, typer.Argument(metavar="FOLDER", help="Where the queue is recorded.", show_default=False)]
Config = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="A tenure.toml in place of what `tenure slurm import` would write.", show_default=False
    ),
]
MinRuntime = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="What jobs that say nothing sign: a time, or limit for their own time limit \\[the cluster's default].",
        show_default=False,
    ),
]
Resumable = Annotated[
    bool | None,
    typer.Option(
        "--resumable/--not-resumable",
        help="Whether what Slurm may requeue can resume, though nobody said so \\[the cluster's default].",
        show_default=False,
    ),
]


def shadow(
    folder: Folder,
    partition: Partitions = None,
    every: Annotated[str, typer.Option(metavar="TIME", help="Between two looks.")] = "5s",
    length: Annotated[
        str | None, typer.Option("--for", metavar="TIME", help="End after that \\[at Ctrl-C].", show_default=False)
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="Begin with what accounting (sacct) has of the last TIME.", show_default=False
        ),
    ] = None,
    config: Config = None,
    min_runtime: MinRuntime = None,
    resumable: Resumable = None,
    json: Json = False,
) -> None:
    """Watch Slurm's queue and say what Tenure would do, without doing it. Everything is recorded in FOLDER."""
    from tenure.config import ConfigError
    from tenure.shadow.journal import Journal, RecordError
    from tenure.shadow.terms import terms_of
    from tenure.slurm import CommandFailed

    pause = _duration("every", every, _LEAST_EVERY)
    lasts = None if length is None else _duration("for", length, 0)
    begins = 0 if since is None else _seconds() - _duration("since", since, 1) // 1000
    assumed = _min_runtime(min_runtime)
    kept = _site(partition)
    if begins and not kept["accounting"]:
        raise CliError(
            f"since = {since}: there is no accounting (slurmdbd) to read; leave it out, and watch for a while"
        )
    try:
        terms = terms_of(kept, config, assumed, resumable)
        journal = Journal(folder)
    except (ConfigError, RecordError) as error:
        raise CliError(str(error)) from error
    try:
        _watch(journal, kept, terms, _Pace(pause, lasts, begins), _Shown(json))
    except CommandFailed as error:
        raise CliError(str(error), Exit.UNREACHABLE) from error
    finally:
        journal.close()


def _site(partitions: list[str] | None) -> dict[str, Any]:
    from tenure.shadow.terms import of_site
    from tenure.slurm import Commands, NothingToCarry, read_site

    site = read_site(Commands())
    if not site.answers:
        raise CliError(site.unread["config"], Exit.UNREACHABLE)
    try:
        return of_site(site, partitions or ())
    except NothingToCarry as error:
        raise CliError(str(error)) from error


class _Pace:
    """``pause``: ms between looks. ``lasts``: ms, None: until Ctrl-C. ``since``: seconds since 1970, 0: now.

    Within it, Ctrl-C and SIGTERM only ask to end: what is being written is written. The second one is the usual one.
    """

    def __init__(self, pause: int, lasts: int | None, since: int) -> None:
        self.pause = pause / 1000
        self.ends = None if lasts is None else time.monotonic() + lasts / 1000
        self.since = since
        self.told = threading.Event()
        self._before: dict[int, Any] = {}

    def __enter__(self) -> _Pace:
        self._before = {number: signal.signal(number, self._tell) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _tell(self, number: int, _: object) -> None:
        signal.signal(number, self._before[number])
        self.told.set()

    def wait(self, began: float) -> bool:
        """Until the next look. False when there is none."""
        due = began + self.pause
        if self.ends is not None and due > self.ends:
            return False
        return not self.told.wait(max(0.0, due - time.monotonic()))


def _watch(journal: Journal, kept: dict[str, Any], terms: Terms, pace: _Pace, shown: _Shown) -> None:
    """Look after look. Raises CommandFailed for the first one only: later Slurm may be away for a while."""
    from tenure.shadow.watch import Watch
    from tenure.slurm import CommandFailed, Commands

    watch, looked = Watch(Commands(), journal), False
    with pace:
        try:
            watch.begin(_seconds(), kept, pace.since)
            shown.began(journal, kept)
            going = True
            while going:
                began = time.monotonic()
                try:
                    shown.look(journal.record, terms, watch.look(_seconds()))
                    looked = True
                except CommandFailed as error:
                    if not looked:
                        raise
                    if not pace.told.is_set():
                        shown.away(str(error))
                going = pace.wait(began)
        except CommandFailed:
            # Ctrl-C ends Slurm's commands, too.
            if not pace.told.is_set():
                raise
    shown.ended(journal)


class _Shown:
    """What is said while watching: every decision when it is new."""

    def __init__(self, as_json: bool) -> None:
        self.as_json = as_json
        self._before: frozenset[tuple[str, str, str]] = frozenset()
        self._not_before = 0.0
        self._stale = True
        self._away = False

    def began(self, journal: Journal, kept: dict[str, Any]) -> None:
        if kept["notes"]:
            self._say(f"{len(kept['notes'])} things of the site are not carried over; `tenure slurm import` lists them")
        self._say(f"watching {', '.join(kept['partitions'])}, recording in {journal.path}; Ctrl-C ends it")

    def look(self, record: Record, terms: Terms, found: Look) -> None:
        if self._away:
            self._away = False
            self._say("Slurm answers again")
        self._stale |= bool(found.changed or found.gone or found.hosts)
        if not (self._stale and time.monotonic() >= self._not_before):
            return
        from tenure.shadow.now import decide

        began = time.monotonic()
        now = decide(record, terms, found.jobs)
        self._not_before = time.monotonic() + _PART * (time.monotonic() - began)
        self._stale = False
        self._tell(now)

    def _tell(self, now: Now) -> None:
        if self.as_json:
            print_json_line(now.plain())
            return
        there = {(one.what, one.job, one.gainer) for one in now.would}
        for one in now.would:
            if (one.what, one.job, one.gainer) not in self._before:
                _out(f"{time.strftime('%H:%M:%S', time.localtime(now.at))} {one.line()}")
        self._before = frozenset(there)

    def away(self, why: str) -> None:
        if not self._away:
            self._say(f"{why}; trying again")
        self._away = True

    def ended(self, journal: Journal) -> None:
        record = journal.record
        length = units.format_duration((record.until - record.since) * 1000)
        self._say(f"recorded {len(record.lives.all)} jobs over {length}; tenure slurm report {journal.path.parent}")

    @staticmethod
    def _say(line: str) -> None:
        print(line, file=sys.stderr, flush=True)


def _out(line: str) -> None:
    print("".join(character if character.isprintable() else " " for character in line), flush=True)


def report(
    folder: Folder,
    start: Annotated[
        str | None,
        typer.Option("--from", metavar="TIME", help="When Tenure takes over: a time, or 3d ago.", show_default=False),
    ] = None,
    config: Config = None,
    min_runtime: MinRuntime = None,
    resumable: Resumable = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="DIR", help="Where tables and web pages go.", show_default=False),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Write into DIR though it has files.")] = False,
    json: Json = False,
) -> None:
    """What users would have gained: the recorded queue as it was, beside the same jobs under Tenure."""
    from tenure.config import ConfigError
    from tenure.shadow import report as made
    from tenure.shadow.journal import RecordError, read_record
    from tenure.shadow.terms import terms_of

    if out is not None and not force and out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise CliError(f"out = {out}: something is there; name a new directory, or add --force")
    assumed = _min_runtime(min_runtime)
    try:
        record = read_record(folder)
        terms = terms_of(record.site, config, assumed, resumable)
        with _Progress() as moved:
            found = made.make(record, terms, _moment(start, record.until), moved)
    except (RecordError, ConfigError) as error:
        raise CliError(str(error)) from error
    if out is not None:
        made.write(found, out)
        print(f"wrote {out / made.TEXT_FILE}, {out / made.JSON_FILE} and web pages", file=sys.stderr)
    if json:
        print_json(found.found)
    else:
        _show(found.found)


def _show(found: dict[str, Any]) -> None:
    from rich.text import Text

    from tenure.cli import render
    from tenure.shadow.report import tables_of

    output = render.output()
    for line in found["said"]:
        output.print(Text(line), soft_wrap=True)
    for title, heads, rows in tables_of(found):
        table = render.table(*heads, right=heads[1:])
        for row in rows:
            table.add_row(*map(Text, row))
        output.print()
        output.print(Text(title, style="bold"))
        output.print(table)
    output.print()
    for line in (*found["assumed"], *found["uncertain"]):
        output.print(Text(f"- {line}"), soft_wrap=True)


class _Progress:
    """A bar on stderr for each side."""

    def __enter__(self) -> Callable[[str, float], None]:
        from rich.progress import Progress

        from tenure.cli import render

        self._bars = Progress(console=render.errors(), transient=True)
        self._bars.start()
        tasks = {}

        def moved(name: str, part: float) -> None:
            if name not in tasks:
                tasks[name] = self._bars.add_task(f"under {name}", total=1.0)
            self._bars.update(tasks[name], completed=part)

        return moved

    def __exit__(self, *_: object) -> None:
        self._bars.stop()


def _seconds() -> int:
    return int(time.time())


def _duration(name: str, text: str, least: int) -> int:
    try:
        value = units.parse_duration(text)
    except units.UnitError as error:
        raise CliError(f"{name} = {text}: {error.fix}") from error
    if value < least:
        raise CliError(f"{name} = {text}: at least {units.format_duration(least)}")
    return value


def _min_runtime(text: str | None) -> int | None:
    from tenure.shadow.terms import LIMIT

    if text is None:
        return None
    return LIMIT if text == "limit" else _duration("min-runtime", text, 0)


def _moment(text: str | None, until: int) -> int | None:
    """ms UTC of a time, or of a duration before the record's end."""
    if text is None:
        return None
    try:
        return until * 1000 - units.parse_duration(text)
    except units.UnitError:
        pass
    try:
        return units.parse_time(text)
    except units.UnitError as error:
        raise CliError(f"from = {text}: {error.fix}, or a duration before the record's end, such as 3d") from error
