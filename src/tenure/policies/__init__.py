"""What orders and who may evict whom: Tenure's own policy and, for comparison, those that labs run today."""

from __future__ import annotations

import inspect
from collections.abc import Callable

from tenure.policies.backfill import Backfill
from tenure.policies.base import Policy, Setting
from tenure.policies.budgets import Budgets
from tenure.policies.dominant import Drf, DrfTree
from tenure.policies.fifo import Fifo
from tenure.policies.hadoop import Hadoop
from tenure.policies.kai import Kai
from tenure.policies.priority import PriorityCaps
from tenure.policies.quotas import Quotas
from tenure.policies.slurm import Slurm
from tenure.policies.slurm_preempt import SlurmPreempt
from tenure.policies.yarn import Yarn

_POLICIES = (
    *(Budgets, PriorityCaps, Fifo, Backfill, Slurm, SlurmPreempt),
    *(Quotas, Drf, DrfTree, Yarn, Hadoop, Kai),
)
_MAKERS: dict[str, Callable[..., Policy]] = {policy.name: policy for policy in _POLICIES}
NAMES = tuple(_MAKERS)
DESCRIPTIONS = {
    "budgets": "Tenure's own: budgets, contracts, hierarchical fair share",
    "priority": "priority with per-team caps on protected GPUs and optional preemptibility",
    "fifo": "strictly first come, first served",
    "backfill": "first come, first served with EASY backfilling",
    "slurm": "Slurm's multifactor priority with Fair Tree and decayed usage, then EASY backfilling",
    "slurm-preempt": "as slurm, and scavengers are preempted by QOS once they have run for the exempt time",
    "quotas": "static quotas: each team its part of the GPUs, and what it leaves idle is nobody's",
    "drf": "dominant resource fairness over GPUs, CPUs and memory, the teams side by side",
    "drf-tree": "hierarchical dominant resource fairness, down the tree of budgets",
    "yarn": "YARN's Fair Scheduler: a tree of queues by weight, minimum shares first, preemption after a time-out",
    "hadoop": "the Hadoop Fair Scheduler of 2009: pools by weight, minimum shares first, two preemption time-outs",
    "kai": "KAI Scheduler's time-based fair share: quotas, then weights and past usage, with reclaim",
}
"""Name -> what it is, for people."""


def by_name(name: str, **settings: Setting) -> Policy:
    """The policy of that name with its settings. Raises ValueError naming those that there are."""
    maker = _MAKERS.get(name)
    if maker is None:
        raise ValueError(f"policy = {name}: there are {', '.join(NAMES)}")
    known = list(inspect.signature(maker).parameters)
    for setting in settings:
        if setting not in known:
            raise ValueError(f"policy {name} has no setting {setting}; it has {', '.join(known) or 'none'}")
    return maker(**settings)
