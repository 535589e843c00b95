"""What happens in the demo, act by act. Each act does something, waits for what should follow, and explains it."""

from __future__ import annotations

import io
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

import numpy as np

from tenure.api.models import BudgetView, JobView
from tenure.client import Client, TenureError
from tenure.demo import entries
from tenure.demo.scenario import CLUSTER, LOOKBACK_S, Cast, Machine, Part, recent_s
from tenure.demo.site import Site
from tenure.demo.tell import Teller
from tenure.demo.watch import Watch

LIMIT_S = 45.0
"""How long something that should happen may take, for a machine of the usual speed."""
LINGER_S = 1.5


@dataclass(slots=True)
class Record:
    """What the story has seen beside the facts. ``saved``: job -> step in its checkpoint when it was first requeued."""

    machine: dict[str, Any]
    roles: dict[str, int] = field(default_factory=dict)
    missed: list[str] = field(default_factory=list)
    saved: dict[int, int] = field(default_factory=dict)
    ran_on: bool = False
    explained: list[dict[str, Any]] = field(default_factory=list)
    refusals: list[dict[str, Any]] = field(default_factory=list)
    budgets: list[dict[str, Any]] = field(default_factory=list)


class Story:
    """``tell`` it with ``run``. Raises Unreachable when the server goes away meanwhile."""

    def __init__(self, site: Site, admin: Client, tell: Teller, machine: Machine, cast: Cast, slowness: float) -> None:
        self.site = site
        self.admin = admin
        self.tell = tell
        self.machine = machine
        self.cast = cast
        self.slowness = slowness
        self.record = Record({**asdict(machine), "slowness": slowness})
        self.say = entries.Words(tell.offset, f"{recent_s(slowness)} s")
        self.watch = Watch(admin, tell, self.say)
        self.watch.on_requeue = self._remember_checkpoint
        self._clients: dict[str, Client] = {}

    def run(self) -> Record:
        """All acts, in order."""
        for user in self.cast.users:
            self.admin.add_user(user)
            self._clients[user] = self.site.client(self.admin.add_token(user, "demo"))
        self.tell.began = _now()
        for act in (self._charged, self._unallocated, self._debug, self._exposed, self._evicted, self._resumed):
            act()
        self._refused()
        return self.record

    # ---- the acts

    def _charged(self) -> None:
        self.tell.heading(
            "1. Charged work is protected",
            "A job names a budget, and says how long it must run undisturbed to get anywhere. From its start until "
            "then nobody may take its GPUs away, and its budget is charged for every second that it holds them.",
        )
        cast = self.cast
        self._submit("victim", cast.victim)
        if cast.steady is not None:
            self._submit("steady", cast.steady)
        self._expect("running", "victim", "steady")
        self._linger()
        self._show_budgets("What the budgets are owed, and what they have used so far")

    def _unallocated(self) -> None:
        self.tell.heading(
            "2. Free work fills what is left",
            "A job that wants no promise runs unallocated: it costs its budget nothing, on GPUs that would stand idle.",
        )
        roles = [f"free{number}" for number in range(len(self.cast.free))]
        for role, part in zip(roles, self.cast.free, strict=True):
            self._submit(role, part)
        self._expect("running", *roles)
        cluster = self.admin.status().clusters[0]
        self.tell.paragraph(
            f"{cluster.charged_gpus} GPUs are charged, {cluster.unallocated_gpus} run free of charge, "
            f"{cluster.free_gpus} of {cluster.gpus} stand idle."
        )

    def _debug(self) -> None:
        self.tell.heading(
            "3. A debug job starts at once",
            "Somebody wants to try something for a few seconds. That needs no free GPU: unallocated work makes room.",
        )
        self._submit("debug", self.cast.debug)
        if not self._expect("running", "debug"):
            return
        job, name = self._job("debug"), self.cast.debug.name
        evicted = self.watch.find("evict", code="evicted_unallocated")
        attempt = self.watch.attempt(f"{job.id}.1")
        if evicted is None or attempt is None or attempt.started_at is None or attempt.running_at is None:
            return
        decided, got, ran = (at - job.submitted_at for at in (evicted.at, attempt.started_at, attempt.running_at))
        self.tell.paragraph(
            f"The decision came {decided} ms after the submission. {name} had its GPUs after {got / 1000:.1f} s, when "
            f"{self.say.name(evicted.job)} had saved its work and left them, and ran after {ran / 1000:.1f} s."
        )

    def _exposed(self) -> None:
        victim = self.cast.victim
        self.tell.heading(
            "4. A promise runs out",
            f"{victim.name} is protected for {victim.protect_s:g} s. What happens after that?",
        )
        job = self.record.roles["victim"]
        if not self._await(f"{victim.name} is exposed", lambda: self.watch.find("exposed", job), "victim"):
            return
        self._linger()
        now = self._job("victim")
        waiting = [j for j in self.watch.jobs.values() if j.charged and j.state in ("queued", "claiming")]
        if now.state != "running" or now.attempt is None or now.attempt.stop is not None or waiting:
            self._miss(f"{victim.name} runs on while nobody outranks it", now)
            return
        self.record.ran_on = True
        self.tell.paragraph(
            "Nothing: no charged job waits, so nobody outranks it. It runs on, and is charged for it. Being exposed "
            "only means that it has to go when somebody who is owed more needs its GPUs."
        )

    def _evicted(self) -> None:
        cast, victim = self.cast, self.record.roles["victim"]
        self.tell.heading(
            "5. A budget that is owed more comes",
            f"{cast.gang.name} needs {cast.gang.size} at the same time, for {self._standing(cast.gang)}. "
            f"{cast.victim.name} runs for {self._standing(cast.victim)}. Whoever is owed more comes first: budgets "
            f"are compared where their paths part, here {_parting(cast.gang.budget, cast.victim.budget)}. But nothing "
            "is evicted before its protection is over, nor without time to save its work.",
        )
        self._submit("gang", cast.gang)
        self._explain("gang")
        self._await(
            f"{cast.victim.name} is evicted by standing",
            lambda: self.watch.find("evict", victim, code="evicted_standing"),
            "gang",
        )
        self._await(f"{cast.victim.name} is requeued", lambda: self.watch.find("requeued", victim), "victim")
        if not self._expect("running", "gang"):
            return
        self._linger()
        self._show_budgets(f"The budgets while {cast.gang.name} runs")
        self._explain("victim")

    def _resumed(self) -> None:
        victim, gang = self.cast.victim, self.cast.gang
        self.tell.heading(
            "6. The evicted job goes on where it stopped",
            f"{gang.name} is short. When it has finished, {victim.name} starts again, from its checkpoint.",
        )
        self._await(f"{gang.name} finishes", partial(self.watch.find, "ended", self.record.roles["gang"]), "gang")
        job = self.record.roles["victim"]
        resumed = f"{victim.name} resumes from its checkpoint"
        if not self._await(resumed, lambda: self.watch.find("log", job, text="resumed from step"), "victim"):
            return
        self._await(f"{victim.name} finishes", lambda: self.watch.find("ended", job), "victim")
        self._show_budgets("The budgets at the end")

    def _refused(self) -> None:
        self.tell.heading(
            "7. What can never run is refused at once",
            "A job that could not start on any day does not wait in the queue for ever.",
        )
        part = self.cast.gang
        replicas = self.machine.hosts + 1
        too_many = {"gpus": self.machine.per_host, "replicas": replicas}
        self._try_impossible(part, f"{replicas} x {self.machine.per_host} GPUs", too_many)
        self._try_impossible(part, "1 s undisturbed", {"min_runtime": "1s", "min_runtime_ms": None})

    # ---- what acts are made of

    def _submit(self, role: str, part: Part) -> int:
        done = self._clients[part.user].submit(part.request(self.site.directory))
        self.record.roles[role] = done.job.id
        self.say.names[done.job.id] = part.name
        self.say.sizes[done.job.id] = part.size
        return done.job.id

    def _job(self, role: str) -> JobView:
        return self.watch.detail(self.record.roles[role])

    def _expect(self, kind: str, *roles: str) -> bool:
        """Wait until that has happened to the first attempts of all these jobs."""
        good = True
        for role in roles:
            job = self.record.roles.get(role)
            if job is not None:
                hope = f"{self.say.name(job)} is {kind}"
                good &= self._await(hope, partial(self.watch.find, kind, job), role)
        return good

    def _await(self, hope: str, done: Callable[[], object], role: str) -> bool:
        """Wait for ``done``; say so when it does not come, with the state of the job in that role."""
        if self.watch.until(done, LIMIT_S * self.slowness, f"waiting until {hope}"):
            return True
        self._miss(hope, self._job(role))
        return False

    def _miss(self, hope: str, job: JobView) -> None:
        self.record.missed.append(hope)
        state = f"{self.say.name(job.id)} is {job.state}: {self.say.why(job.reason)}"
        self.tell.paragraph(f"This did not happen as it should: {hope}. {state}", style="bold red")

    def _standing(self, part: Part) -> str:
        """A budget with what it has used and its ratio."""
        use = next(budget.clusters[CLUSTER] for budget in self.admin.budgets(CLUSTER) if budget.path == part.budget)
        ratio = "none" if use.ratio is None else f"{use.ratio:.2f}"
        return f"{part.budget}, which has used {use.used_gpu_hours * 3600:.0f} GPU-seconds (ratio {ratio})"

    def _linger(self) -> None:
        """Let a little time pass, so that the numbers that follow show something."""
        end = time.monotonic() + LINGER_S
        self.watch.until(lambda: time.monotonic() > end, 2 * LINGER_S, "usage adds up")

    def _explain(self, role: str) -> None:
        """Why a job waits now."""
        self.watch.look(0)
        at, job = _now(), self._job(role)
        if job.state not in ("queued", "claiming"):
            return
        name, text = self.say.name(job.id), self.say.why(job.reason)
        reason = {"code": job.reason.code, "numbers": job.reason.numbers, "text": job.reason.text}
        self.record.explained.append({"job": job.id, "state": job.state, **reason})
        self.tell.line(at, f"Why does {name} wait?", "bold")
        self.tell.note(text)

    def _try_impossible(self, part: Part, wish: str, values: dict[str, Any]) -> None:
        request = part.request(self.site.directory).model_copy(update=values)
        try:
            self._clients[part.user].submit(request)
        except TenureError as refused:
            problem = refused.problem
            self.tell.line(_now(), f"{part.user} asks for {wish}: refused", "bold")
            for error in problem.errors:
                self.tell.note(f"{error.field} = {error.value}: {error.fix}")
            errors = [error.model_dump() for error in problem.errors]
            self.record.refusals.append({"asked": wish, "reason": problem.reason, "errors": errors})
        else:
            self.record.missed.append(f"a job that wants {wish} is refused")

    def _remember_checkpoint(self, job: int) -> None:
        """The step that is really in the file, read when nothing of the job runs."""
        path = self.site.runs / str(job) / "checkpoints" / "checkpoint.npz"
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return
        with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
            self.record.saved.setdefault(job, int(arrays["step"]))

    def _show_budgets(self, title: str) -> None:
        budgets = [budget for budget in self.admin.budgets(CLUSTER) if not budget.implicit and budget.depth > 0]
        window = f"{round(LOOKBACK_S * self.slowness)} s"
        self.tell.table(
            title,
            ("budget", "share", "allocation", "charged now", "uncharged now", "used", "ratio"),
            [_budget_row(budget) for budget in budgets],
            f"used: GPU-seconds charged in the last {window}. ratio: what is used and promised, of what the budget is "
            f"owed in {window}. 1 is as planned; the lowest ratio comes first.",
        )
        rows = {budget.path: budget.clusters[CLUSTER].model_dump() for budget in budgets}
        self.record.budgets.append({"at": _now(), "title": title, "budgets": rows})


def _budget_row(budget: BudgetView) -> tuple[str, ...]:
    use = budget.clusters[CLUSTER]
    return (
        "  " * (budget.depth - 1) + budget.path.rpartition("/")[2],
        f"{use.share:.0%}",
        f"{use.allocation_gpus:.1f} GPUs",
        f"{use.running_gpus} GPUs" if use.running_gpus else "-",
        f"{use.unallocated_gpus} GPUs" if use.unallocated_gpus else "-",
        f"{use.used_gpu_hours * 3600:.0f}",
        "-" if use.ratio is None else f"{use.ratio:.2f}",
    )


def _parting(first: str, second: str) -> str:
    """The two budgets that are compared for these two: those below the last one that they share."""
    a, b = first.split("/"), second.split("/")
    shared = next((i for i, (left, right) in enumerate(zip(a, b, strict=False)) if left != right), 0)
    return f"{'/'.join(a[: shared + 1])} with {'/'.join(b[: shared + 1])}"


def _now() -> int:
    return time.time_ns() // 1_000_000
