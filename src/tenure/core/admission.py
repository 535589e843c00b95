"""What is refused before it is accepted: jobs that could never run, configurations that would pull hosts from under
running jobs. Each refusal names the field, its value and what would work.
"""

from __future__ import annotations

from difflib import get_close_matches

from tenure.core.events import ConfigApplied
from tenure.core.model import GPU, HOUR, MINUTE, SECOND, SELF, Cluster, Host, JobSpec
from tenure.core.placement import Room, possible
from tenure.core.reasons import Reason, Refusal
from tenure.core.state import ClusterState, State
from tenure.core.tree import Tree, moves


def check_job(state: State, spec: JobSpec) -> None:
    """Raises Refusal when the job, with all defaults filled in, could never run or may not."""
    tree = state.the_tree()
    _check_budget(tree, spec)
    _check_roles(spec)
    if not spec.clusters:
        known = ", ".join(sorted(state.clusters))
        raise Refusal(Reason.UNKNOWN_CLUSTER, "clusters", "(none)", f"name at least one of: {known}")
    for name in spec.clusters:
        cluster = state.clusters.get(name)
        if cluster is None:
            raise Refusal(Reason.UNKNOWN_CLUSTER, "clusters", name, _known(name, "cluster", list(state.clusters)))
        _check_size(cluster, spec)
        _check_contract(cluster.spec, spec)
    if spec.charged:
        _check_shares(state, spec)


def _check_budget(tree: Tree, spec: JobSpec) -> None:
    node = tree.nodes.get(spec.budget)
    if node is None:
        fix = _known(spec.budget, "budget", list(tree.budgets))
        raise Refusal(Reason.UNKNOWN_BUDGET, "budget", spec.budget, fix)
    if node.budget is None:
        fix = f"name {node.parent}: jobs charged to it are in its {SELF}"
        raise Refusal(Reason.UNKNOWN_BUDGET, "budget", spec.budget, fix)
    line = [tree.budgets[path] for path in reversed(tree.line(spec.budget))]
    managers = list(dict.fromkeys(manager for budget in line for manager in budget.managers))
    if spec.user in managers:
        return
    closed = next((budget for budget in line if budget.members), None)  # the nearest list decides
    if closed is not None and spec.user not in closed.members:
        ask = f"; ask {', '.join(managers)}" if managers else ""
        fix = f"{spec.user} is not a member of {closed.path}; use a budget that you are a member of{ask}"
        raise Refusal(Reason.NOT_A_MEMBER, "budget", spec.budget, fix)


def _check_roles(spec: JobSpec) -> None:
    if not spec.roles:
        raise Refusal(Reason.BAD_VALUE, "roles", "(none)", "a job has at least one role")
    for i, role in enumerate(spec.roles):
        for field, value, least in (
            ("replicas", role.replicas, 1),
            ("gpus", role.gpus, 0),
            ("cpus", role.cpus, 0),
            ("mem", role.mem, 0),
        ):
            if value < least:
                raise Refusal(Reason.BAD_VALUE, f"roles[{i}].{field}", str(value), f"must be at least {least}")
    if spec.gpus < 1:
        raise Refusal(Reason.BAD_VALUE, "gpus", "0", "a job needs at least one GPU; set gpus to 1 or more")
    for name, duration in (("min_runtime", spec.contract.min_runtime), ("grace", spec.grace)):
        if duration < 0:
            raise Refusal(Reason.BAD_VALUE, name, f"{duration} ms", "must be 0 or more")
    if spec.retries < 0:
        raise Refusal(Reason.BAD_VALUE, "retries", str(spec.retries), "must be 0 or more")
    if spec.timeout is not None and spec.timeout <= 0:
        raise Refusal(
            Reason.BAD_VALUE, "timeout", f"{spec.timeout} ms", "must be more than 0; leave it out for no limit"
        )


