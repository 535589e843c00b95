"""``tenure simulate``: months of a cluster in seconds, on this machine, without a server."""

from tenure.cli.simulation.commands import app

__all__ = ["app"]
