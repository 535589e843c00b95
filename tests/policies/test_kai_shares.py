"""How KAI Scheduler divides resources: the tables of its own tests, the examples of its pages, and what always holds.

Names of cases are those of ``resource_division_test.go`` and ``proportion_test.go`` of its plugin ``proportion``.
"""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tenure.policies.kai_shares import Memory, Queue, divide, divide_tree, portions


def queue(name: str, deserved: int | None, weight: int, request: int, limit: int | None = None, **more: int) -> Queue:
    return Queue(name, request, deserved, weight, limit, **more)


def both(first: Queue, second: Queue) -> list[Queue]:
    return [first, second]


# ---- resource_division_test.go

SINGLE = [
    ("gives requested GPUs - no remaining", 2, queue("1", 3, 0, 2), 2, 0),
    ("gives requested GPUs with remaining", 3, queue("1", 3, 0, 2), 2, 1),
    ("doesn't give more GPUs than allowed", 3, queue("1", 3, 0, 2, limit=2), 2, 1),
    ("gives up to deserved when over subscribed", 1, queue("1", 3, 0, 2), 2, 0),
    ("gives up to full quota", 7, queue("1", 3, 0, 5), 3, 4),
    ("doesn't give if deserved is zero", 2, queue("1", 0, 0, 2), 0, 2),
    # over quota: there 3 have been given before
    ("over quota: gives requested GPUs no remaining", 5, queue("1", 3, 1, 5), 5, 0),
    ("over quota: gives requested GPUs with remaining", 6, queue("1", 3, 1, 5), 5, 1),
    ("over quota: doesn't give more GPUs than allowed", 5, queue("1", 3, 1, 5, limit=4), 4, 1),
    ("over quota: doesn't give when over quota weight is zero", 5, queue("1", 3, 0, 5), 3, 2),
    ("over quota: gives when deserved is zero", 6, queue("1", 0, 1, 5), 5, 1),
    ("over quota: zero resources to divide", 3, queue("1", 3, 1, 5), 3, 0),
    ("CPU: gives requested CPUs to queue", 3000, queue("1", 3000, 3000, 2000), 2000, 1000),
    ("CPU: gives deserved in over subscription", 1000, queue("1", 3000, 3000, 2000), 2000, 0),
]


@pytest.mark.parametrize(("total", "one", "share", "left"), [case[1:] for case in SINGLE], ids=[c[0] for c in SINGLE])
def test_single_queue(total: int, one: Queue, share: int, left: int) -> None:
    assert divide(total, [one]) == ({"1": share}, left)


THOUSANDTHS = [
    ("gives with fraction, if stated in deserved", 2000, queue("1", 1500, 0, 2000), 1500, 500),
    ("gives with fraction, if stated in request", 2000, queue("1", 3000, 0, 1500), 1500, 500),
    ("gives with fraction if requested", 5000, queue("1", 3000, 1, 4500), 4500, 500),
    ("gives remainder fraction", 3500, queue("1", 3000, 1, 5000), 3500, 0),
]


@pytest.mark.parametrize(
    ("total", "one", "share", "left"), [case[1:] for case in THOUSANDTHS], ids=[c[0] for c in THOUSANDTHS]
)
def test_fractions_of_gpus(total: int, one: Queue, share: int, left: int) -> None:
    assert divide(total, [one], unit=1000) == ({"1": share}, left)


def two(weights: tuple[int, int] = (2, 2), priorities: tuple[int, int] = (0, 0), **more: object) -> list[Queue]:
    """The queues of the table "two queues": each deserves 2 and asks for 6."""
    requests, limits = more.get("requests", (6, 6)), more.get("limits", (None, None))
    return [
        Queue(str(n + 1), requests[n], 2, weights[n], limits[n], priorities[n])  # type: ignore[index]
        for n in range(2)
    ]


