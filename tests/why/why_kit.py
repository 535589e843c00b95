"""Every number of an answer, compared with what brute force makes of the same world."""

from __future__ import annotations

from support.brute import Brute
from support.world import World
from tenure.core.ledger import Kind
from tenure.core.model import GPU
from tenure.core.state import Job
from tenure.why import Answer, answer
from tenure.why.records import Ahead, Blocker, Blocking, Level, Part, Place, Sibling, Space


def asked(world: World, job: int, *, past: tuple = ()) -> Answer:  # type: ignore[type-arg]
    """The answer about a job, all of whose numbers have been reckoned anew."""
    found = answer(world.state, world.state.jobs[job])
    check_answer(world, found, past=past)
    return found


def check_answer(world: World, found: Answer, *, past: tuple = ()) -> None:  # type: ignore[type-arg]
    """All that brute force knows. Hosts are all healthy, and of jobs there is one role, where ``space`` is there."""
    job = world.state.jobs[found.job]
    assert (found.label, found.at, found.state) == (job.label, world.state.now, job.state.value)
    for place in found.places:
        brute = Brute(world, place.cluster, past)
        leaf = job.attempt.leaf if job.attempt is not None else job.leaf
        check_levels(brute, place, job.kind, leaf, job)
        if place.ahead is not None:
            check_ahead(brute, place.ahead, job)
        if place.space is not None and job.reservation is None:
            check_space(brute, place.space, job)


def check_levels(brute: Brute, place: Place, kind: Kind, leaf: str, job: Job) -> None:
    parts, margin = leaf.split("/"), job.spec.gpus * GPU * brute.world.policy.preemption_margin
    assert place.margin == margin
    assert [level.child for level in place.levels] == ["/".join(parts[: i + 1]) for i in range(1, len(parts))]
    for level in place.levels:
        check_level(brute, level, kind, margin)


def check_level(brute: Brute, level: Level, kind: Kind, margin: int) -> None:
    assert [each.path for each in level.siblings] == brute.order(level.parent, kind)
    for sibling in level.siblings:
        check_sibling(brute, sibling, level, kind, margin)
    rivals = [s.path for s in level.siblings if s.path == level.child or brute.waiting_below(s.path, kind)]
    assert level.first == rivals[0]
    assert level.against == (rivals[0] if rivals[0] != level.child else [*rivals, ""][1])
    assert level.by == (decided(brute, level.child, level.against, kind) if level.against else None)


def decided(brute: Brute, a: str, b: str, kind: Kind) -> Part:
    week, day = brute.world.policy.lookback, brute.world.policy.recent
    if (brute.entitled(a, week) > 0) != (brute.entitled(b, week) > 0):
        return Part.SHARE
    below = [brute.used(path, kind, day) < brute.entitled(path, day) for path in (a, b)]
    if below[0] != below[1]:
        return Part.LAST_DAY
    return Part.RATIO if brute.ratio(a, kind, week) != brute.ratio(b, kind, week) else Part.ID


