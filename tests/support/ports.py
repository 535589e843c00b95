"""Ports on this machine that are one test process's alone, whether anybody listens on them at the moment or not."""

from __future__ import annotations

import os
import socket

FIRST, LAST, BLOCK = 10_000, 20_000, 20
"""Below the ports of jobs (MASTER_PORT) and those of outgoing connections: a client that knocks while no server is
there could be given the very port, and would talk to itself."""
_held: list[socket.socket] = []
"""What other processes see that a block is taken by. The system lets go of it when this process ends, however."""


def free_ports(count: int = 1) -> int:
    """The first of so many ports in a row, at most ``BLOCK``; others with each call. Raises OSError without any."""
    assert 0 < count <= BLOCK
    blocks = (LAST - FIRST) // BLOCK
    for number in range(blocks):
        block = (os.getpid() + number) % blocks
        first = FIRST + block * BLOCK
        if _take(block) and all(_is_free(port) for port in range(first, first + count)):
            return first
    raise OSError("no free ports")


def _take(block: int) -> bool:
    """A name in Linux's abstract namespace can be bound once."""
    guard = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        guard.bind(f"\0tenure-test-ports-{block}")
    except OSError:
        guard.close()
        return False
    _held.append(guard)
    return True


def _is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
