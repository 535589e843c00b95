"""The doctor on slurm.conf: how fast Slurm starts what is released, what it does by itself, and what it remembers."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from tenure.core.model import SECOND, Cluster
from tenure.slurm.findings import Finding, Level
from tenure.slurm.reading import Settings
from tenure.slurm.site import Site

KILL_WAIT_S = 10
DEPTH = 1000
_KILL_TIMEOUT_S = Cluster("", ()).kill_timeout // SECOND
PROMPT = (
    # name, Slurm's default, the most that is fine, what to write, why
    ("batch_sched_delay", 3, 0, 0, "batch jobs wait up to this many seconds before Slurm looks at them"),
    ("sched_interval", 60, 2, 1, "what did not start at once waits for the next look, this many seconds apart"),
    ("sched_min_interval", 2, 100_000, 0, "Slurm looks again no sooner than after this many microseconds"),
)


def check_settings(site: Site, chosen: Sequence[str]) -> Iterable[Finding]:
    settings = site.settings
    yield from _scheduler(site, chosen)
    yield from _parameters(settings)
    yield from _requeue(settings)
    yield from _kill_wait(settings)
    yield _select_type(settings)
    yield from _preempt(site, chosen)
    yield _priority(settings)
    yield from _accounting(settings)
    yield from _memory(settings)
    yield from _failures(settings)


def _scheduler(site: Site, chosen: Sequence[str]) -> Iterable[Finding]:
    kind = site.settings.text("SchedulerType")
    others = [partition.name for partition in site.partitions if partition.name not in chosen]
    wanted = "sched/builtin"
    if kind == wanted:
        yield Finding("scheduler_type", Level.FINE, kind, wanted, "what is released starts at the next tick, 1 s apart")
    elif kind == "sched/backfill" and others:
        why = f"Slurm still schedules {', '.join(others[:5])} and needs it there; starts of Tenure's may take longer"
        yield Finding("scheduler_type", Level.FINE, kind, f"{wanted} once Tenure schedules all partitions", why)
    else:
        why = "nothing is left to backfill: Tenure releases only what has room; backfill also shortens --time-min jobs"
        yield Finding("scheduler_type", Level.SHOULD, kind, wanted, why, "SchedulerType=sched/builtin")


def _parameters(settings: Settings) -> Iterable[Finding]:
    given = dict(word.strip().partition("=")[::2] for word in settings.text("SchedulerParameters").split(",") if word)
    line = _line(given)
    for name, default, most, write, why in PROMPT:
        value = _whole(given.get(name), default)
        level = Level.FINE if value <= most else Level.SHOULD
        found = f"{name}={value}" + ("" if name in given else " (default)")
        yield Finding(name, level, found, f"{name}={write}", why, "" if level is Level.FINE else line)
    depth = _whole(given.get("default_queue_depth"), 100)
    level = Level.FINE if depth >= DEPTH else Level.SHOULD
    found = f"default_queue_depth={depth}" + ("" if "default_queue_depth" in given else " (default)")
    why = "a look ends after this many jobs; those released together must all be seen"
    wanted = "default_queue_depth=10000"
    yield Finding("default_queue_depth", level, found, wanted, why, "" if level is Level.FINE else line)
    if deferring := sorted(given.keys() & {"defer", "defer_batch"}):
        why = "Slurm then does not try a job when it comes, only at the next look"
        yield Finding("defer", Level.SHOULD, ", ".join(deferring), "without it", why, line)


def _line(given: dict[str, str]) -> str:
    """The site's own parameters with ours."""
    ours = {name: str(write) for name, _, _, write, _ in PROMPT} | {"default_queue_depth": "10000"}
    kept = {name: value for name, value in given.items() if name not in ("defer", "defer_batch")}
    both = kept | ours
    return "SchedulerParameters=" + ",".join(f"{name}={value}" if value else name for name, value in both.items())


