"""KAI Scheduler's time-based fair share: queues with quotas, the rest by weight and past usage, and reclaim."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction

from tenure.core.decisions import Plan
from tenure.core.model import DAY, GPU, MINUTE
from tenure.core.reasons import Because
from tenure.core.state import Attempt, Job, State
from tenure.policies import kai_reclaim, kai_shares, kai_usage
from tenure.policies.base import ByQueue
from tenure.policies.kai_reclaim import Fair, Standing
from tenure.policies.kai_runtimes import LCA, QUEUE, Runtimes
from tenure.policies.kai_shares import Memory, Queue
from tenure.policies.queue_tree import QueueNode, Queues
from tenure.policies.queues import QueuePolicy

FETCHED = MINUTE
"""How often usage is asked for."""


class Kai(QueuePolicy):
    """Fair shares of the tree's nodes: quotas first, then what is left by P = max(0, W' + k (W' - U')).

    Whoever fits starts, the queue that is furthest below its fair share first. A queue below its own reclaims from
    those above theirs; within a queue charged jobs preempt unallocated ones, and higher priorities lower ones. Nobody
    goes before having run for ``reclaim_min_runtime`` or ``preempt_min_runtime``, or what ``reclaim_min_runtime_of``
    and ``preempt_min_runtime_of`` say for its queue or one above; ``reclaim_resolve_method``: ``lca`` or ``queue``.

    ``k_percent``: k in percent. ``window`` of usage, ms, sliding or, with ``tumbling``, starting anew each time;
    ``half_life`` of usage within it, ms, 0: it does not decay. ``quota_percent``: a queue's quota in percent of its
    allocation x healthy GPUs. Raises ValueError for settings that are not possible.
    """

    name = "kai"
    preempts = True

    def __init__(
        self,
        k_percent: int = 100,
        window: int = 7 * DAY,
        half_life: int = 0,
        tumbling: int = 0,
        quota_percent: int = 100,
        preempt_min_runtime: int = 0,
        reclaim_min_runtime: int = 0,
        preempt_min_runtime_of: ByQueue = (),
        reclaim_min_runtime_of: ByQueue = (),
        reclaim_resolve_method: str = LCA,
    ) -> None:
        if window < MINUTE:
            raise ValueError(f"window = {window}: must be at least 1 min")
        if half_life and half_life < MINUTE:
            raise ValueError(f"half_life = {half_life}: must be at least 1 min, or 0 for no decay")
        if tumbling not in (0, 1):
            raise ValueError(f"tumbling = {tumbling}: must be on or off")
        least_0 = {
            "k_percent": k_percent,
            "quota_percent": quota_percent,
            "preempt_min_runtime": preempt_min_runtime,
            "reclaim_min_runtime": reclaim_min_runtime,
        }
        for setting, value in least_0.items():
            if value < 0:
                raise ValueError(f"{setting} = {value}: must be 0 or more")
        self.k_percent, self.window, self.half_life, self.tumbling = k_percent, window, half_life, bool(tumbling)
        self.quota_percent = quota_percent
        if reclaim_resolve_method not in (LCA, QUEUE):
            raise ValueError(f"reclaim_resolve_method = {reclaim_resolve_method}: must be {LCA} or {QUEUE}")
        self.runtimes = Runtimes(
            preempt_min_runtime,
            reclaim_min_runtime,
            _by_queue("preempt_min_runtime_of", preempt_min_runtime_of),
            _by_queue("reclaim_min_runtime_of", reclaim_min_runtime_of),
            reclaim_resolve_method,
        )
        self._seen: Queues | None = None
        self._standing: Standing | None = None
        """Of the queues that were seen last: a pass has others for each cluster."""
        self._usage: dict[str, tuple[dict[str, int], int]] = {}
        """By cluster, for the passes of one moment: of every node, and of the whole cluster."""

    def run(self, state: State) -> list[Plan]:
        """With several clusters passes until one decides nothing: who is placed changes what is asked for elsewhere."""
        plans: list[Plan] = []
        self._usage = {}
        while True:
            more = super().run(state)
            self._seen = self._standing = None
            plans += more
            if not more or len(state.clusters) == 1:
                return plans

    def protected(self, attempt: Attempt, now: int) -> bool:
        return attempt.started_at is None or now < attempt.started_at + self.runtimes.least(attempt.leaf)

    def next(self, queues: Queues) -> str:
        return self._first(self.standing(queues), queues.root)[0]

    def starved(self, queues: Queues) -> Iterable[str]:
        standing = self.standing(queues)
        able = [leaf.path for leaf in standing.waiting() if standing.may_take(leaf) or queues.cluster.leaving]
        return sorted(able, key=standing.rank)

    def victims(self, queues: Queues, job: Job) -> Sequence[tuple[Attempt, Because]]:
        """Nobody for unallocated jobs: when those they evict have gone, the core lets charged jobs choose first."""
        if not job.spec.charged:
            return ()
        standing = self.standing(queues)
        return kai_reclaim.reclaimed(standing, job) or kai_reclaim.preempted(standing, job)

    def standing(self, queues: Queues) -> Standing:
        """What the nodes of a pass's queues deserve, as of its beginning."""
        if self._standing is None or self._seen is not queues:
            self._seen, self._standing = queues, Standing(queues, self._fair(queues), self.runtimes)
        return self._standing

    def _fair(self, queues: Queues) -> dict[str, Fair]:
        """Fair share, and quota, of every node, in GPUs."""
        total, (usage, whole) = queues.capacity.gpus, self._used(queues)
        quotas: dict[str, int] = {}

        def queue(node: QueueNode) -> Queue:
            quotas[node.path] = self._quota(node, total)
            below = tuple(queue(child) for child in node.children)
            asks, used = queues.demand(node.path).gpus, usage.get(node.path, 0)
            return Queue(node.path, asks, quotas[node.path], node.share, used=used, below=below)

        shares = kai_shares.divide_tree(total, queue(queues.root).below, Memory(self.k_percent, whole))
        return {path: Fair(shares.get(path, total), quota) for path, quota in quotas.items()}

    def _used(self, queues: Queues) -> tuple[dict[str, int], int]:
        """Usage of every node in the window, as of the last full minute, and what the whole cluster has in it."""
        cluster = queues.cluster
        name, ledger = cluster.spec.name, cluster.ledger
        if not self.k_percent:
            return {}, 1
        if name not in self._usage:
            at = queues.now - queues.now % FETCHED
            first = min(at, ledger.first_record if ledger.first_record is not None else at)
            span = kai_usage.window_of(at, self.window, first, tumbling=self.tumbling)
            found = {path: kai_usage.used(ledger.account(path), span, self.half_life) for path in queues.nodes}
            self._usage[name] = found, kai_usage.capacity(cluster.spec.gpus * GPU, span, self.half_life)
        return self._usage[name]

    def _quota(self, node: QueueNode, total: int) -> int:
        """GPUs, rounded to the nearest whole one, a half up."""
        whole = node.denominator * 100
        return (2 * node.allocation * total * self.quota_percent + whole) // (2 * whole)

    def _first(self, standing: Standing, node: QueueNode) -> tuple[str, Job]:
        """The queue below a node, and its job, that comes first."""
        if not node.children:
            assert node.first is not None
            return node.path, node.first
        found = [(child, *self._first(standing, child)) for child in node.children if child.ready]
        if len(found) == 1:
            return found[0][1:]
        return min(found, key=lambda each: _turn(standing, each[0], each[2]))[1:]


def _by_queue(setting: str, given: ByQueue) -> dict[str, int]:
    """By path. Raises ValueError."""
    found: dict[str, int] = {}
    for path, value in given:
        if value < 0:
            raise ValueError(f"{setting} = {path}:{value}: must be 0 or more")
        if path in found:
            raise ValueError(f"{setting} = {path}: give each queue one value")
        found[path] = value
    return found


def _turn(standing: Standing, node: QueueNode, job: Job) -> tuple[bool, bool, bool, Fraction, Fraction, int, str]:
    """KAI's order of queues, ``plugins/proportion/queue_order``: the smallest is first."""
    fair, held = standing.fair[node.path], standing.held(node)
    more = held + job.spec.gpus
    may = fair.allocatable
    return (
        held > fair.share,
        more > fair.quota,
        not may and more > 0,
        kai_reclaim.part(more, may),
        kai_reclaim.part(held, may),
        may,
        node.path,
    )