def _check_size(at: ClusterState, spec: JobSpec) -> None:
    cluster, total, (gpus, cpus, mem) = at.spec, at.empty.free_gpus, at.empty.most
    if spec.gpus > total:
        fix = f"cluster {cluster.name} has {total} GPUs; ask for at most {total}"
        raise Refusal(Reason.TOO_MANY_GPUS, "gpus", str(spec.gpus), fix)
    for i, role in enumerate(spec.roles):
        for name, value, limit, show in (
            ("gpus", role.gpus, gpus, str),
            ("cpus", role.cpus, cpus, _cpus),
            ("mem", role.mem, mem, _memory),
        ):
            if value > limit:
                fix = f"a replica is on one host, and the largest of cluster {cluster.name} has {show(limit)}"
                more = "; use more replicas of fewer GPUs" if name == "gpus" else f"; ask for at most {show(limit)}"
                raise Refusal(Reason.REPLICA_TOO_LARGE, f"roles[{i}].{name}", show(value), fix + more)
    for label in spec.labels:
        there = sorted({named for host in cluster.hosts if (named := host.label(label.key)) is not None})
        if label.required and (not there or (label.value is not None and label.value not in there)):
            wanted = label.key if label.value is None else f"{label.key}={label.value}"
            has = f"its hosts have {label.key} = {', '.join(there)}" if there else _label_keys(cluster)
            raise Refusal(Reason.NO_SUCH_LABEL, "labels", wanted, f"no host of cluster {cluster.name} has it; {has}")
    misfit = possible(at.empty, spec.roles, spec.labels)
    if misfit is not None:
        role = spec.roles[misfit.role]
        fix = f"even empty, cluster {cluster.name} has room for {misfit.placed} replicas of role {role.name}"
        why = " on hosts with the required labels" if misfit.fits_without_labels else ""
        raise Refusal(Reason.TOO_MANY_GPUS, f"roles[{misfit.role}].replicas", str(role.replicas), fix + why)


def _label_keys(cluster: Cluster) -> str:
    keys = sorted({key for host in cluster.hosts for key, _ in host.labels})
    return f"labels there are: {', '.join(keys)}" if keys else "its hosts have no labels"


def _check_contract(cluster: Cluster, spec: JobSpec) -> None:
    wanted = spec.contract.min_runtime
    shown = _duration(wanted)
    if wanted > cluster.min_runtime_max:
        fix = f"cluster {cluster.name} protects for at most {_duration(cluster.min_runtime_max)}"
        raise Refusal(Reason.MIN_RUNTIME_ABOVE_MAX, "min_runtime", shown, fix)
    if 0 < wanted < cluster.min_runtime_floor:
        fix = f"use 0 (free, always evictable) or at least {_duration(cluster.min_runtime_floor)}"
        raise Refusal(Reason.MIN_RUNTIME_BELOW_FLOOR, "min_runtime", shown, fix)
    if spec.timeout is not None and wanted > spec.timeout:
        fix = f"the job's own timeout is {_duration(spec.timeout)}; raise it or lower min_runtime to at most that"
        raise Refusal(Reason.MIN_RUNTIME_ABOVE_TIMEOUT, "min_runtime", shown, fix)
    if spec.grace > cluster.max_grace:
        fix = f"cluster {cluster.name} gives at most {_duration(cluster.max_grace)}"
        raise Refusal(Reason.GRACE_ABOVE_MAX, "grace", _duration(spec.grace), fix)


def _check_shares(state: State, spec: JobSpec) -> None:
    """Charged jobs need a share somewhere, and no contract may be worth more than a lookback of it."""
    tree = state.the_tree()
    leaf = tree.leaf_of(spec.budget)
    funded = [name for name in spec.clusters if state.clusters[name].ledger.account(leaf).allocation > 0]
    if not funded:
        managers = [m for path in reversed(tree.line(spec.budget)) for m in tree.budgets[path].managers]
        ask = f"ask {', '.join(dict.fromkeys(managers))} for a share" if managers else "ask an operator for a share"
        fix = f"it has no share of {', '.join(spec.clusters)}: submit with min_runtime 0 (free, evictable), or {ask}"
        raise Refusal(Reason.NO_SHARE, "budget", spec.budget, fix)
    lookback, wanted = state.policy.lookback, spec.contract.min_runtime
    offers = [
        (worth_of(state.clusters[name], tree, leaf, lookback), amount_of(state.clusters[name].empty, spec))
        for name in funded
    ]
    if any(worth >= amount * wanted for worth, amount in offers):
        return
    best, amount = max(offers, key=lambda offer: offer[0])
    by_gpus = amount == spec.gpus * GPU
    charged = f"{spec.gpus} GPUs" if by_gpus else f"{amount / GPU:g} GPUs (what its CPUs and memory are charged as)"
    other = f"{best // (wanted * GPU)} GPUs" if by_gpus else "fewer CPUs and less memory"
    fix = (
        f"{charged} x {_duration(wanted)} is more than the budget's whole entitlement "
        f"over {_duration(lookback)} ({best // (GPU * HOUR)} GPU-hours); "
        f"a min_runtime of {_duration(best // amount // MINUTE * MINUTE)} or {other} would fit"
    )
    raise Refusal(Reason.CONTRACT_ABOVE_ENTITLEMENT, "min_runtime", _duration(wanted), fix)


