"""Entry point: quick answers first, then the commands, and what goes wrong as one line and an exit code."""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from typing import NoReturn, TextIO

import tenure
from tenure.core import compiled


def main() -> NoReturn:
    """``tenure`` as a program."""
    arguments = sys.argv[1:]
    if arguments in (["--version"], ["-V"]):
        print(version())
        raise SystemExit(0)
    _take_any_letter(sys.stdout)
    raise SystemExit(run(arguments))


def _take_any_letter(stream: TextIO) -> None:
    """A terminal or a log of another encoding than UTF-8 shows what it can of a name, and nothing fails."""
    if isinstance(stream, io.TextIOWrapper) and (stream.errors == "strict" or stream.encoding.lower() != "utf-8"):
        stream.reconfigure(errors="backslashreplace")


def version() -> str:
    return f"tenure {tenure.__version__}" + (" (compiled)" if compiled() else "")


def run(arguments: Sequence[str]) -> int:
    """Run one command. Returns the exit code."""
    try:
        # Somebody may think better of it while these are read.
        from tenure.cli import aliases
        from tenure.cli.app import app

        app(aliases.translate(list(arguments)), prog_name="tenure")
    except SystemExit as over:
        return over.code if isinstance(over.code, int) else 0 if over.code is None else 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # Whoever read our output has seen enough, as in `tenure ls | head`.
        sys.stdout = None
        return 0
    except Exception as error:
        from tenure.cli.errors import report

        code = report(error)
        if code is None:
            raise
        return code
    return 0
