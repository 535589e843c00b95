"""What ``submit`` shows and asks: the server as a source of names, a dry run, notes, and errors with their line."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tenure import units
from tenure.cli.batch import Prepared
from tenure.cli.errors import CliError, Exit

if TYPE_CHECKING:
    from tenure.client import Client, TenureError

_PAGE = "docs/sbatch.md"
_TOLD = {
    "qos": "there are no classes of service: budgets say who comes first, --min-runtime how long a job is protected",
    "priority": "priority orders jobs inside one budget and does nothing else; it protects nobody, and outranks nobody "
    "of another budget",
    "nice": "it lowers the job's priority, which orders jobs inside one budget and does nothing else",
}
_SCRIPT = "TENURE_SCRIPT"
_MISSING = "(missing)"
"""What the server says in place of a value that there is not."""


class ServerSite:
    """Asked only when an option needs it."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def budgets(self) -> Sequence[str]:
        return [budget.path for budget in self._client.budgets() if not budget.implicit]

    def labels(self) -> Sequence[tuple[str, str]]:
        return [label for host in self._client.hosts() for label in host.labels.items()]


@contextmanager
def refusals_with_origin(made: Prepared) -> Iterator[None]:
    """What the server refuses is told with the line of the script that asked for it."""
    from tenure.client import TenureError

    try:
        yield
    except TenureError as error:
        _say_misplaced(made, error)
        told = [
            f"{item.field} = {item.value}: {item.fix} [{made.origins[item.field]}]"
            for item in error.problem.errors
            if item.field in made.origins and made.origins[item.field] not in ("", "command line")
        ]
        if len(told) != len(error.problem.errors) or not told or error.status != 422:
            raise
        raise CliError("; ".join(told), Exit.REFUSED) from error


def _say_misplaced(made: Prepared, error: TenureError) -> None:
    """Raises CliError when a field is missing, and its option stands behind the command, whose argument it is then."""
    from tenure.cli.options import JobOptions, names_of

    known = {field.name for field in fields(JobOptions)}
    for item in error.problem.errors:
        if item.value != _MISSING or item.field not in known:
            continue
        names = names_of(item.field)
        for word in made.body.get("command", [])[1:]:
            if word.partition("=")[0] in names:
                fix = f"options come before the command; {word} stands after it, so it is an argument of the command"
                raise CliError(f"{item.field} = {_MISSING}: {fix}", Exit.REFUSED) from error


def say_notes(made: Prepared) -> None:
    """Notes on stderr, and once what some words mean here."""
    from tenure.cli.render import errors, escape

    for note in made.notes:
        errors().print(f"[dim]note:[/] {escape(note)}", soft_wrap=True)
    for word in _first_time(made.differs):
        errors().print(f"[bold]note:[/] --{word}: {escape(_TOLD[word])}. See {_PAGE}", soft_wrap=True)


def _first_time(words: Sequence[str]) -> list[str]:
    """Those of ``words`` that this user has not been told about; they count as told from now on."""
    try:
        base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    except RuntimeError:
        return list(dict.fromkeys(words))  # a user without a home
    path = Path(base) / "tenure" / "told"
    try:
        told = path.read_text("utf-8").split()
    except (OSError, UnicodeDecodeError):
        told = []
    new = [word for word in dict.fromkeys(words) if word not in told]
    if new:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("\n".join([*told, *new]) + "\n", "utf-8")
        except OSError:
            pass  # Then it is told again.
    return new


def dry_run(made: Prepared) -> dict[str, Any]:
    """The request and its origins, as JSON."""
    return {"request": made.body, "origins": made.origins, "notes": made.notes}


def dry_run_lines(made: Prepared) -> Iterator[str]:
    """The request for people: a line a field, with what said so."""
    from tenure.scripts.launch import shown

    for name, value in made.body.items():
        if name == "env":
            yield f"env = {', '.join(sorted(set(value) - {_SCRIPT, 'TENURE_SRUN'})) or '(none)'}"
            continue
        text = _array(value) if name == "array" else value
        if name == "command" and (script := shown(value)):
            size = len(made.body["env"][_SCRIPT].encode())
            text = f"{' '.join(script)}  (a script of {size} bytes, sent with the job)"
        origin = made.origins.get(name, "")
        yield f"{name} = {_plain(text)}" + (f"  [{origin}]" if origin else "")


def _array(text: str) -> str:
    """Indices with how many jobs that makes. Raises CliError."""
    try:
        array = units.parse_array(text)
    except units.UnitError as error:
        raise CliError(f"array = {error.value}: {error.fix}") from error
    few = f", at most {array.throttle} at a time" if array.throttle else ""
    return f"{text}  ({len(array.indices)} jobs{few})"


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(_plain(item) for item in value)
    if isinstance(value, dict) and "key" in value:
        wanted = f"{value['key']}={value['value']}" if value["value"] is not None else value["key"]
        return f"{wanted} ({'required' if value['required'] else 'preferred'})"
    return str(value)