def amount_of(empty: Room, spec: JobSpec) -> int:
    """What the job is charged on empty hosts, in thousandths of a GPU."""
    slots = empty.place(spec.roles, spec.labels)
    return spec.gpus * GPU if slots is None else empty.amount(slots)


def worth_of(cluster: ClusterState, tree: Tree, leaf: str, lookback: int) -> int:
    """A leaf's entitlement over one lookback with today's values: thousandths of a GPU x ms."""
    gpus = cluster.empty.free_gpus
    return cluster.ledger.account(leaf).allocation * gpus * GPU * lookback // tree.denominator(leaf)


def check_config(state: State, event: ConfigApplied) -> None:
    """Raises Refusal when the configuration would take hosts, clusters or budgets from under live jobs."""
    clusters = {cluster.name: cluster for cluster in event.clusters}
    for name, cluster in state.clusters.items():
        if name not in clusters:
            users = [a.id for a in state.attempts.values() if a.cluster == name]
            users += [str(j.id) for j in state.jobs.values() if not j.state.active and set(j.spec.clusters) == {name}]
            if users:
                raise Refusal(Reason.CLUSTER_IN_USE, f"clusters.{name}", "(removed)", _busy(users))
            continue
        hosts = {host.name: host for host in clusters[name].hosts}
        for host in cluster.spec.hosts:
            _check_host(cluster, host, hosts.get(host.name))
    _check_budgets(state, event)


def _check_host(cluster: ClusterState, old: Host, new: Host | None) -> None:
    users = sorted(cluster.on_host[old.name])
    if users and (new is None or (new.gpus, new.cpus, new.mem) != (old.gpus, old.cpus, old.mem)):
        field = f"clusters.{cluster.spec.name}.hosts.{old.name}"
        value = "(removed)" if new is None else f"{new.gpus} GPUs"
        raise Refusal(Reason.HOST_IN_USE, field, value, _busy(users) + "; drain the host first")


def _check_budgets(state: State, event: ConfigApplied) -> None:
    tree = Tree(event.budgets, event.grants)
    moved = moves(tree.budgets, state.the_tree().budgets) if state.tree is not None else {}
    for job in state.jobs.values():
        new = job.budget
        for ancestor in reversed(state.the_tree().line(job.budget)) if state.tree is not None else ():
            if ancestor in moved:
                new = moved[ancestor] + job.budget[len(ancestor) :]
                break
        if new not in tree.budgets:
            fix = (
                f"job {job.id} is charged to it; cancel it, or say moved_from = {job.budget!r} where the budget is now"
            )
            raise Refusal(Reason.BUDGET_IN_USE, f"budgets.{job.budget}", "(removed)", fix)


def _busy(users: list[str]) -> str:
    more = f" and {len(users) - 3} more" if len(users) > 3 else ""
    return f"in use by {', '.join(users[:3])}{more}; wait for them or cancel them"


def _known(value: str, what: str, known: list[str]) -> str:
    close = get_close_matches(value, known, n=1, cutoff=0.6)
    if close:
        return f"there is no such {what}; did you mean {close[0]}?"
    listed = ", ".join(sorted(known)[:8])
    return f"there is no such {what}; there are: {listed}{', ...' if len(known) > 8 else ''}"


def _duration(ms: int) -> str:
    """``2h30m``: for messages, exact to the second."""
    seconds = ms // SECOND
    parts = [(seconds // 86_400, "d"), (seconds // 3_600 % 24, "h"), (seconds // 60 % 60, "m"), (seconds % 60, "s")]
    return "".join(f"{count}{unit}" for count, unit in parts if count) or "0"


def _cpus(thousandths: int) -> str:
    """``1.5 CPUs``."""
    return f"{thousandths / 1000:g} CPUs"


def _memory(mib: int) -> str:
    """``512G`` or ``1500M``: exact."""
    return f"{mib // 1024}G" if mib % 1024 == 0 else f"{mib}M"
