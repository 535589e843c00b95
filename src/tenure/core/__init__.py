"""The pure scheduling core: state and events in, decisions out. No clock, no I/O, no randomness."""

from __future__ import annotations

from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import find_spec


def compiled() -> bool:
    """Whether this is the compiled form of the core (see ``setup.py``). Imports nothing of it."""
    spec = find_spec("tenure.core.cycle")
    return spec is not None and spec.origin is not None and spec.origin.endswith(tuple(EXTENSION_SUFFIXES))
