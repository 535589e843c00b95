"""What is known of one budget in one cluster at one moment, copied out of the live state.

Copying takes the engine's lock for a moment; whatever is asked of the copy afterwards holds up nobody.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tenure.balance.parts import NOTHING, Parts, below, parts_of
from tenure.balance.who import Child, children_of
from tenure.core.fairshare import Figures, Standing
from tenure.core.ledger import Account, Kind, Ledger
from tenure.core.model import DAY, GPU, HOUR, MINUTE, SECOND
from tenure.core.series import Series
from tenure.core.state import Attempt, ClusterState, State

_LENGTHS = (SECOND, 10 * SECOND, MINUTE, 10 * MINUTE, HOUR, 2 * HOUR, 6 * HOUR, DAY, 7 * DAY, 28 * DAY)
_MOST_DAYS = 14


@dataclass(frozen=True, slots=True)
class Going:
    """An attempt that holds GPUs. Its span is open since ``since``; times in ms.

    ``exposed_from``: when its protection ends (of one that still starts: if it ran from now on; a free one has none).
    ``ends``: its timeout, None without one. ``stopping``: it is on its way out.
    """

    attempt_id: str
    leaf: str
    user: str
    amount: int
    since: int
    exposed_from: int
    ends: int | None
    stopping: bool

    def charged(self, start: int, end: int) -> int:
        """What its open span was charged inside [start, end), which ends by now."""
        return self.amount * max(0, end - max(start, self.since))


@dataclass(frozen=True, slots=True)
class Promised:
    """What is promised to one job: to its attempt, or with ``reserved`` to its reservation."""

    job_id: int
    leaf: str
    user: str
    worth: int
    reserved: bool


@dataclass(frozen=True, slots=True)
class Period:
    """A time to come, from ``start`` (ms), in which the allocation stays the same.

    ``rate``: that allocation x healthy GPUs, as the ledger has it. ``entitled``: the rate at which entitlement accrued,
    and will, as it is counted during this period.
    """

    start: int
    rate: int
    entitled: Series


@dataclass(frozen=True, slots=True)
class Facts:
    """One node of the tree. Times in ms, amounts in thousandths of a GPU x ms; ``used`` has credits taken off.

    ``periods``: from now on, one more for each known beginning or end of a grant. ``people`` and ``daily`` are by
    user; ``daily`` has one number for each of ``days``.
    """

    path: str
    cluster: str
    now: int
    lookback: int
    floor: int
    first_record: int | None
    assumed_until: int | None
    """Until when in the window there are no records, and today's allocation is taken; None: nowhere."""
    figures: Figures
    rate: int
    allocation_gpus: int
    """Thousandths of a GPU that are its allocation of what is healthy today, rounded down."""
    parts: Parts
    used: Series
    periods: tuple[Period, ...]
    going: tuple[Going, ...]
    """Charged attempts that hold GPUs."""
    free: tuple[Going, ...]
    """Unallocated ones."""
    promised: tuple[Promised, ...]
    days: tuple[tuple[int, int], ...]
    people: dict[str, Parts]
    daily: dict[str, tuple[int, ...]]
    children: tuple[Child, ...]

    @property
    def since(self) -> int:
        """When the window begins."""
        return self.now - self.lookback


def gather(state: State, cluster_name: str, path: str, now: int) -> Facts:
    """Copy what is known of a node at ``now``, or at the state's time if that is later.

    Raises KeyError for a cluster or a path that does not exist.
    """
    tree, policy = state.the_tree(), state.policy
    cluster = state.clusters[cluster_name]
    ledger, now = cluster.ledger, max(now, state.now)
    since = now - policy.lookback
    standing = Standing(ledger, tree, policy, Kind.CHARGED, now)
    figures = standing.figures(tree.nodes[path].path)
    account = ledger.accounts[path]
    going = tuple(_going(state, cluster, path, Kind.CHARGED, now))
    promised = tuple(_promised(state, cluster, path, now))
    days = tuple(days_of(since, now))
    daily = _daily(ledger, path, days)
    return Facts(
        path=path,
        cluster=cluster_name,
        now=now,
        lookback=policy.lookback,
        floor=policy.entitlement_floor,
        first_record=ledger.first_record,
        assumed_until=ledger.first_record if _assumed(ledger, account, since) else None,
        figures=figures,
        rate=account.allocation * ledger.healthy_gpus * GPU,
        allocation_gpus=account.allocation * ledger.healthy_gpus * GPU // figures.denominator,
        parts=parts_of(
            [account],
            sum(one.charged(since, now) for one in going),
            sum(one.worth for one in promised if one.reserved),
            since,
            now,
        ),
        used=_charged(account, since),
        periods=tuple(_periods(state, cluster, account, path, since, now)),
        going=going,
        free=tuple(_going(state, cluster, path, Kind.UNALLOCATED, now)),
        promised=promised,
        days=days,
        people=_people(ledger, path, daily, going, promised, since, now),
        daily=daily,
        children=tuple(children_of(ledger, standing, path, going, promised, since)),
    )


def days_of(since: int, now: int) -> Iterator[tuple[int, int]]:
    """The window cut into days, oldest first and counted from its beginning; of a short lookback into shorter parts."""
    length = next((one for one in _LENGTHS if now - since <= _MOST_DAYS * one), _LENGTHS[-1])
    for start in range(since, now, length):
        yield start, min(start + length, now)


