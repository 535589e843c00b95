"""Every number in every reason, compared with what a recount of the log says it is.

``follow`` takes a step and judges each of its decisions, at the moment at which it was made: after the decisions
before it, before its own effects. ``answer`` judges what a live job is told now. A reason with a number that nothing
here knows how to recount fails.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from support.recount import Recount
from support.recount_contest import Contest
from support.recount_records import CHARGED, Asked, Run
from tenure.core import decisions as d
from tenure.core import events as e
from tenure.core.model import GPU, MINUTE
from tenure.core.reasons import Because, Reason
from tenure.core.scheduler import Result

Numbers = dict[str, object]
RESTART = 5 * MINUTE


def follow(recount: Recount, now: int, events: Iterable[e.Event], result: Result) -> None:
    """Note a step of the log and compare the numbers of each of its decisions."""
    moved = False
    for decision in recount.absorb(now, events, result):
        moved = moved or isinstance(decision, d.Unreserve)
        Judge(recount, moved).decision(decision)


class Judge:
    """Compares what was decided at the recount's time. ``moved``: a reservation was given up in this step."""

    def __init__(self, recount: Recount, moved: bool = False) -> None:
        self.recount = recount
        self.now = recount.now
        self.moved = moved

    def same(self, because: Because, expected: Mapping[str, object]) -> None:
        assert dict(because.numbers) == dict(expected), f"{because.reason}: {because.numbers}, recounted: {expected}"

    def decision(self, decision: d.Decision) -> None:
        match decision:
            case d.Start():
                self._start(decision)
            case d.Claim():
                self._claim(decision)
            case d.Stop():
                self._stop(decision.victim)
            case d.Reserve():
                self._reserve(decision)
            case d.Unreserve():
                self._unreserve(decision)
            case d.Headroom():
                wanted = self._wanted(decision.cluster, decision.because)
                self.same(decision.because, {"wanted": wanted, "hosts": len(decision.hosts)})
            case d.ClaimOpened():
                self.same(decision.because, {"planned_at": self.recount.runs[decision.attempt_id].planned})
            case d.ClaimDropped():
                self._dropped(decision)
            case d.Stopping():
                self._stopping(decision.victim)
            case d.AttemptEnded():
                self._ended(self.recount.runs[decision.attempt_id], decision.because)
            case d.Requeued():
                self._requeued(decision)
            case d.JobEnded():
                self._job_ended(decision)
            case d.HostMarked():
                run = self.recount.runs[str(decision.because.numbers["attempt"])]
                assert run.stop is not None and run.stop.release_by <= self.now
                self.same(decision.because, {"attempt": run.id, "hosts": tuple(run.hosts)})
            case d.Credited():
                self._credited(decision)
            case d.ReservationLost():
                self._reservation_lost(decision)

    # ---- plans

    def _start(self, plan: d.Start) -> None:
        job, contest = self.recount.jobs[plan.job_id], Contest(self.recount, plan.cluster)
        if plan.because.reason is Reason.STARTED_RESERVED:
            self.same(plan.because, {**_held(job), "victims": 0})
            return
        assert plan.because.reason is Reason.STARTED_FREE
        self.same(plan.because, {"gpus": job.gpus, "free_gpus": contest.free()})
        self._in_turn(job, contest)

    def _in_turn(self, job: Asked, contest: Contest) -> None:
        """Rule 5: nobody who could have had the same place sorts before whoever gets it."""
        if (
            not self.recount.by_tree
            or contest.reservations()
            or self.recount.headroom.get(contest.cluster)
            or len(job.spec.clusters) > 1
        ):
            return
        for other in self.recount.jobs.values():
            alike = (other.spec.roles, other.spec.labels, other.spec.clusters, other.kind)
            if alike != (job.spec.roles, job.spec.labels, job.spec.clusters, job.kind) or not self._waits(other):
                continue
            if other.id != job.id and (job.kind != CHARGED or self.recount.part(contest.cluster, other.leaf)):
                assert not contest.comes_before(other, job), f"{other.id} comes before {job.id}, which started"

    def _waits(self, job: Asked) -> bool:
        """Whether a job could be tried; of those behind a throttle nobody knows here."""
        blocked = job.held_by or job.not_before > self.now or job.throttle or job.after
        return not blocked and job.run is None

    def _claim(self, plan: d.Claim) -> None:
        job, runs = self.recount.jobs[plan.job_id], self.recount.runs
        victims = [(victim, runs[victim.attempt_id]) for victim in plan.victims]
        stops = [runs[other].stop for other in plan.leaving]
        kills = [victim.kill_at for victim, _ in victims] + [stop.kill_at for stop in stops if stop is not None]
        if plan.because.reason is Reason.STARTED_RESERVED:
            self.same(plan.because, {**_held(job), "victims": len(victims)})
        else:
            assert plan.because.reason is Reason.STARTED_BY_EVICTION
            self.same(plan.because, {"victims": len(victims), "kill_at": max(kills)})
        graces = [self._grace(run) for _, run in victims]
        total = sum(run.amount for _, run in victims)
        worth = plan.amount * (job.spec.contract.min_runtime or self.recount.policy.unallocated_turn)
        for (victim, run), grace in zip(victims, graces, strict=True):
            assert run.evictable(self.now), f"{run.id} is evicted and was protected"
            assert victim.kill_at == self.now + max(graces) and victim.warn_at == victim.kill_at - grace
            assert (victim.gainer, victim.gained) == (job.id, worth * run.amount // total)
            assert victim.at_risk == run.lost(self.now)
            self._victim(plan, job, run, victim.because, victims)

    def _victim(
        self, plan: d.Claim, job: Asked, run: Run, because: Because, victims: list[tuple[d.Evict, Run]]
    ) -> None:
        contest = Contest(self.recount, plan.cluster)
        expected: Numbers = {"gainer": job.id}
        other = self.recount.jobs[run.job]
        match because.reason:
            case Reason.EVICTED_UNALLOCATED:
                assert run.kind != CHARGED and job.kind == CHARGED
                expected["gainer_gpus"] = job.gpus
            case Reason.EVICTED_PRIORITY | Reason.EVICTED_LEVEL:
                assert job.spec.priority > other.spec.priority
                expected |= {"gainer_priority": job.spec.priority, "victim_priority": other.spec.priority}
            case Reason.EVICTED_RESERVED:
                assert job.reservation is not None
                expected |= {**_held(job), "told": job.reservation.told}
            case Reason.EVICTED_HEADROOM:
                assert contest.licensed(job, run)
                expected |= {"hosts": len(self.recount.headroom[plan.cluster]), "wanted": job.gpus}
            case Reason.EVICTED_MOVED:
                lost = sum(r.lost(self.now) + r.amount * (self._grace(r) + RESTART) for _, r in victims)
                gained = plan.amount * job.spec.contract.min_runtime
                assert gained > lost
                expected |= {"gained": gained, "lost": lost}
            case Reason.EVICTED_STANDING:
                assert contest.may_evict(job, run), f"{job.id} does not outrank {run.id}"
                expected |= self.contrast(contest, job, run, mine_first=True)
                expected["margin"] = contest.margin(job) // GPU
            case _:
                raise AssertionError(f"{because.reason} for a victim")
        self.same(because, expected)

    def contrast(self, contest: Contest, job: Asked, run: Run, *, mine_first: bool) -> Numbers:
        """Both sides of the fork with their ratios, whoever comes first in front."""
        split = contest.fork(job.leaf, run.leaf)
        assert split is not None
        first, second = split if mine_first else split[::-1]
        a, b = contest.figures(job.kind, first), contest.figures(job.kind, second)
        return {
            "first": first,
            "first_ratio_ppm": a.ppm(),
            "first_recent_ppm": a.recent_ppm(),
            "second": second,
            "second_ratio_ppm": b.ppm(),
            "second_recent_ppm": b.recent_ppm(),
        }

    def _grace(self, run: Run) -> int:
        cluster = self.recount.clusters[run.cluster]
        most = cluster.max_grace if run.kind == CHARGED else cluster.unallocated_grace
        return min(self.recount.jobs[run.job].spec.grace, most)

    def _stop(self, victim: d.Evict) -> None:
        run = self.recount.runs[victim.attempt_id]
        assert run.evictable(self.now), f"{run.id} is evicted and was protected"
        assert victim.at_risk == run.lost(self.now) and victim.kill_at == self.now + self._grace(run)
        if victim.because.reason is Reason.EVICTED_HEADROOM:
            kept = self.recount.headroom[run.cluster]
            assert set(run.hosts) <= set(kept)
            wanted = self._wanted(run.cluster, victim.because)
            self.same(victim.because, {"hosts": len(kept), "wanted": wanted})
            return
        assert victim.because.reason is Reason.EVICTED_DRAIN
        host = str(victim.because.numbers["host"])
        assert host in run.hosts
        known = self.recount.hosts[run.cluster, host]
        why = known.why if isinstance(known, e.HostStateChanged) else f"{known.because.numbers['attempt']} not released"
        self.same(victim.because, {"host": host, "why": why})

    def _wanted(self, cluster: str, because: Because) -> object:
        """GPUs that are wanted for short contracts, where it is known when these began to queue."""
        return because.numbers["wanted"] if cluster in self.recount.blurred else Contest(self.recount, cluster).wanted()

    def _reserve(self, plan: d.Reserve) -> None:
        job, cluster = self.recount.jobs[plan.job_id], self.recount.clusters[plan.cluster]
        told = plan.told
        if not self.moved:  # else it was looked for before what makes way had made way
            told = Contest(self.recount, plan.cluster).told(job, plan.hosts)
        expected: Numbers = {"cluster": plan.cluster, "hosts": len(plan.hosts), "gpus": job.gpus}
        self.same(plan.because, {**expected, "told": told, "times": job.reserved + 1})
        longest = cluster.max_grace + cluster.kill_timeout
        assert plan.starts_by == told + 15 * MINUTE + cluster.start_timeout + 2 * longest

    def _unreserve(self, plan: d.Unreserve) -> None:
        job = self.recount.jobs[plan.job_id]
        assert job.reservation is not None
        if plan.because.reason is Reason.HELD_NO_SHARE:
            assert not self.recount.part(job.reservation.cluster, job.leaf)
            self.same(plan.because, {"budget": job.budget, "cluster": job.reservation.cluster})
            return
        assert plan.because.reason is Reason.RESERVATION_DISPLACED
        by = self.recount.jobs[int(str(plan.because.numbers["by"]))]
        contest = Contest(self.recount, job.reservation.cluster)
        if by.leaf == job.leaf:
            assert contest.rank(by)[::2] < contest.rank(job)[::2]
        else:
            # Who makes way beside others was judged together with them, before the first of them did.
            assert by.submitted > job.reservation.at
            assert self.moved or contest.by_standing(by, job.leaf, contest.margin(by))
        expected: Numbers = {"by": by.id, "budget": by.budget, "starts_by": job.reservation.starts_by}
        self.same(plan.because, expected)

    # ---- outcomes

    def _dropped(self, outcome: d.ClaimDropped) -> None:
        run, because = self.recount.runs[outcome.attempt_id], outcome.because
        if because.reason is Reason.CLAIM_RELEASED:
            self.same(because, {"planned_at": run.planned})
            return
        assert because.reason is Reason.CLAIM_DROPPED
        numbers, expected = because.numbers, dict[str, object]()
        match Reason(str(numbers["why"])):
            case Reason.CANCELLED:
                expected = {"by": self._asked(e.CancelRequested, run.job)}
            case Reason.HELD_BY_PERSON:
                expected = {"by": self._asked(e.Held, run.job)}
            case Reason.HOST_FAILED:
                assert numbers["host"] in run.hosts
                expected = {"host": numbers["host"]}
            case Reason.WAITING_OTHERS:
                assert numbers["host"] in run.hosts
                others = self.recount.foreign[run.cluster, str(numbers["host"])]
                expected = {"cluster": run.cluster, "host": numbers["host"], "others": others.gpus}
            case Reason.NOT_RELEASED:
                late = self.recount.runs[str(numbers["attempt"])]
                assert late.id in run.waits_for
                expected = {"attempt": late.id, "hosts": tuple(late.hosts)}
        self.same(because, {**expected, "why": numbers["why"]})

    def _asked(self, kind: type[e.CancelRequested] | type[e.Held], job: int) -> str:
        return next(ev.by for ev in reversed(self.recount.heard) if isinstance(ev, kind) and ev.job_id == job)

    def _stopping(self, victim: d.Evict) -> None:
        run, because = self.recount.runs[victim.attempt_id], victim.because
        job, cluster = self.recount.jobs[run.job], self.recount.clusters[run.cluster]
        # Which of two came first in one millisecond, its checkpoint or its stop, is not in the log.
        assert run.checkpoint == self.now or victim.at_risk == run.lost(self.now)
        if run.stop is not None and run.stop.because == because:
            return
        match because.reason:
            case Reason.CANCELLED:
                self.same(because, {"by": self._asked(e.CancelRequested, run.job)})
            case Reason.TIMED_OUT:
                assert run.up is not None and job.spec.timeout is not None and self.now >= run.up + job.spec.timeout
                self.same(because, {"timeout": job.spec.timeout})
            case Reason.START_TIMED_OUT:
                assert run.up is None
                self.same(because, {"started_at": run.opened, "limit": cluster.start_timeout})
            case Reason.EVICTED_BY_PERSON:
                heard = self.recount.heard
                asked = next(ev for ev in reversed(heard) if isinstance(ev, e.EvictRequested))
                protected = int(run.protected(self.now))
                self.same(because, {"by": asked.by, "why": asked.why, "protected": protected})
            case Reason.HOST_FAILED:
                host = self.recount.hosts[run.cluster, str(because.numbers["host"])]
                assert isinstance(host, e.HostStateChanged) and host.host in run.hosts
                self.same(because, {"host": host.host, "why": host.why})
            case _:
                raise AssertionError(f"{because.reason} stops nothing by itself")

    def _ended(self, run: Run, because: Because) -> None:
        event = self.recount.exits[run.id]
        if because.reason is Reason.PREEMPTED:
            assert run.stop is not None and not self.recount.jobs[run.job].spec.contract.resumable
            why = run.stop.because
            self.same(because, {"evicted_by": why.reason.value, **why.numbers})
        elif run.stop is not None and because == run.stop.because:
            pass  # compared when it was stopped
        elif because.reason is Reason.CANCELLED:
            self.same(because, {"by": event.cancelled_by})
        else:
            assert because.reason in _OWN_ENDS
            message = {"message": event.message} if event.message and "message" in because.numbers else {}
            self.same(because, {"exit_codes": event.exit_codes, **message})

    def _requeued(self, outcome: d.Requeued) -> None:
        job, policy = self.recount.jobs[outcome.job_id], self.recount.policy
        assert outcome.because == self.recount.said[job.id]
        if outcome.not_before:
            delay = min(policy.backoff_first * 2**job.failures, policy.backoff_max)
            assert outcome.not_before == self.now + delay

    def _job_ended(self, outcome: d.JobEnded) -> None:
        if outcome.because.reason is Reason.DEPENDENCY_FAILED:
            job = self.recount.jobs[outcome.job_id]
            assert set(outcome.because.numbers) == {"job", "state"}
            known = {each.state for each in self.recount.ended.get(str(outcome.because.numbers["job"]), ())}
            known |= {ev.broken.state for ev in self.recount.heard if isinstance(ev, e.Submitted) and ev.broken}
            assert outcome.because.numbers["state"] in known, job.label
        elif outcome.because.reason is Reason.CANCELLED and "by" in outcome.because.numbers:
            assert outcome.because.numbers["by"]
        else:
            assert outcome.because == self.recount.said[outcome.job_id]

    def _credited(self, outcome: d.Credited) -> None:
        run = self.recount.runs[outcome.attempt_id]
        if run.checkpoint == self.now:
            return
        self.same(outcome.because, {"checkpoint_at": run.checkpoint or 0})
        assert run.opened is not None
        since = run.opened if run.checkpoint is None else run.checkpoint
        start = max(since, self.recount.open[run.id], outcome.end - run.min_runtime)
        assert (outcome.start, outcome.amount) == (start, run.amount)

    def _reservation_lost(self, outcome: d.ReservationLost) -> None:
        job, because = self.recount.jobs[outcome.job_id], outcome.because
        assert job.reservation is not None
        match because.reason:
            case Reason.RESERVED_HOST_LOST:
                assert because.numbers["host"] in job.reservation.hosts
                self.same(because, {"cluster": job.reservation.cluster, "host": because.numbers["host"]})
            case Reason.RESERVATIONS_OFF:
                self.same(because, {"cluster": job.reservation.cluster})
            case Reason.CANCELLED:
                self.same(because, {"by": self._asked(e.CancelRequested, job.id)})
            case Reason.HELD_BY_PERSON:
                self.same(because, {"by": self._asked(e.Held, job.id)})
            case _:
                raise AssertionError(f"{because.reason} ends no reservation")


_OWN_ENDS = frozenset({Reason.SUCCEEDED, Reason.FAILED, Reason.NOT_STARTED, Reason.EXECUTOR_LOST, Reason.REQUEUED})


def _held(job: Asked) -> Numbers:
    assert job.reservation is not None
    return {"made_at": job.reservation.at, "starts_by": job.reservation.starts_by}
