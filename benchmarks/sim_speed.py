"""How fast the simulator is: whole processes on one core, as a user starts them, beside AccaSim on the same jobs.

Work: jobs at 0.9 and 1.05 times what the GPUs can do, a saturated month of synthetic researchers, and the ITP trace
where ``TENURE_TRACES`` names the folder of the published traces. Growth: 1x, 2x and 10x the jobs, and 10x the hosts
with 10x the jobs or the same. ``TENURE_BENCH`` names the folder of the script that resamples the Philly trace; without
it the jobs are a synthetic stand-in, and the figures cannot be compared with those of the real ones.
"""

from __future__ import annotations

import argparse
import csv
import json
import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import _measured
import _sim_profile
import _sim_work
from _sim_report import OURS, Sample, growth_table, medians, ratio_table, speed_table

GPUS = 1024
LOADS = (0.9, 1.05)
PER_HOST = 8
_FULL, _QUICK = 100_000, 5_000
_HARNESS = Path(__file__).with_name("_accasim_run.py")
_ITP = Path("itp-2021") / "raw-traces.tar.gz"
ONLY = (*(f"load-{load:g}" for load in LOADS), "month", "itp", "growth")


@dataclass(frozen=True, slots=True)
class Case:
    """``arguments``: of ``tenure simulate``. ``trace``: what AccaSim can run too. ``base``: growth is told from it."""

    name: str
    arguments: tuple[str, ...]
    trace: _sim_work.Trace | None = None
    reports: tuple[bool, ...] = (False, True)
    beside: bool = False
    base: str = ""


