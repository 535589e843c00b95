"""Good configurations: what they mean, that they come back from their own dump, what a change does."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from bad_cases import GOOD_BUDGETS, GOOD_CLUSTERS, grant
from hypothesis import given
from hypothesis import strategies as st

from tenure.config import (
    Config,
    ConfigError,
    Slurm,
    check,
    diff,
    dump,
    load,
    needs_machines,
    parse,
    resolve,
    write_sample,
)
from tenure.config.check_budgets import RESERVED
from tenure.config.ranges import expand, fold
from tenure.core.model import DAY, HOUR, MINUTE, SECOND, SHARE_ONE, Budget, Cluster, Grant, Host, Policy
from tenure.core.tree import Tree

EXAMPLES = Path(__file__).parent.parent.parent / "examples"


@dataclass(frozen=True)
class Found:
    name: str
    gpus: int
    cpus: int
    mem: int
    cluster: str = ""


def test_the_sample_is_two_hosts_three_programs_six_projects(tmp_path: Path) -> None:
    paths = write_sample(tmp_path / "new")
    config = load(paths[0])
    assert [(host.name, host.gpus) for host in config.clusters[0].hosts] == [("n01", 8), ("n02", 8)]
    assert [path.count("/") for path in (b.path for b in config.budgets)].count(1) == 3
    assert [path.count("/") for path in (b.path for b in config.budgets)].count(2) == 6
    assert config.server.data_dir == tmp_path / "new" / ".tenure"
    assert config.server.database_url == f"sqlite:///{tmp_path}/new/.tenure/tenure.db"
    assert not needs_machines(config)


def test_the_sample_never_overwrites(tmp_path: Path) -> None:
    (tmp_path / "budgets.toml").write_text("mine")
    with pytest.raises(FileExistsError, match="exists; move it away"):
        write_sample(tmp_path)
    assert not (tmp_path / "tenure.toml").exists()
    assert (tmp_path / "budgets.toml").read_text() == "mine"


@pytest.mark.parametrize("name", ["laptop", "lab"])
def test_examples_load_and_round_trip(name: str) -> None:
    config = load(EXAMPLES / name / "tenure.toml")
    assert parse(*dump(config)) == config
    Tree(config.budgets, config.grants)


def test_the_lab_example_is_128_hosts_of_8_in_racks() -> None:
    config = load(EXAMPLES / "lab" / "tenure.toml")
    hosts = [host for cluster in config.clusters for host in cluster.hosts]
    assert len(hosts) == 128
    assert {host.gpus for host in hosts} == {8}
    assert len({host.label("rack") for host in hosts}) == 16


def test_values_arrive_in_the_units_of_the_core() -> None:
    text = """
[policy]
lookback = "3d"
evictions_per_minute = 5
[clusters.main]
min_runtime_max = "02:00:00"
default_resumable = true
every_host = { gpus = 4, cpus = 16.5, labels = { zone = "z", rack = "none" } }
hosts = [
    { name = "n[08-10]", memory = "1T", labels = { rack = "r1" } },
    { name = "big", gpus = 16, cpus = 64, memory = "1.5T" },
]
"""
    config = parse(text, "[lab]\n[lab.x]\nshare = '12.5%'\ncluster_shares = { main = 1 }\nmembers = ['ada', 'bob']\n")
    cluster = config.clusters[0]
    assert cluster.hosts[1] == Host("n09", 4, 16_500, 1 << 20, (("rack", "r1"), ("zone", "z")))
    assert cluster.hosts[3] == Host("big", 16, 64_000, 3 << 19, (("rack", "none"), ("zone", "z")))
    assert (cluster.min_runtime_max, cluster.default_resumable) == (2 * HOUR, True)
    assert (config.policy.lookback, config.policy.evictions_per_minute) == (3 * DAY, 5)
    assert config.budgets[1] == Budget("lab/x", 125_000, (("main", SHARE_ONE),), (), ("ada", "bob"))


def test_a_cluster_may_have_a_slurm_of_its_own(tmp_path: Path) -> None:
    text = f"""
