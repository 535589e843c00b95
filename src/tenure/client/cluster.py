"""What is asked about budgets, hosts, the configuration, and what has happened."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from tenure.api.balance_models import BalanceView
from tenure.api.models import (
    AppliedView,
    AuditView,
    BatchView,
    BudgetView,
    ChangeView,
    ConfigView,
    EvictionView,
    HostView,
    Page,
    StatusView,
)
from tenure.client.connection import Connection, part


class Cluster(Connection):
    """Budgets, hosts, pauses, the configuration, the log."""

    def budgets(self, cluster: str | None = None) -> list[BudgetView]:
        return self._call(Page[BudgetView], "GET", "/v1/budgets", query={"cluster": cluster}).items

    def balance(
        self, budget: str, cluster: str | None = None, *, person: str | None = None, jobs: int = 10
    ) -> BalanceView:
        """The statement of a budget. ``person``: of people and jobs only theirs; ``jobs``: so many of the largest."""
        query = {"cluster": cluster, "person": person, "jobs": jobs}
        return self._call(BalanceView, "GET", f"/v1/budgets/{quote(budget, safe='/')}/balance", query=query)

    def hosts(self, cluster: str | None = None) -> list[HostView]:
        return self._call(Page[HostView], "GET", "/v1/hosts", query={"cluster": cluster}).items

    def drain(self, cluster: str, host: str, why: str = "", deadline: str | None = None) -> HostView:
        """``deadline`` is RFC 3339."""
        return self._host(cluster, host, "drain", {"why": why, "deadline": deadline})

    def resume_host(self, cluster: str, host: str, why: str = "") -> HostView:
        return self._host(cluster, host, "resume", {"why": why})

    def fail_host(self, cluster: str, host: str, why: str = "") -> HostView:
        return self._host(cluster, host, "fail", {"why": why})

    def _host(self, cluster: str, host: str, action: str, body: dict[str, Any]) -> HostView:
        return self._call(HostView, "POST", f"/v1/hosts/{part(cluster)}/{part(host)}/{action}", json=body)

    def status(self) -> StatusView:
        return self._call(StatusView, "GET", "/v1/status")

    def pause(self, scope: str = "starts") -> StatusView:
        return self._call(StatusView, "POST", "/v1/pause", json={"scope": scope})

    def resume(self, scope: str = "starts") -> StatusView:
        return self._call(StatusView, "POST", "/v1/resume", json={"scope": scope})

    def config(self) -> ConfigView:
        return self._call(ConfigView, "GET", "/v1/config")

    def apply(self, clusters: tuple[str, str], budgets: tuple[str, str], *, dry_run: bool) -> AppliedView:
        """Two files as (name, text)."""
        body = {
            "clusters": {"name": clusters[0], "text": clusters[1]},
            "budgets": {"name": budgets[0], "text": budgets[1]},
            "dry_run": dry_run,
        }
        return self._call(AppliedView, "POST", "/v1/apply", json=body)

    def changes(self, after: int, wait_ms: int = 0) -> int:
        """The newest batch's number, as soon as it is above ``after``."""
        query = {"after": after, "wait_ms": wait_ms}
        return self._call(ChangeView, "GET", "/v1/changes", query=query, wait_ms=wait_ms).seq

    def decisions(self, after: int | None = None, limit: int = 200, wait_ms: int = 0) -> Page[BatchView]:
        query = {"after": after, "limit": limit, "wait_ms": wait_ms}
        return self._call(Page[BatchView], "GET", "/v1/decisions", query=query, wait_ms=wait_ms)

    def evictions(self, after: int | None = None, limit: int = 100, job: int | None = None) -> Page[EvictionView]:
        query = {"after": after, "limit": limit, "job": job}
        return self._call(Page[EvictionView], "GET", "/v1/evictions", query=query)

    def audit(self, since: str | None = None, limit: int = 100) -> list[AuditView]:
        return self._call(Page[AuditView], "GET", "/v1/audit", query={"since": since, "limit": limit}).items

    def metrics(self) -> str:
        return self._send("GET", "/metrics").text
