"""DRF and its hierarchical form: the examples of the papers, and what the papers prove, for any demands."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tenure.policies.drf import (
    Branch,
    Claimant,
    claimants_of,
    divisible,
    inner,
    leaf,
    parts,
    rank,
    whole_tasks,
    whole_tasks_in_tree,
)

CPU, MEM, BOTH = Claimant((1, 0)), Claimant((0, 1)), Claimant((1, 1))


# ---- the papers' examples


def test_nine_cpus_and_eighteen_gb() -> None:
    """NSDI 2011, section 4.1: both have 2/3 of their dominant resource, A of the memory, B of the CPUs."""
    users = [Claimant((1, 4)), Claimant((3, 1))]
    assert whole_tasks((9, 18), users) == [3, 2]
    assert divisible((9, 18), users) == [3, 2]


def test_weights_and_wishes() -> None:
    users = [Claimant((1, 4), weight=1), Claimant((3, 1), weight=2)]
    a, b = divisible((9, 18), users)
    assert b * Fraction(3, 9) == 2 * a * Fraction(4, 18), "twice the dominant share for twice the weight"
    assert a + 3 * b == 9, "the CPUs are all in use"
    assert whole_tasks((9, 18), [Claimant((1, 4), tasks=1), Claimant((3, 1))]) == [1, 2]
    assert divisible((9, 18), [Claimant((1, 4), tasks=1), Claimant((3, 1))]) == [1, Fraction(8, 3)]


def test_whoever_needs_nothing_of_what_is_gone_goes_on() -> None:
    assert whole_tasks((4, 10), [BOTH, MEM, CPU]) == [2, 8, 2]
    assert divisible((4, 10), [BOTH, MEM, CPU]) == [2, 8, 2]


def test_children_that_need_different_things_are_not_counted_together() -> None:
    """SoCC 2013: were shares added up, ``eng`` would look twice as large as it is, and get 3 and 3."""
    tree = Branch({"sci": BOTH, "eng": Branch({"dev": CPU, "prod": MEM})})
    assert whole_tasks_in_tree((10, 10), tree) == {"/sci": 5, "/eng/dev": 5, "/eng/prod": 5}


def test_a_child_that_can_get_no_more_does_not_hold_its_siblings_back() -> None:
    """SoCC 2013, on blocked nodes: when the CPUs are gone, ``pg3`` and ``pg4`` share the memory that is left."""
    tree = Branch({"pg1": CPU, "pg2": CPU, "pg3": Branch({"cpu": CPU, "mem": MEM}), "pg4": MEM})
    assert whole_tasks_in_tree((30, 30), tree) == {
        "/pg1": 10,
        "/pg2": 10,
        "/pg3/cpu": 10,
        "/pg3/mem": 15,
        "/pg4": 15,
    }


def test_a_node_counts_what_its_least_served_child_has_of_each() -> None:
    """``dev`` holds all CPUs, ``prod`` half the memory: their parent counts as a half, so ``prod`` is not starved."""
    capacity = (10, 10)
    dev, prod = leaf(1, parts((10, 0), capacity), blocked=False), leaf(1, parts((0, 5), capacity), blocked=False)
    both = inner(1, [dev, prod], ())
    assert (both.parts, both.share) == ((Fraction(1, 2), Fraction(1, 2)), Fraction(1, 2))
    blocked = inner(1, [leaf(1, dev.parts, blocked=True), prod], gone={0})
    assert (blocked.parts, blocked.share) == ((1, Fraction(1, 2)), Fraction(1, 2)), "what is gone counts for nobody"
    heavier = inner(1, [leaf(3, dev.parts, blocked=False), prod], ())
    assert heavier.parts == (1, Fraction(1, 3)), "each is scaled to 1/3 for its weight: 3/3 of dev, 1/3 of prod"
    nothing = inner(1, [dev, leaf(1, parts((0, 0), capacity), blocked=False)], ())
    assert nothing.share == 0 and not nothing.blocked, "a child that could start and has nothing comes first"


def test_a_child_that_waits_for_what_fits_is_scaled_down_and_nobody_is_scaled_down_to_it() -> None:
    has, least = parts((8, 0), (10, 10)), parts((1, 0), (10, 10))
    able = leaf(1, least, blocked=False)
    assert inner(1, [leaf(1, has, blocked=True, waits=True), able], ()).share == Fraction(2, 10)
    assert inner(1, [leaf(1, has, blocked=True), able], ()).share == Fraction(9, 10)
    assert inner(1, [leaf(1, least, blocked=True, waits=True), leaf(1, has, blocked=False)], ()).share == Fraction(
        9, 10
    )
    nobody = inner(1, [leaf(1, has, blocked=True, waits=True), leaf(1, least, blocked=True)], ())
    assert (nobody.share, nobody.blocked, nobody.waits) == (Fraction(9, 10), True, True)
    assert not leaf(1, has, blocked=False, waits=True).waits, "it need not wait"


def test_who_has_no_weight_comes_last() -> None:
    assert sorted([rank(0, Fraction(0)), rank(1, Fraction(1)), rank(2, Fraction(1))]) == [
        (False, Fraction(1, 2)),
        (False, Fraction(1)),
        (True, Fraction(0)),
    ]
    assert whole_tasks((4, 4), [Claimant((1, 1), weight=0), Claimant((1, 1), tasks=3)]) == [1, 3]
    none = leaf(0, parts((3, 0), (10, 10)), blocked=False)
    some = leaf(1, parts((0, 2), (10, 10)), blocked=False)
    assert inner(1, [none, some], ()).parts == (Fraction(3, 10), Fraction(1, 5))


@pytest.mark.parametrize("task", [(0, 0), (1, 0)])
def test_tasks_that_cannot_be_counted_are_refused(task: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="must take something"):
        whole_tasks((0, 9), [Claimant(task)])


# ---- what is proved for static demands that can be divided


capacities = st.lists(st.integers(1, 40), min_size=1, max_size=3).map(tuple)
tasks = st.lists(st.integers(0, 6), min_size=3, max_size=3).filter(any)


@st.composite
def crowds(draw: st.DrawFn) -> tuple[tuple[int, ...], list[Claimant]]:
    capacity = draw(capacities)
    whole = tasks.map(lambda task: tuple(task[: len(capacity)])).filter(any)
    users = st.builds(Claimant, whole, st.integers(1, 4))
    return capacity, draw(st.lists(users, min_size=1, max_size=5))


def _worth(bundle: Sequence[Fraction], task: Sequence[int]) -> Fraction:
    """How many such tasks can be run with these resources."""
    return min(some / one for some, one in zip(bundle, task, strict=True) if one)


def _bundle(one: Claimant, count: Fraction) -> list[Fraction]:
    return [count * each for each in one.task]


@given(crowds())
def test_sharing_incentive(crowd: tuple[tuple[int, ...], list[Claimant]]) -> None:
    """Nobody would rather have a part of everything, as large as their weight."""
    capacity, users = crowd
    total = sum(user.weight for user in users)
    for user, got in zip(users, divisible(capacity, users), strict=True):
        assert got >= _worth([Fraction(user.weight * some, total) for some in capacity], user.task)


@given(crowds(), st.data())
def test_pareto_efficiency(crowd: tuple[tuple[int, ...], list[Claimant]], data: st.DataObject) -> None:
    """Whoever wants more needs something of which nothing is left; and no more is given than there is."""
    capacity, users = crowd
    users = [Claimant(u.task, u.weight, data.draw(st.none() | st.integers(0, 20))) for u in users]
    got = divisible(capacity, users)
    left = [some - sum(g * user.task[r] for g, user in zip(got, users, strict=True)) for r, some in enumerate(capacity)]
    assert min(left) >= 0
    for count, user in zip(got, users, strict=True):
        assert count >= 0 and (user.tasks is None or count <= user.tasks)
        assert count == user.tasks or any(one and not left[r] for r, one in enumerate(user.task))


@given(crowds())
def test_nobody_envies_anybody(crowd: tuple[tuple[int, ...], list[Claimant]]) -> None:
    """Nobody would rather have what another has, scaled to their own weight."""
    capacity, users = crowd
    got = divisible(capacity, users)
    for mine, user in zip(got, users, strict=True):
        for theirs, other in zip(got, users, strict=True):
            scaled = [Fraction(user.weight, other.weight) * some for some in _bundle(other, theirs)]
            assert _worth(scaled, user.task) <= mine


@given(crowds(), st.data())
def test_nobody_gains_by_a_lie(crowd: tuple[tuple[int, ...], list[Claimant]], data: st.DataObject) -> None:
    """Whoever says that tasks need something else can run no more of the true ones with what they get."""
    capacity, users = crowd
    n = data.draw(st.integers(0, len(users) - 1))
    said = tuple(data.draw(tasks)[: len(capacity)])
    if not any(said):
        return
    lying = [*users]
    lying[n] = Claimant(said, users[n].weight)
    true, false = divisible(capacity, users)[n], divisible(capacity, lying)[n]
    assert _worth(_bundle(lying[n], false), users[n].task) <= true


@given(crowds())
def test_whole_tasks_are_handed_out_until_none_fits(crowd: tuple[tuple[int, ...], list[Claimant]]) -> None:
    capacity, users = crowd
    got = whole_tasks(capacity, users)
    left = [some - sum(g * user.task[r] for g, user in zip(got, users, strict=True)) for r, some in enumerate(capacity)]
    assert min(left) >= 0
    assert all(any(one > some for one, some in zip(user.task, left, strict=True)) for user in users)


# ---- trees


@given(crowds())
def test_a_tree_of_one_level_is_flat(crowd: tuple[tuple[int, ...], list[Claimant]]) -> None:
    capacity, users = crowd
    tree = Branch({str(n): user for n, user in enumerate(users)})
    assert list(whole_tasks_in_tree(capacity, tree).values()) == whole_tasks(capacity, users)


small = st.tuples(st.integers(0, 2), st.integers(0, 2)).filter(any)
claimants = st.builds(Claimant, small, st.integers(1, 3))


def _branches(below: st.SearchStrategy[Branch | Claimant]) -> st.SearchStrategy[Branch]:
    names = st.sampled_from("abc")
    return st.builds(Branch, st.dictionaries(names, below, min_size=1, max_size=3), st.integers(1, 3))


trees = _branches(claimants | _branches(claimants | _branches(claimants)))


@settings(max_examples=40)
@given(trees)
def test_hierarchical_share_guarantee(tree: Branch) -> None:
    """Each gets as much of its dominant resource as the weights on its path promise, but for the size of tasks."""
    capacity = (240, 240)
    got = whole_tasks_in_tree(capacity, tree)
    coarse = len(got) * Fraction(2, 240)
    for path, claimant in claimants_of(tree):
        assert got[path] * claimant.share(capacity) >= _promised(tree, path) - coarse, path


def _promised(tree: Branch, path: str) -> Fraction:
    share, node = Fraction(1), tree
    for name in path[1:].split("/"):
        assert isinstance(node, Branch)
        child = node.below[name]
        share *= Fraction(child.weight, sum(other.weight for other in node.below.values()))
        node = child  # type: ignore[assignment]
    return share


@settings(max_examples=40)
@given(trees)
def test_nothing_is_left_that_somebody_in_the_tree_could_use(tree: Branch) -> None:
    capacity = (60, 60)
    got = whole_tasks_in_tree(capacity, tree)
    users = dict(claimants_of(tree))
    left = [some - sum(count * users[path].task[r] for path, count in got.items()) for r, some in enumerate(capacity)]
    assert min(left) >= 0
    assert all(any(one > some for one, some in zip(user.task, left, strict=True)) for user in users.values())
