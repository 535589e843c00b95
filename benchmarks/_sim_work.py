"""The jobs that speed is measured on: SWF files that every contender reads.

They come from the resampling script in the folder that ``TENURE_BENCH`` names, or, without one, from a seeded
stand-in of roughly the same shape: mostly single GPUs, a few long jobs on many that hold most of the time.
"""

from __future__ import annotations

import math
import random
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

RESAMPLED, STAND_IN = "resampled from the Philly trace, seed 7", "a synthetic stand-in, seed 7"
_SCRIPT = "philly_resample.py"
_SEED = 7
_DAY_S = 86_400
_LAST_DAYS = 4
"""In which the last jobs end: none runs longer than two."""
_SHORTEST_S, _LONGEST_S = 30, 2 * _DAY_S
_SIZES = (
    (1, 931, 6.7, 1.9),
    (2, 22, 6.0, 3.0),
    (4, 23, 9.5, 2.7),
    (8, 20, 10.3, 2.6),
    (16, 3, 9.7, 2.9),
    (32, 1, 8.9, 2.1),
)
"""GPUs, weight, and the mean and spread of the logarithm of the seconds that such jobs run."""
_TEAMS = (50, 20, 12, 9, 2, 2, 2, 1, 1, 1)
"""How often each team submits."""
_USER, _GROUP = 11, 12
"""Fields of an SWF line."""


@dataclass(frozen=True, slots=True)
class Trace:
    """``days``: long enough for every job to end. ``source``: where the jobs are from."""

    path: Path
    jobs: int
    gpus: int
    days: int
    source: str


def make(folder: Path, script_folder: Path | None, jobs: int, load: float, gpus: int) -> Trace:
    """``jobs`` that ask for ``load`` x ``gpus`` while they arrive. Raises OSError or subprocess.CalledProcessError."""
    prefix = folder / f"{jobs}-jobs-{load:g}-on-{gpus}-gpus"
    path = Path(f"{prefix}.swf")
    if script_folder is not None:
        command = [sys.executable, str(script_folder / _SCRIPT), str(jobs), repr(load), str(prefix)]
        subprocess.run([*command, "--gpus", str(gpus)], check=True, stdout=subprocess.DEVNULL)
        rows = [line.split() for line in path.read_text().splitlines() if not line.startswith(";")]
        _teams_as_groups(rows)
    else:
        rows = _stand_in(jobs, load, gpus)
    header = f"; Version: 2.2\n; MaxJobs: {jobs}\n; MaxProcs: {gpus}\n"
    path.write_text(header + "".join(f"{' '.join(row)}\n" for row in rows))
    days = math.ceil(int(rows[-1][1]) * max(1.0, load) / _DAY_S) + _LAST_DAYS
    return Trace(path, jobs, gpus, days, RESAMPLED if script_folder else STAND_IN)


def _teams_as_groups(rows: list[list[str]]) -> None:
    """The script writes a job's team as its user and one group for all; budgets are made of groups."""
    if len({row[_GROUP] for row in rows}) == 1:
        for row in rows:
            row[_GROUP] = row[_USER]


def _stand_in(jobs: int, load: float, gpus: int) -> list[list[str]]:
    draw = random.Random(_SEED)
    sizes = draw.choices(_SIZES, [size[1] for size in _SIZES], k=jobs)
    teams = draw.choices(range(1, len(_TEAMS) + 1), _TEAMS, k=jobs)
    drawn = [draw.lognormvariate(middle, spread) for _, _, middle, spread in sizes]
    times = [int(min(max(seconds, _SHORTEST_S), _LONGEST_S)) for seconds in drawn]
    asked = sum(seconds * size[0] for seconds, size in zip(times, sizes, strict=True))
    horizon = asked / (load * gpus)
    submitted = sorted(int(draw.uniform(0, horizon)) for _ in range(jobs))
    rows = zip(range(1, jobs + 1), submitted, times, sizes, teams, strict=True)
    return [
        f"{i} {at} -1 {time} {size[0]} -1 -1 {size[0]} {time} -1 1 {team} {team} -1 1 -1 -1 -1".split()
        for i, at, time, size, team in rows
    ]
