"""Limits and references of the budget tree and of grants."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from tenure.config.problems import MISSING, Problem, did_you_mean, dotted, show
from tenure.core.model import DAY, GPU, HOUR, SELF, SHARE_ONE, Budget, Cluster, Grant
from tenure.core.tree import Tree, parent_of
from tenure.units import format_duration, format_fraction, format_gpu_hours, format_time

MAX_BUDGETS = 10_000
MAX_DEPTH = 8
MAX_GRANTS = 1_000
MAX_PEOPLE = 1_000
MAX_GPU_HOURS = 1_000_000_000

RESERVED = {"grants", "share", "cluster_shares", "managers", "members", "moved_from"}
"""Keys with a meaning of their own in the budgets file."""

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
_PERSON = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,127}")
_NAME_FIX = "use lowercase letters, digits, - and _, beginning with a letter or digit, at most 63"


def budget_field(path: str, *more: str) -> str:
    """The field of a budget as it stands in the file: ``lab/language`` is the table ``lab.language``."""
    return dotted((*path.split("/"), *more))


def check_budgets(budgets: Sequence[Budget], clusters: Sequence[Cluster], file: str) -> list[Problem]:
    """Names, shares, sums of children, references to clusters, moves."""
    problems: list[Problem] = []
    if len(budgets) > MAX_BUDGETS:
        return [Problem(file, "budgets", f"{len(budgets)} budgets", f"at most {MAX_BUDGETS}")]
    counts = Counter(budget.path for budget in budgets)
    for path, count in counts.items():
        if count > 1:
            problems.append(Problem(file, budget_field(path), show(path), "declared twice; keep one"))
    problems += _check_root(budgets, file)
    cluster_names = {cluster.name for cluster in clusters}
    for budget in budgets:
        problems += _check_path(budget, counts, file)
        problems += _check_shares(budget, cluster_names, file)
        problems += _check_people(budget, file)
    problems += _check_sums(budgets, clusters, file)
    problems += _check_moves(budgets, counts, file)
    return problems


def _check_root(budgets: Sequence[Budget], file: str) -> Iterable[Problem]:
    roots = sorted(budget.path for budget in budgets if "/" not in budget.path)
    if not budgets:
        yield Problem(file, "(file)", MISSING, "declare the organisation at the top, like [lab]")
    elif len(roots) != 1:
        value = ", ".join(show(path) for path in roots[:10]) or MISSING
        yield Problem(file, "(file)", value, "exactly one organisation at the top, the others inside it: [lab.other]")
    for budget in budgets:
        if "/" not in budget.path and (budget.share != SHARE_ONE or budget.cluster_shares):
            field = "cluster_shares" if budget.cluster_shares else "share"
            value = show(dict(budget.cluster_shares)) if budget.cluster_shares else format_fraction(budget.share)
            yield Problem(
                file, budget_field(budget.path, field), value, "the organisation has everything; leave it away"
            )


def _check_path(budget: Budget, known: Counter[str], file: str) -> Iterable[Problem]:
    field = budget_field(budget.path)
    parts = budget.path.split("/")
    for part in parts[-1:] if parent_of(budget.path) in known else parts:
        if part == SELF:
            remedy = f"{SELF} stands for what the other children leave over; choose another name"
            yield Problem(file, field, show(budget.path), remedy)
        elif part in RESERVED:
            yield Problem(file, field, show(budget.path), f"{part} is a setting; choose another name")
        elif not _NAME.fullmatch(part):
            yield Problem(file, field, show(budget.path), _NAME_FIX)
    if len(parts) > MAX_DEPTH:
        yield Problem(file, field, show(budget.path), f"a tree has at most {MAX_DEPTH} levels")
    parent = parent_of(budget.path)
    if parent is not None and parent not in known:
        yield Problem(file, field, show(budget.path), f"its parent {parent} is not declared; add it")


def _check_shares(budget: Budget, clusters: set[str], file: str) -> Iterable[Problem]:
    if not 0 <= budget.share <= SHARE_ONE:
        yield Problem(file, budget_field(budget.path, "share"), format_fraction(budget.share), "from 0 to 1")
    counts = Counter(name for name, _ in budget.cluster_shares)
    for name, share in budget.cluster_shares:
        field = budget_field(budget.path, "cluster_shares", name)
        if not 0 <= share <= SHARE_ONE:
            yield Problem(file, field, format_fraction(share), "from 0 to 1")
        if name not in clusters:
            yield Problem(file, field, format_fraction(share), f"no such cluster; {did_you_mean(name, clusters)}")
        if counts[name] > 1:
            yield Problem(file, field, format_fraction(share), "one share for each cluster")


def _check_people(budget: Budget, file: str) -> Iterable[Problem]:
    for kind, people in (("managers", budget.managers), ("members", budget.members)):
        field = budget_field(budget.path, kind)
        if len(people) > MAX_PEOPLE:
            yield Problem(file, field, f"{len(people)} names", f"at most {MAX_PEOPLE}")
            continue
        for person, count in Counter(people).items():
            if not _PERSON.fullmatch(person):
                yield Problem(file, field, show(person), "a user name: letters, digits and . _ @ + -")
            elif count > 1:
                yield Problem(file, field, show(person), f"named {count} times; once is enough")


def _check_sums(budgets: Sequence[Budget], clusters: Sequence[Cluster], file: str) -> list[Problem]:
    """Children's shares add up to at most 1 of their parent, on every cluster."""
    children: dict[str, list[Budget]] = defaultdict(list)
    for budget in budgets:
        parent = parent_of(budget.path)
        if parent is not None:
            children[parent].append(budget)
    problems = []
    for parent, below in children.items():
        over: dict[tuple[int, ...], list[str]] = defaultdict(list)
        for cluster in clusters:
            shares = tuple(child.share_on(cluster.name) for child in below)
            if sum(shares) > SHARE_ONE:
                over[shares].append(cluster.name)
        for shares, where in over.items():
            named = [(child.path.rpartition("/")[2], share) for child, share in zip(below, shares, strict=True)]
            largest = sorted(named, key=lambda item: -item[1])
            terms = " + ".join(f"{name} {format_fraction(share)}" for name, share in largest[:6])
            terms += f" + {len(named) - 6} more" if len(named) > 6 else ""
            place = "" if len(where) == len(clusters) else f" on {', '.join(where[:4])}"
            excess = format_fraction(sum(shares) - SHARE_ONE)
            problems.append(
                Problem(
                    file,
                    budget_field(parent),
                    format_fraction(sum(shares)),
                    f"its children's shares add up to more than 1{place} ({terms}); take away {excess} in all",
                )
            )
    return problems


