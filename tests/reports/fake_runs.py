"""Runs that nothing simulated, whose tables agree with each other: first come, first served, with evictions by lot."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from random import Random

from tenure.core.model import DAY, GPU, HOUR, MINUTE, SECOND, SHARE_ONE, Budget
from tenure.core.tree import Tree
from tenure.reports.records import AttemptRow, BudgetHourRow, EvictionRow, HourRow, JobRow, Run

T0 = 1_800_000_000_000 // HOUR * HOUR
CLUSTER = "main"
PROJECTS = ("pretrain", "posttrain", "eval", "tools")


def budgets(programs: int = 2, projects: int = 2) -> tuple[Budget, ...]:
    """A tree of equal programs, each with projects that leave something over for ``self``."""
    names = ("language", "vision", "robotics", "science")[:programs]
    found = [Budget("lab", SHARE_ONE)]
    for name in names:
        found.append(Budget(f"lab/{name}", SHARE_ONE // programs))
        found += [Budget(f"lab/{name}/{p}", int(SHARE_ONE * 0.9) // projects) for p in PROJECTS[:projects]]
    return tuple(found)


def empty_run(tree: tuple[Budget, ...] = (), hosts: int = 1, warmup: int = 0, length: int = 7 * DAY) -> Run:
    """A run of ``hosts`` hosts of 8 GPUs without any rows."""
    return Run(
        policy="budgets",
        seed=1,
        workload="by hand",
        settings={},
        budgets=tree or budgets(),
        hosts={CLUSTER: tuple((f"n{i + 1:03d}", 8) for i in range(hosts))},
        start=T0,
        until=T0 + length,
        planned_until=T0 + length,
        warmup=warmup,
    )


@dataclass
class Fake:
    """What is under way in ``fake_run``."""

    run: Run
    draw: Random
    free: dict[str, list[int]]
    queue: list[tuple[JobRow, int]]
    heap: list[tuple[int, int, object]]
    count: int = 0

    def push(self, at: int, what: object) -> None:
        self.count += 1
        heapq.heappush(self.heap, (at, self.count, what))

    def place(self, gpus: int) -> tuple[tuple[str, tuple[int, ...]], ...] | None:
        """Whole hosts, or the fullest host that has room."""
        if gpus >= 8:
            whole = [host for host, free in self.free.items() if len(free) == 8][: gpus // 8]
            return tuple((host, tuple(range(8))) for host in whole) if len(whole) == gpus // 8 else None
        room = [(len(free), host) for host, free in self.free.items() if len(free) >= gpus]
        return ((min(room)[1], tuple(self.free[min(room)[1]][:gpus])),) if room else None

    def start(self, job: JobRow, left: int, now: int) -> bool:
        slots = self.place(job.gpus)
        if slots is None:
            return False
        for host, indices in slots:
            self.free[host] = [i for i in self.free[host] if i not in indices]
        job.attempts += 1
        job.decided = now if job.decided is None else job.decided
        job.started = now if job.started is None else job.started
        job.state = "running"
        attempt = AttemptRow(
            f"{job.id}.{job.attempts}",
            job.id,
            job.user,
            job.budget,
            job.cluster,
            job.funded,
            job.gpus * GPU,
            slots,
            now,
        )
        attempt.running = now + 20 * SECOND
        attempt.protected_until = attempt.running + job.min_runtime if job.funded else now
        self.run.attempts.append(attempt)
        evicted = self.draw.random() < (0.25 if job.funded else 0.5)
        exposed_for = left - (attempt.protected_until - now)
        if evicted and exposed_for > MINUTE:
            self.push(
                attempt.protected_until + self.draw.randrange(MINUTE, exposed_for + 1), (attempt, job, left, True)
            )
        else:
            self.push(now + left, (attempt, job, left, False))
        return True

    def end(self, attempt: AttemptRow, job: JobRow, left: int, evicted: bool, now: int) -> None:
        attempt.ended = now
        attempt.because = "succeeded"
        for host, indices in attempt.slots:
            self.free[host] = sorted([*self.free[host], *indices])
        if not evicted:
            job.state, job.ended = "succeeded", now
            return
        attempt.because = "evicted_standing" if job.funded else "evicted_unallocated"
        attempt.lost = attempt.amount * min(now - attempt.started, self.draw.randrange(5 * MINUTE, 40 * MINUTE))
        job.evictions += 1
        job.lost += attempt.lost
        job.state = "queued"
        gainer = self.queue[0][0] if self.queue else None
        self.run.evictions.append(
            EvictionRow(
                now, attempt.id, job.id, job.budget, job.cluster, job.funded, job.gpus, attempt.because,
                gainer.id if gainer else 0, gainer.budget if gainer else "", attempt.amount * HOUR, attempt.lost,
                attempt.lost,
            )
        )  # fmt: skip
        self.queue.append((job, max(MINUTE, left - (now - attempt.started))))


def fake_run(
    seed: int = 1,
    hosts: int = 4,
    days: int = 3,
    warmup_days: int = 1,
    jobs: int = 300,
    tree: tuple[Budget, ...] = (),
    policy: str = "budgets",
    load: float = 1.3,
) -> Run:
    """A run of ``jobs`` jobs that want ``load`` times what there is, the same for the same arguments."""
    run = empty_run(tree, hosts, warmup_days * DAY, days * DAY)
    run.policy, run.seed, run.workload = policy, seed, "fake"
    run.settings = {"lookback": "7d", "margin": "1h"}
    run.notes = ["3 rows of the trace had no end"]
    draw = Random(f"{seed} {policy}")
    fake = Fake(run, draw, {host: list(range(8)) for host, _ in run.hosts[CLUSTER]}, [], [])
    _submit(fake, jobs)
    wanted = sum(job.gpus * job.runtime for job in run.jobs)
    for job in run.jobs:
        job.runtime = max(MINUTE, int(job.runtime * load * hosts * 8 * (run.until - run.start) / wanted))
    _go(fake)
    run.events = fake.count
    run.steps, run.plans, run.wall_s, run.peak_mib = fake.count, len(run.attempts), 1.25, 64
    _count_hours(run, draw)
    return run


def _submit(fake: Fake, jobs: int) -> None:
    run, draw = fake.run, fake.draw
    tree = Tree(run.budgets)
    leaves = sorted(tree.leaves())
    largest = max(8, len(run.hosts[CLUSTER]) * 8 // 2)
    sizes = [1, 1, 1, 2, 4, 8, 8, 16, 32, 64, 128, 256]
    for number in range(1, jobs + 1):
        funded = draw.random() < 0.8
        debug = draw.random() < 0.4
        gpus = min(largest, draw.choice(sizes[:6] if debug else sizes[2:]))
        runtime = draw.randrange(2 * MINUTE, 30 * MINUTE) if debug else int(draw.paretovariate(1.2) * HOUR)
        min_runtime = (15 * MINUTE if debug else draw.choice([HOUR, 2 * HOUR, 4 * HOUR])) if funded else 0
        job = JobRow(
            number, f"user{draw.randrange(12)}", draw.choice(leaves), CLUSTER, "debug" if debug else "train", gpus,
            min_runtime, True, funded, 0, funded, min(runtime, 4 * DAY),
            run.start + draw.randrange(run.until - run.start),
        )  # fmt: skip
        run.jobs.append(job)
        fake.push(job.submitted, job)


def _go(fake: Fake) -> None:
    while fake.heap and fake.heap[0][0] < fake.run.until:
        now, _, what = heapq.heappop(fake.heap)
        if isinstance(what, JobRow):
            fake.queue.append((what, what.runtime))
        else:
            attempt, job, left, evicted = what  # type: ignore[misc]
            fake.end(attempt, job, left, evicted, now)
        tried = fake.queue[:20]
        waiting = [(job, left) for job, left in tried if not fake.start(job, left, now)]
        fake.queue[:20] = waiting


def _count_hours(run: Run, draw: Random) -> None:
    """Make the hourly tables out of jobs and attempts."""
    leaves = sorted(Tree(run.budgets).leaves())
    length = (run.until - run.start) // HOUR
    blank = [[0] * length for _ in range(6)]
    per_leaf = {leaf: [list(column) for column in blank] for leaf in leaves}
    for attempt in run.attempts:
        end = attempt.ended if attempt.ended is not None else run.until
        columns = per_leaf[attempt.budget]
        _spread(run, columns[0 if attempt.funded else 1], attempt.started, end, attempt.amount)
        run.jobs[attempt.job_id - 1].occupied += attempt.amount * (end - attempt.started)
        if attempt.lost and attempt.funded:
            columns[2][(end - 1 - run.start) // HOUR] += attempt.lost
    for job in run.jobs:
        end = job.ended if job.ended is not None else run.until
        _spread(run, per_leaf[job.budget][3 if job.funded else 4], job.submitted, end, job.gpus * GPU)
    allocations = Tree(run.budgets).allocations(CLUSTER, 1, run.start)
    healthy = len(run.hosts[CLUSTER]) * 8 * GPU * HOUR
    for hour in range(length):
        start = run.start + hour * HOUR
        sums = [sum(per_leaf[leaf][i][hour] for leaf in leaves) for i in range(5)]
        idle = healthy - sums[0] - sums[1]
        run.hours.append(
            HourRow(CLUSTER, start, HOUR, healthy, healthy, sums[0], sums[1], int(idle * draw.random() * 0.5),
                    int(idle * 0.3) if run.policy == "priority" else 0, sums[3], sums[4])
        )  # fmt: skip
        for leaf in leaves:
            entitled = allocations[leaf] * healthy // SHARE_ONE ** leaf.count("/")
            per_leaf[leaf][5][hour] = entitled
            columns = per_leaf[leaf]
            run.budget_hours.append(
                BudgetHourRow(CLUSTER, start, HOUR, leaf, entitled, columns[3][hour], columns[0][hour],
                              columns[2][hour], columns[1][hour], _ratio(columns, hour, 168), _ratio(columns, hour, 24))
            )  # fmt: skip


def _ratio(columns: list[list[int]], hour: int, window: int) -> int:
    since = max(0, hour + 1 - window)
    entitled = sum(columns[5][since : hour + 1])
    return sum(columns[0][since : hour + 1]) * 1_000_000 // entitled if entitled else -1


def _spread(run: Run, column: list[int], start: int, end: int, amount: int) -> None:
    """Add ``amount`` x time to the hours that [start, end) touches."""
    for hour in range((start - run.start) // HOUR, -(-(min(end, run.until) - run.start) // HOUR)):
        since = run.start + hour * HOUR
        column[hour] += amount * max(0, min(end, since + HOUR) - max(start, since))
