"""``tenure history``, and what ``ls`` and ``hosts`` print in Slurm's columns."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from tenure.cli import familiar
from tenure.cli.context import BudgetOption, ClusterOption, Json, connect, print_json, print_line
from tenure.cli.moments import local_time
from tenure.cli.naming import array_of, named

if TYPE_CHECKING:
    from tenure.api.models import AttemptView, HostView, JobView
    from tenure.client import Client

FormatOption = Annotated[
    str | None,
    typer.Option("--format", "-o", metavar="FORMAT", help="Columns as squeue and sinfo have them: %.18i %j."),
]
JobsOption = Annotated[
    list[str] | None, typer.Option("--job", "-j", metavar="JOB", help="These jobs, ended or not: 12,15.")
]
NoHeader = Annotated[bool, typer.Option("--no-header", help="Without the first line, in Slurm's columns.")]
SlurmOption = Annotated[bool, typer.Option("--slurm", help="Slurm's columns.")]


def jobs_named(client: Client, texts: Sequence[str], *, runs: bool = False) -> list[JobView]:
    """The jobs of ``12,15``, of an array ``17``, or some of it, ``17_[0-3,7]``; ended ones, too. Raises CliError."""
    found: list[JobView] = []
    for text in (part.strip() for each in texts for part in _COMMA.split(each) if part.strip()):
        name = named(text)
        if name.indices is not None or array_of(client, name) is not None:
            found += client.jobs(array=name.number, indices=name.indices, all=True, runs=runs)
        else:
            found.append(_with_runs(client, name.number) if runs else client.job(name.number))
    return found


_COMMA = re.compile(r",(?![^\[]*\])")


def queue_lines(jobs: Callable[[], list[JobView]], format: str | None, *, no_header: bool, json: bool) -> None:
    """Print a listing as squeue does. Raises CliError for a format that is not known."""
    from tenure.cli import render

    line = familiar.columns(format or familiar.QUEUE, familiar.queue_fields(render.now_ms()))
    found = familiar.in_queue_order(jobs())
    if json:
        print_json(found)
        return
    for record in ([] if no_header else [None]) + found:
        print_line(line(record))


def host_lines(
    hosts: Sequence[HostView], format: str | None, *, by_host: bool, reasons: bool, no_header: bool, paused: bool
) -> None:
    """Print hosts as sinfo does. Raises CliError for a format that is not known."""
    usual = familiar.HOSTS_OUT if reasons else familiar.HOSTS_BY_NAME if by_host else familiar.HOSTS
    line = familiar.columns(format or usual, familiar.host_fields(paused))
    if not no_header:
        print(line(None))
    for group in familiar.host_groups(hosts, format or usual, one_by_one=by_host):
        print_line(line(group))


def history(
    user: Annotated[
        list[str] | None, typer.Option("--user", "-u", metavar="NAME", help="Of these users \\[you].")
    ] = None,
    everybody: Annotated[bool, typer.Option("--everybody", "-a", help="Of all users.")] = False,
    state: Annotated[
        list[str] | None, typer.Option("--state", "-s", metavar="STATE", help="In these states: failed, or F,TO.")
    ] = None,
    job: JobsOption = None,
    budget: BudgetOption = None,
    cluster: ClusterOption = None,
    since: Annotated[
        str | None,
        typer.Option("--since", "-S", metavar="TIME", help="Submitted since then: 3d, 2026-10-09 \\[today]."),
    ] = None,
    runs: Annotated[bool, typer.Option("--runs", "-D", help="A line for each run, not only the last.")] = False,
    format: Annotated[
        str | None, typer.Option("--format", "-o", metavar="FIELDS", help="As sacct has them: JobID,State,JobName%20.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-l", metavar="N", help="At most so many jobs.", min=1)] = 1000,
    parsable: Annotated[bool, typer.Option("--parsable", "-P", help="Between bars, nothing cut off.")] = False,
    no_header: Annotated[bool, typer.Option("--no-header", "-n", help="Without the heading.")] = False,
    json: Json = False,
) -> None:
    """What ran: jobs with their last run, oldest first, in the columns of sacct."""
    from tenure.cli import render

    now = render.now_ms()
    shown = format or familiar.HISTORY
    familiar.history_columns(shown, now)  # refuse what is wrong before anybody is asked
    with connect() as client:
        if job:
            found = jobs_named(client, job, runs=True)
        else:
            users = list(user or []) or ([] if everybody else [client.me().name])
            states = familiar.states(state or [])
            start = start_of(since, now)
            filters = {"state": states, "budget": budget, "cluster": cluster, "since": start}
            found = list(client.jobs(user=users, all=True, limit=limit, runs=True, **filters))
    found.sort(key=lambda one: one.id)
    if json:
        print_json(found)
        return
    rows = [row for one in found for row in _rows(one, every=runs)]
    for line in familiar.history_lines(rows, shown, now, parsable=parsable, heading=not no_header):
        print_line(line)


def _with_runs(client: Client, number: int) -> JobView:
    detail = client.job(number)
    return detail.model_copy(update={"runs": [run for run in detail.attempts if run.started_at is not None]})


def _rows(job: JobView, *, every: bool) -> Iterator[tuple[JobView, AttemptView | None]]:
    """A job's runs, or the last one; a job that never ran is a row, too."""
    if not job.runs:
        yield job, None
    for run in job.runs if every else job.runs[-1:]:
        yield job, run


def start_of(text: str | None, now: int) -> str:
    """RFC 3339 of a time as ``ls --since`` or sacct has it, else of the beginning of today. Raises CliError."""
    from tenure import units
    from tenure.cli.listing import since_of

    if text is None:
        today = time.localtime(now / 1000)
        return units.format_time(int(time.mktime((*today[:3], 0, 0, 0, 0, 0, -1))) * 1000)
    found = local_time(text) or since_of(text)
    assert found is not None  # there is a text
    return found
