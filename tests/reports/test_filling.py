"""Water-filling: worked examples, and that it conserves, never exceeds a want, and is max-min fair."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tenure.reports.filling import Shape, fill

TREE = Shape(["lab/p/x", "lab/p/y", "lab/q"])
SHARES = {"lab/p/x": 35, "lab/p/y": 15, "lab/q": 50}


def test_a_child_that_wants_less_leaves_the_rest_to_the_others_by_weight() -> None:
    assert fill(100, [(10, 50), (100, 25), (100, 25)]) == [10, 45, 45]
    assert fill(90, [(10, 1), (100, 2), (100, 6)]) == [10, 20, 60]
    assert fill(50, [(10, 1), (10, 1)]) == [10, 10]


def test_what_cannot_be_divided_goes_to_the_largest_remainders() -> None:
    assert fill(10, [(99, 1), (99, 1), (99, 1)]) == [4, 3, 3]
    assert fill(10, [(99, 1), (99, 3), (99, 3)]) == [2, 4, 4]


def test_a_weight_of_zero_gets_nothing() -> None:
    assert fill(10, [(5, 0), (3, 1)]) == [0, 3]


def test_siblings_come_first_and_other_branches_after_them() -> None:
    # q leaves 30 of its 50 to p, which now has 80: y takes the 5 that it wants, x the other 75.
    assert TREE.fill(100, {"lab/p/x": 100, "lab/p/y": 5, "lab/q": 20}, SHARES) == {
        "lab/p/x": 75,
        "lab/p/y": 5,
        "lab/q": 20,
    }
    # x leaves 5 of its 35: they go to its sibling y, not to q, which wants just as much.
    assert TREE.fill(100, {"lab/p/x": 30, "lab/p/y": 40, "lab/q": 100}, SHARES) == {
        "lab/p/x": 30,
        "lab/p/y": 20,
        "lab/q": 50,
    }


def test_a_root_that_is_a_leaf_gets_what_it_wants() -> None:
    assert Shape(["lab"]).fill(8, {"lab": 5}, {"lab": 8}) == {"lab": 5}


@given(st.integers(0, 3000), st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 50)), max_size=8))
def test_filling_conserves_and_is_fair(capacity: int, wants: list[tuple[int, int]]) -> None:
    parts = fill(capacity, wants)
    weighed = [want for want, weight in wants if weight]
    assert sum(parts) == min(capacity, sum(weighed))
    for part, (want, weight) in zip(parts, wants, strict=True):
        assert 0 <= part <= (want if weight else 0)
        if weight and part < want:  # it is cut, so nobody has more than it by weight, but for a unit of rounding
            assert all((p - 1) * weight < (part + 1) * w for p, (_, w) in zip(parts, wants, strict=True) if w)


@given(st.integers(0, 500), st.dictionaries(st.sampled_from(sorted(SHARES)), st.integers(0, 200)))
def test_a_tree_conserves(capacity: int, wants: dict[str, int]) -> None:
    filled = TREE.fill(capacity, wants, SHARES)
    assert sum(filled.values()) == min(capacity, sum(wants.values()))
    assert all(filled[leaf] <= wants.get(leaf, 0) for leaf in filled)
