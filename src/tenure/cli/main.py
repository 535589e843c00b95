"""Entry point: quick answers first, then the commands, and what goes wrong as one line and an exit code."""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from typing import NoReturn

import tenure
from tenure.core import compiled


def main() -> NoReturn:
    """``tenure`` as a program."""
    arguments = sys.argv[1:]
    if arguments in (["--version"], ["-V"]):
        print(version())
        raise SystemExit(0)
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        # A terminal or a log of another encoding shows what it can of a name, and no traceback.
        sys.stdout.reconfigure(errors="backslashreplace")
    raise SystemExit(run(arguments))


def version() -> str:
    return f"tenure {tenure.__version__}" + (" (compiled)" if compiled() else "")


def run(arguments: Sequence[str]) -> int:
    """Run one command. Returns the exit code."""
    from tenure.cli import aliases
    from tenure.cli.app import app
    from tenure.cli.errors import report

    try:
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
        code = report(error)
        if code is None:
            raise
        return code
    return 0
