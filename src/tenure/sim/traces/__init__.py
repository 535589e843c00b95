"""Job traces of real clusters: readers, what is chosen of them, and the workload that replays them."""

from tenure.sim.traces.figures import Figures, Supply, TeamFigures, describe
from tenure.sim.traces.options import DEFAULT_RULES, Rule, Shares, TraceOptions, Window
from tenure.sim.traces.records import End, Example, Reading, TraceError, TraceJob
from tenure.sim.traces.trace import READERS, Trace, open_trace
from tenure.sim.traces.workload import TraceWorkload

__all__ = [
    "DEFAULT_RULES",
    "READERS",
    "End",
    "Example",
    "Figures",
    "Reading",
    "Rule",
    "Shares",
    "Supply",
    "TeamFigures",
    "Trace",
    "TraceError",
    "TraceJob",
    "TraceOptions",
    "TraceWorkload",
    "Window",
    "describe",
    "open_trace",
]