def _going(state: State, cluster: ClusterState, path: str, kind: Kind, now: int) -> Iterator[Going]:
    for attempt_id, span in sorted(cluster.ledger.open.items()):
        if span.kind is not kind or not below(span.leaf, path):
            continue
        attempt = state.attempts[attempt_id]
        began = attempt.running_since if attempt.running_since is not None else now
        timeout = state.jobs[attempt.job_id].spec.timeout
        yield Going(
            attempt_id,
            span.leaf,
            span.user,
            span.amount,
            span.start,
            max(now, began + attempt.min_runtime),
            began + timeout if timeout is not None else None,
            attempt.stop is not None,
        )


def _promised(state: State, cluster: ClusterState, path: str, now: int) -> Iterator[Promised]:
    name = cluster.spec.name
    for attempt in state.attempts.values():
        if attempt.cluster == name and attempt.charged and below(attempt.leaf, path):
            worth = _worth(attempt, now)
            if worth:
                yield Promised(attempt.job_id, attempt.leaf, attempt.user, worth, False)
    for job_id, held in cluster.reservations.items():
        job = state.jobs[job_id]
        if below(job.leaf, path):
            worth = held.reservation.amount * job.spec.contract.min_runtime
            yield Promised(job_id, job.leaf, job.spec.user, worth, True)


def _worth(attempt: Attempt, now: int) -> int:
    """What the ledger has promised to a charged attempt (see ``effects.promise_over``)."""
    if attempt.stop is not None:
        return 0
    if attempt.promised_until is not None:
        return attempt.amount * (attempt.promised_until - now)
    return attempt.amount * attempt.min_runtime if attempt.running_since is None else 0


def _daily(ledger: Ledger, path: str, days: Sequence[tuple[int, int]]) -> dict[str, tuple[int, ...]]:
    """What each person was charged on each of the days, which follow each other; of those who were charged at all."""
    since, bounds = days[0][0], [start for start, _ in days] + [days[-1][1]]
    sums: dict[str, list[int]] = {}
    for (leaf, user), account in ledger.people.items():
        used = account.used[Kind.CHARGED]
        if not below(leaf, path) or not used.times or (used.times[-1] <= since and not used.rate):
            continue
        read = [used.cumulative(at) for at in bounds]
        theirs = sums.setdefault(user, [0] * len(days))
        for i, (start, end) in enumerate(days):
            theirs[i] += read[i + 1] - read[i]
            for c_start, c_end, amount in account.credits:
                theirs[i] -= amount * max(0, min(c_end, end) - max(c_start, start))
    return {user: tuple(theirs) for user, theirs in sorted(sums.items()) if any(theirs)}


def _people(
    ledger: Ledger,
    path: str,
    daily: Mapping[str, Sequence[int]],
    going: Iterable[Going],
    promised: Iterable[Promised],
    since: int,
    now: int,
) -> dict[str, Parts]:
    """The parts of each person who has any: the days are the whole window."""
    running, committed, reserved, free = Counter[str](), Counter[str](), Counter[str](), Counter[str]()
    for one in going:
        running[one.user] += one.charged(since, now)
    for promise in promised:
        (reserved if promise.reserved else committed)[promise.user] += promise.worth
    for (leaf, user), account in ledger.people.items():
        used = account.used[Kind.UNALLOCATED]
        if used.times and below(leaf, path):
            free[user] += used.window(since, now)
    found = {
        user: Parts(
            sum(daily.get(user, ())) - running[user], running[user], committed[user], reserved[user], free[user]
        )
        for user in sorted({*daily, *running, *committed, *reserved, *free})
    }
    return {user: parts for user, parts in found.items() if parts != NOTHING}


def _charged(account: Account, since: int) -> Series:
    """Charged usage from ``since`` on, less credits. Before that it may begin with some more."""
    made = Series()
    made.times, made.cums, made.rates = account.used[Kind.CHARGED].since(since)
    for start, end, amount in account.credits:
        if end > since:
            made.change(max(start, since), -amount)
            made.change(end, amount)
    return made


def _periods(
    state: State, cluster: ClusterState, account: Account, path: str, since: int, now: int
) -> Iterator[Period]:
    """What is known of allocations to come: they stay what they are, but for grants."""
    tree, ledger = state.the_tree(), cluster.ledger
    future: list[tuple[int, int]] = [(now, account.allocation * ledger.healthy_gpus * GPU)]
    at, end = now, now + (now - since)
    while (change := tree.next_change(at)) is not None and change < end:
        allocations = tree.allocations(cluster.spec.name, cluster.spec.gpus, change)
        future.append((change, allocations[path] * ledger.healthy_gpus * GPU))
        at = change
    for i, (start, rate) in enumerate(future):
        yield Period(start, rate, _entitled(ledger, account, since, rate, future[1 : i + 1]))


def _assumed(ledger: Ledger, account: Account, since: int) -> bool:
    """Whether the window begins before the cluster's first record, of a node that was there then."""
    first = ledger.first_record
    return first is not None and since < first and account.created == first


def _entitled(ledger: Ledger, account: Account, since: int, today: int, future: list[tuple[int, int]]) -> Series:
    """The rate of a node's entitlement from ``since`` on, when its allocation is ``today`` (rule 2).

    Time before the cluster's first record counts with today's allocation, for nodes that were there then.
    """
    made = Series()
    made.change(since, 0)
    first = ledger.first_record
    if account.created is None or first is None:
        return made
    if _assumed(ledger, account, since):
        made.set(since, today)
    times, _, rates = account.entitled.since(since)
    for at, rate in zip(times, rates, strict=True):
        made.set(max(at, since), rate)
    for at, rate in future:
        made.set(at, rate)
    return made