def _requeue(settings: Settings) -> Iterable[Finding]:
    on = settings.number("JobRequeue") == 1
    found = f"JobRequeue={settings.number('JobRequeue')}"
    why = "`scontrol requeue` from inside a job (submitit, Lightning) is refused without; Tenure's evictions set it"
    level = Level.FINE if on else Level.SHOULD
    yield Finding("job_requeue", level, found, "JobRequeue=1", why, "" if on else "JobRequeue=1")
    if exits := [key for key in ("RequeueExit", "RequeueExitHold") if settings.text(key)]:
        found = ", ".join(f"{key}={settings.text(key)}" for key in exits)
        why = "Slurm then starts a failed job again by itself, without a hold, and past Tenure's delays for such jobs"
        yield Finding("requeue_exit", Level.SHOULD, found, "neither", why, "# leave out RequeueExit, RequeueExitHold")


def _kill_wait(settings: Settings) -> Iterable[Finding]:
    seconds = settings.number("KillWait")
    wanted = f"at most {KILL_WAIT_S} s"
    why = (
        "each job's own grace is kept by Tenure, and Slurm's SIGTERM and KillWait come on top of it; "
        f"GPUs not free within kill_timeout ({_KILL_TIMEOUT_S} s) drain their host as faulty"
    )
    if seconds is None:
        yield Finding("kill_wait", Level.CANNOT_TELL, "no KillWait", wanted, why)
        return
    level = Level.FINE if seconds <= KILL_WAIT_S else Level.SHOULD if seconds < _KILL_TIMEOUT_S else Level.MUST
    yield Finding("kill_wait", level, f"{seconds} s", wanted, why, "" if level is Level.FINE else "KillWait=5")


def _select_type(settings: Settings) -> Finding:
    kind = settings.text("SelectType")
    why = "single GPUs of a host can be given out only with it"
    level = Level.FINE if kind == "select/cons_tres" else Level.MUST
    line = "" if level is Level.FINE else "SelectType=select/cons_tres"
    return Finding("select_type", level, kind, "select/cons_tres", why, line)


def _preempt(site: Site, chosen: Sequence[str]) -> Iterable[Finding]:
    kind, mode = site.settings.text("PreemptType"), site.settings.text("PreemptMode").upper()
    wanted = "preempt/none, or PreemptMode=OFF in Tenure's partitions"
    why = "Slurm must not evict by itself: it knows of no protection"
    line = "PreemptType=preempt/none"
    if "GANG" in mode:
        why = "gang scheduling stops and continues jobs in turn on the same GPUs"
        yield Finding("preempt", Level.MUST, f"PreemptMode={mode}", wanted, why, "PreemptMode=OFF")
    elif kind in ("preempt/none", ""):
        yield Finding("preempt", Level.FINE, kind or "preempt/none", wanted, why)
    elif kind == "preempt/partition_prio":
        open_ones = [
            one.name for one in site.partitions if one.name in chosen and one.text("PreemptMode").upper() != "OFF"
        ]
        if open_ones:
            line = f"PartitionName={open_ones[0]} ... PreemptMode=OFF"
            yield Finding("preempt", Level.MUST, f"{kind}, in {', '.join(open_ones)}", wanted, why, line)
        else:
            yield Finding("preempt", Level.FINE, f"{kind}, off in Tenure's partitions", wanted, why)
    else:
        found = f"{kind}: depends on the QOS of each job"
        yield Finding("preempt", Level.MUST, found, wanted, why, line)


def _priority(settings: Settings) -> Finding:
    kind = settings.text("PriorityType")
    why = "held jobs have priority 0 whatever this is, and Tenure releases only what has room: it orders nothing here"
    return Finding("priority_type", Level.FINE, kind, "any", why)