[server]
executor = "slurm"
[slurm]
partition = "gpu"
root = "/shared/tenure"
commands = "bin"
submit_as = ["sudo", "-n", "-u", "{{user}}", "--"]
[slurm.main]
partition = "big"
conf = "slurm.conf"
{GOOD_CLUSTERS}"""
    (tmp_path / "tenure.toml").write_text(text)
    (tmp_path / "budgets.toml").write_text(GOOD_BUDGETS)
    config = load(tmp_path / "tenure.toml")
    words = ("sudo", "-n", "-u", "{user}", "--")
    assert config.slurm == Slurm("gpu", Path("/shared/tenure"), tmp_path / "bin", submit_as=words)
    assert config.slurm_of == (("main", Slurm("big", conf=tmp_path / "slurm.conf")),)
    filled = Slurm("big", Path("/shared/tenure/on-main"), tmp_path / "bin", tmp_path / "slurm.conf", submit_as=words)
    assert config.slurm_for("main") == filled
    assert parse(*dump(config)).slurm_of == config.slurm_of
    assert parse(*dump(config)).slurm.submit_as == words
    assert "slurm" not in dump(config, server=False)[0]


def test_slurm_has_a_table_of_its_own(tmp_path: Path) -> None:
    text = f"""
[server]
executor = "slurm"
[slurm]
partition = "gpu"
root = "/shared/tenure"
commands = "bin"
{GOOD_CLUSTERS}"""
    (tmp_path / "tenure.toml").write_text(text)
    (tmp_path / "budgets.toml").write_text(GOOD_BUDGETS)
    config = load(tmp_path / "tenure.toml")
    assert config.slurm == Slurm("gpu", Path("/shared/tenure"), tmp_path / "bin")
    assert config.runs == Path("/shared/tenure")
    assert parse(*dump(config)).slurm == config.slurm
    assert "slurm" not in dump(config, server=False)[0]
    assert parse(GOOD_CLUSTERS, GOOD_BUDGETS).runs == Path(".tenure/runs")


def test_shares_are_exact_where_floats_are_not() -> None:
    config = parse(GOOD_CLUSTERS, "[lab]\n[lab.x]\nshare = 0.1\n[lab.y]\nshare = 0.2\n[lab.z]\nshare = 0.7\n")
    assert [b.share for b in config.budgets] == [SHARE_ONE, 100_000, 200_000, 700_000]


def test_what_is_not_set_follows_what_is() -> None:
    text = """
