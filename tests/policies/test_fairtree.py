"""Fair Tree: what it is documented to promise, and the cases that Slurm decides in its own way."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hypothesis import example, given
from hypothesis import strategies as st

from tenure.policies.fairtree import INFINITE, NOTHING, Association, Key, Ranking, rank


def user(name: str, usage: int, shares: int | None = 1, account: str = "a") -> Association:
    return Association((account, name), shares, usage)


def account(name: str, shares: int | None, *below: Association) -> Association:
    return Association((name, ""), shares, sum(one.usage for one in below), below)


def ranked(*below: Association) -> Ranking:
    return rank(below, sum(one.usage for one in below))


def ranks(*below: Association) -> dict[str, int]:
    return {name: place for (_, name), place in ranked(*below).ranks.items()}


def test_level_fair_share_is_the_part_of_the_shares_over_the_part_of_the_usage() -> None:
    found = ranked(account("a", 3, user("ann", 300)), account("b", 1, user("bob", 50), user("cid", 50)))
    assert found.users == 3
    level = {key: above / below for key, (above, below) in found.levels.items()}
    assert level[("a", "")] == (3 / 4) / (300 / 400) == 1
    assert level[("b", "")] == (1 / 4) / (100 / 400) == 1
    assert level[("a", "bob")] == level[("a", "cid")] == 1


def test_all_users_of_the_better_account_come_first() -> None:
    # lab has used a third of what its half of the shares is worth; its heaviest user still comes before anybody of b.
    heavy, light = user("heavy", 90), user("light", 10)
    assert ranks(account("lab", 1, heavy, light), account("b", 1, user("idle", 0), user("busy", 200))) == {
        "light": 4,
        "heavy": 3,
        "idle": 2,
        "busy": 1,
    }


def test_users_and_accounts_are_siblings() -> None:
    below = (account("sub", 2, user("deep", 100)), user("above", 10, 1), user("behind", 900, 1))
    assert ranks(account("lab", 1, *below)) == {"above": 3, "deep": 2, "behind": 1}


def test_tied_users_share_a_rank_and_the_next_is_as_many_further() -> None:
    below = (user("ann", 5), user("bob", 5), user("cid", 5), user("dee", 9))
    assert ranks(account("lab", 1, *below)) == {"ann": 4, "bob": 4, "cid": 4, "dee": 1}


def test_a_user_tied_with_an_account_has_the_rank_of_its_best_user() -> None:
    # 50 for 1 of 2 shares each.
    sub = account("sub", 1, user("x", 20), user("y", 30))
    assert ranks(account("lab", 1, sub, user("ann", 50))) == {"ann": 3, "x": 3, "y": 1}


def test_of_tied_accounts_the_second_begins_at_the_last_rank_of_the_first() -> None:
    one = account("one", 1, user("ann", 20), user("bob", 80))
    two = account("two", 1, user("cid", 40), user("dee", 60))
    assert ranks(one, two) == {"ann": 4, "bob": 3, "cid": 3, "dee": 1}
    assert ranks(two, one) == {"cid": 4, "dee": 3, "ann": 3, "bob": 1}


def test_who_has_used_nothing_is_infinitely_under_served() -> None:
    found = ranked(account("a", 1, user("ann", 0)), account("b", 9, user("bob", 10)))
    assert found.levels[("a", "")] == found.levels[("a", "ann")] == INFINITE
    assert found.ranks == {("a", "ann"): 2, ("a", "bob"): 1}


def test_a_share_of_nothing_comes_last_even_unused() -> None:
    found = ranked(account("a", 0, user("ann", 0)), account("b", 1, user("bob", 10), user("cid", 0, 0)))
    assert found.levels[("a", "")] == found.levels[("a", "cid")] == NOTHING
    assert found.ranks == {("a", "bob"): 3, ("a", "cid"): 2, ("a", "ann"): 1}


def test_a_user_with_parent_comes_first_in_the_account() -> None:
    below = (user("ann", 500, None), user("bob", 1), user("cid", 0))
    assert ranks(account("lab", 1, *below)) == {"ann": 3, "cid": 3, "bob": 1}


def test_an_account_with_parent_hands_its_children_to_the_one_above() -> None:
    inner = account("inner", None, user("ann", 30, 3), account("deep", 2, user("bob", 1)))
    direct = user("cid", 26, 2)
    found = ranked(account("lab", 1, inner, direct))
    assert found.levels[("a", "ann")] == (3 * 57, 7 * 30)
    assert found.levels[("deep", "")] == (2 * 57, 7 * 1)
    assert found.levels[("a", "cid")] == (2 * 57, 7 * 26)
    assert {name: place for (_, name), place in found.ranks.items()} == {"bob": 3, "ann": 2, "cid": 1}


def test_an_empty_tree() -> None:
    assert ranked() == Ranking(0, {}, {})
    assert ranked(account("a", 1)).ranks == {}


# ---- whatever the tree

numbers = st.integers(0, 5) | st.integers(0, 10**6)
shares = st.none() | st.integers(0, 4)


@st.composite
def trees(draw: st.DrawFn, depth: int = 3, prefix: str = "r") -> tuple[Association, ...]:
    made: list[Association] = []
    for n in range(draw(st.integers(1 if prefix == "r" else 0, 4))):
        name = f"{prefix}{n}"
        if depth and draw(st.booleans()):
            below = draw(trees(depth - 1, name))
            made.append(Association((name, ""), draw(shares), sum(one.usage for one in below), below))
        else:
            made.append(Association((prefix, name), draw(shares), draw(numbers)))
    return tuple(made)


def users_of(one: Association) -> list[Key]:
    return [one.key] if one.is_user else [key for below in one.below for key in users_of(below)]


def everybody(siblings: Iterable[Association]) -> Iterator[Association]:
    """Siblings and all that is below them."""
    for one in siblings:
        yield one
        yield from everybody(one.below)


def larger(found: Ranking, one: Key, other: Key) -> bool:
    (a, b), (c, d) = found.levels[one], found.levels[other]
    return a * d > c * b


@example(
    (
        Association(("r", "r0"), None, 0),
        Association(("r1", ""), 0, 0),
        Association(("r2", ""), 0, 0, (Association(("r2", "r20"), None, 0),)),
    )
)
@example(
    (
        Association(("r", "r0"), None, 0),
        Association(("r1", ""), 0, 0, (Association(("r10", ""), 0, 0), Association(("r1", "r11"), 0, 0))),
    )
)
@given(trees())
def test_users_of_a_better_sibling_all_come_before_those_of_a_worse_one(tree: tuple[Association, ...]) -> None:
    found = ranked(*tree)

    def check(siblings: tuple[Association, ...]) -> None:
        with_level = [one for one in siblings if one.shares is not None or one.is_user]
        # An account without users hands a tie with it on to the last user before it, in Slurm as well (test_sshare.py).
        # So does one that is nested in the better or the worse of two siblings.
        handed_on = any(not users_of(one) for one in everybody(siblings))
        for one in with_level:
            for other in with_level:
                if larger(found, one.key, other.key):
                    behind = [found.ranks[a] - found.ranks[b] for a in users_of(one) for b in users_of(other)]
                    assert min(behind, default=1) >= (0 if handed_on else 1), f"{one.key} before {other.key}"
        for one in siblings:
            check(one.below)

    check(tree)


@given(trees())
def test_every_user_has_a_rank_and_ranks_count_those_who_come_before(tree: tuple[Association, ...]) -> None:
    found = ranked(*tree)
    assert set(found.ranks) == {key for one in tree for key in users_of(one)}
    assert found.users == len(found.ranks)
    if found.ranks:
        assert max(found.ranks.values()) == found.users
    for place in found.ranks.values():
        assert place == found.users - sum(1 for other in found.ranks.values() if other > place)


@given(trees(), st.integers(2, 1000))
def test_only_proportions_of_usage_matter(tree: tuple[Association, ...], times: int) -> None:
    def scaled(one: Association) -> Association:
        return Association(one.key, one.shares, one.usage * times, tuple(scaled(below) for below in one.below))

    assert ranked(*map(scaled, tree)).ranks == ranked(*tree).ranks
