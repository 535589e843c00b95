"""Everything that one frame shows, asked of the server in one go; and what is worked out of it. No terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from tenure.api.models import BudgetUsage, BudgetView, ClusterStatus, HostView, JobView, StatusView
from tenure.client import Client

LISTED = 300
"""Waiting jobs that are asked for at most; how many there are in all is known without."""
_HOLDING = ("claiming", "starting", "running", "stopping")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All clusters. ``jobs``: those with GPUs, then waiting ones, newest first; of an array one for all that wait."""

    status: StatusView
    hosts: Sequence[HostView]
    budgets: Sequence[BudgetView]
    jobs: Sequence[JobView]

    def now(self, clock: int) -> int:
        """What ages and protections are told by, ms. ``clock``: this machine's, by which other commands tell them, too.

        The server's time in a frame is that of its last step, which may be long ago when nothing happens.
        """
        return max(self.status.now, clock)

    def cluster(self, name: str) -> ClusterStatus:
        """Raises KeyError when there is none of this name (any more)."""
        found = next((one for one in self.status.clusters if one.name == name), None)
        if found is None:
            raise KeyError(name)
        return found


def take(client: Client) -> Snapshot:
    """Raises TenureError and Unreachable."""
    return Snapshot(
        status=client.status(),
        hosts=client.hosts(),
        budgets=client.budgets(),
        jobs=[
            *client.jobs(state=_HOLDING),
            *client.jobs_page(state=("queued",), fold=True, limit=LISTED).items,
        ],
    )


class Gpu(Enum):
    """What is the case with one GPU of a host."""

    PROTECTED = "protected"
    EXPOSED = "exposed"
    UNALLOCATED = "unallocated"
    FREE = "free"
    OTHERS = "others"
    OUT = "out of service"


def gpus_of(host: HostView, now: int = 0) -> list[Gpu]:
    """One for each GPU, by its index. Of a host that is gone all are out of service, of others those that are idle.

    ``now``, ms: whose protection is over then is exposed, although the server did not say so yet.
    """
    if host.state == "failed":
        return [Gpu.OUT] * host.gpus
    idle = Gpu.FREE if host.state == "healthy" else Gpu.OUT
    found = [idle] * host.gpus
    for holder in host.attempts:
        # Without a charge there is no protection, ever; a charged attempt is protected until it is up.
        charged = holder.protection == "protected" or holder.protected_until is not None
        over = holder.protected_until is not None and holder.protected_until <= now
        kind = Gpu.UNALLOCATED if not charged else Gpu.EXPOSED if over else Gpu[holder.protection.upper()]
        for gpu in holder.gpus:
            if gpu < host.gpus:
                found[gpu] = kind
    # Which ones others use is not told.
    for gpu in [gpu for gpu, kind in reversed(list(enumerate(found))) if kind is idle][: host.others_gpus]:
        found[gpu] = Gpu.OTHERS
    return found


def in_order(budgets: Sequence[BudgetView], cluster: str) -> list[BudgetView]:
    """Parents before children, children as rule 5 sorts them; without ``self`` budgets in which nothing happens."""
    # The configuration may have changed between the questions of one frame.
    known = [budget for budget in budgets if cluster in budget.clusters]
    shown = [budget for budget in known if not budget.implicit or _busy(budget.clusters[cluster])]
    children: dict[str, list[BudgetView]] = {}
    for budget in shown:
        children.setdefault(budget.path.rpartition("/")[0] if budget.depth else "", []).append(budget)

    def below(path: str) -> Iterable[BudgetView]:
        for budget in sorted(children.get(path, ()), key=lambda one: turn(one, cluster)):
            yield budget
            yield from below(budget.path)

    return list(below(""))


def turn(budget: BudgetView, cluster: str) -> tuple[bool, bool, float, str]:
    """Sorts siblings by rule 5: those below their last day's allocation, then by ratio, then by name."""
    use = budget.clusters[cluster]
    recent = use.ratio_last_day
    return use.ratio is None, recent is None or recent >= 1, use.ratio or 0.0, budget.path


def _busy(use: BudgetUsage) -> bool:
    return bool(use.allocation or use.used_gpu_hours or use.running_jobs or use.queued_jobs)


_RANK = {"running": 0, "stopping": 1, "starting": 2, "claiming": 3, "queued": 4}
SORTS = ("state", "age", "gpus", "budget", "user", "name")
"""By what jobs can be sorted, in the order in which a key goes through them."""


def _key(job: JobView, by: str) -> tuple[object, ...]:
    by_state = (_RANK.get(job.state, 9), job.submitted_at, job.id)
    match by:
        case "age":
            return (job.submitted_at, job.id)
        case "gpus":
            return (-job.gpus, *by_state)
        case "budget":
            return (job.budget, *by_state)
        case "user":
            return (job.user, *by_state)
        case "name":
            return (job.name, *by_state)
        case _:
            return by_state


def chosen(
    taken: Snapshot, cluster: str, *, by: str = "state", reverse: bool = False, words: str = "", user: str | None = None
) -> list[JobView]:
    """Jobs of a cluster that have all of ``words`` in what is shown of them; with ``user`` only that one's."""
    wanted = words.lower().split()
    found = [
        job
        for job in taken.jobs
        if job.cluster == cluster and user in (None, job.user) and all(word in _text(job) for word in wanted)
    ]
    return sorted(found, key=lambda job: _key(job, by), reverse=reverse)


def _text(job: JobView) -> str:
    hosts = " ".join(job.attempt.hosts) if job.attempt is not None else ""
    return f"{job.label} {job.name} {job.user} {job.budget} {job.state} {job.reason.code} {hosts}".lower()
