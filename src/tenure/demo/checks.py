"""Whether all that the demo promises was really seen: from the store, the API's records and the jobs' logs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tenure import units
from tenure.api.models import EvictionView, JobDetail
from tenure.client import Client
from tenure.config import load
from tenure.core.model import SHARE_ONE
from tenure.demo.story import Record
from tenure.demo.watch import Watch
from tenure.engine.maintenance import replay
from tenure.store import SpanRow, Store

_RESUMED = re.compile(r"resumed from step (\d+)")
_SAVED = re.compile(r"checkpoint at step (\d+)")


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that should have been seen; ``detail`` has the numbers, or what there was instead."""

    what: str
    passed: bool
    detail: str = ""


@dataclass(slots=True)
class Evidence:
    """What the server knew at the end."""

    jobs: dict[str, JobDetail] = field(default_factory=dict)
    evictions: list[EvictionView] = field(default_factory=list)

    @classmethod
    def gather(cls, client: Client, roles: Mapping[str, int]) -> Evidence:
        return cls({role: client.job(job) for role, job in roles.items()}, client.evictions(limit=1000).items)


def check(evidence: Evidence, record: Record, watch: Watch) -> Iterator[Check]:
    """What can be told while the server runs."""
    for hope in record.missed:
        yield Check(hope, False, "not within its time")
    yield _started(evidence)
    yield _free(evidence)
    yield _debug(evidence)
    yield Check("an exposed job ran on while nobody outranked it", record.ran_on)
    yield _evicted(evidence)
    yield _requeued(evidence, watch)
    yield _resumed(evidence, record, watch)
    waits = ", ".join(dict.fromkeys(str(one["code"]).replace("_", " ") for one in record.explained))
    yield Check("a waiting job was explained", bool(record.explained), waits)
    complete = [
        r for r in record.refusals if r["errors"] and all(e["field"] and e["value"] and e["fix"] for e in r["errors"])
    ]
    refused = ", ".join(str(r["reason"]).replace("_", " ") for r in complete)
    yield Check("impossible jobs were refused with field, value and fix", len(complete) >= 2, refused)


def check_store(config: Path, evidence: Evidence) -> Iterator[Check]:
    """What the database says; best when the server has stopped, so that all is in it."""
    url = load(config).server.database_url
    with Store.open(url) as store:
        spans = list(store.spans())
    yield _spans(evidence, spans)
    report = replay(url)
    what = f"{report.batches} batches with {report.decisions} decisions"
    mismatch = report.mismatches[0] if report.mismatches else what
    yield Check("replaying the log gives every decision again", report.batches > 0 and not report.mismatches, mismatch)


def _started(evidence: Evidence) -> Check:
    jobs = [job for role in ("victim", "steady") if (job := evidence.jobs.get(role)) is not None]
    good = [j for j in jobs if j.charged and j.attempts and j.attempts[0].protected_until is not None]
    detail = ", ".join(f"{j.name} for {j.min_runtime_ms / 1000:g} s" for j in good)
    return Check("charged jobs started, protected", bool(jobs) and len(good) == len(jobs), detail)


def _free(evidence: Evidence) -> Check:
    jobs = [job for role, job in evidence.jobs.items() if role.startswith("free")]
    good = [j for j in jobs if not j.charged and j.attempts and j.attempts[0].running_at is not None]
    return Check("unallocated jobs ran on what was left", bool(jobs) and len(good) == len(jobs), _names(good))


def _debug(evidence: Evidence) -> Check:
    what = "a debug job started at once by evicting unallocated work"
    job = evidence.jobs.get("debug")
    found = [e for e in evidence.evictions if job is not None and e.gainer == job.id]
    if job is None or not found or job.first_started_at is None:
        return Check(what, False, job.reason.text if job is not None else "not submitted")
    free = {j.id for role, j in evidence.jobs.items() if role.startswith("free")}
    passed = all(e.reason.code == "evicted_unallocated" and e.job in free for e in found) and job.state == "succeeded"
    waited = (job.first_started_at - job.submitted_at) / 1000
    return Check(what, passed, f"GPUs after {waited:.2f} s; {len(found)} evicted; the job {job.state}")


def _evicted(evidence: Evidence) -> Check:
    what = "an exposed job was evicted by standing"
    victim, gang = evidence.jobs.get("victim"), evidence.jobs.get("gang")
    if victim is None or gang is None:
        return Check(what, False, "not submitted")
    for eviction in evidence.evictions:
        if eviction.job == victim.id and eviction.gainer == gang.id:
            until = victim.attempts[0].protected_until
            passed = eviction.reason.code == "evicted_standing" and until is not None and eviction.at >= until
            after = (eviction.at - until) / 1000 if until is not None else 0
            numbers = eviction.reason.numbers
            pair = numbers["first_ratio_ppm"], numbers["second_ratio_ppm"]
            digits = units.digits_apart(*pair)
            ratios = " against ".join(units.format_ratio(ppm, SHARE_ONE, digits) for ppm in pair)
            return Check(what, passed, f"{after:.1f} s after its protection; ratios {ratios}")
    return Check(what, False, f"{victim.name} is {victim.state}")


def _requeued(evidence: Evidence, watch: Watch) -> Check:
    what = "the evicted job went back to the queue with its place in it, and ran again"
    job = evidence.jobs.get("victim")
    if job is None:
        return Check(what, False, "not submitted")
    passed = watch.find("requeued", job.id) is not None and job.evictions == 1 and job.restarts == 1
    return Check(what, passed, f"evictions {job.evictions}, restarts {job.restarts}")


def _resumed(evidence: Evidence, record: Record, watch: Watch) -> Check:
    what = "it resumed from its checkpoint, and finished"
    job = evidence.jobs.get("victim")
    if job is None:
        return Check(what, False, "not submitted")
    resumed = watch.find("log", job.id, attempt=f"{job.id}.2", text="resumed from step")
    saved = watch.find("log", job.id, attempt=f"{job.id}.1", text="checkpoint at step")
    steps = [int(m[1]) for f, p in ((resumed, _RESUMED), (saved, _SAVED)) if f and (m := p.search(f.text))]
    steps += [step for step in (record.saved.get(job.id),) if step is not None]
    detail = f"step {steps[0]} in log, checkpoint and file; {job.state}" if steps else f"{job.state}"
    return Check(what, len(steps) == 3 and len(set(steps)) == 1 and job.state == "succeeded", detail)


def _spans(evidence: Evidence, spans: list[SpanRow]) -> Check:
    """Each attempt's spans cover exactly the time that it held GPUs, charged or not as its contract says."""
    wrong, charged, free = [], 0, 0
    for job in evidence.jobs.values():
        for attempt in job.attempts:
            own = [span for span in spans if span.attempt_id == attempt.id]
            kinds = {span.kind for span in own}
            held = sum(span.amount * (span.end - span.start) for span in own)
            charged += held if job.charged else 0
            free += 0 if job.charged else held
            if attempt.started_at is None or attempt.ended_at is None:
                continue
            owed = round(attempt.charge_rate * 1000) * (attempt.ended_at - attempt.started_at)
            if held != owed or kinds - {"charged" if job.charged else "unallocated"}:
                wrong.append(attempt.id)
    detail = f"{charged / 1e6:.0f} GPU-seconds charged, {free / 1e6:.0f} free of charge"
    if wrong:
        detail = f"attempts {', '.join(wrong)} differ"
    return Check("the ledger has every second of every attempt", not wrong and charged > 0 and free > 0, detail)


def _names(jobs: list[JobDetail]) -> str:
    return ", ".join(job.name for job in jobs)