[policy]
lookback = "2h"
[clusters.main]
min_runtime_max = "10m"
max_grace = "5s"
hosts = [{ name = "n1", gpus = 8, cpus = 8, memory = "8G" }]
"""
    config = parse(text, "[lab]")
    cluster, policy = config.clusters[0], config.policy
    assert (policy.recent, policy.entitlement_floor, policy.preemption_margin) == (2 * HOUR, 2 * HOUR, HOUR)
    assert (cluster.min_runtime_floor, cluster.default_min_runtime) == (5 * MINUTE, 10 * MINUTE)
    assert cluster.unallocated_grace == 5 * SECOND
    assert policy.look_every == 5 * MINUTE
    short = parse(f'[policy]\nlookback = "2m"\n{GOOD_CLUSTERS}min_runtime_max = "1m"\n', "[lab]").policy
    assert (short.look_every, short.reserve_ahead) == (2 * MINUTE, 9 * HOUR)


def test_grants_take_native_times_and_text() -> None:
    config = parse(GOOD_CLUSTERS, GOOD_BUDGETS + grant(end='"2026-11-08T02:00:00+02:00"'))
    assert config.grants[0].end - config.grants[0].start == 7 * DAY
    assert parse(*dump(config)).grants == config.grants


def test_a_grant_may_come_from_what_the_parent_kept() -> None:
    # lab/self has 10 % of 16 GPUs, so 268.8 GPU-hours in a week.
    parse(GOOD_CLUSTERS, GOOD_BUDGETS + grant(**{"from": '["lab/self"]', "gpu_hours": "268"}))
    with pytest.raises(ConfigError, match=r"the givers have 268\.8 GPU-hours"):
        parse(GOOD_CLUSTERS, GOOD_BUDGETS + grant(**{"from": '["lab/self"]', "gpu_hours": "269"}))


def test_cpus_and_memory_left_to_the_machine() -> None:
    config = parse('[clusters.main]\nhosts = [{ name = "n[1-2]", gpus = 8 }]', "[lab]")
    assert needs_machines(config)
    assert parse(*dump(config)) == config
    resolved = resolve(config, [Found("laptop", 0, 12_000, 32_768)])
    assert [(h.cpus, h.mem) for h in resolved.clusters[0].hosts] == [(6000, 16_384)] * 2
    named = resolve(config, [Found("n1", 8, 12_000, 32_768), Found("n2", 8, 10_000, 16_384)])
    assert [(h.cpus, h.mem) for h in named.clusters[0].hosts] == [(12_000, 32_768), (10_000, 16_384)]
    with pytest.raises(ConfigError, match=r"clusters\.main\.hosts\.n1\.cpus .* set cpus"):
        resolve(config, [])


def test_discovered_hosts() -> None:
    config = parse("[clusters.main]\nhosts = [{ discover = true, labels = { rack = 'r' } }]", "[lab]")
    assert parse(*dump(config)) == config
    resolved = resolve(config, [Found("box", 2, 12_000, 32_768)])
    assert resolved.clusters[0].hosts == (Host("box", 2, 12_000, 32_768, (("rack", "r"),)),)
    assert not needs_machines(resolved)
    assert parse(*dump(resolved)) == resolved
    with pytest.raises(ConfigError, match="declare slots instead"):
        resolve(config, [Found("laptop", 0, 12_000, 32_768)])


def test_a_discovered_host_is_checked_like_any_other() -> None:
    text = "[clusters.main]\nhosts = [{ discover = true }, { name = 'box', gpus = 1, cpus = 1, memory = '1G' }]"
    with pytest.raises(ConfigError, match="declared before"):
        resolve(parse(text, "[lab]"), [Found("box", 2, 12_000, 32_768)])


def test_how_people_are_told_round_trips_and_paths_are_beside_the_file(tmp_path: Path) -> None:
    notice = (
        '[notice]\ndefault_domain = "lab.example"\nlink = "https://lab.example/{job}"\nsecret_file = "notice.key"\n'
        'webhook_hosts = ["10.0.0.7:80", "hooks.lab"]\nmail_domains = ["lab.example"]\nretry_first = "1m"\n'
        '[notice.smtp]\nhost = "mail"\nport = 465\ntls = "tls"\nuser = "t"\npassword_file = "p"\nfrom = "t@lab"\n'
    )
    config = parse(notice + GOOD_CLUSTERS, GOOD_BUDGETS)
    assert config.notice.smtp.sender == "t@lab" and config.notice.webhook_hosts == ("10.0.0.7:80", "hooks.lab")
    assert parse(*dump(config)) == config
    assert "mail" not in "".join(dump(config, server=False))
    (tmp_path / "tenure.toml").write_text(notice + GOOD_CLUSTERS)
    (tmp_path / "budgets.toml").write_text(GOOD_BUDGETS)
    loaded = load(tmp_path / "tenure.toml")
    assert loaded.notice_key == tmp_path / "notice.key" and loaded.notice.smtp.password_file == tmp_path / "p"
    (tmp_path / "tenure.toml").write_text(GOOD_CLUSTERS)
    assert load(tmp_path / "tenure.toml").notice_key == tmp_path / ".tenure" / "notice.key"


def test_a_dump_for_people_leaves_the_server_out() -> None:
    config = parse(f'[server]\ndatabase = "postgresql://t:s3cret@db/tenure"\n{GOOD_CLUSTERS}', GOOD_BUDGETS)
    assert parse(*dump(config)) == config
    assert "s3cret" not in "".join(dump(config, server=False))


# ----- round trips and checks over arbitrary records


names = st.from_regex(r"[a-z0-9][a-z0-9_-]{0,5}", fullmatch=True).filter(lambda name: name not in {*RESERVED, "self"})
host_names = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,8}", fullmatch=True)


@st.composite
def configs(draw: st.DrawFn) -> Config:
    config = parse(GOOD_CLUSTERS, GOOD_BUDGETS)
    drawn = draw(st.lists(host_names, unique=True, min_size=1, max_size=12))
    hosts = [Host(n, draw(st.integers(1, 2)), draw(st.integers(1, 2000)), 1, (("rack", n[:1]),)) for n in drawn]
    label = draw(st.sampled_from(["", "rack"])) if hosts else ""
    cluster = Cluster(draw(names), tuple(hosts), kill_timeout=draw(st.integers(SECOND, HOUR)), gang_label=label)
    budgets = [Budget(draw(names), SHARE_ONE, members=("ada",))]
    left = {budgets[0].path: SHARE_ONE}
    for name in draw(st.lists(names, max_size=6)):
        parent = draw(st.sampled_from(sorted(left)))
        path = f"{parent}/{name}"
        if path in left:
            continue
        share = draw(st.integers(0, left[parent]))
        left[parent] -= share
        left[path] = SHARE_ONE
        budgets.append(Budget(path, share))
    policy = Policy(evictions_per_minute=draw(st.integers(1, 100)), recent=draw(st.integers(SECOND, DAY)))
    return replace(config, clusters=(cluster,), budgets=tuple(budgets), policy=policy)


@given(configs())
def test_dump_and_parse_round_trip(config: Config) -> None:
    again = parse(*dump(config))
    assert replace(again, budgets=()) == replace(config, budgets=())
    assert sorted(again.budgets, key=lambda b: b.path) == sorted(config.budgets, key=lambda b: b.path)
    assert diff(config, again) == []


@given(st.lists(host_names | st.from_regex(r"n[0-9]{1,3}", fullmatch=True), max_size=30))
def test_fold_and_expand_round_trip(hosts: list[str]) -> None:
    assert [name for folded in fold(hosts) for name in expand(folded)] == hosts


def test_fold_makes_ranges() -> None:
    assert fold(["n08", "n09", "n10", "m1", "m2", "x"]) == ["n[08-10]", "m[1-2]", "x"]
    assert fold(["n9", "n10", "n10"]) == ["n[9-10]", "n10"]


numbers = st.integers(-2, 2**70) | st.sampled_from([0, SHARE_ONE, DAY])
texts = st.text(max_size=6) | names
records = st.builds(
    Budget,
    path=st.lists(texts, min_size=1, max_size=3).map("/".join),
    share=numbers,
    cluster_shares=st.lists(st.tuples(texts, numbers), max_size=2).map(tuple),
    managers=st.lists(texts, max_size=2).map(tuple),
    members=st.just(()),
    moved_from=st.none() | texts,
)
grants_of_anything = st.builds(
    Grant, to=texts, taken_from=st.tuples(texts), amount=numbers, cluster=texts, start=numbers, end=numbers
)
hosts_of_anything = st.builds(
    Host, texts, numbers, numbers, numbers, st.lists(st.tuples(texts, texts), max_size=2).map(tuple)
)
clusters_of_anything = st.builds(
    Cluster,
    name=texts,
    hosts=st.lists(hosts_of_anything, max_size=2).map(tuple),
    min_runtime_floor=numbers,
    min_runtime_max=numbers,
    default_min_runtime=numbers,
    max_grace=numbers,
)
policies_of_anything = st.builds(Policy, lookback=numbers, recent=numbers, backoff_first=numbers, backoff_max=numbers)


@given(
    st.lists(clusters_of_anything, max_size=2),
    policies_of_anything,
    st.lists(records, max_size=4),
    st.lists(grants_of_anything, max_size=2),
)
def test_check_takes_any_records(
    clusters: list[Cluster], policy: Policy, budgets: list[Budget], grants: list[Grant]
) -> None:
    problems = check(clusters, policy, budgets, grants)
    for problem in problems:
        assert problem.file and problem.field and problem.value and problem.remedy
    if not problems:
        Tree(budgets, grants)


# ----- differences


def lines(old: Config, new: Config) -> list[str]:
    return [change.line for change in diff(old, new)]


BASE = parse(GOOD_CLUSTERS, GOOD_BUDGETS)


def test_no_difference() -> None:
    assert diff(BASE, parse(GOOD_CLUSTERS, GOOD_BUDGETS)) == []


def test_a_share_change_says_what_follows() -> None:
    tree = "[lab]\n[lab.a]\nshare = {}\n[lab.a.x]\nshare = 0.7\n[lab.b]\nshare = 0.3\n"
    old, new = (parse(GOOD_CLUSTERS, tree.format(share)) for share in (0.5, 0.4))
    assert lines(old, new) == [
        "budget lab/a: share 50% -> 40% (50% -> 40% of main, 8 -> 6.4 GPUs)",
        "budget lab/a/x: 35% -> 28% of main, 5.6 -> 4.5 GPUs",
    ]


def test_budgets_added_removed_and_moved() -> None:
    old = parse(GOOD_CLUSTERS, "[lab]\n[lab.a]\nshare = 0.5\n[lab.b]\nshare = 0.25\n[lab.c]\nshare = 0.25\n")
    new = parse(
        GOOD_CLUSTERS,
        "[lab]\n[lab.a]\nshare = 0.5\n[lab.a.b]\nshare = 0.5\nmoved_from = 'lab/b'\n[lab.d]\nshare = 0.25\n",
    )
    assert lines(old, new) == [
        "budget lab/b moves to lab/a/b, share 50% (0% -> 25% of main, 0 -> 4 GPUs)",
        "budget lab/c removed; its jobs must have ended",
        "budget lab/d added, share 25% (0% -> 25% of main, 0 -> 4 GPUs)",
    ]


def test_hosts_policy_and_cluster_settings() -> None:
    new = parse(
        '[policy]\npreemption_margin = "30m"\nevictions_per_minute = 9\n[clusters.main]\nmax_grace = "1m"\n'
        'hosts = [{ name = "n[2-5]", gpus = 8, cpus = 64, memory = "512G" }]\n'
        '[clusters.two]\nhosts = [{ name = "m1", gpus = 4, cpus = 8, memory = "64G" }]',
        GOOD_BUDGETS,
    )
    assert lines(BASE, new)[:6] == [
        "policy: preemption_margin 1h -> 30m",
        "policy: evictions_per_minute 60 -> 9",
        "cluster main: max_grace 5m -> 1m",
        "host main/n1 removed: 8 GPUs, 64 CPUs, 512G",
        "host main/n[3-5] added: 8 GPUs, 64 CPUs, 512G",
        "cluster two added: 1 hosts, 4 GPUs",
    ]
    assert lines(new, BASE)[5] == "cluster two removed: 1 hosts, 4 GPUs"


def test_a_label_for_gangs_is_compared_and_written() -> None:
    hosts = 'hosts = [{ name = "n1", gpus = 8, cpus = 64, memory = "512G", labels = { rack = "r1" } }]'
    old, new = (parse(f"[clusters.main]\n{label}{hosts}", GOOD_BUDGETS) for label in ("", 'gang_label = "rack"\n'))
    assert lines(old, new) == ["cluster main: gang_label (none) -> rack"]
    assert lines(new, old) == ["cluster main: gang_label rack -> (none)"]
    assert 'gang_label = "rack"' in dump(new)[0] and "gang_label" not in dump(old)[0]


def test_settings_of_reservations_are_compared_and_written_in_their_units() -> None:
    text = """[policy]
