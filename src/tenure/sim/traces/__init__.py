"""Job traces of real clusters: readers, what is chosen of them, and the workload that replays them."""

from tenure.sim.traces.describe import Describer, describe_jobs
from tenure.sim.traces.describe_file import describe_file
from tenure.sim.traces.files import Gauge
from tenure.sim.traces.options import DEFAULT_RULES, Rule, Shares, TraceOptions, Window
from tenure.sim.traces.records import End, Example, Reading, TraceError, TraceJob
from tenure.sim.traces.trace import READERS, Trace, open_trace
from tenure.sim.traces.workload import TraceWorkload

__all__ = [
    "DEFAULT_RULES",
    "READERS",
    "Describer",
    "End",
    "Example",
    "Gauge",
    "Reading",
    "Rule",
    "Shares",
    "Trace",
    "TraceError",
    "TraceJob",
    "TraceOptions",
    "TraceWorkload",
    "Window",
    "describe_file",
    "describe_jobs",
    "open_trace",
]
