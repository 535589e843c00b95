"""What can go wrong, as ``error: field = value: what would work`` on stderr and a documented exit code."""

from __future__ import annotations

import errno
import sys
from enum import IntEnum

_SHOWN = 80


class Exit(IntEnum):
    """Exit codes of all commands; ``run`` adds the codes of the job itself."""

    OK = 0
    FAILED = 1
    REFUSED = 2
    UNREACHABLE = 3
    NOT_FOUND = 4
    STOPPED = 5
    INTERRUPTED = 130


class CliError(Exception):
    """A command cannot go on. ``str`` of it is for people and says what would work."""

    def __init__(self, message: str, code: Exit = Exit.REFUSED) -> None:
        super().__init__(message)
        self.code = code


def say_error(message: str) -> None:
    """On stderr, the word in red when somebody looks. Names in it may be anything: none moves the cursor."""
    from tenure.cli.render import errors, escape
    from tenure.units import printable

    shown = "\n".join(map(printable, message.split("\n")))
    errors().print(f"[bold red]error:[/] {escape(shown)}", soft_wrap=True)


def report(error: BaseException) -> int | None:
    """Say what went wrong. Returns the exit code, None for what nobody foresaw."""
    if isinstance(error, CliError):
        say_error(str(error))
        return int(error.code)
    if isinstance(error, OSError):
        say_error(os_error(error))
        return Exit.REFUSED
    if isinstance(error, UnicodeEncodeError):
        value = str(error.object)
        shown = value if len(value) <= _SHOWN else value[: _SHOWN - 3] + "..."
        say_error(f"{shown!a}: write it as UTF-8, in which {value[error.start : error.end]!a} is not possible")
        return Exit.REFUSED
    # Whatever else can be foreseen comes out of modules that the command has imported by now.
    for name, known in (("tenure.client", _client), ("tenure.config", _config), ("tenure.store", _store)):
        if name in sys.modules and (code := known(error)) is not None:
            return code
    return None


def os_error(error: OSError) -> str:
    """What the system refused, and of which file."""
    if error.errno == errno.ENOENT and error.filename is None:
        return "this directory is no more: change to one that is there"
    named = [str(name) for name in (error.filename, error.filename2) if name is not None]
    return f"{' and '.join(named)}: {error.strerror}" if named else error.strerror or str(error)


def _client(error: BaseException) -> int | None:
    from tenure.client import TenureError, Unreachable

    if isinstance(error, Unreachable):
        say_error(str(error))
        return Exit.UNREACHABLE
    if not isinstance(error, TenureError):
        return None
    for item in error.problem.errors:
        say_error(f"{item.field} = {item.value}: {item.fix}")
    if not error.problem.errors:
        say_error(error.problem.detail)
    if error.status in (401, 403, 404):
        return Exit.NOT_FOUND
    return Exit.UNREACHABLE if error.status >= 500 else Exit.REFUSED


def _config(error: BaseException) -> int | None:
    from tenure.config import ConfigError

    if not isinstance(error, ConfigError):
        return None
    for problem in error.problems:
        say_error(str(problem))
    return Exit.REFUSED


def _store(error: BaseException) -> int | None:
    from sqlalchemy.exc import OperationalError

    from tenure.store import StoreError

    if isinstance(error, OperationalError):
        say_error(f"the database cannot be used: {str(error.orig).strip()}")
        return Exit.UNREACHABLE
    if not isinstance(error, StoreError):
        return None
    say_error(str(error))
    return Exit.REFUSED
