"""Commands that make and change jobs: submit, run, cancel, hold, release, priority, checkpoint, evict."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from tenure.cli import batch, submission
from tenure.cli.batch import Prepared
from tenure.cli.context import (
    FOLLOWING_S,
    JobArgument,
    JobArguments,
    JobOrArrayArguments,
    Json,
    connect,
    print_json,
    print_line,
)
from tenure.cli.errors import CliError, Exit, report
from tenure.cli.naming import Named, array_of, named, one
from tenure.cli.options import JobOptions, is_there, takes

if TYPE_CHECKING:
    from tenure.api.models import ArrayView, JobView, Submitted
    from tenure.api.plan_models import PlanView
    from tenure.client import Client

Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print the job's number only.")]


@takes(JobOptions)
def submit(
    options: JobOptions,
    quiet: Quiet = False,
    json: Json = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the request and what said so; submit nothing.")
    ] = False,
    plan: Annotated[
        bool, typer.Option("--plan", help="Show what would happen: start, cost, evictions; submit nothing.")
    ] = False,
) -> None:
    """Submit a job: a command, a batch script with #SBATCH or #TENURE lines, or a job file.

    Options come before the command. What a cluster decides for you is said with what it means.
    """
    if plan and dry_run:
        raise CliError(
            "plan = yes: --dry-run shows the request alone, --plan what would become of it; give one of them"
        )
    made = _prepared(options, dry_run=dry_run, plan=plan)
    if (dry_run or made.dry_run) and not plan:
        _show(made, json=json)
        return
    with connect() as client, submission.refusals_with_origin(made):
        if plan:
            _show_plan(client.plan(made.body), json=json)
            return
        done = client.submit(made.body)
    if json:
        print_json(done)
    elif quiet or made.quiet:
        print(done.job.id)
    else:
        _say(done)


def _prepared(options: JobOptions, *, dry_run: bool = False, plan: bool = False) -> Prepared:
    """The request, and on stderr what there is to know about it."""
    from tenure.client import TenureError, Unreachable

    try:
        with connect() as client:
            made = batch.prepare(options, submission.ServerSite(client))
    except (Unreachable, TenureError):
        if not dry_run:
            raise
        made = batch.prepare(options, None)
        made.notes.append("no server was asked: names of budgets and labels are taken as they are")
    command = made.body.get("command")
    if plan and command and not is_there(command, made.body["workdir"]):
        made.notes.append(f"command = {command[0]}: there is no such program or file on this machine")
    submission.say_notes(made)
    return made


def _show(made: Prepared, *, json: bool) -> None:
    if json:
        print_json(submission.dry_run(made))
        return
    for line in submission.dry_run_lines(made):
        print_line(line)


def _show_plan(plan: PlanView, *, json: bool) -> None:
    from tenure.cli import render
    from tenure.cli.planned import plan_lines

    if json:
        print_json(plan)
        return
    for line in plan_lines(plan):
        render.output().print(line, soft_wrap=True)


def _say(done: Submitted) -> None:
    from tenure.cli import render
    from tenure.cli.render import escape

    job, array = done.job, done.array
    console = render.output()
    what = f"job [bold]{job.id}[/]" if array is None else f"array [bold]{array.id}[/]"
    if not done.created:
        state = job.state if array is None else render.counted(array.states)
        console.print(f"{what} is there already: the same key was used before ({state})")
        return
    size = f"{job.gpus} GPU{'s' if job.gpus != 1 else ''}"
    if array is not None:
        few = f", at most {array.throttle} at a time" if array.throttle is not None else ""
        size = f"{array.count} jobs of {size}{few}, {array.id}_{job.array_index} and so on"
    console.print(f"{what} submitted to {escape(job.budget)}: {escape(job.name)}, {size}")
    for note in done.notes:
        console.print(f"  [dim]{escape(note.field)} = {escape(note.value)} (default): {escape(note.text)}[/]")
    now = render.now_ms()
    console.print(f"  {render.state_text(job.state).markup}: {escape(render.where(job, now))}")


@takes(JobOptions)
def run(
    options: JobOptions, quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Output only.")] = False
) -> None:
    """Submit a job and stay with it: its output comes here, Ctrl-C cancels it, its exit code is ours.

    A second Ctrl-C leaves the job to itself.
    """
    from tenure.cli.follow import Session

    made = _prepared(options)
    if "array" in made.body:
        raise CliError(f"array = {made.body['array']}: run stays with one job; use tenure submit, then tenure wait")
    with connect(FOLLOWING_S) as client, submission.refusals_with_origin(made):
        done = client.submit(made.body)
        raise typer.Exit(Session(client, done, quiet=quiet).run())


def cancel(jobs: JobOrArrayArguments) -> None:
    """Cancel jobs: queued ones end at once, running ones are warned first."""
    _each(jobs, lambda client, job: client.cancel(job), "cancelled", lambda client, *which: client.cancel_array(*which))


def hold(jobs: JobOrArrayArguments) -> None:
    """Keep jobs from starting."""
    _each(jobs, lambda client, job: client.hold(job), "held", lambda client, *which: client.hold_array(*which))


def release(jobs: JobOrArrayArguments) -> None:
    """Undo a hold."""
    _each(
        jobs, lambda client, job: client.release(job), "released", lambda client, *which: client.release_array(*which)
    )


def checkpoint(jobs: JobArguments) -> None:
    """Report that running jobs have saved a checkpoint."""
    _each(jobs, lambda client, job: client.checkpoint(job), "checkpoint noted")


def priority(job: JobArgument, value: Annotated[str, typer.Argument(metavar="N", help="Higher comes first.")]) -> None:
    """Set a job's priority, which orders jobs inside one budget and does nothing else."""
    try:
        number = int(value)
    except ValueError:
        raise CliError(f"priority = {value}: write a whole number, like 10 or -5") from None
    _each([job], lambda client, one: client.set_priority(one, number), f"has priority {number}")


def evict(job: JobArgument, why: Annotated[str, typer.Option("--why", help="For the record.")]) -> None:
    """Evict a job by force, protected or not (administrators). Who did it and why is recorded."""
    _each([job], lambda client, one: client.evict(one, why), "evicted")


OfArray = Callable[["Client", int, str | None], "ArrayView"]
"""What is done to all jobs of an array, or to some: by its id and their indices."""


def _each(
    jobs: list[str], action: Callable[[Client, int], JobView], done: str, of_array: OfArray | None = None
) -> None:
    """Do it to every job; one that fails does not keep the others from it."""
    from tenure.client import TenureError

    worst = Exit.OK
    given = [named(text) for text in jobs]
    with connect() as client:
        for job in given:
            try:
                _do(client, job, action, done, of_array)
            except (TenureError, CliError) as error:
                worst = max(worst, Exit(report(error) or Exit.REFUSED))
    if worst:
        raise typer.Exit(worst)


def _do(
    client: Client, job: Named, action: Callable[[Client, int], JobView], done: str, of_array: OfArray | None
) -> None:
    from tenure.cli import render

    if of_array is not None and not job.single and (job.indices is not None or array_of(client, job) is not None):
        array = of_array(client, job.number, job.indices)
        which = f"array {job.number}" if job.indices is None else f"jobs {job.number}_[{job.indices}]"
        render.output().print(f"{which} {done} (array {array.id}: {render.counted(array.states)})", markup=False)
        return
    view = action(client, one(client, job))
    state = "" if view.ended else f" ({view.state}: {view.reason.text})"
    render.output().print(f"job {view.label} {done}{state}", markup=False)
