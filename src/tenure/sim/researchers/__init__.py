"""A synthetic lab: people in budgets who work, wait, and react. A closed-loop workload."""

from tenure.sim.researchers.lab import Habits, Lab, Machines, Program, Rhythm, Season
from tenure.sim.researchers.presets import presets
from tenure.sim.researchers.tricks import TRICKS
from tenure.sim.researchers.workload import Researchers

__all__ = ["TRICKS", "Habits", "Lab", "Machines", "Program", "Researchers", "Rhythm", "Season", "presets"]
