"""Folders of results: what in them is of a simulation, what is there already, and what stays."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tenure.cli.errors import CliError

_ABOVE = {
    *("summary.json", "summary.json.new", "notes.txt"),
    *(f"{what}.{kind}" for what in ("comparison", "sides", "behaviours") for kind in ("html", "json", "md")),
}
_OF_RUN = {
    *("run.json", "summary.json", "report.html"),
    *("jobs.csv", "attempts.csv", "evictions.csv", "hours.csv", "budget_hours.csv"),
}
_CHARTS = "charts"
_RUN = re.compile(r".*-seed[0-9]+|log")
_NEEDED = {"policy", "seed", "settings", "workload", "gpus"}
"""What no summary lacks."""


def check_folder(out: Path, force: bool) -> None:
    """Whether results can go to ``out``. Raises CliError when something else is there, or an earlier simulation that is
    not to be replaced.
    """
    if not out.exists():
        return
    if not out.is_dir():
        raise CliError(f"out = {out}: this is a file; name a directory")
    other = next(_others(out), None)
    if other is not None:
        raise CliError(
            f"out = {out}: it has other files in it ({other.relative_to(out)}); name a new or empty directory"
        )
    if not force and ((out / "summary.json").exists() or any(out.glob("*/run.json"))):
        raise CliError(f"out = {out}: it has an earlier simulation; name another directory, or add --force")


def make_folder(out: Path) -> None:
    """Before what takes long, and would be lost. Raises CliError."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise CliError(f"out = {out}: this is a file; name a directory") from None
    except OSError as error:
        raise CliError(f"out = {out}: {error.strerror}; name a directory that can be made") from error


def ready_folder(out: Path, force: bool) -> None:
    """``out``, there and empty. Raises CliError as ``check_folder`` does."""
    check_folder(out, force)
    make_folder(out)
    for old in list(out.iterdir()):
        if old.is_dir():
            shutil.rmtree(old)
        else:
            old.unlink()


def _others(out: Path) -> Iterator[Path]:
    """What no simulation has written."""
    for path in sorted(out.iterdir()):
        if _is_folder(path) and path.name == _CHARTS:
            yield from _not_pictures(path)
        elif _is_folder(path) and (_RUN.fullmatch(path.name) or (path / "run.json").is_file()):
            for inside in sorted(path.iterdir()):
                if _is_folder(inside) and inside.name == _CHARTS:
                    yield from _not_pictures(inside)
                elif not _is_file(inside) or inside.name not in _OF_RUN:
                    yield inside
        elif not _is_file(path) or path.name not in _ABOVE:
            yield path


def _not_pictures(charts: Path) -> Iterator[Path]:
    return (path for path in sorted(charts.iterdir()) if not _is_file(path) or path.suffix != ".png")


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _is_file(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def run_folders(folder: Path) -> list[Path]:
    """The runs in ``folder``, which may be one itself. Raises CliError."""
    if (folder / "run.json").is_file():
        return [folder]
    runs = sorted(path.parent for path in folder.glob("*/run.json"))
    if not runs:
        raise CliError(f"folder = {folder}: no simulated run is there; name the DIR of `tenure simulate ... --out DIR`")
    return runs


def read_summaries(runs: Sequence[Path]) -> list[dict[str, Any]]:
    """The summary of each run. Raises CliError."""
    return [_summary(run / "summary.json") for run in runs]


def _summary(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text("utf-8"))
    except (FileNotFoundError, ValueError):
        found = None
    if not isinstance(found, dict) or not found.keys() >= _NEEDED:
        raise CliError(f"folder = {path.parent}: its summary.json is not that of a run; simulate it again")
    return found
