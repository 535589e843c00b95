"""Commands that look: ls, show, budgets, hosts, status, events, evictions, audit."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from tenure.cli import familiar
from tenure.cli.context import (
    FOLLOWING_S,
    ONE_SHOT_S,
    BudgetOption,
    ClusterOption,
    JobArgument,
    Json,
    connect,
    print_json,
    print_json_line,
)
from tenure.cli.errors import CliError
from tenure.cli.history import FormatOption, JobsOption, NoHeader, SlurmOption, host_lines, jobs_named, queue_lines
from tenure.cli.naming import array_of, named, one

if TYPE_CHECKING:
    from tenure.api.models import BatchView, JobView
    from tenure.client import Client

_WATCH_MS = 5_000
"""A watched listing is drawn again after this at the latest, since ages and protections go on."""


def ls(
    user: Annotated[list[str] | None, typer.Option("--user", "-u", metavar="NAME", help="Of these users.")] = None,
    me: Annotated[bool, typer.Option("--me", help="Only yours.")] = False,
    state: Annotated[
        list[str] | None,
        typer.Option("--state", "-s", "-t", metavar="STATE", help="In these states, like running,queued or R,PD."),
    ] = None,
    job: JobsOption = None,
    budget: BudgetOption = None,
    cluster: ClusterOption = None,
    array: Annotated[str | None, typer.Option(metavar="ARRAY", help="Every job of this array, or of 12_[0-3].")] = None,
    all: Annotated[bool, typer.Option("--all", "-a", help="Ended ones, too.")] = False,
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="Submitted since then: 2h ago, or 2026-10-09T12:00:00Z.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-l", metavar="N", help="At most so many.", min=1)] = 100,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Again whenever something changes; JSON is one listing a line.")
    ] = False,
    slurm: SlurmOption = False,
    format: FormatOption = None,
    no_header: NoHeader = False,
    json: Json = False,
) -> None:
    """List jobs, newest first. Those of an array that have never started share a line. `--slurm`: as squeue does."""
    if watch and (slurm or format):
        raise CliError("watch = true: Slurm's columns are printed once; leave out --watch, or --slurm and --format")
    which = named(array) if array is not None else None
    with connect(FOLLOWING_S if watch else ONE_SHOT_S) as client:
        users = list(user or [])
        if me:
            users.append(client.me().name)
        states = familiar.states(state or [])
        start = since_of(since)

        def jobs() -> list[JobView]:
            if job:
                return jobs_named(client, job)
            found = client.jobs(
                user=users,
                state=states,
                budget=budget,
                cluster=cluster,
                all=all,
                since=start,
                array=which.number if which is not None else None,
                indices=which.indices if which is not None else None,
                fold=which is None and not json,
                limit=limit,
            )
            return list(found)

        if slurm or format:
            queue_lines(jobs, format, no_header=no_header, json=json)
        elif watch:
            _watch(client, jobs, json)
        elif json:
            print_json(jobs())
        else:
            from tenure.cli import render

            found = jobs()
            if found:
                render.output().print(render.job_table(found, render.now_ms()))
            else:
                render.errors().print("no jobs" + ("" if all else "; --all shows ended ones, too"))


def since_of(text: str | None) -> str | None:
    """RFC 3339 of a time, or of a duration before now."""
    from tenure import units
    from tenure.cli import render

    if text is None:
        return None
    try:
        return units.format_time(units.parse_moment(text, render.now_ms()))
    except units.UnitError as error:
        raise CliError(f"since = {error.value}: {error.fix}") from error


def _watch(client: Client, jobs: Callable[[], list[JobView]], json: bool) -> None:
    """A screen for a terminal; a program gets the whole listing each time, as a table or as a line of JSON."""
    from rich.live import Live

    from tenure.cli import render

    console = render.output()
    seq = client.changes(0)
    if json or not console.is_terminal:
        while True:
            if json:
                print_json_line(jobs())
            else:
                console.print(render.job_table(jobs(), render.now_ms()))
            sys.stdout.flush()
            seq = client.changes(seq, _WATCH_MS)
    with Live(console=console, auto_refresh=False, screen=True) as live:
        while True:
            live.update(render.job_table(jobs(), render.now_ms()), refresh=True)
            seq = client.changes(seq, _WATCH_MS)


def show(job: JobArgument, json: Json = False) -> None:
    """Show all about a job: contract, where it runs or why not, its attempts, who gained when it was evicted.

    Of an array how its jobs are.
    """
    given = named(job)
    with connect() as client:
        array = array_of(client, given) if given.indices is None and "." not in job else None
        jobs = list(client.jobs(array=array.id, all=True, fold=True)) if array is not None and not json else []
        detail = client.job(one(client, given)) if array is None else None
        waits = detail is not None and not json and detail.state in ("queued", "claiming")
        eta = client.eta(detail.id) if detail is not None and waits else None
    if json:
        print_json(detail or array)
        return
    from tenure.cli import render
    from tenure.cli.detail import array_lines, job_lines

    now = render.now_ms()
    lines = (
        array_lines(array, jobs, now)
        if array is not None
        else job_lines(detail, now, eta)
        if detail is not None
        else ()
    )
    for line in lines:
        render.output().print(line)


def budgets(
    cluster: ClusterOption = None,
    all: Annotated[bool, typer.Option("--all", "-a", help="Empty `self` budgets, too.")] = False,
    json: Json = False,
) -> None:
    """Show the tree of budgets: shares, what was used and is promised, and the usage ratio (1 is as budgeted)."""
    with connect() as client:
        found = client.budgets(cluster)
    if json:
        print_json(found)
        return
    from tenure.cli import render

    console = render.output()
    names = list(found[0].clusters) if found else []
    for name in names:
        if len(names) > 1:
            console.print(f"[bold]{name}[/]")
        console.print(render.budget_table(found, name, everything=all))
    console.print("[dim]USED, COMMITTED, OWED: GPU-hours over the lookback; RATIO: (used + committed) / owed[/]")
    console.print("[dim]COMMITTED: promised to what claims, starts and runs, and to what holds a reservation[/]")
    console.print("[dim]tenure balance BUDGET: what is left of one, when time comes back, and who used what[/]")


def hosts(
    cluster: ClusterOption = None,
    slurm: SlurmOption = False,
    format: FormatOption = None,
    by_host: Annotated[bool, typer.Option("--by-host", "-N", help="With --slurm: a line for each host.")] = False,
    out_of_service: Annotated[
        bool, typer.Option("--out-of-service", "-R", help="Those that are, with who and why, as `sinfo -R`.")
    ] = False,
    no_header: NoHeader = False,
    json: Json = False,
) -> None:
    """Show hosts, their state, who is on them (JOBxGPUS), and for whom they are held. `--slurm`: as sinfo does."""
    with connect() as client:
        found = client.hosts(cluster)
        paused = bool(client.status().paused_starts) if slurm else False
    if out_of_service:
        found = [host for host in found if host.state != "healthy"]
    if json:
        print_json(found)
        return
    if slurm or format or by_host or out_of_service:
        host_lines(found, format, by_host=by_host, reasons=out_of_service, no_header=no_header, paused=paused)
        return
    from tenure.cli import render

    render.output().print(render.host_table(found, render.now_ms()))


def status(json: Json = False) -> None:
    """Show the scheduler at a glance."""
    with connect() as client:
        found = client.status()
    if json:
        print_json(found)
        return
    from tenure.cli import render

    for line in render.status_lines(found):
        render.output().print(line)


def events(
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what happens next.")] = False,
    after: Annotated[int | None, typer.Option(metavar="SEQ", help="From this batch on \\[the last 50].", min=0)] = None,
    job: Annotated[str | None, typer.Option(metavar="JOB", help="Only about this job.")] = None,
    json: Json = False,
) -> None:
    """Show what happened and what was decided, with reasons. JSON is one batch a line."""
    with connect(FOLLOWING_S if follow else ONE_SHOT_S) as client:
        wanted = one(client, named(job)) if job is not None else None
        position = after
        while True:
            page = client.decisions(position, wait_ms=20_000 if follow else 0)
            for batch in page.items:
                _print_batch(batch, wanted, json=json)
            if not follow and (not page.items or after is None):
                return
            position = page.next


def _print_batch(batch: BatchView, job: int | None, *, json: bool) -> None:
    entries = [entry for entry in batch.entries if job in (None, entry.job)]
    if not entries:
        return
    if json:
        print_json_line(batch)
        return
    from tenure.cli import render
    from tenure.cli.render import escape

    for entry in entries:
        why = f" [dim]{escape(entry.reason.text)}[/]" if entry.reason is not None else ""
        line = f"[dim]{render.clock(batch.at)[11:19]}[/] {escape(entry.text)}{'.' if why else ''}{why}"
        render.output().print(line, soft_wrap=True)


def evictions(
    job: Annotated[str | None, typer.Option(metavar="JOB", help="Of or for this job.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-l", metavar="N", min=1, max=1000)] = 50,
    json: Json = False,
) -> None:
    """Show evictions, newest first: who had to go, for whom, and why."""
    with connect() as client:
        wanted = one(client, named(job)) if job is not None else None
        found = client.evictions(limit=limit, job=wanted).items
    if json:
        print_json(found)
        return
    from tenure.cli import render

    render.output().print(render.eviction_table(found))


def audit(
    since: Annotated[str | None, typer.Option(metavar="TIME", help="Since then: 2h, or 2026-10-09T12:00:00Z.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-l", metavar="N", min=1, max=1000)] = 50,
    json: Json = False,
) -> None:
    """Show what people did, newest first (administrators)."""
    with connect() as client:
        found = client.audit(since_of(since), limit)
    if json:
        print_json(found)
        return
    from tenure.cli import render
    from tenure.cli.render import escape

    table = render.table("WHEN", "WHO", "WHAT", "TO", "DETAIL", fold=("DETAIL",), spare=("TO",))
    for row in found:
        detail = ", ".join(f"{key} = {value}" for key, value in row.detail.items())
        table.add_row(render.clock(row.at), escape(row.who), row.action, escape(row.target), escape(detail))
    render.output().print(table)
