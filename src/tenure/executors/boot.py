"""How a small process with the standard library alone is started from this package."""

from __future__ import annotations

import sys
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent
# The packages' own __init__ modules may import what such a process must do without.
_BOOT = """
import sys
from importlib import import_module
for name, path in ("tenure", sys.argv[1]), ("tenure.executors", sys.argv[1] + "/executors"):
    sys.modules[name] = type(sys)(name)
    sys.modules[name].__path__ = [path]
sys.exit(import_module("tenure.executors." + sys.argv[2]).main(*sys.argv[3:]))
"""


def command(module: str, *arguments: str) -> list[str]:
    """Runs ``main(*arguments)`` of ``tenure.executors.<module>`` and exits with what it returns."""
    return [sys.executable, "-I", "-S", "-c", _BOOT, str(PACKAGE), module, *arguments]
