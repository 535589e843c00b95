"""Labs that are ready to use. ``dataclasses.replace`` changes their size, seed or anything else."""

from __future__ import annotations

from tenure.sim.researchers.lab import Lab

presets: dict[str, Lab] = {
    "published": Lab(charged=0.84, free=2.0),
    "saturated": Lab(charged=1.7, free=0.9),
}
"""``published``: 15 to 20 % of the delivered GPU time is unallocated. ``saturated``: charged demand alone is more than
the supply, and 2 to 4 % is unallocated.
"""
