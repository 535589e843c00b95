"""A run as a folder of plain tables, and back, exactly and to the same bytes each time.

``jobs.csv``, ``attempts.csv``, ``evictions.csv``, ``hours.csv`` and ``budget_hours.csv`` hold the rows of ``records``
under the names of their fields: integers (ms and amount x ms) as they are, nothing for None, ``true`` and ``false``.
The GPUs of an attempt are written ``n1:0-7 n2:0-3,6``; host names are percent-encoded where they must be. A text that
a spreadsheet could take for a formula, or that begins with an apostrophe, gets an apostrophe before it (OWASP, *CSV
Injection*). ``run.json`` holds all else, ``summary.json`` the metrics.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TextIO, TypeVar, get_type_hints
from urllib.parse import quote, unquote

from tenure.core.model import Budget
from tenure.reports.metrics import Summary, summary
from tenure.reports.records import AttemptRow, BudgetHourRow, EvictionRow, HourRow, JobRow, Run

FORMAT = 3
"""Of the folder: raised when a reader of the old one would go wrong."""
TABLES: dict[str, type] = {
    "jobs": JobRow,
    "attempts": AttemptRow,
    "evictions": EvictionRow,
    "hours": HourRow,
    "budget_hours": BudgetHourRow,
}
RUN_FILE, SUMMARY_FILE = "run.json", "summary.json"
_PLAIN = (
    "policy",
    "seed",
    "workload",
    "settings",
    "start",
    "until",
    "planned_until",
    "warmup",
    "events",
    "steps",
    "plans",
    "wall_s",
    "peak_mib",
    "notes",
)
Row = TypeVar("Row")
Slots = tuple[tuple[str, tuple[int, ...]], ...]


def write_run(run: Run, folder: Path) -> Summary:
    """Write all files of ``run`` into ``folder``, which is made when it is missing. Returns the summary.

    Raises OSError.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name, record in TABLES.items():
        _write_table(folder / f"{name}.csv", record, getattr(run, name))
    about = {"format": FORMAT} | {name: getattr(run, name) for name in _PLAIN}
    about["budgets"] = [_from_budget(budget) for budget in run.budgets]
    about["hosts"] = {cluster: [list(host) for host in hosts] for cluster, hosts in run.hosts.items()}
    write_json(folder / RUN_FILE, about)
    found = summary(run)
    write_json(folder / SUMMARY_FILE, found)
    return found


def read_run(folder: Path) -> Run:
    """The run that ``write_run`` wrote.

    Raises OSError for missing files and ValueError, with the file and line, for what it cannot read.
    """
    path = folder / RUN_FILE
    try:
        about = json.loads(path.read_text("utf-8"))
        if about["format"] != FORMAT:
            raise ValueError(f"format {about['format']}; this version reads format {FORMAT}")
        run = Run(
            **{name: about[name] for name in _PLAIN},
            budgets=tuple(_to_budget(budget) for budget in about["budgets"]),
            hosts={name: tuple((host, gpus) for host, gpus in hosts) for name, hosts in about["hosts"].items()},
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path}: {error}") from error
    for name, record in TABLES.items():
        setattr(run, name, _read_table(folder / f"{name}.csv", record))
    return run


def write_json(path: Path, value: object) -> None:
    """Stable bytes: keys in the order given, two spaces, a newline at the end. Whole, or not there at all."""
    new = path.with_name(f"{path.name}.new")
    try:
        new.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", "utf-8")
        new.replace(path)
    except BaseException:  # Ctrl-C, too
        new.unlink(missing_ok=True)
        raise


def _write_table(path: Path, record: type, rows: Iterable[object]) -> None:
    columns = _columns(record)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(_Lines(file))
        writer.writerow([column.name for column in columns])
        writer.writerows([column.write(getattr(row, column.name)) for column in columns] for row in rows)


@dataclass(frozen=True, slots=True)
class _Lines:
    """Rows that end with a line feed. Told to end them so itself, ``csv`` leaves carriage returns in cells bare."""

    file: TextIO

    def write(self, row: str) -> int:
        return self.file.write(row.removesuffix("\r\n") + "\n")


def _read_table(path: Path, record: type[Row]) -> list[Row]:
    columns = _columns(record)
    readers = [column.read for column in columns]
    with path.open(encoding="utf-8", newline="") as file:
        reader = csv.reader(file)
        try:
            if next(reader, None) != [column.name for column in columns]:
                raise ValueError(f"its columns must be {', '.join(column.name for column in columns)}")
            return [
                record(*(read(cell) for read, cell in zip(readers, cells, strict=True))) for cells in reader if cells
            ]
        except (ValueError, csv.Error) as error:
            raise ValueError(f"{path}, line {reader.line_num}: {error}") from error


@dataclass(frozen=True, slots=True)
class _Column:
    name: str
    write: Callable[[Any], str]
    read: Callable[[str], Any]


def _columns(record: type) -> list[_Column]:
    """One for each field of ``record``, in order."""
    types = get_type_hints(record)
    return [_Column(field.name, *_CODECS[types[field.name]]) for field in fields(record)]


def _from_bool(value: bool) -> str:
    return "true" if value else "false"


def _to_bool(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError(f"{text!r} is neither true nor false")
    return text == "true"


def _from_optional(value: int | None) -> str:
    return "" if value is None else str(value)


def _to_optional(text: str) -> int | None:
    return int(text) if text else None


_FORMULA = tuple("=+-@\t\r'")
"""What a text must not begin with; the apostrophe, so that all can be read back."""


def _from_text(text: str) -> str:
    return f"'{text}" if text.startswith(_FORMULA) else text


def _to_text(text: str) -> str:
    return text.removeprefix("'")


def from_slots(slots: Slots) -> str:
    return " ".join(f"{quote(host, safe='')}:{_from_indices(indices)}" for host, indices in slots)


def to_slots(text: str) -> Slots:
    return tuple(
        (unquote(host), _to_indices(gpus)) for host, _, gpus in (s.partition(":") for s in text.split(" ") if s)
    )


def _from_indices(indices: tuple[int, ...]) -> str:
    """``0-3,6``: runs of indices that follow each other, in the order they have."""
    runs: list[list[int]] = []
    for index in indices:
        if runs and index == runs[-1][1] + 1:
            runs[-1][1] = index
        else:
            runs.append([index, index])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def _to_indices(text: str) -> tuple[int, ...]:
    indices: list[int] = []
    for part in text.split(",") if text else ():
        first, _, last = part.partition("-")
        indices.extend(range(int(first), int(last or first) + 1))
    return tuple(indices)


_CODECS: dict[object, tuple[Callable[[Any], str], Callable[[str], Any]]] = {
    int: (str, int),
    str: (_from_text, _to_text),
    bool: (_from_bool, _to_bool),
    int | None: (_from_optional, _to_optional),
    Slots: (lambda slots: _from_text(from_slots(slots)), lambda text: to_slots(_to_text(text))),
}


def _from_budget(budget: Budget) -> dict[str, object]:
    return {
        "path": budget.path,
        "share": budget.share,
        "cluster_shares": [list(pair) for pair in budget.cluster_shares],
        "managers": list(budget.managers),
        "members": list(budget.members),
        "moved_from": budget.moved_from,
    }


def _to_budget(found: dict[str, Any]) -> Budget:
    return Budget(
        path=found["path"],
        share=found["share"],
        cluster_shares=tuple((cluster, share) for cluster, share in found["cluster_shares"]),
        managers=tuple(found["managers"]),
        members=tuple(found["members"]),
        moved_from=found["moved_from"],
    )
