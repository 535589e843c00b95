"""How much memory `tenure trace describe` takes, and how fast it is, for sacct's reports of different lengths.

A report is made up (seeded) and written to a temporary file: a site's jobs in the order of their ids, as sacct prints
them. Most have steps, some are arrays, some were requeued and have several rows, some are heterogeneous, four in ten
have no GPUs, some never ran, a few rows are broken. Then the command runs as a process of its own, niced, on one core,
and is measured from outside. About 160 bytes a line: 10 million lines take 1.6 GB of disk.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from _measured import load, machine, measure, own_peak_mib, pin, yardstick

HEADER = "JobID|User|Account|State|ExitCode|Submit|Start|End|Elapsed|Timelimit|ReqTRES|AllocTRES"
LENGTHS = (100_000, 1_000_000)
PEOPLE, TEAMS = 3000, 200
_START = 1_767_225_600
"""2026-01-01."""
_SPAN = 180 * 86_400
_STATES = ("COMPLETED",) * 12 + ("FAILED",) * 4 + ("CANCELLED by 1000",) * 3 + ("TIMEOUT", "OUT_OF_MEMORY", "NODE_FAIL")
_LINES_A_JOB = 3.1
"""What the mix below comes to: jobs are spread over the span by it."""


def report(lines: int, seed: int = 0) -> Iterator[str]:
    """The lines of a report, the header first and ``lines`` below it."""
    yield HEADER + "\n"
    made, rng = 0, random.Random(seed)
    number, step = 1_000_000, _SPAN * _LINES_A_JOB / max(lines, 1)
    at = float(_START)
    while made < lines:
        number += 1
        at += rng.expovariate(1) * step
        for line in _rows(rng, number, int(at)):
            if made < lines:
                yield line
                made += 1


def _rows(rng: random.Random, number: int, submitted: int) -> Iterator[str]:
    """All rows of one submission."""
    person = min(int(rng.paretovariate(0.6)), PEOPLE)
    owner = f"u{person:04}|t{person % TEAMS:03}"
    gpus = 0 if rng.random() < 0.4 else rng.choice((1, 1, 1, 1, 2, 4, 8, 8, 16, 64))
    kind = rng.random()
    if kind < 0.03:
        for task in range(rng.randrange(2, 16)):
            yield from _job(rng, f"{number}_{task}", owner, gpus, submitted)
    elif kind < 0.04:
        for part in range(3):
            yield from _job(rng, f"{number}+{part}", owner, max(1, gpus), submitted)
    elif kind < 0.07:
        for again in range(rng.randrange(2, 4)):
            yield from _job(rng, str(number), owner, gpus, submitted + again * 9000)
    elif kind < 0.10:
        yield f"{number}|{owner}|CANCELLED by 0|0:0|{_time(submitted)}|None|{_time(submitted)}|00:00:00|1:00:00||\n"
    elif kind < 0.101:
        yield f"{number}|{owner}|broken\n"
    else:
        yield from _job(rng, str(number), owner, gpus, submitted)


def _job(rng: random.Random, name: str, owner: str, gpus: int, submitted: int) -> Iterator[str]:
    """A run with its steps."""
    started = submitted + int(rng.expovariate(1 / 900))
    runtime = min(int(rng.lognormvariate(7.5, 2)), 604_800)
    state = rng.choice(_STATES)
    code = "1:0" if state == "FAILED" else "0:0"
    ended = f"{code}|{_time(submitted)}|{_time(started)}|{_time(started + runtime)}|{_clock(runtime)}"
    limit = _clock(max(3600, runtime * rng.choice((1, 2, 10))))
    asked = f"billing={8 * gpus},cpu={8 * max(1, gpus)}," + (f"gres/gpu={gpus}," if gpus else "") + "mem=64G,node=1"
    given = asked.replace("gres/gpu=", f"gres/gpu:a100={gpus},gres/gpu=")
    yield f"{name}|{owner}|{state}|{ended}|{limit}|{asked}|{given}\n"
    for step in ("batch", "extern", "0")[: rng.randrange(4)]:
        yield f"{name}.{step}|||{state}|{ended}|||cpu=8,gres/gpu={gpus},mem=64G,node=1\n"


def _time(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def _clock(seconds: int) -> str:
    days, rest = divmod(seconds, 86_400)
    return f"{days}-" * (days > 0) + f"{rest // 3600:02}:{rest % 3600 // 60:02}:{rest % 60:02}"


def measured(lines: int, seed: int, folder: Path) -> dict[str, object]:
    path = folder / f"sacct-{lines}.txt"
    with path.open("w") as file:
        file.writelines(report(lines, seed))
    size = path.stat().st_size
    done = measure([sys.executable, "-m", "tenure", "trace", "describe", path, "--json"])
    path.unlink()
    said = json.loads(done.stdout)
    return {
        "lines": lines,
        "megabytes": round(size / 1e6),
        "jobs": said["jobs"],
        "left_out_or_bad": sum(said["left_out"].values()) + sum(said["bad_rows"].values()),
        "people": said["people"]["count"],
        "seconds": done.wall_s,
        "cpu_s": done.cpu_s,
        "lines_per_cpu_s": round(lines / done.cpu_s),
        "peak_mib": done.peak_mib,
        "least_measurable_mib": own_peak_mib(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=int, nargs="+", default=list(LENGTHS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--core", type=int)
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the first report there, and measure nothing")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    if options.write is not None:
        with options.write.open("w") as file:
            file.writelines(report(options.lines[0], options.seed))
        return
    os.nice(10)
    core = pin(options.core)
    head: dict[str, object] = {
        "machine": machine(),
        "core": core,
        "load": load(),
        "ten_million_additions_s": yardstick(),
    }
    print(json.dumps(head), flush=True)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for lines in options.lines:
            rows.append(measured(lines, options.seed, Path(folder)))
            print(json.dumps(rows[-1]), flush=True)
    if options.out is not None:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps({**head, "rows": rows}, indent=2) + "\n")


if __name__ == "__main__":
    main()
