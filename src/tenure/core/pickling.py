"""How frozen records that may be compiled are pickled: by the values they are made of.

Pickle would fill them in after they are made, which a compiled core refuses.
"""

from __future__ import annotations

import copyreg
from dataclasses import fields

from tenure.core.tree import Node


def register() -> None:
    """For those that are part of ``State``. To be called by who pickles one, before it does."""
    copyreg.pickle(Node, _by_its_values)


def _by_its_values(node: Node) -> tuple[type, tuple[object, ...]]:
    return Node, tuple(getattr(node, field.name) for field in fields(node))
