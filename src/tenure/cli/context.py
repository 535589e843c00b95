"""What commands share: the client, JSON output, job ids."""

from __future__ import annotations

import json
import os
import sys
import unicodedata
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from pydantic import BaseModel

    from tenure.client import Client

ONE_SHOT_S = 2.0
FOLLOWING_S = 120.0
"""How long a server that restarts is waited for while something is followed."""
CONFIG = "tenure.toml"

_url: str | None = None


def set_url(url: str | None) -> None:
    """The address given before the command."""
    global _url  # noqa: PLW0603  # one command line, one address
    _url = url


def connect(patience_s: float = ONE_SHOT_S) -> Client:
    """A client of the server that this directory, the environment or ``--url`` names. Raises Unreachable."""
    # httpx has a command line of its own, whose imports would take longer than all that is needed here.
    sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]  # None: an import finds nothing
    from tenure.client import Client

    return Client(_url, patience_s=patience_s)


def print_json(value: BaseModel | Iterable[BaseModel] | Any) -> None:
    """JSON as the API gives it, one document."""
    print(json.dumps(_plain(value), indent=2, ensure_ascii=False))


def print_json_line(value: BaseModel | Iterable[BaseModel] | Mapping[str, Any]) -> None:
    """One line of JSON, for whoever follows."""
    print(json.dumps(_plain(value), separators=(",", ":"), ensure_ascii=False), flush=True)


def _plain(value: Any) -> Any:
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def config_path(given: Path | None) -> Path:
    """The configuration file: what is given, else TENURE_CONFIG, else ``tenure.toml`` here."""
    return given or Path(os.environ.get("TENURE_CONFIG") or CONFIG)


_ACTED_ON = ("Cc", "Cf", "Cs", "Zl", "Zp")
_JOINS = "\u200c\u200d"
"""Formats of Unicode that only join letters."""


def harmless(text: str) -> str:
    """``text`` without what a terminal acts on: control characters but line breaks, changes of direction, surrogates.

    None of them takes a column, so tables stay as wide as they were.
    """
    return "".join(c for c in text if c == "\n" or c in _JOINS or unicodedata.category(c) not in _ACTED_ON)


def print_line(text: str) -> None:
    """A line with words of other people in it, on stdout."""
    print(text if text.isprintable() else harmless(text))


# ---- shell completion: short answers from a server that is there, nothing otherwise


def _ask(question: str) -> list[str]:
    import httpx

    from tenure.client import Client, TenureError, Unreachable

    try:
        with Client(_url, patience_s=0) as client:
            if question == "jobs":
                return [str(job.id) for job in client.jobs_page(limit=200).items]
            if question == "hosts":
                return [host.name for host in client.hosts()]
            return [budget.path for budget in client.budgets() if not budget.implicit]
    except (Unreachable, TenureError, httpx.HTTPError, OSError):
        return []


def complete_jobs(incomplete: str) -> list[str]:
    return [job for job in _ask("jobs") if job.startswith(incomplete)]


def complete_hosts(incomplete: str) -> list[str]:
    return [host for host in _ask("hosts") if host.startswith(incomplete)]


def complete_budgets(incomplete: str) -> list[str]:
    return [path for path in _ask("budgets") if path.startswith(incomplete)]


JobArgument = Annotated[
    str,
    typer.Argument(
        metavar="JOB", help="A job's number, or 12_3 in an array.", show_default=False, autocompletion=complete_jobs
    ),
]
JobArguments = Annotated[
    list[str],
    typer.Argument(
        metavar="JOB...", help="Jobs' numbers; of arrays 12_3.", show_default=False, autocompletion=complete_jobs
    ),
]
JobOrArrayArguments = Annotated[
    list[str],
    typer.Argument(
        metavar="JOB...",
        help="Jobs' numbers; an array's number for all of it, 12_3 or 12_[0-3] for some.",
        show_default=False,
        autocompletion=complete_jobs,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="JSON, as the API gives it.")]
BudgetOption = Annotated[
    str | None,
    typer.Option("--budget", "-b", metavar="PATH", help="This budget and below.", autocompletion=complete_budgets),
]
ClusterOption = Annotated[str | None, typer.Option("--cluster", metavar="NAME", help="Only this cluster.")]
ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="The configuration \\[default: $TENURE_CONFIG or tenure.toml]."),
]
