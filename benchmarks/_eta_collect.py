"""Simulated days with estimates at sampled moments: what ``eta_quality.py`` judges. One process for each seed."""

from __future__ import annotations

import json
import pickle
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

from tenure.core import pickling
from tenure.core.decisions import JobEnded
from tenure.core.events import Event
from tenure.core.model import DAY, HOUR, MINUTE
from tenure.core.scheduler import Result
from tenure.core.state import State
from tenure.forecast.forward import Forward
from tenure.forecast.guesses import Guesses
from tenure.forecast.past import Past
from tenure.forecast.sorts import size_class
from tenure.sim.loop import Simulation
from tenure.sim.months import month_of
from tenure.sim.setup import START

pickling.register()

NEW = 5 * MINUTE
"""Moments are those at which a job has been queued for no longer: so often the server makes estimates."""


@dataclass(frozen=True)
class Plan:
    """``between``: simulated ms from one moment to the next, on average. Days count from the start of the run."""

    seed: int
    gpus: int = 128
    mix: str = "saturated"
    first_day: int = 8
    last_day: int = 14
    end_day: int = 18
    between: int = 3 * HOUR
    scenarios: int = 8
    horizon: int = 2 * DAY


@dataclass(frozen=True)
class Moment:
    """A copy of everything that an estimate may know."""

    at: int
    wanted: tuple[int, ...]
    state: bytes
    past: bytes


class Collector:
    """Watches a simulation, and keeps copies of its moments for later."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.past = Past()
        self.rng = Random(f"moments/{plan.seed}")
        self.next = START + plan.first_day * DAY + int(self.rng.random() * plan.between)
        self.stop = START + plan.last_day * DAY
        self.moments: list[Moment] = []
        self.waits: list[list[object]] = []
        self.gone: dict[int, int] = {}

    def observe(self, state: State, at: int, events: Sequence[Event], result: Result) -> None:
        for start in self.past.note(state, events, result.outcomes, result.plans):
            self.waits.append([start.at, start.job_id, start.size_class, start.wait])
        for outcome in result.outcomes:
            if isinstance(outcome, JobEnded):
                self.gone[outcome.job_id] = outcome.at
        if at < self.next or at > self.stop:
            return
        queued = [job for job in state.jobs.values() if job.attempt is None and not job.held_by]
        if not any(at - job.queued_at <= NEW for job in queued):
            return
        self.next = at + int(self.rng.uniform(0.5, 1.5) * self.plan.between)
        wanted = tuple(job.id for job in queued)
        self.moments.append(Moment(at, wanted, pickle.dumps(state), pickle.dumps(self.past)))


def estimated(plan: Plan, moment: Moment) -> dict[str, object]:
    """What the product would have seen at that moment in its scenarios."""
    began = time.process_time()
    state, past = pickle.loads(moment.state), pickle.loads(moment.past)
    guesses, until = Guesses(state, past, moment.at), moment.at + plan.horizon
    samples: dict[int, list[int | None]] = {job_id: [] for job_id in moment.wanted}
    for number in range(plan.scenarios):
        copied: State = pickle.loads(moment.state)
        copied.touched_jobs.clear()
        scenario = guesses.scenario(f"{plan.seed}/{moment.at}/{number}", until)
        seen = Forward(copied, scenario, moment.at).run(moment.wanted, until)
        for job_id in moment.wanted:
            samples[job_id].append(seen.starts.get(job_id))
    jobs = [
        {
            "id": job_id,
            "class": size_class(state.jobs[job_id].spec),
            "queued_at": state.jobs[job_id].queued_at,
            "submitted": state.jobs[job_id].submitted,
            "samples": samples[job_id],
        }
        for job_id in moment.wanted
    ]
    return {"at": moment.at, "cpu_s": round(time.process_time() - began, 2), "until": until, "jobs": jobs}


def collect(plan: Plan, folder: Path) -> Path:
    """Run one seed to its end, then estimate its moments in an order of chance; returns the file with both.

    The file is written after each moment: whatever interrupts it, what was done is kept.
    """
    setup = replace(month_of(plan.mix, {"main": plan.gpus}), seed=plan.seed, duration=plan.end_day * DAY)
    collector = Collector(plan)
    Simulation(setup, collector.observe).run()
    file = folder / f"{plan.mix}-{plan.gpus}-seed{plan.seed}.json"
    end, done = START + plan.end_day * DAY, list[dict[str, object]]()
    order = list(collector.moments)
    Random(f"order/{plan.seed}").shuffle(order)
    for moment in order:
        done.append(estimated(plan, moment))
        data = {"plan": plan.__dict__, "end": end, "moments": done, "waits": collector.waits}
        data["gone"] = sorted(collector.gone.items())
        file.with_suffix(".new").write_text(json.dumps(data))
        file.with_suffix(".new").replace(file)
        print(f"seed {plan.seed}: {len(done)} of {len(order)} moments", flush=True)
    return file
