"""Fair Tree beside a real Slurm's: the same association trees and the same usage give the same order and factors.

slurmctld, slurmdbd and MariaDB run in a network namespace of these tests' own.
"""

from __future__ import annotations

import math
import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from random import Random

import pytest
from policy_kit import Under

from support.network import own_network
from support.slurmdb import AccountedCluster, accounted
from support.sshare import CONF, ROOT, Known, Row, Shown, grow, put_usage, read, start, stop, tree
from support.world import hosts
from tenure.core.model import HOUR, MINUTE
from tenure.policies.fairtree import Key, Ranking, rank
from tenure.policies.slurm import Slurm, Usage

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AccountedCluster]:
    with ExitStack() as stack:
        try:
            stack.enter_context(own_network())
        except (OSError, subprocess.CalledProcessError) as error:
            fails = bool(os.environ.get("CI")) and os.geteuid() == 0
            (pytest.fail if fails else pytest.skip)(f"no network namespace can be made, which needs root: {error}")
        yield from accounted(tmp_path_factory.mktemp("sshare"), nodes=1, conf=CONF)


def compare(cluster: AccountedCluster, known: tuple[Known, ...]) -> tuple[dict[Key, Shown], Ranking]:
    """Slurm's factors, order and level fair shares are those of the policy's own function."""
    shown = read(cluster)
    ours = rank(tree(known, shown), shown[ROOT, ""].usage)
    people = {key for key in shown if key[1]}
    assert people == set(ours.ranks)
    factors = {key: shown[key].factor for key in people}
    assert factors == {key: round(place / ours.users, 6) for key, place in ours.ranks.items()}
    for key, (above, below) in ours.levels.items():
        level = shown[key].level
        if level is not None:  # `parent` has none
            assert level == pytest.approx(above / below if below else math.inf, rel=1e-5, abs=1e-6), key
    return shown, ours


# ---- written usage


def grown(seed: int) -> list[Row]:
    """A random tree, 1 to 3 accounts deep, in which things are often equal, nothing, or ``parent``."""
    rng, rows = Random(seed), list[Row]()

    def shares(*, deep: bool) -> int | None:
        return rng.choice((0, 1, 1, 2, 3, 10, 37, None if deep else 5))

    def account(parent: str, depth: int) -> None:
        name = f"a{len(rows)}"
        rows.append(Row(name, "", parent, shares(deep=parent != ROOT)))
        for user in rng.sample(range(12), rng.randrange(4)):
            rows.append(Row(name, f"u{user}", "", shares(deep=True)))
        for _ in range(rng.randrange(3) if depth < 3 else 0):
            account(name, depth + 1)

    while len(rows) < 16:
        account(ROOT, 1)
    return rows


USAGE = {"none": (0,), "equal": (0, 500, 500, 500), "any": (0, 0, 1, 70, 3_000, 123_456, 123_457, 9_999_999, 10**9 + 7)}
"""By name: what each user may have used."""


@pytest.mark.parametrize("seed", range(4))
def test_random_trees_and_usage_give_the_order_and_factors_of_sshare(slurm: AccountedCluster, seed: int) -> None:
    known = grow(slurm, grown(seed))
    for kind, values in USAGE.items():
        rng = Random(f"{seed} {kind}")
        put_usage(slurm, known, {one.key: rng.choice(values) for one in known if one.key[1]})
        shown, _ = compare(slurm, known)
        assert (shown[ROOT, ""].usage > 0) == (kind != "none")


def test_ties_are_what_slurm_makes_of_them(slurm: AccountedCluster) -> None:
    """Tied users share a rank. Accounts are not merged, though documented so: one begins where the other ends."""
    usage = {
        ("one", "ann"): 30,
        ("one", "bob"): 30,
        ("one", "cid"): 60,
        ("two", "dee"): 20,
        ("two", "eve"): 100,
        ("three", "fay"): 500,
        ("three", "gus"): 0,
    }
    accounts = [Row(name, "", ROOT, 10) for name in ("one", "two", "three")]
    known = grow(slurm, [*accounts, *(Row(account, user, "", 1) for account, user in usage)])
    put_usage(slurm, known, usage)
    _, ours = compare(slurm, known)
    ranks = ours.ranks
    first, second = ("one", "two") if ranks["one", "ann"] > ranks["two", "dee"] else ("two", "one")
    last = min(place for key, place in ranks.items() if key[0] == first)
    assert last == max(place for key, place in ranks.items() if key[0] == second)
    assert ranks["one", "ann"] == ranks["one", "bob"] > ranks["one", "cid"]
    assert ranks["two", "dee"] > ranks["two", "eve"] > ranks["three", "gus"] > ranks["three", "fay"]


def test_an_account_without_users_hands_its_tie_on(slurm: AccountedCluster) -> None:
    """Nobody of the empty account is there to be tied with, so it is the last user before it."""
    rows = [Row("top", "", ROOT, 1), Row("empty", "", "top", 0), Row("full", "", "top", 0)]
    known = grow(slurm, [*rows, Row("top", "ann", "", None), Row("full", "bob", "", None), Row("full", "cid", "", 1)])
    put_usage(slurm, known, {("full", "cid"): 70})
    _, ours = compare(slurm, known)
    assert ours.ranks == {(ROOT, "root"): 4, ("top", "ann"): 3, ("full", "bob"): 3, ("full", "cid"): 1}


