"""Rule 5's walk from the root down to a job: its budget's standing beside its siblings' on each level."""

from __future__ import annotations

from tenure.core.fairshare import Figures, Standing
from tenure.core.ledger import Kind
from tenure.core.preemption import Contest
from tenure.why.records import Level, Part, Sibling


def waiting(contest: Contest, kind: Kind) -> dict[str, tuple[int, int]]:
    """Node -> jobs and GPUs below it that passes try to place in this cluster; none that waits in vain."""
    found: dict[str, tuple[int, int]] = {}
    tree = contest.state.the_tree()
    for leaf, groups in contest.cluster.queues[kind].leaves.items():
        if kind is Kind.CHARGED and not contest.charged.entitled(leaf):
            continue
        sizes = [(sum(map(len, group.people.values())), group.gpus) for group in groups.values()]
        jobs, gpus = sum(count for count, _ in sizes), sum(count * each for count, each in sizes)
        for path in tree.line(leaf):
            before = found.get(path, (0, 0))
            found[path] = (before[0] + jobs, before[1] + gpus)
    return found


def levels(contest: Contest, kind: Kind, leaf: str, margin: int) -> tuple[Level, ...]:
    """The levels from the root's children down to ``leaf``. ``margin``: rule 7's for the job."""
    tree, demand = contest.state.the_tree(), waiting(contest, kind)
    return tuple(_level(contest, contest.standing(kind), child, margin, demand) for child in tree.line(leaf)[1:])


def _level(contest: Contest, standing: Standing, child: str, margin: int, demand: dict[str, tuple[int, int]]) -> Level:
    tree = contest.state.the_tree()
    parent = tree.nodes[child].parent
    assert parent is not None  # the root is nobody's child
    order = standing.order(tree.nodes[parent].children)
    rivals = [path for path in order if path == child or path in demand]
    first = rivals[0]
    against = first if first != child else next(iter(rivals[1:]), "")
    by = decided_by(standing.figures(child), standing.figures(against)) if against else None
    siblings = tuple(_sibling(contest, standing, path, child, margin, demand) for path in order)
    return Level(parent, child, first, against, by, siblings)


def decided_by(a: Figures, b: Figures) -> Part:
    """The part of rule 5 in which two siblings differ first (see ``fairshare.compare``)."""
    if not a.entitled or not b.entitled:
        return Part.ID if a.entitled == b.entitled else Part.SHARE
    if a.below_recent() != b.below_recent():
        return Part.LAST_DAY
    return Part.RATIO if a.used * b.entitled != b.used * a.entitled else Part.ID


def _sibling(
    contest: Contest, standing: Standing, path: str, child: str, margin: int, demand: dict[str, tuple[int, int]]
) -> Sibling:
    figures, ledger, tree = standing.figures(path), standing.ledger, contest.state.the_tree()
    account, parent = ledger.account(path), tree.nodes[path].parent
    whole = ledger.account(parent).allocation if parent is not None else 0
    jobs, gpus = demand.get(path, (0, 0))
    return Sibling(
        path=path,
        share=account.allocation // whole if whole else 0,
        used=figures.used,
        committed=account.promised[standing.kind].at(standing.now),
        entitled=figures.entitled // figures.denominator,
        used_recent=figures.used_recent,
        entitled_recent=figures.entitled_recent // figures.denominator,
        ratio_ppm=figures.ratio_ppm(),
        recent_ppm=figures.recent_ppm(),
        below=figures.below_recent(),
        waiting_jobs=jobs,
        waiting_gpus=gpus,
        evictable_gpus=contest.cluster.pools[standing.kind].gpus.get(path, 0),
        outranked=path != child and standing.reach(child, path) >= margin,
    )
