"""``tenure trace``: what is in a trace of jobs."""

from tenure.cli.trace.commands import app

__all__ = ["app"]
