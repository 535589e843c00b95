"""Tenure: a GPU-cluster scheduler that hands out GPU time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tenure.client import Client

__version__ = "0.1.0"
__all__ = ["Client", "__version__"]


def __getattr__(name: str) -> Any:
    # Only who asks for the client pays for importing what it needs.
    if name == "Client":
        from tenure.client import Client

        return Client
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
