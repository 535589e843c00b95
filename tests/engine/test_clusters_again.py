"""A cluster that is taken away and added again: it begins anew, after a restart too."""

from __future__ import annotations

from dataclasses import replace

from engine_kit import BUDGETS, CLUSTER, Rig

from tenure.core.ledger import Kind
from tenure.core.model import DAY, GPU, HOUR, Policy

OTHER = replace(CLUSTER, name="aux", hosts=tuple(replace(host, name=f"x{host.name}") for host in CLUSTER.hosts))


def charged(bench: Rig) -> int:
    with bench.engine.view() as state:
        return state.clusters["main"].ledger.account("lab/a").usage(Kind.CHARGED, state.now - 7 * DAY, state.now)


def test_what_was_charged_to_a_cluster_of_its_name_does_not_come_back(bench: Rig) -> None:
    before = bench.submit("lab/a", 4)
    bench.advance(HOUR)
    bench.finish(before)
    for clusters in ((CLUSTER, OTHER), (OTHER,), (CLUSTER, OTHER)):
        bench.advance(HOUR)
        bench.engine.apply(clusters, Policy(), BUDGETS, (), by="test", dry_run=False)
    job_id = bench.submit("lab/a", 4)
    bench.advance(HOUR)
    bench.finish(job_id)
    bench.check_recovery()
    bench.restart()  # from a snapshot
    assert charged(bench) == 4 * GPU * HOUR
    bench.check_recovery()
    bench.check_replay()