TWO = [
    ("allocates many available gpus", 15, two(), (6, 6), 3),
    ("allocates exact requested amount gpus", 12, two(), (6, 6), 0),
    ("allocates GPUs proportionally", 8, two((1, 3)), (3, 5), 0),
    ("doesn't allocate more than allowed", 12, two(limits=(5, None)), (5, 6), 1),
    ("distributes remainder based on largest remaining", 11, two((1, 4), requests=(10, 10)), (3, 8), 0),
    ("distributes remainder based on creation time", 11, two(), (6, 5), 0),
    ("priority doesn't affect deserved", 4, two(priorities=(1, 2)), (2, 2), 0),
    ("priority does affect over-quota", 6, two(priorities=(1, 2)), (2, 4), 0),
    ("priority does affect over-quota, even when overQuotaWeight is set", 6, two((100, 1), (1, 2)), (2, 4), 0),
    (
        "reclaims all resources of queue 2",
        10000,
        both(queue("1", 5000, 5000, 10000), queue("2", 0, 0, 5000)),
        (10000, 0),
        0,
    ),
    (
        "Request more than total with same Over Quota and deserved - divide evenly",
        10,
        both(queue("1", 1, 1, 8), queue("2", 1, 1, 8)),
        (5, 5),
        0,
    ),
    (
        "Request more than total with different Over Quota",
        1000,
        both(queue("1", 250, 1, 5000), queue("2", 150, 2, 5000)),
        (450, 550),
        0,
    ),
    (
        "Request more than total with different Over Quota and max allowed",
        1000,
        both(queue("1", 250, 1, 5000), queue("2", 150, 2, 5000, limit=400)),
        (600, 400),
        0,
    ),
    ("divide last remaining GPU based to similar queues", 5, both(queue("1", 2, 2, 3), queue("2", 2, 2, 3)), (3, 2), 0),
]


@pytest.mark.parametrize(("total", "queues", "shares", "left"), [case[1:] for case in TWO], ids=[c[0] for c in TWO])
def test_two_queues(total: int, queues: list[Queue], shares: tuple[int, int], left: int) -> None:
    assert divide(total, queues) == (dict(zip("12", shares, strict=True)), left)


def three(deserved: int, weights: tuple[int, int, int], requests: tuple[int, int, int]) -> list[Queue]:
    return [queue(str(n + 1), deserved, weights[n], requests[n]) for n in range(3)]


EVEN = (1, 1, 1)
THREE = [
    ("all queues get their deserved - over subscription", 10000, three(5000, EVEN, (5000,) * 3), (5000,) * 3),
    ("all queues get their deserved - over quota", 18000, three(5000, EVEN, (6000,) * 3), (6000,) * 3),
    ("reclaims unneeded resources", 10000, three(5000, EVEN, (7000, 2000, 2000)), (6000, 2000, 2000)),
    ("reclaims from both allocated queues", 10000, three(5000, EVEN, (7000, 5000, 2000)), (5000, 5000, 2000)),
    ("divide resource evenly queues", 9999, three(1000, EVEN, (10000,) * 3), (3333,) * 3),
    ("different over quota", 9999, three(0, (6, 2, 1), (10000,) * 3), (6666, 2222, 1111)),
]


@pytest.mark.parametrize(("total", "queues", "shares"), [case[1:] for case in THREE], ids=[c[0] for c in THREE])
def test_three_queues(total: int, queues: list[Queue], shares: tuple[int, int, int]) -> None:
    assert divide(total, queues) == (dict(zip("123", shares, strict=True)), 0)


def test_fractional_fair_share() -> None:
    queues = [queue("1", 12_000, 12, 32_550), queue("2", 7_000, 7, 9_500), queue("3", 2_000, 2, 1_650, limit=2_000)]
    assert divide(45_000, queues, unit=1000)[0] == {"1": 32_550, "2": 9_500, "3": 1_650}


def test_divides_the_remainder_even_when_using_priorities() -> None:
    queues = [queue("1", 2, 2, 5, priority=2), queue("2", 2, 2, 5, priority=2), queue("3", 1, 2, 0, priority=1)]
    assert divide(5, queues) == ({"1": 3, "2": 2, "3": 0}, 0)


