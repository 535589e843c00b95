"""Slurm's multifactor priority with Fair Tree and decayed usage, then EASY backfilling."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tenure.core.decisions import Plan
from tenure.core.ledger import OCCUPANCY
from tenure.core.model import DAY, HOUR, MINUTE, SECOND
from tenure.core.state import Job, State
from tenure.core.tree import Tree
from tenure.policies import fairtree
from tenure.policies.backfill import Backfill
from tenure.policies.decay import Weights
from tenure.policies.fairtree import Association, Key
from tenure.policies.line import Age, Turn

_HIGHEST = 0xFFFFFFFF
"""Of priorities."""
NEWCOMER = "*"
"""In each account: anybody who has run nothing there. No person is called so."""


class Slurm(Backfill):
    """The highest priority first; the rest is backfilling, and nobody is evicted.

    Budgets are accounts with their shares, people are users with a share of 1 each in the budget that they charge, and
    all clusters are partitions of one Slurm: usage is that of all of them. Priorities are made every ``calc_period``;
    jobs that come in between get theirs at once.

    ``half_life`` of usage (0: it never decays), ``calc_period`` and ``max_age`` (the age that counts fully) in ms;
    ``weight_*``: PriorityWeightAge and so on; ``weight_qos``: for all jobs but unallocated ones. ``default_limit`` and
    ``allowance`` as under ``backfill``. Raises ValueError for settings that are not possible.
    """

    name = "slurm"

    def __init__(
        self,
        half_life: int = 7 * DAY,
        calc_period: int = 5 * MINUTE,
        max_age: int = 7 * DAY,
        weight_age: int = 1_000,
        weight_fairshare: int = 10_000,
        weight_job_size: int = 1_000,
        weight_qos: int = 0,
        default_limit: int = 24 * HOUR,
        allowance: int = 5 * MINUTE,
    ) -> None:
        if half_life and half_life < MINUTE:
            raise ValueError(f"half_life = {half_life}: must be at least 1 min, or 0 for no decay")
        if calc_period < SECOND:
            raise ValueError(f"calc_period = {calc_period}: must be at least 1 s")
        if max_age <= 0:
            raise ValueError(f"max_age = {max_age}: must be more than 0")
        self.weight_age, self.weight_fairshare = weight_age, weight_fairshare
        self.weight_job_size, self.weight_qos = weight_job_size, weight_qos
        for weight in ("weight_age", "weight_fairshare", "weight_job_size", "weight_qos"):
            if getattr(self, weight) < 0:
                raise ValueError(f"{weight} = {getattr(self, weight)}: must be 0 or more")
        total = weight_age + weight_fairshare + weight_job_size + weight_qos
        if total > _HIGHEST:
            raise ValueError(f"weight_* = {total} together: at most {_HIGHEST}, a priority has 32 bits")
        super().__init__(default_limit, allowance)
        self.half_life, self.calc_period, self.max_age = half_life, calc_period, max_age
        self._usage = Usage(half_life, calc_period)
        self._state: State | None = None
        self._tree: Tree | None = None
        self._at = 0
        """For which state, tree and time (ms UTC) priorities were made."""
        self._gpus = 1
        self._ranking = fairtree.Ranking(1, {}, {})
        self._whole = 1
        """What priorities are calculated over: age, size and rank have a denominator each."""

    def run(self, state: State) -> list[Plan]:
        at = state.now - state.now % self.calc_period
        tree = state.the_tree()
        if self._state is not state:
            self._usage = Usage(self.half_life, self.calc_period)
        if self._state is not state or self._tree is not tree or self._at != at:
            self._state, self._tree, self._at = state, tree, at
            self._gpus = sum(cluster.spec.gpus for cluster in state.clusters.values()) or 1
            self._ranking = rank_people(state, tree, self._usage.until(state, at))
            self._whole = self.max_age * self._ranking.users * self._gpus
            self._line.forget()
        return super().run(state)

    def turns(self, job: Job, ages: Sequence[Age]) -> Sequence[Turn]:
        base, at, longest = self._base(job), self._at, self.max_age
        whole, weight = self._whole, self._whole // self.max_age * self.weight_age
        return [
            (_HIGHEST - ((base + weight * min(max(0, at - submitted), longest)) // whole or 1), submitted, job_id)
            for submitted, job_id in ages
        ]

    def priority(self, job: Job) -> int:
        """What Slurm calls so, of a job that waits; as of the last calculation, or of its submission."""
        return _HIGHEST - Slurm.turns(self, job, ((job.submitted, job.id),))[0][0]

    def fair_share(self, leaf: str, user: str) -> tuple[int, int]:
        """Somebody's rank as of the last calculation, and the best one, which is the number of users."""
        ranks = self._ranking.ranks
        return ranks.get((leaf, user)) or ranks.get((leaf, NEWCOMER), 0), self._ranking.users

    def _base(self, job: Job) -> int:
        """All of a priority but what age adds, over ``_whole``."""
        spec = job.spec
        rank, users = self.fair_share(job.leaf, spec.user)
        size = min(spec.gpus, self._gpus)
        quality = self.weight_qos if spec.charged else 0
        return (
            self.weight_fairshare * rank * (self._whole // users)
            + self.weight_job_size * size * (self._whole // self._gpus)
            + quality * self._whole
        )


class Usage:
    """Everybody's decayed usage in all clusters, kept from calculation to calculation.

    The ledger forgets what is older than the lookback; what was seen before that is remembered here.
    """

    def __init__(self, half_life: int, period: int) -> None:
        self.half_life = half_life
        self.period = period
        self._weights: Weights | None = None
        self._until = 0
        self._sums: dict[Key, int] = {}

    def until(self, state: State, at: int) -> dict[Key, int]:
        """(leaf, user) -> thousandths of a GPU x ms x weight, until ``at`` (ms UTC), of all who have run anything."""
        if self._weights is None:
            records = [c.ledger.first_record for c in state.clusters.values() if c.ledger.first_record is not None]
            first = min(records, default=at)
            self._until = first - first % self.period
            self._weights = Weights(self.period, self.half_life, self._until)
        since, self._until = self._until, max(at, self._until)
        for cluster in state.clusters.values():
            for key, account in cluster.ledger.people.items():
                for kind in OCCUPANCY:
                    series = account.used[kind]
                    if series.times and (series.rates[-1] or series.times[-1] > since):
                        found = self._weights.integral(series, since, at)
                        if found:
                            self._sums[key] = self._sums.get(key, 0) + found
        return self._sums


def rank_people(state: State, tree: Tree, usage: dict[Key, int]) -> fairtree.Ranking:
    """Fair Tree over the budgets: each has its part of its parent, over all clusters by their size."""
    by_leaf: dict[str, list[tuple[str, int]]] = {}
    for (leaf, user), used in sorted(usage.items()):
        by_leaf.setdefault(leaf, []).append((user, used))
    sizes = [(name, cluster.spec.gpus) for name, cluster in state.clusters.items()]

    def below(path: str) -> Iterator[Association]:
        children = tree.nodes[path].children
        if not children:
            for user, used in by_leaf.get(path, ()):
                yield Association((path, user), 1, used)
            yield Association((path, NEWCOMER), 1, 0)
            return
        shares = dict.fromkeys(children, 0)
        for name, gpus in sizes:
            for child, share in tree.shares(path, name).items():
                shares[child] += share * gpus
        for child in children:
            inside = tuple(below(child))
            yield Association((child, ""), shares[child], sum(one.usage for one in inside), inside)

    everybody = tuple(below(tree.root))
    return fairtree.rank(everybody, sum(one.usage for one in everybody))
