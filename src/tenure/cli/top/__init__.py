"""``tenure top``: a live screen of cluster, budgets and queue. The screen is imported only when it is shown."""

from __future__ import annotations

from tenure.cli.top.command import top

__all__ = ["top"]