def test_does_not_give_rounding_remainder_to_lower_priority_queues() -> None:
    queues = [*(queue(name, 1, 1, 5, priority=2) for name in ("high-1", "high-2")), queue("low-1", 1, 1, 5, priority=1)]
    assert divide(6, queues) == ({"high-1": 3, "high-2": 2, "low-1": 1}, 0)


# ---- proportion_test.go: two levels

ONES = dict.fromkeys(("d1", "q1", "d2", "q2"), 1)
LEVELS = [
    ("sanity", 4, {}, {}, {}, (2, 2, 2, 2)),
    ("deserved department quota", 4, {"d1": 3, "d2": 1}, {}, {}, (3, 3, 1, 2)),  # what q2 deserves is over subscribed
    ("over-quota", 12, {"d1": 3, "d2": 1}, {}, {}, (7, 7, 5, 5)),
    ("over-quota weight", 12, {"d1": 3, "d2": 1}, {"d1": 1, "d2": 7}, {}, (4, 4, 8, 8)),
    ("over-quota weight - reversed", 12, {"d1": 3, "d2": 1}, {"d1": 7, "d2": 1}, {}, (10, 10, 2, 2)),
    ("priority", 12, ONES, {"d1": 7}, {"d1": 1, "d2": 2}, (1, 1, 11, 11)),
    ("priority - reversed", 12, ONES, {"d2": 7}, {"d1": 2, "d2": 1}, (11, 11, 1, 1)),
]


@pytest.mark.parametrize(
    ("total", "deserved", "weights", "priorities", "shares"), [case[1:] for case in LEVELS], ids=[c[0] for c in LEVELS]
)
def test_two_top_parent_queues(
    total: int,
    deserved: dict[str, int],
    weights: dict[str, int],
    priorities: dict[str, int],
    shares: tuple[int, int, int, int],
) -> None:
    def made(name: str, below: tuple[Queue, ...] = ()) -> Queue:
        return Queue(name, 100, deserved.get(name, 2), weights.get(name, 1), None, priorities.get(name, 0), below=below)

    tops = [made("d1", (made("q1"),)), made("d2", (made("q2"),))]
    found = divide_tree(total, tops)
    assert [found[name] for name in ("d1", "q1", "d2", "q2")] == list(shares)


def test_children_divide_what_their_parent_has() -> None:
    """Of ``TestSetFairShare``: "two top parent queues"."""
    tops = [
        Queue("t1", 2, 2, 0, below=(Queue("c1", 1, 1, 0), Queue("c2", 1, 1, 0))),
        Queue("t2", 2, 2, 0, below=(Queue("c3", 0, 0, 0), Queue("c4", 2, 1, 1))),
    ]
    assert divide_tree(4, tops) == {"t1": 2, "c1": 1, "c2": 1, "t2": 2, "c3": 0, "c4": 2}


# ---- past usage: its tests of the division have none, so these follow the formula of its design document

CLUSTER = 100


def weights_and_usage(*pairs: tuple[int, int]) -> list[Queue]:
    """Queues that ask for everything, with a weight and used per cent of the cluster each."""
    return [Queue(chr(97 + n), 10**9, 0, weight, used=used) for n, (weight, used) in enumerate(pairs)]


@pytest.mark.parametrize(
    ("percent", "pairs", "shares"),
    [
        (0, ((1, 100), (1, 0)), (50, 50)),  # usage counts for nothing
        (100, ((1, 0), (3, 0)), (25, 75)),  # nothing used: as without
        (100, ((1, 100), (1, 0)), (0, 100)),  # 1/2 + 1 (1/2 - 1) = 0
        (50, ((1, 100), (1, 0)), (25, 75)),  # 1/2 + 1/2 (1/2 - 1) = 1/4 against 3/4
        (100, ((1, 60), (1, 40)), (40, 60)),  # 0.4 against 0.6
        (100, ((1, 24), (1, 0)), (43, 57)),  # 0.76 / 1.76 is 43.2 %, and 56.8 %
        (300, ((1, 80), (1, 20), (2, 0)), (0, 17, 83)),  # 1 - 2.4 is 0; 1 - 0.6 = 0.4 against 2: 16.7 %, 83.3 %
    ],
)
def test_past_usage_takes_from_what_is_over_quota(
    percent: int, pairs: tuple[tuple[int, int], ...], shares: tuple[int, ...]
) -> None:
    found, left = divide(100, weights_and_usage(*pairs), Memory(percent, CLUSTER))
    assert tuple(found.values()) == shares and not left