class Bench:
    """The cases of one run, and where their files are."""

    def __init__(self, options: argparse.Namespace, folder: Path) -> None:
        self.options = options
        self.folder = folder
        self.jobs: int = options.jobs or (_QUICK if options.quick else _FULL)
        self.only = frozenset(options.only or ONLY)

    def cases(self) -> Iterator[Case]:
        for load in LOADS:
            if f"load-{load:g}" in self.only:
                yield self._jobs_at(self.jobs, load, reports=(False, True), beside=True)
        if "month" in self.only:
            days = "3" if self.options.quick else "30"
            yield Case("saturated month", ("month", "--mix", "saturated", "--gpus", str(GPUS), "--days", days))
        itp = itp_trace()
        if "itp" in self.only and itp is None:
            print("ITP is left out: TENURE_TRACES does not name the folder of the published traces")
        elif "itp" in self.only:
            cut = ("--cut", "0s..5d") if self.options.quick else ()
            yield Case("ITP", ("trace", str(itp), "--gpus", "384", *cut))
        if "growth" in self.only:
            yield from self._growth()

    def _growth(self) -> Iterator[Case]:
        few = self.jobs // 10
        for load in LOADS:
            yield from (self._jobs_at(times * few, load) for times in (1, 2))
            if f"load-{load:g}" not in self.only:
                yield self._jobs_at(10 * few, load)
        base = _name(few, LOADS[0])
        yield self._of("10x hosts, 10x arrivals", self._trace(10 * few, LOADS[0], 10 * GPUS), base=base)
        yield self._of("10x hosts, same arrivals", self._trace(few, LOADS[0] / 10, 10 * GPUS), base=base)

    def _jobs_at(self, jobs: int, load: float, **more: Any) -> Case:
        base = _name(self.jobs // 10, load)
        return self._of(_name(jobs, load), self._trace(jobs, load, GPUS), base=base, **more)

    def _trace(self, jobs: int, load: float, gpus: int) -> _sim_work.Trace:
        """Made in a process of its own: the kernel counts the memory of who started a process as that one's, too."""
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as maker:
            return maker.submit(_sim_work.make, self.folder, self.options.bench, jobs, load, gpus).result()

    def _of(self, name: str, trace: _sim_work.Trace, **more: Any) -> Case:
        sizes = ("--gpus", str(trace.gpus), "--days", str(trace.days))
        return Case(name, ("trace", str(trace.path), *sizes), trace, **({"reports": (False,)} | more))

    def samples(self, cases: Sequence[Case]) -> Iterator[Sample]:
        """Everything once per repetition, so that what slows the machine for a while slows all contenders."""
        for repetition in range(self.options.repeat):
            for case in cases:
                for reports in case.reports:
                    yield self._ours(case, repetition, reports)
                if case.beside and case.trace is not None:
                    for python in self.options.accasim or ():
                        yield self._accasim(case.name, case.trace, repetition, python)

    def _ours(self, case: Case, repetition: int, reports: bool) -> Sample:
        out = self.folder / "out"
        last = "--report" if reports else "--no-report"
        measured = _measured.measure([program(), "simulate", *case.arguments, "--out", out, last])
        (summary,) = json.loads((out / "summary.json").read_text("utf-8"))
        ended = sum(_ended(path) for path in out.glob("*/jobs.csv"))
        shutil.rmtree(out)
        return Sample(
            case.name,
            f"{OURS}, reports" if reports else OURS,
            repetition,
            summary["jobs"],
            ended,
            measured.wall_s,
            measured.cpu_s,
            summary["wall_s"],
            measured.peak_mib,
            summary["events"],
        )

    def _accasim(self, name: str, trace: _sim_work.Trace, repetition: int, python: Path) -> Sample:
        out = self.folder / "accasim"
        sizes = ("--hosts", str(trace.gpus // PER_HOST), "--per-host", str(PER_HOST))
        measured = _measured.measure([python, _HARNESS, trace.path, out, *sizes])
        shutil.rmtree(out)
        told = json.loads(measured.stdout.splitlines()[-1])
        contender = f"AccaSim {told['accasim']}, {told['interpreter']}"
        return Sample(
            name,
            contender,
            repetition,
            told["jobs"],
            told["ended"],
            measured.wall_s,
            measured.cpu_s,
            told["wall_s"],
            measured.peak_mib,
            None,
            tuple(told["adapted"]),
        )

    def profiles(self, cases: Sequence[Case]) -> Iterator[tuple[str, _sim_profile.Profile]]:
        """Of every case that is measured with reports, once, after all measurements."""
        for case in cases:
            if True in case.reports:
                out = self.folder / "out"
                arguments = ["simulate", *case.arguments, "--out", str(out)]
                yield case.name, _sim_profile.profile(arguments, self.folder / "profile")
                shutil.rmtree(out)


def _name(jobs: int, load: float) -> str:
    return f"{jobs:,} jobs at {load:g}"


def program() -> Path:
    """The ``tenure`` that belongs to this Python."""
    return Path(sys.executable).with_name("tenure")


def itp_trace() -> Path | None:
    folder = os.environ.get("TENURE_TRACES")
    return Path(folder) / _ITP if folder else None


def _ended(table: Path) -> int:
    """Jobs that are over."""
    with table.open(newline="", encoding="utf-8") as file:
        return sum(bool(row["ended"]) for row in csv.DictReader(file))


def parsed(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    bench = os.environ.get("TENURE_BENCH")
    parser.add_argument("--quick", action="store_true", help=f"{_QUICK:,} jobs, 3 days and 1 repetition: does it work?")
    parser.add_argument("--jobs", type=int, help=f"of the first two cases; growth starts at a tenth [{_FULL:,}]")
    parser.add_argument("--repeat", type=int, help="how often each is measured; medians are told [3]")
    parser.add_argument("--only", action="append", choices=ONLY, help="only this; may be repeated")
    parser.add_argument("--bench", type=Path, default=bench and Path(bench), help="folder of philly_resample.py")
    parser.add_argument("--accasim", action="append", type=Path, metavar="PYTHON", help="one that has AccaSim")
    parser.add_argument("--core", type=int, help="which core everything runs on [the last]")
    parser.add_argument("--profile", action="store_true", help="then run each under cProfile, reports on")
    parser.add_argument("--out", type=Path, metavar="JSON", help="every sample, medians, ratios and profiles")
    options = parser.parse_args(arguments)
    options.repeat = options.repeat or (1 if options.quick else 3)
    if options.jobs is not None and options.jobs < 100:
        parser.error("--jobs: at least 100")
    return options


def main() -> None:
    options = parsed()
    try:
        about: dict[str, Any] = _measured.machine() | {"core": _measured.pin(options.core)}
    except ValueError as error:
        sys.exit(f"sim_speed: {error}")
    about["tenure"] = _measured.measure([program(), "--version"]).stdout.strip()
    about |= {"load_before": _measured.load(), "additions_before_s": _measured.yardstick()}
    print(f"{about['tenure']}, {about['processor']}, {about['python']}", flush=True)
    print(f"core {about['core']}, load {about['load_before']}", flush=True)
    with tempfile.TemporaryDirectory(prefix="sim-speed-") as folder:
        bench = Bench(options, Path(folder))
        try:
            cases, samples = list(bench.cases()), []
            if not cases:
                sys.exit("sim_speed: nothing is left to measure")
            for sample in bench.samples(cases):
                samples.append(sample)
                print(f"{sample.repetition + 1}: {sample.case}, {sample.contender}: {sample.wall_s:.1f} s", flush=True)
            profiles = dict(bench.profiles(cases)) if options.profile else {}
        except (_measured.Failed, OSError, subprocess.CalledProcessError) as error:
            sys.exit(f"sim_speed: {error}")
    about |= {"additions_after_s": _measured.yardstick(), "load_after": _measured.load()}
    about["least_peak_mib"] = _measured.own_peak_mib()
    about["jobs_are"] = next((case.trace.source for case in cases if case.trace is not None), None)
    show(about, cases, samples, profiles)
    if options.out is not None:
        write(options.out, about, samples, profiles)


def show(
    about: Mapping[str, Any],
    cases: Sequence[Case],
    samples: Sequence[Sample],
    profiles: Mapping[str, _sim_profile.Profile],
) -> None:
    rows, repetitions = medians(samples), 1 + max(sample.repetition for sample in samples)
    large = {case.name for case in cases if True in case.reports}
    print(f"\nJobs: {about['jobs_are'] or 'none of a trace'}. Medians of {repetitions}.")
    print(f"10 million additions: {about['additions_before_s']} s before, {about['additions_after_s']} s after.")
    for adapted in sorted({f"{s.contender} had to be given {', '.join(s.adapted)}" for s in samples if s.adapted}):
        print(adapted)
    tables = (
        speed_table([row for row in rows if row.case in large], repetitions),
        ratio_table(samples),
        growth_table(rows, bases(cases)),
        *(_sim_profile.text(name, found) for name, found in profiles.items()),
    )
    print("\n".join(("", *(table for table in tables if table))), end="")


def bases(cases: Sequence[Case]) -> dict[str, str]:
    """What each case is told as a multiple of: small ones first, one size of cluster after the other."""
    grown = [(case.trace.gpus, case.base, case.trace.jobs, case.name) for case in cases if case.trace is not None]
    return {name: base for _, base, _, name in sorted(grown)}


def write(
    file: Path, about: Mapping[str, Any], samples: Sequence[Sample], profiles: Mapping[str, _sim_profile.Profile]
) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    result = {
        "machine": about,
        "samples": [asdict(sample) for sample in samples],
        "medians": [asdict(row) for row in medians(samples)],
        "profiles": {name: asdict(found) for name, found in profiles.items()},
    }
    file.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