def _check_moves(budgets: Sequence[Budget], known: Counter[str], file: str) -> Iterable[Problem]:
    sources = Counter(budget.moved_from for budget in budgets if budget.moved_from is not None)
    for budget in budgets:
        old = budget.moved_from
        if old is None:
            continue
        field = budget_field(budget.path, "moved_from")
        if not all(_NAME.fullmatch(part) for part in old.split("/")):
            yield Problem(file, field, show(old), 'write the old path, like "lab/vision/pretrain"')
        elif old in known:
            yield Problem(file, field, show(old), "this budget is still declared; take it out or leave this away")
        elif sources[old] > 1:
            yield Problem(file, field, show(old), "more than one budget moved from there; keep one")


def check_grants(
    grants: Sequence[Grant], budgets: Sequence[Budget], clusters: Sequence[Cluster], file: str
) -> list[Problem]:
    """References, periods, and whether the givers have what is granted. ``budgets`` must be without problems."""
    if not grants:
        return []
    if len(grants) > MAX_GRANTS:
        return [Problem(file, "grants", f"{len(grants)} grants", f"at most {MAX_GRANTS}")]
    tree = Tree(budgets)
    sizes = {cluster.name: sum(host.gpus for host in cluster.hosts) for cluster in clusters}
    problems: list[Problem] = []
    for index, grant in enumerate(grants):
        found = [
            Problem(file, dotted(("grants", index, *field)), value, remedy)
            for field, value, remedy in _grant_faults(grant, tree, sizes)
        ]
        problems += found or _check_amount(grant, tree, sizes[grant.cluster], file, index)
    return problems


Fault = tuple[tuple[str | int, ...], str, str]


def _grant_faults(grant: Grant, tree: Tree, sizes: dict[str, int]) -> Iterable[Fault]:
    parent = parent_of(grant.to)
    if grant.to not in tree.budgets:
        yield ("to",), show(grant.to), f"no such budget; {did_you_mean(grant.to, tree.budgets)}"
    elif parent is None:
        yield ("to",), show(grant.to), "the organisation has everything; name a budget below it"
    else:
        siblings = [path for path in tree.nodes[parent].children if path != grant.to]
        for index, giver in enumerate(grant.taken_from):
            if giver not in siblings:
                yield ("from", index), show(giver), f"not beside {grant.to}; {did_you_mean(giver, siblings)}"
            elif giver in grant.taken_from[:index]:
                yield ("from", index), show(giver), "named before; once is enough"
        if not grant.taken_from:
            yield ("from",), "[]", f"say who gives: {', '.join(siblings[:6])}"
    if not 1 <= grant.amount <= MAX_GPU_HOURS:
        yield ("gpu_hours",), show(grant.amount), f"from 1 to {MAX_GPU_HOURS} GPU-hours"
    if grant.cluster not in sizes:
        yield ("cluster",), show(grant.cluster), f"no such cluster; {did_you_mean(grant.cluster, sizes)}"
    yield from _period_faults(grant)


def _period_faults(grant: Grant) -> Iterable[Fault]:
    length = grant.end - grant.start
    if length <= 0:
        yield ("end",), _time(grant.end), f"must be after its start, {_time(grant.start)}"
    elif not HOUR <= length <= 366 * DAY:
        yield ("end",), _time(grant.end), f"a grant lasts 1h to 366d; this one {format_duration(length)}"


def _time(ms: int) -> str:
    return format_time(ms) if 0 <= ms < 253_402_300_800_000 else show(ms)


def _check_amount(grant: Grant, tree: Tree, gpus: int, file: str, index: int) -> list[Problem]:
    """A grant that its givers cannot pay would silently be smaller than it says."""
    if gpus == 0:  # hosts still to be found
        return []
    above = tree.line(grant.to)[:-1]
    theirs = sum(_share_on(tree, path, grant.cluster) for path in grant.taken_from)
    for path in above:
        theirs *= _share_on(tree, path, grant.cluster)
    theirs *= gpus * (grant.end - grant.start)
    depth = SHARE_ONE ** (len(above) + 1)
    if grant.amount * HOUR * depth <= theirs:
        return []
    has = format_gpu_hours(theirs * GPU // depth)
    remedy = f"in that time the givers have {has} GPU-hours; grant less, for longer, or from more of them"
    return [Problem(file, dotted(("grants", index, "gpu_hours")), show(grant.amount), remedy)]


def _share_on(tree: Tree, path: str, cluster: str) -> int:
    budget = tree.nodes[path].budget
    if budget is not None:
        return budget.share_on(cluster)
    siblings = tree.nodes[parent_of(path) or tree.root].children
    return SHARE_ONE - sum(tree.budgets[other].share_on(cluster) for other in siblings if other in tree.budgets)