def test_who_has_used_all_keeps_the_quota() -> None:
    queues = [Queue("a", 100, 30, 1, used=100), Queue("b", 100, 0, 1)]
    assert divide(100, queues, Memory(100, CLUSTER))[0] == {"a": 30, "b": 70}


def test_usage_is_a_part_of_the_cluster_on_every_level() -> None:
    """So it counts for less further down: the two below have used all that their parent did, half of the cluster."""
    below = (Queue("x", 100, 0, 1, used=50), Queue("y", 100, 0, 1))
    tops = [Queue("p", 100, 0, 1, used=50, below=below), Queue("q", 100, 0, 1, used=50)]
    found = divide_tree(100, tops, Memory(100, CLUSTER))
    assert found == {"p": 50, "q": 50, "x": 17, "y": 33}


# ---- what always holds

queues_of = st.lists(
    st.builds(
        Queue,
        st.just(""),
        st.integers(0, 60),
        st.one_of(st.none(), st.integers(0, 30)),
        st.integers(0, 5),
        st.one_of(st.none(), st.integers(0, 40)),
        st.integers(0, 2),
        st.integers(0, 100),
    ),
    min_size=1,
    max_size=6,
).map(lambda made: [Queue(str(n), *(getattr(q, f) for f in _FIELDS)) for n, q in enumerate(made)])
_FIELDS = ("request", "deserved", "weight", "limit", "priority", "used")
memories = st.builds(Memory, st.sampled_from((0, 30, 100, 1000)), st.just(100))


def granted(total: int, one: Queue) -> int:
    return min(total if one.deserved is None else one.deserved, one.wants)


@given(st.integers(0, 120), queues_of, memories)
def test_nobody_has_less_than_the_quota_nor_more_than_is_asked_for(
    total: int, queues: list[Queue], past: Memory
) -> None:
    shares, _ = divide(total, queues, past)
    for one in queues:
        assert granted(total, one) <= shares[one.name] <= one.wants


@given(st.integers(0, 120), queues_of, memories)
def test_shares_are_at_most_the_total_unless_quotas_are_more(total: int, queues: list[Queue], past: Memory) -> None:
    shares, left = divide(total, queues, past)
    quotas = sum(granted(total, one) for one in queues)
    assert sum(shares.values()) + left == max(total, quotas) and left >= 0


@given(st.integers(0, 120), queues_of, memories)
def test_nothing_is_left_while_somebody_with_a_weight_wants_more(total: int, queues: list[Queue], past: Memory) -> None:
    """As long as usages are parts of one cluster: else everybody may have used too much to get anything."""
    assume(sum(one.used for one in queues) <= past.capacity)
    shares, left = divide(total, queues, past)
    for one in queues:
        assert not left or not one.weight or shares[one.name] == one.wants


@given(st.integers(0, 120), queues_of, memories)
def test_a_lower_priority_gets_nothing_over_quota_before_a_higher_one_has_enough(
    total: int, queues: list[Queue], past: Memory
) -> None:
    assume(sum(one.used for one in queues) <= past.capacity)
    shares, _ = divide(total, queues, past)
    over = [one.priority for one in queues if shares[one.name] > granted(total, one)]
    for one in queues:
        if one.weight and shares[one.name] < one.wants:
            assert all(priority >= one.priority for priority in over)


