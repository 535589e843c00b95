"""Commands of operators: hosts, the brake, and the configuration."""

from __future__ import annotations

import contextlib
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tenure.cli.context import ClusterOption, ConfigOption, complete_hosts, config_path, connect
from tenure.cli.errors import CliError, Exit

if TYPE_CHECKING:
    from tenure.api.models import AppliedView, HostView
    from tenure.client import Client

HostArguments = Annotated[
    list[str], typer.Argument(metavar="HOST...", show_default=False, autocompletion=complete_hosts)
]
Why = Annotated[str, typer.Option("--why", help="For the record and for whoever looks.")]
Evictions = Annotated[bool, typer.Option("--evictions", help="Only evictions; starts on free GPUs go on.")]


def drain(
    hosts: HostArguments,
    why: Why = "",
    deadline: Annotated[
        str | None, typer.Option(metavar="TIME", help="After this, gangs over other hosts are evicted, too: 4h.")
    ] = None,
    cluster: ClusterOption = None,
) -> None:
    """Take hosts out without breaking a promise: no new jobs, and what runs leaves when it is exposed."""
    until = _deadline(deadline)
    with connect() as client:
        for place, name in _find(client, hosts, cluster):
            _say(client.drain(place, name, why, until))


def undrain(hosts: HostArguments, why: Why = "", cluster: ClusterOption = None) -> None:
    """Put hosts back to work."""
    with connect() as client:
        for place, name in _find(client, hosts, cluster):
            _say(client.resume_host(place, name, why), asked_back=True)


def fail_host(hosts: HostArguments, why: Why = "", cluster: ClusterOption = None) -> None:
    """Declare hosts gone: what runs there ends at once, and resumable jobs queue again."""
    with connect() as client:
        for place, name in _find(client, hosts, cluster):
            _say(client.fail_host(place, name, why))


def _deadline(text: str | None) -> str | None:
    from tenure import units
    from tenure.cli import render

    if text is None:
        return None
    try:
        return units.format_time(render.now_ms() + units.parse_duration(text))
    except units.UnitError as error:
        try:
            return units.format_time(units.parse_time(text))
        except units.UnitError:
            raise CliError(f"deadline = {error.value}: {error.fix}, or a time like 2026-10-09T12:00:00Z") from error


def _find(client: Client, names: list[str], cluster: str | None) -> list[tuple[str, str]]:
    """(cluster, host) of host names, which may be ranges such as ``n[01-04]`` or ``CLUSTER/HOST``."""
    from tenure import units
    from tenure.config.ranges import expand

    known = client.hosts(cluster)
    found = []
    for text in names:
        place, _, host = text.rpartition("/")
        try:
            wanted = expand(host)
        except units.UnitError as error:
            raise CliError(f"host = {text}: {error.fix}") from error
        for name in wanted:
            matches = [h for h in known if h.name == name and place in ("", h.cluster)]
            found.append(_only(name, matches, known))
    return found


def _only(name: str, matches: list[HostView], known: list[HostView]) -> tuple[str, str]:
    from tenure.config.problems import did_you_mean

    if len(matches) > 1:
        places = ", ".join(f"{host.cluster}/{host.name}" for host in matches)
        raise CliError(f"host = {name}: several clusters have one; write one of {places}")
    if not matches:
        hint = did_you_mean(name, {host.name for host in known})
        raise CliError(f"host = {name}: there is no such host; {hint}", Exit.NOT_FOUND)
    return matches[0].cluster, matches[0].name


def _say(host: HostView, *, asked_back: bool = False) -> None:
    from tenure import units
    from tenure.cli import render

    text = f"{host.cluster}/{host.name} is {host.state}"
    if host.drained_by is not None and host.attempts:
        left = render.span(host.drained_by - render.now_ms())
        text += f": {units.counted(len(host.attempts), 'attempt')} there, empty in {left} at the latest"
    elif asked_back and host.state != "healthy":
        text += f": {host.why} ({host.by}); it is back here when it is in service there"
    render.output().print(text, markup=False)


def pause(evictions: Evictions = False) -> None:
    """Stop all starts until `tenure resume`. What runs is left alone."""
    with connect() as client:
        client.pause("evictions" if evictions else "starts")
    print("evictions are paused" if evictions else "all starts are paused", end="; tenure resume ends that\n")


def resume(evictions: Evictions = False) -> None:
    """Let starts (or evictions) go on again."""
    with connect() as client:
        client.resume("evictions" if evictions else "starts")
    print("evictions go on" if evictions else "starts go on")


def metrics() -> None:
    """Print the Prometheus metrics."""
    with connect() as client:
        print(client.metrics(), end="")


def config() -> None:
    """Print the configuration that is in force, as its two files."""
    with connect() as client:
        found = client.config()
    for file in (found.clusters, found.budgets):
        print(f"# ---- {file.name}\n\n{file.text}")


def apply(
    file: Annotated[Path | None, typer.Argument(metavar="[FILE]", show_default=False)] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", "-n", help="Only show what would change.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    config: ConfigOption = None,
) -> None:
    """Put the configuration files in force: shows what changes and who is evicted for it, and asks first."""
    clusters, budgets = read_files(config_path(file or config))
    with connect() as client:
        planned = client.apply(clusters, budgets, dry_run=True)
        _show_plan(planned)
        if dry_run or not planned.changes:
            return
        if not yes:
            if not sys.stdin.isatty():
                raise CliError("nothing was applied, since nobody can be asked here: say --yes")
            if not _asked():
                print("nothing was applied")
                return
            if client.apply(clusters, budgets, dry_run=True).changes != planned.changes:
                raise CliError(
                    "nothing was applied: somebody else has applied a configuration meanwhile, so this would change "
                    "something else than what was shown; look again"
                )
        client.apply(clusters, budgets, dry_run=False)
        print("applied")


def _asked() -> bool:
    """Whether it shall be so. Raises Exit on Ctrl-C."""
    try:
        return typer.confirm("Apply this?")
    except typer.Abort:
        print("\nnothing was applied")
        raise typer.Exit(Exit.INTERRUPTED) from None


def read_files(path: Path) -> tuple[tuple[str, str], tuple[str, str]]:
    """(name, text) of ``tenure.toml`` and of the budgets file that it names. Raises CliError."""
    text = _text(path, "run `tenure init` to write one")
    named = "budgets.toml"
    with contextlib.suppress(tomllib.TOMLDecodeError):  # the server says where and why
        named = str(tomllib.loads(text).get("budgets", named))
    return (path.name, text), (named, _text(path.parent / named, f"{path.name} names it as the file of the budgets"))


def _text(path: Path, remedy: str) -> str:
    try:
        return path.read_text("utf-8")
    except OSError as error:
        raise CliError(f"{path}: {error.strerror}; {remedy}") from error
    except UnicodeDecodeError as error:
        raise CliError(f"{path}: save it as UTF-8") from error


def _show_plan(planned: AppliedView) -> None:
    from tenure.cli import render

    console = render.output()
    for line in planned.changes:
        console.print(f"  {line}", markup=False)
    if not planned.changes:
        console.print("nothing changes: this is what holds already")
    for eviction in planned.evictions:
        console.print(f"  evicts {eviction.attempt}: {eviction.reason.text}", style="red", markup=False)
    for start in planned.starts:
        console.print(f"  starts job {start.job}: {start.reason.text}", markup=False)