# ---- usage of real jobs


def test_usage_of_real_jobs_gives_the_same_order(slurm: AccountedCluster) -> None:
    """Jobs of root, who is a user of several accounts: others may not look into this directory."""
    accounts = (("lab", ROOT, 1), ("vision", "lab", 3), ("text", "lab", 2), ("idle", "lab", 2))
    people = (
        ("vision", "root", 2),
        ("vision", "ann", 1),
        ("text", "root", 1),
        ("text", "bob", None),
        ("lab", "root", 3),
    )
    rows = [Row(name, "", parent, shares) for name, parent, shares in accounts]
    known = grow(slurm, [*rows, *(Row(account, user, "", shares) for account, user, shares in people)])
    put_usage(slurm, known, {})
    work = (("vision", 3, 1), ("text", 2, 2), ("lab", 1, 1), ("vision", 1, 2))
    for account, gpus, seconds in work:
        options = (f"--account={account}", f"--gres=gpu:{gpus}", "--chdir=/", "--output=/dev/null")
        slurm.run("sbatch", *options, f"--wrap=sleep {seconds}")
    jobs = slurm.base / "log" / "jobcomp.txt"
    slurm._wait(lambda: jobs.read_text().count("JobState=COMPLETED") == len(work), "all jobs have ended")
    stop(slurm)
    start(slurm)
    shown, ours = compare(slurm, known)
    for account in ("vision", "text", "lab"):
        # A GPU counts 1,000 a second.
        least = sum(1000 * gpus * seconds for name, gpus, seconds in work if name == account)
        assert shown[account, "root"].usage >= least
    assert shown["text", "bob"].usage == shown["idle", ""].usage == 0
    assert shown[ROOT, ""].usage == sum(one.usage for key, one in shown.items() if key[1])
    assert ours.ranks["text", "bob"] > ours.ranks["text", "root"]
    # Jobs that wait have the priority that the policy gives for the same ranks.
    slurm.run("scontrol", "update", "partitionname=gpu", "state=down")
    for account in ("text", "lab", "vision"):
        slurm.run("sbatch", f"--account={account}", "--chdir=/", "--output=/dev/null", "--wrap=true")
    lines = slurm.run("squeue", "-h", "-t", "PD", "-S", "-p", "-o", "%a %Q").split()
    waiting = dict(zip(lines[::2], map(int, lines[1::2]), strict=True))
    assert waiting == {name: 10_000 * ours.ranks[name, "root"] // ours.users for name in waiting}
    assert list(waiting) == sorted(waiting, key=lambda name: -ours.ranks[name, "root"]) and len(waiting) == 3
    slurm.run("scancel", "--state=PENDING", "--user=root")
    slurm.run("scontrol", "update", "partitionname=gpu", "state=up")


# ---- usage of a simulation


@pytest.mark.parametrize("half_life", [0, 6 * HOUR])
def test_a_simulated_history_gives_the_order_of_sshare(slurm: AccountedCluster, half_life: int) -> None:
    """The policy's ranks, from what happened under it, are those that Slurm makes of the same usage."""
    policy, rng = Slurm(half_life=half_life), Random(7)
    world = Under(policy, hosts(4), {"lab/a": 0.5, "lab/b": 0.3, "lab/b/x": 0.6, "lab/b/y": 0.4})
    for _ in range(60):
        budget, user = rng.choice(("lab/a", "lab/b/x", "lab/b/y", "lab")), rng.choice(("ann", "bob", "cid"))
        minutes = rng.randrange(10, 300) * MINUTE
        world.submit(budget, rng.choice((1, 4, 8)), user=user, timeout=minutes, grace=0)
        world.wait(rng.randrange(30) * MINUTE)
    at = world.now - world.now % policy.calc_period
    found = Usage(half_life, policy.calc_period).until(world.state, at)
    tree_of = world.state.the_tree()
    # Whole numbers as large as Slurm keeps exactly. In each budget is one who has run nothing.
    scale = max(found.values()) // 10**15 + 1
    usage = {(account_of(leaf), user): used // scale for (leaf, user), used in found.items()}
    usage |= {(account_of(leaf), "nobody"): 0 for leaf in tree_of.leaves()}
    rows = []
    for path, node in sorted(tree_of.nodes.items()):
        if node.parent is not None:
            above = ROOT if node.parent == tree_of.root else account_of(node.parent)
            rows.append(Row(account_of(path), "", above, tree_of.shares(node.parent, "main")[path]))
    known = grow(slurm, [*rows, *(Row(account, user, "", 1) for account, user in sorted(usage))])
    put_usage(slurm, known, usage)
    shown, ours = compare(slurm, known)
    assert len(found) > 10
    for leaf in tree_of.leaves():
        for user in ("ann", "bob", "cid", "nobody"):
            place, users = policy.fair_share(leaf, user)
            key = (account_of(leaf), user if (account_of(leaf), user) in usage else "nobody")
            # Slurm ranks one more, before all others: root, who has used nothing.
            assert (place, users) == (ours.ranks[key], ours.users - 1)
            assert shown[key].factor == round(place / (users + 1), 6)


def account_of(path: str) -> str:
    return path.replace("/", "-")