def test_with_fractions_somebody_may_get_less_than_a_gpu_more_than_is_asked_for() -> None:
    """So it is in the source: what rounding left is given out by whole GPUs, whatever is still wanted."""
    queues = [queue("1", 0, 19, 1_950), queue("2", 0, 11, 9_000)]
    assert divide(3_000, queues, unit=1000)[0] == {"1": 2_000, "2": 1_000}


# ---- no monopolist: what holds under k in a flat tree whose queues ask for everything, before rounding to whole GPUs

FINE = 10**12
"""A total so large that rounding does not matter: a share is a part of it, give or take one."""
flat = st.lists(st.tuples(st.integers(1, 9), st.integers(0, 100)), min_size=2, max_size=6)
ks = st.sampled_from((0, 10, 50, 100, 300, 2000))


def parts(pairs: list[tuple[int, int]], percent: int) -> list[Fraction]:
    found = portions(weights_and_usage(*pairs), Memory(percent, CLUSTER)).values()
    return [Fraction(each, sum(found)) for each in found]


@given(flat, ks)
def test_who_has_used_nothing_gets_at_least_what_the_weights_say(pairs: list[tuple[int, int]], percent: int) -> None:
    assume(sum(used for _, used in pairs) <= CLUSTER)
    whole = sum(weight for weight, _ in pairs)
    for (weight, used), share in zip(pairs, parts(pairs, percent), strict=True):
        assert used or share >= Fraction(weight, whole)


@given(flat, ks)
def test_who_has_used_more_than_the_weights_say_gets_no_more_than_they_say(
    pairs: list[tuple[int, int]], percent: int
) -> None:
    everything, whole = sum(used for _, used in pairs), sum(weight for weight, _ in pairs)
    assume(0 < everything <= CLUSTER)
    for (weight, used), share in zip(pairs, parts(pairs, percent), strict=True):
        if Fraction(used, everything) >= Fraction(weight, whole):
            assert share <= Fraction(weight, whole)


def test_who_has_used_less_than_the_weights_say_may_still_get_less_than_they_say() -> None:
    """With three queues: one that has used nothing takes what another is denied."""
    shares = parts([(1, 67), (1, 33), (1, 0)], 1000)
    assert shares[0] == 0 and shares[1] < Fraction(1, 10) < Fraction(1, 3)


@given(flat, ks)
def test_nobody_gets_everything_while_somebody_else_has_used_less_than_the_weights_say(
    pairs: list[tuple[int, int]], percent: int
) -> None:
    assume(sum(used for _, used in pairs) <= CLUSTER)
    whole = sum(weight for weight, _ in pairs)
    shares = parts(pairs, percent)
    for one, share in enumerate(shares):
        others = [pair for n, pair in enumerate(pairs) if n != one]
        if any(Fraction(used, CLUSTER) < Fraction(weight, whole) for weight, used in others):
            assert share < 1


@settings(max_examples=30)
@given(st.integers(1, 9), st.integers(1, 9), st.integers(0, 100), st.sampled_from((10, 50, 100, 300)))
def test_two_queues_that_always_ask_for_everything_come_to_have_what_the_weights_say(
    first: int, second: int, used: int, percent: int
) -> None:
    """If each always holds its share: the distance of usage from the weights shrinks with every step of forgetting."""
    goal, pace = Fraction(first, first + second), Fraction(1, 10)
    assert pace * (100 + percent) <= 100  # no step is so large that it goes too far
    usage = Fraction(used, 100)
    for _ in range(45):
        grain = 10**6
        mine = int(usage * grain)
        queues = [Queue("a", FINE, 0, first, used=mine), Queue("b", FINE, 0, second, used=grain - mine)]
        shares, _ = divide(FINE, queues, Memory(percent, grain))
        after = usage + pace * (Fraction(shares["a"], FINE) - usage)
        assert abs(after - goal) <= (1 - pace) * abs(usage - goal) + Fraction(1, 10**5)
        usage = after.limit_denominator(10**9)
    assert abs(usage - goal) < Fraction(1, 50)
