"""What a live job is told, compared with a recount of the log."""

from __future__ import annotations

from support.recount import Recount
from support.recount_contest import Contest
from support.recount_reasons import Judge, Numbers
from support.recount_records import CHARGED, Asked, before
from tenure.core.events import PauseScope
from tenure.core.model import GPU, MINUTE, After
from tenure.core.reasons import Because, Reason

NAMED = 3


def answer(recount: Recount, job_id: int, because: Because) -> None:
    """Compare the numbers of a live job's current reason. Raises AssertionError."""
    _Answer(recount, recount.jobs[job_id]).judge(because)


class _Answer:
    def __init__(self, recount: Recount, job: Asked) -> None:
        self.recount, self.job = recount, job
        self.judge_of = Judge(recount)

    def judge(self, because: Because) -> None:
        self.judge_of.same(because, self._expected(because))

    def _expected(self, because: Because) -> Numbers:
        recount, job, now = self.recount, self.job, self.recount.now
        if job.run is not None and job.run.opened is None:
            assert because.reason is Reason.WAITING_CLAIM
            stops = [recount.runs[other].stop for other in job.run.waits_for]
            kills = [stop.kill_at for stop in stops if stop is not None]
            return {"victims": tuple(sorted(job.run.waits_for)), "kill_at": max(kills, default=now)}
        if job.run is not None:
            assert because == recount.said[job.id]
            return dict(because.numbers)
        match because.reason:
            case Reason.HELD_BY_PERSON:
                assert job.held_by
                return {"by": job.held_by}
            case Reason.WAITING_DEPENDENCY:
                return self._dependency()
            case Reason.WAITING_THROTTLE:
                mine = [other for other in recount.jobs.values() if other.array == job.array]
                assert len(mine) > job.throttle > 0
                return {"array": job.array, "throttle": job.throttle}
            case Reason.BACKING_OFF:
                assert job.not_before > now
                last = recount.said[job.id].reason.value
                return {"until": job.not_before, "failures": job.failures, "last": last}
            case Reason.PAUSED_STARTS:
                return {"by": recount.paused[PauseScope.STARTS]}
            case Reason.WAITING_RESERVATION:
                held = job.reservation
                assert held is not None
                numbers: Numbers = {"cluster": held.cluster, "hosts": held.hosts[:NAMED], "held": len(held.hosts)}
                return {**numbers, "told": held.told, "starts_by": held.starts_by}
        if because.reason is Reason.WAITING_HOST_STATE and because.numbers == {"closed": 0}:
            assert not set(job.spec.clusters) & recount.clusters.keys()
            return {"closed": 0}
        cluster = str(because.numbers["cluster"])
        assert cluster in job.spec.clusters
        return {"cluster": cluster, **self._in_cluster(Contest(recount, cluster), because)}

    def _dependency(self) -> Numbers:
        left = [one for one in dict.fromkeys(self.job.after) if self._lives(one)]
        found: Numbers = {"left": len(left)}
        for key, ok in (("ok", True), ("any", False)):
            named = [self._name(one) for one in left if one.ok is ok]
            if named:
                found[key] = (*named[:NAMED], "...") if len(named) > NAMED else tuple(named)
        return found

    def _lives(self, one: After) -> bool:
        jobs = self.recount.jobs
        return any(job.array == one.job_id for job in jobs.values()) if one.whole else one.job_id in jobs

    def _name(self, one: After) -> str:
        return str(one.job_id) if one.whole else self.recount.jobs[one.job_id].label

    def _in_cluster(self, contest: Contest, because: Because) -> Numbers:
        recount, job, numbers = self.recount, self.job, because.numbers
        match because.reason:
            case Reason.HELD_NO_SHARE:
                assert not recount.part(contest.cluster, job.leaf)
                return {"budget": job.budget}
            case Reason.WAITING_TEAM_CAP | Reason.WAITING_TURN | Reason.WAITING_NEW:
                return {}
            case Reason.WAITING_RESERVED:
                return self._reserved(contest) if len(numbers) > 1 else {}
            case Reason.WAITING_EVICTION_CAP:
                recent = [at for at, name in recount.evicted if name == contest.cluster and at > recount.now - MINUTE]
                assert len(recent) >= recount.policy.evictions_per_minute
                return {"cap": recount.policy.evictions_per_minute, "recent": len(recent)}
            case Reason.PAUSED_EVICTIONS:
                paused = recount.paused.get(PauseScope.EVICTIONS)
                assert paused or recount.alarm
                return {"by": paused or "clock alarm"}
            case Reason.WAITING_HOST_STATE:
                return self._host_state(contest, numbers["closed"])
            case Reason.WAITING_STANDING:
                return self._standing(contest, because)
            case Reason.WAITING_OTHERS:
                others = {
                    k[1]: use.gpus for k, use in recount.foreign.items() if k[0] == contest.cluster and _uses(use)
                }
                gone = [run.id for run in contest.evictable(job.kind)]
                found: Numbers = {"gpus": job.gpus, "free_gpus": contest.free(gone)}
                return {**found, "others": sum(others.values()), "hosts": tuple(sorted(others))[:NAMED]}
        return self._room(contest, because)

    def _reserved(self, contest: Contest) -> Numbers:
        shut = contest.shut(self.job)
        held = sorted((plan.told, i) for i, plan in contest.reservations().items() if shut & set(plan.hosts))
        return {"hosts": len(shut), "for": tuple((str(i), told) for told, i in held[:NAMED])}

    def _host_state(self, contest: Contest, closed_told: object) -> Numbers:
        closed = sorted(host.name for host in contest.hosts() if not contest.is_open(host.name))
        roles, counts = self.job.spec.roles, set()
        for way in contest.allowed(self.job.spec):
            for role in roles:
                fit = [h for h in way if h.gpus >= role.gpus and h.cpus >= role.cpus and h.mem >= role.mem]
                counts.add(sum(1 for host in fit if host.name in closed))
        assert closed_told in counts
        return {"closed": closed_told, "hosts": tuple(closed[:NAMED])}

    def _standing(self, contest: Contest, because: Because) -> Numbers:
        recount, job = self.recount, self.job
        run = recount.runs[str(because.numbers["attempt"])]
        assert run in contest.evictable(job.kind) and not contest.may_evict(job, run)
        numbers: Numbers = {"gpus": job.gpus, "attempt": run.id}
        if run.in_turn(recount.now):
            assert run.opened is not None
            numbers["turn_until"] = run.opened + run.turn
        if run.leaf == job.leaf:
            theirs = recount.jobs[run.job].spec.priority
            numbers["rule"] = "turn" if "turn_until" in numbers else "priority"
            return {**numbers, "first": run.leaf, "first_priority": theirs, "priority": job.spec.priority}
        split = contest.fork(job.leaf, run.leaf)
        assert split is not None
        mine, theirs_ = (contest.figures(job.kind, path) for path in split)
        numbers |= self.judge_of.contrast(contest, job, run, mine_first=False)
        if "turn_until" in numbers:
            return {**numbers, "rule": "turn"}
        if before(theirs_, mine):
            return {**numbers, "rule": "order"}
        return {**numbers, "rule": "margin", "margin": contest.margin(job) // GPU}

    def _room(self, contest: Contest, because: Because) -> Numbers:
        """There is no room: what is free, what could be made free, and who holds the rest until when."""
        job, recount, spec = self.job, self.recount, self.job.spec
        whole = contest.whole_free(spec)
        free, gone = contest.free(), [run.id for run in contest.evictable(job.kind)]
        numbers: Numbers = {"gpus": job.gpus, "free_gpus": free}
        if because.reason is Reason.WAITING_CAPACITY and "whole_free" not in because.numbers:
            assert all(contest.may_evict(job, recount.runs[run]) for run in gone)
            return numbers
        assert because.numbers["whole_free"] in whole
        numbers |= {"whole_free": because.numbers["whole_free"], "whole_needed": contest.whole_needed(spec)}
        more = contest.free(gone) - free
        # Where it fits beside all that runs, but for its labels, nobody thinks of evictions.
        beside = because.reason is Reason.WAITING_LABELS and "evictable_gpus" not in because.numbers
        if more and not beside:
            numbers["evictable_gpus"] = more
        match because.reason:
            case Reason.WAITING_LABELS:
                required = [label for label in spec.labels if label.required]
                names = [label.key if label.value is None else f"{label.key}={label.value}" for label in required]
                return {**numbers, "labels": tuple(names)}
            case Reason.WAITING_CPU_MEMORY:
                return {**numbers, "hosts_short": self._hosts_short(contest, gone, because)}
            case Reason.WAITING_CAPACITY | Reason.WAITING_WHOLE_HOSTS:
                runs = [run for run in contest.runs() if run.kind == CHARGED and run.protected(recount.now)]
                until = sorted((u, run.id) for run in runs if (u := run.protected_until) is not None)
                return {**numbers, "protected": tuple((run, u) for u, run in until[:NAMED])}
        raise AssertionError(f"nobody knows how to recount {because.reason}")

    def _hosts_short(self, contest: Contest, gone: list[str], because: Because) -> object:
        """Open hosts with GPUs enough for a single replica, but not enough CPUs or memory beside them."""
        if len(self.job.spec.roles) > 1 or self.job.spec.roles[0].replicas > 1:
            return because.numbers["hosts_short"]
        (role,), short = self.job.spec.roles, 0
        for host in contest.hosts():
            there = [run for run in contest.runs() if run.id not in gone]
            slots = [slot for run in there for slot in run.slots if slot.host == host.name]
            others = self.recount.foreign.get((contest.cluster, host.name))
            cpus = host.cpus - sum(slot.cpus for slot in slots) - (others.cpus if others else 0)
            mem = host.mem - sum(slot.mem for slot in slots) - (others.mem if others else 0)
            enough = contest.is_open(host.name) and contest.free_on(host, gone) >= role.gpus
            short += enough and (cpus < role.cpus or mem < role.mem)
        return short


def _uses(use: object) -> bool:
    return any(getattr(use, name) for name in ("gpus", "cpus", "mem"))
