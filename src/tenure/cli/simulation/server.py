"""``tenure simulate --from-server``: a live server's past or future under other rules, and who gains and loses."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tenure import units
from tenure.cli.context import ConfigOption, config_path, print_json
from tenure.cli.errors import CliError, Exit
from tenure.cli.moments import moment
from tenure.cli.simulation import completion
from tenure.cli.simulation.changes import Changes
from tenure.cli.simulation.folders import check_folder, make_folder, ready_folder
from tenure.cli.simulation.sides import show_sides

if TYPE_CHECKING:
    from tenure.whatif.course import Course
    from tenure.whatif.report import Report
    from tenure.whatif.runs import Reruns

_LAST = "7d"


def from_server(
    config: ConfigOption = None,
    last: Annotated[
        str | None,
        typer.Option(metavar="TIME", help=f"Run the last TIME again, up to --until [{_LAST}].", show_default=False),
    ] = None,
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="Run again from this moment on.", show_default=False)
    ] = None,
    until: Annotated[
        str | None, typer.Option(metavar="TIME", help="Only up to this moment \\[now].", show_default=False)
    ] = None,
    ahead: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Look ahead from now instead, for so long.", show_default=False),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option("--with", metavar="FILE", help="Another tenure.toml, with its budgets.", show_default=False),
    ] = None,
    budgets: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Other budgets alone, all else as it is.", show_default=False),
    ] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="A setting, like preemption_margin=30m.",
            autocompletion=completion.settings,
            show_default=False,
        ),
    ] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[,NAME...]",
            help="Other policies, or all; `tenure simulate policies` lists them.",
            autocompletion=completion.policies,
            show_default=False,
        ),
    ] = None,
    move: Annotated[
        list[str] | None,
        typer.Option(metavar="OLD=NEW", help="Jobs of budget OLD are charged to NEW.", show_default=False),
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", help="Of what has to be estimated.", min=0)] = 0,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be run.")] = False,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="DIR", help="Where the report and the tables go.", show_default=False),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the results of an earlier simulation there.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The report as JSON.")] = False,
) -> None:
    """Run what a live server did again, with other rules: who would have gained and lost. The server is not touched."""
    from tenure.config import load

    changes = Changes(file, budgets, setting or (), policy or (), move or ())
    changes.check()
    span = _Span.read(last, since, until, ahead)
    if out is not None:
        check_folder(out, force)
    path = config_path(config)
    server = load(path).server
    if out is not None and not dry_run:
        make_folder(out)
    with _Progress() as shown:
        course = _course(server.database_url, span, seed, shown)
        reruns = _begin(course, changes, path, server.slow_tick)
        whole = dry_run or _run(reruns, shown)
        if not dry_run:
            shown.say("writing the report")
            made, files = _report(reruns, whole, out, span, force=force)
    if dry_run:
        _rehearse(course, reruns, as_json=as_json)
    elif as_json:
        print_json(made.found)
    else:
        show_sides(made.found, files)
    if not whole:
        raise CliError("interrupted: the report is of what was run until then", Exit.INTERRUPTED)


@dataclass(frozen=True, slots=True)
class _Span:
    """``since`` and ``until``: ms UTC, or None for now. ``ahead``: ms from now on, None to look back."""

    since: int
    until: int | None
    ahead: int | None
    title: str

    @classmethod
    def read(cls, last: str | None, since: str | None, until: str | None, ahead: str | None) -> _Span:
        """Raises CliError."""
        now = time.time_ns() // 1_000_000
        if ahead is not None:
            for name, value in (("last", last), ("since", since), ("until", until)):
                if value is not None:
                    raise CliError(f"{name} = {value}: --ahead begins now; give one of the two")
            return cls(now, None, _length("ahead", ahead), f"What if: the next {ahead}")
        if last is not None and since is not None:
            raise CliError(f"since = {since}: --last {last} says when to begin already; give one of the two")
        end = None if until is None else _moment("until", until, now)
        stops = now if end is None else end
        begins = _moment("since", since, now) if since is not None else stops - _length("last", last or _LAST)
        if begins >= stops:
            raise CliError(
                f"{'since' if since else 'last'} = {since or last or _LAST}: nothing lies between it and the end"
            )
        title = f"since {units.format_time(begins)}" if since is not None else f"the last {last or _LAST}"
        if end is not None:
            title += f" until {units.format_time(end)}" if since is not None else f" before {units.format_time(end)}"
        return cls(begins, end, None, f"What if: {title} again")


def _moment(name: str, text: str, now: int) -> int:
    try:
        return units.parse_moment(moment(text, now), now)
    except units.UnitError as error:
        raise CliError(f"{name} = {text}: {error.fix}") from error


def _length(name: str, text: str) -> int:
    try:
        length = units.parse_duration(text)
    except units.UnitError as error:
        raise CliError(f"{name} = {text}: {error.fix}") from error
    if length < 1000:
        raise CliError(f"{name} = {text}: at least 1s")
    return length


def _course(url: str, span: _Span, seed: int, shown: _Progress) -> Course:
    """Read what there is. Raises CliError."""
    from tenure.core.reasons import Refusal
    from tenure.store import Store, StoreError
    from tenure.whatif import ahead, course

    try:
        with Store.open_to_read(url) as store:
            if span.ahead is not None:
                return ahead.ahead(store, span.ahead, seed, shown.step)
            return course.then(store, span.since, span.until, seed, shown.step)
    except (course.NothingKept, StoreError) as error:
        raise CliError(str(error)) from error
    except (ValueError, Refusal) as error:
        raise CliError(f"since = {units.format_time(span.since)}: {error}") from error
    except KeyboardInterrupt as error:
        raise CliError("interrupted before anything was run", Exit.INTERRUPTED) from error


def _begin(course: Course, changes: Changes, path: Path, quiet: int) -> Reruns:
    from tenure.whatif import runs

    state = course.fresh()
    if state.tree is None:
        raise CliError("the server had no configuration yet when the run begins: name a later moment")
    try:
        return runs.begin(course, changes.variants(state, path), quiet)
    except ValueError as error:
        raise CliError(str(error)) from error


def _run(reruns: Reruns, shown: _Progress) -> bool:
    from tenure.whatif import runs

    labels = ", ".join(one.variant.label for one in reruns.sides)
    return runs.run(reruns, lambda done, total: shown.step(f"running: {labels}", done, total))


def _rehearse(course: Course, reruns: Reruns, *, as_json: bool) -> None:
    from tenure.whatif import report, runs
    from tenure.whatif.course import KNOWN

    known = sum(work.kind == KNOWN for work in course.works.values())
    found: dict[str, Any] = {
        "from": course.since,
        "until": course.until,
        "jobs": len(course.works),
        "known": known,
        "events": len(course.events),
        "notes": list(course.notes),
        "changes": {one.variant.label: report.changes_of(one) for one in reruns.changed},
        "refused": {one.variant.label: runs.rehearse(one) for one in reruns.changed},
    }
    if as_json:
        print_json(found)
        return
    begins, ends = units.format_time(course.since), units.format_time(course.until)
    print(f"{begins} to {ends}: {units.counted(len(course.works), 'job')}, {known} of which ended by themselves")
    for line in course.notes:
        print(f"- {line}")
    for label in found["changes"]:
        for line in (*found["changes"][label], *found["refused"][label]):
            print(f"{label}: {line}")


def _report(reruns: Reruns, whole: bool, out: Path | None, span: _Span, *, force: bool) -> tuple[Report, list[Path]]:
    """And its files, if they are wanted."""
    from tenure.whatif import report

    if reruns.as_it_is.reached == reruns.course.since:
        raise CliError("interrupted before anything was run", Exit.INTERRUPTED)
    made = report.make(reruns, whole=whole)
    if out is not None:
        ready_folder(out, force)
    return made, report.write(made, out, span.title) if out is not None else []


class _Progress:
    """A bar on stderr, and Ctrl-C, which the first time only asks to stop; the second one is the usual one."""

    def __init__(self) -> None:
        from rich.progress import Progress

        from tenure.cli import render
        from tenure.sim.runner import interrupted

        self._bars = Progress(console=render.errors(), transient=True)
        self._task = self._bars.add_task("reading", total=None)
        self._stopped = False
        self._held = interrupted(self._stop)

    def _stop(self) -> None:
        self._stopped = True

    def __enter__(self) -> _Progress:
        self._held.__enter__()
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bars.stop()
        self._held.__exit__(kind, error, trace)

    def step(self, what: str, done: int, total: int) -> bool:
        """False when it is to stop."""
        self._bars.update(self._task, description=what, completed=done, total=total)
        return not self._stopped

    def say(self, what: str) -> None:
        self._bars.update(self._task, description=what, total=None)