def check_sibling(brute: Brute, sibling: Sibling, level: Level, kind: Kind, margin: int) -> None:
    policy, path = brute.world.policy, sibling.path
    whole = brute.allocation(level.parent)
    assert sibling.share == (brute.allocation(path) / whole * 10**6 if whole else 0)
    assert sibling.used == brute.used(path, kind, policy.lookback)
    assert sibling.used_recent == brute.used(path, kind, policy.recent)
    assert sibling.committed == brute.committed(path, kind)
    assert sibling.entitled == int(brute.entitled(path, policy.lookback))
    assert sibling.entitled_recent == int(brute.entitled(path, policy.recent))
    for told, window in ((sibling.ratio_ppm, policy.lookback), (sibling.recent_ppm, policy.recent)):
        ratio = brute.ratio(path, kind, window)
        assert told == (-1 if ratio is None else ratio * 10**6 // 1), path
    assert sibling.below == (sibling.used_recent < brute.entitled(path, policy.recent))
    waits = brute.waiting_below(path, kind)
    assert (sibling.waiting_jobs, sibling.waiting_gpus) == (len(waits), sum(job.spec.gpus for job in waits))
    exposed = [a for a in brute.attempts() if f"{a.leaf}/".startswith(f"{path}/") and _is_exposed(brute, a, kind)]
    assert sibling.evictable_gpus == sum(a.gpus for a in exposed)
    mine = path == level.child
    assert sibling.outranked == (not mine and brute.compare(level.child, path, kind, margin) < 0)


def _is_exposed(brute: Brute, attempt, kind: Kind) -> bool:  # type: ignore[no-untyped-def]
    if attempt.kind is not kind or attempt.stop is not None or attempt.started_at is None:
        return False
    if kind is Kind.UNALLOCATED:
        return bool(attempt.started_at + brute.world.policy.unallocated_turn <= brute.now)
    return attempt.running_since is not None and attempt.running_since + attempt.min_runtime <= brute.now


def check_ahead(brute: Brute, ahead: Ahead, job: Job) -> None:
    order = brute.in_leaf(job.leaf, job.kind)
    before = order[: order.index(job)]
    assert (ahead.jobs, ahead.gpus) == (len(before), sum(each.spec.gpus for each in before))
    assert [each.job for each in ahead.first] == [each.id for each in before[:5]]
    lookback = brute.world.policy.lookback
    mine = ahead.person_used
    assert mine == brute.used(job.leaf, job.kind, lookback, job.spec.user)
    for told, other in zip(ahead.first, before, strict=False):
        used = brute.used(job.leaf, job.kind, lookback, other.spec.user)
        assert (told.person_used, told.priority, told.submitted) == (used, other.spec.priority, other.submitted)
        differs = [told.priority != job.spec.priority, used != mine, True]
        assert told.by is (Part.PRIORITY, Part.PERSON, Part.SENIORITY)[differs.index(True)]


def check_space(brute: Brute, space: Space, job: Job) -> None:
    """What it finds now, and that what is in its way is enough, and no more than that, where it is known."""
    (role,) = job.spec.roles
    evictable = [a.id for a in brute.attempts() if brute.evictable(job, a)]
    free = brute.free(evictable)
    largest = max(host.gpus for c in brute.world.clusters if c.name == brute.cluster for host in c.hosts)
    whole = {host.name for c in brute.world.clusters if c.name == brute.cluster for host in c.hosts}
    sizes = {h.name: h.gpus for c in brute.world.clusters if c.name == brute.cluster for h in c.hosts}
    assert space.gpus == role.replicas * role.gpus
    assert space.whole_hosts == (role.replicas if role.gpus == largest else 0)
    assert space.free_gpus == sum(free.values())
    assert space.evictable_gpus == space.free_gpus - sum(brute.free().values())
    assert space.free_hosts == sum(free[name] == sizes[name] for name in whole)
    for blocker in space.blockers:
        check_blocker(brute, blocker, job)
    blockers = [blocker.attempt for blocker in space.blockers]
    assert len(set(blockers)) == len(blockers) == min(space.blocking, 20)
    assert not set(blockers) & set(evictable)
    ends = [blocker.until for blocker in space.blockers]
    assert [end for end in ends if end is not None] == sorted(end for end in ends if end is not None)
    if brute.fits(job, evictable):
        assert (space.enough_at, space.blocking) == (brute.now, 0)
    if space.blockers and space.blocking == len(blockers):
        assert brute.fits(job, [*evictable, *blockers])
        for one in blockers:
            assert not brute.fits(job, [*evictable, *(other for other in blockers if other != one)]), one
        known = None if None in ends else max(end for end in ends if end is not None)
        assert space.enough_at == known
    unknown = sum(end is None for end in ends)
    assert space.others == 0 or (unknown and space.enough_at is None)


def check_blocker(brute: Brute, blocker: Blocker, job: Job) -> None:
    """Why it is in the way, and until when."""
    state = brute.world.state
    attempt = state.attempts[blocker.attempt]
    spec, cluster = state.jobs[attempt.job_id].spec, state.clusters[brute.cluster].spec
    assert (blocker.job, blocker.user, blocker.gpus) == (attempt.job_id, spec.user, spec.gpus)
    up, until = attempt.running_since, blocker.until
    if attempt.stop is not None or (attempt.started_at is None and not attempt.charged):
        assert blocker.why is Blocking.LEAVING
    elif not brute.outranks(job, attempt):
        assert blocker.why is Blocking.FIRST and blocker.rule == _rule(brute, job, attempt)
        grace = min(spec.grace, cluster.max_grace if attempt.charged else cluster.unallocated_grace)
        if up is not None:
            assert until == (None if spec.timeout is None else up + spec.timeout + grace)
    elif not attempt.charged:
        assert attempt.started_at is not None and blocker.why is Blocking.TURN
        assert until == attempt.started_at + brute.world.policy.unallocated_turn
    elif up is not None:
        assert blocker.why is Blocking.PROTECTED and until == up + attempt.min_runtime
    else:
        assert blocker.why is Blocking.STARTING


def _rule(brute: Brute, job: Job, attempt) -> str:  # type: ignore[no-untyped-def]
    """What keeps an attempt that the job does not outrank."""
    if attempt.charged != job.spec.charged:
        return "order"
    if attempt.leaf == job.leaf:
        return "priority"
    line = zip(job.leaf.split("/"), attempt.leaf.split("/"), strict=False)
    common = next(i for i, (a, b) in enumerate(line) if a != b)
    mine, theirs = ("/".join(leaf.split("/")[: common + 1]) for leaf in (job.leaf, attempt.leaf))
    return "order" if brute.compare(theirs, mine, job.kind, 0) < 0 else "margin"
