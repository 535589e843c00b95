"""Whole processes, measured from outside on one core, and what the machine is like."""

from __future__ import annotations

import os
import platform
import resource
import statistics
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_ADDITIONS = 10_000_000
_MIB_OF = 1024 if platform.system() == "Linux" else 1024 * 1024
"""What the kernel counts peak memory in: KiB on Linux, bytes elsewhere."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One process and those it has waited for. ``wall_s``: from its start to its end; ``cpu_s``: user and system time.

    ``peak_mib``: of the largest of them, and never below ``own_peak_mib``. ``stdout``: what it printed.
    """

    wall_s: float
    cpu_s: float
    peak_mib: int
    stdout: str


class Failed(Exception):
    """A measured process ended with an error."""


def pin(core: int | None) -> int | None:
    """Keep this process, and so its children, on one core: ``core``, or the last one that it may use.

    Returns the core, or None where the system cannot do that. Raises ValueError for a core that is not there.
    """
    if not hasattr(os, "sched_setaffinity"):
        return None
    usable = sorted(os.sched_getaffinity(0))
    chosen = usable[-1] if core is None else core
    if chosen not in usable:
        raise ValueError(f"core {chosen}: this process may use {', '.join(map(str, usable))}")
    os.sched_setaffinity(0, {chosen})
    return chosen


def measure(command: Sequence[str | Path]) -> Measured:
    """Run ``command`` to its end. Raises Failed, with the end of what it said."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        began = time.perf_counter()
        process = subprocess.Popen(list(map(str, command)), stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        try:
            _, status, usage = os.wait4(process.pid, 0)
        except BaseException:
            process.kill()
            process.wait()
            raise
        wall = time.perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        said = out.read().decode(errors="replace")
        if process.returncode:
            err.seek(0)
            told = (said + err.read().decode(errors="replace"))[-2000:]
            raise Failed(f"{' '.join(map(str, command))}\nended with {process.returncode}:\n{told}")
    return Measured(round(wall, 3), round(usage.ru_utime + usage.ru_stime, 3), usage.ru_maxrss // _MIB_OF, said)


def own_peak_mib() -> int:
    """The least that can be measured of another process: until it has loaded its program, it is a copy of this one."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // _MIB_OF


def yardstick() -> float:
    """Seconds of CPU time for 10 million additions in a Python loop, the median of three."""
    return round(statistics.median(_additions() for _ in range(3)), 3)


def _additions() -> float:
    began, total = time.process_time(), 0
    for i in range(_ADDITIONS):
        total += i
    return time.process_time() - began


def machine() -> dict[str, object]:
    """What to know of the machine beside its figures."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.release()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
    }


def load() -> float | None:
    """How many processes wanted to run over the last minute. None: the system does not say."""
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())
