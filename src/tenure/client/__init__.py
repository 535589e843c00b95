"""A typed client of the API: ``Client().submit(...)``. It finds the server by itself (see ``find_server``)."""

from __future__ import annotations

from tenure.api.address import Address, Unreachable, find_server
from tenure.client.cluster import Cluster
from tenure.client.connection import TenureError
from tenure.client.jobs import Jobs, LogChunk
from tenure.client.people import People

__all__ = ["Address", "Client", "LogChunk", "TenureError", "Unreachable", "find_server"]


class Client(Jobs, Cluster, People):
    """All requests of the API. Every method raises TenureError and Unreachable.

    ``patience_s``: how long a server that does not answer (it may be restarting) is tried again, where a second try
    does no harm. A client may be used by several threads.
    """
