"""AccaSim on an SWF file: EASY backfilling with best fit, its own output files on, as its manual has it.

Run by the interpreter that AccaSim is installed for, not by ours; prints one line of JSON. Each processor of the file
is one core of a node, and those of a job may be on any nodes, so nothing here waits for whole hosts.

AccaSim 1.1.3 imports two names that later or other Pythons have elsewhere: ``collections.Mapping`` (gone in 3.10) and
``_functools.reduce`` (CPython's own). Where one is missing it is put there, nothing else is touched, and the line says
so under ``adapted``.
"""

from __future__ import annotations

import argparse
import collections
import collections.abc
import functools
import importlib
import json
import platform
import resource
import sys
import time
import types
from importlib.metadata import version
from pathlib import Path

_EPOCH = 1_500_000_000
"""Added to all times of the file: AccaSim takes a time of 0 for none."""


def adapt() -> list[str]:
    """Put the two names where AccaSim looks for them. Returns those that were missing."""
    missing = []
    if not hasattr(collections, "Mapping"):
        collections.Mapping = collections.abc.Mapping  # type: ignore[attr-defined]
        missing.append("collections.Mapping")
    try:
        importlib.import_module("_functools")
    except ImportError:
        module = types.ModuleType("_functools")
        module.reduce = functools.reduce  # type: ignore[attr-defined]
        sys.modules["_functools"] = module
        missing.append("_functools.reduce")
    return missing


def interpreter() -> str:
    """Like ``CPython 3.9.18``, or ``PyPy 7.3.11 (3.9.16)``."""
    pypy = getattr(sys, "pypy_version_info", None)
    if pypy is None:
        return f"{platform.python_implementation()} {platform.python_version()}"
    return f"PyPy {'.'.join(map(str, pypy[:3]))} ({platform.python_version()})"


def simulate(trace: Path, hosts: int, per_host: int, folder: Path) -> dict[str, object]:
    """Replay ``trace`` until all its jobs are done. ``folder`` gets AccaSim's files."""
    adapted = adapt()
    from accasim.base.allocator_class import BestFit
    from accasim.base.scheduler_class import EASYBackfilling
    from accasim.base.simulator_class import Simulator

    folder.mkdir(parents=True, exist_ok=True)
    cluster = folder / "cluster.json"
    cluster.write_text(
        json.dumps(
            {
                "groups": {"host": {"core": per_host}},
                "resources": {"host": hosts},
                "equivalence": {"processor": {"core": 1}},
                "start_time": _EPOCH,
            }
        )
    )
    simulator = Simulator(str(trace), str(cluster), EASYBackfilling(BestFit()), RESULTS_FOLDER_PATH=str(folder))
    began = time.perf_counter()
    simulator.start_simulation()
    wall = time.perf_counter() - began
    waits = simulator.mapper.wtimes
    return {
        "accasim": version("accasim"),
        "interpreter": interpreter(),
        "adapted": adapted,
        "jobs": simulator.loaded_jobs,
        "ended": simulator.mapper.finished,
        "rejected": simulator.rejected_jobs,
        "mean_wait_s": round(sum(waits) / len(waits), 3) if waits else None,
        "wall_s": round(wall, 3),
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trace", type=Path, help="an SWF file")
    parser.add_argument("folder", type=Path, help="where AccaSim's own output goes")
    parser.add_argument("--hosts", type=int, default=128)
    parser.add_argument("--per-host", type=int, default=8, help="GPUs of a host")
    options = parser.parse_args()
    print(json.dumps(simulate(options.trace, options.hosts, options.per_host, options.folder)))


if __name__ == "__main__":
    main()