packing = true
reserved_percent = 20
reserve_from = 16
reserve_margin_percent = 0
reserve_ahead = "2d"
look_every = "10s"
headroom_percent = 5
"""
    new = parse(text + GOOD_CLUSTERS, GOOD_BUDGETS)
    assert lines(BASE, new) == [
        "policy: packing false -> true",
        "policy: reserved_percent 0 -> 20",
        "policy: reserve_from 0 -> 16",
        "policy: reserve_ahead 9h -> 2d",
        "policy: reserve_margin_percent 100 -> 0",
        "policy: look_every 5m -> 10s",
        "policy: headroom_percent 3 -> 5",
    ]
    clusters, budgets = dump(new)
    assert all(line in clusters for line in text.splitlines())
    assert parse(clusters, budgets).policy == new.policy


def test_people_cluster_shares_and_grants() -> None:
    text = GOOD_BUDGETS + "members = ['ada']\ncluster_shares = { main = '10%' }\n" + grant(gpu_hours="5")
    changed = lines(BASE, parse(GOOD_CLUSTERS, text))
    assert changed == [
        "budget lab/vision: cluster_shares - -> main 10% (40% -> 10% of main, 6.4 -> 1.6 GPUs)",
        "budget lab/vision: members - -> ada",
        "grant added: 5 GPU-hours of main to lab/language from lab/vision, "
        "2026-11-01T00:00:00Z to 2026-11-08T00:00:00Z",
    ]
    assert lines(parse(GOOD_CLUSTERS, text), BASE)[-1].startswith("grant withdrawn: 5 GPU-hours")