def _accounting(settings: Settings) -> Iterable[Finding]:
    storage, done = settings.text("AccountingStorageType"), settings.text("JobCompType")
    wanted = "accounting_storage/slurmdbd or jobcomp/filetxt"
    why = "exact ends of every run of a job, requeued ones too, go from there into the ledger"
    if storage.endswith("/slurmdbd"):
        yield Finding("accounting", Level.FINE, storage, wanted, why)
        counted = "gres/gpu" in settings.text("AccountingStorageTRES")
        line = "" if counted else "AccountingStorageTRES=gres/gpu"
        why = "without it sacct and sshare count no GPUs, so their figures cannot be compared with Tenure's"
        level = Level.FINE if counted else Level.SHOULD
        yield Finding("gpu_accounting", level, settings.text("AccountingStorageTRES"), "gres/gpu in it", why, line)
    elif done == "jobcomp/filetxt":
        place = settings.text("JobCompLoc")
        readable = _readable(place)
        level = Level.FINE if readable else Level.CANNOT_TELL
        more = "" if readable else "; that file cannot be read here: Tenure must be able to"
        yield Finding("accounting", level, f"{done} in {place}", wanted, why + more)
    else:
        line = "JobCompType=jobcomp/filetxt JobCompLoc=/var/log/slurm/jobcomp.txt (two lines)"
        yield Finding("accounting", Level.MUST, f"{storage or 'none'}, {done or 'no jobcomp'}", wanted, why, line)


def _readable(place: str) -> bool:
    try:
        return os.access(place, os.R_OK) and Path(place).is_file()
    except ValueError:  # no path at all
        return False


def _memory(settings: Settings) -> Iterable[Finding]:
    age = settings.number("MinJobAge")
    why = "Slurm forgets an ended job after this long; one that Tenure has not seen by then has no end"
    if age is None:
        yield Finding("min_job_age", Level.CANNOT_TELL, "no MinJobAge", "300 s or more", why)
    elif age == 0:
        why = "0: ended jobs are never forgotten, until MaxJobCount refuses new ones"
        yield Finding("min_job_age", Level.SHOULD, "0 s", "300 s or more", why, "MinJobAge=3600")
    else:
        level = Level.FINE if age >= 300 else Level.SHOULD if age >= 60 else Level.MUST
        line = "" if level is Level.FINE else "MinJobAge=3600"
        yield Finding("min_job_age", level, f"{age} s", "300 s or more", why, line)
    jobs = settings.number("MaxJobCount")
    why = "held, running and lately ended jobs all count; then sbatch is refused"
    if jobs is None:
        yield Finding("max_job_count", Level.CANNOT_TELL, "no MaxJobCount", "50000", why)
    else:
        level = Level.FINE if jobs >= 20_000 else Level.SHOULD
        line = "" if level is Level.FINE else "MaxJobCount=50000"
        yield Finding("max_job_count", level, str(jobs), "20000 or more", why, line)


def _failures(settings: Settings) -> Iterable[Finding]:
    timeout = settings.number("SlurmdTimeout")
    why = "a dead host keeps its jobs for that long (0: for ever) before they are queued again"
    level = Level.CANNOT_TELL if timeout is None else Level.FINE if 0 < timeout <= 120 else Level.SHOULD
    line = "SlurmdTimeout=60" if level is Level.SHOULD else ""
    yield Finding("slurmd_timeout", level, f"{timeout} s", "10 to 120 s", why, line)
    back = settings.number("ReturnToService")
    level = Level.CANNOT_TELL if back is None else Level.FINE if back in (1, 2) else Level.SHOULD
    why = "with 0 a host that was away stays DOWN until somebody resumes it"
    line = "ReturnToService=1" if level is Level.SHOULD else ""
    yield Finding("return_to_service", level, f"ReturnToService={back}", "1 or 2", why, line)
    if settings.text("SuspendProgram"):
        why = "Slurm switches idle hosts off, and Tenure counts on them"
        found = f"SuspendProgram={settings.text('SuspendProgram')}"
        yield Finding("suspend", Level.SHOULD, found, "not for Tenure's partitions", why, "SuspendExcParts=...")


def _whole(text: str | None, default: int) -> int:
    """Slurm reads what is no number as 0."""
    if text is None:
        return default
    return int(text) if text.isdecimal() and len(text) < 16 else 0
