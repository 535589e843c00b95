"""A network of one's own: nothing in it is reached from outside, no port is taken, and nobody else's is seen."""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

_NEW_NETWORK = 0x40000000
"""CLONE_NEWNET of linux/sched.h."""


@contextmanager
def own_network() -> Iterator[None]:
    """What this thread and its children do in it happens in a new network namespace with loopback only.

    Raises OSError where namespaces are not allowed: they need root.
    """
    here = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        _call("unshare", _NEW_NETWORK)
        try:
            # The second address is never used. Without one that is not loopback, getaddrinfo finds no name at all for
            # programs that ask for addresses of a kind that this machine has, as Slurm does.
            for words in ("link set lo up", "addr add 192.0.2.1/32 dev lo"):
                subprocess.run(("ip", *words.split()), check=True, capture_output=True, timeout=10)
            yield
        finally:
            _call("setns", here, _NEW_NETWORK)
    finally:
        os.close(here)


def _call(name: str, *arguments: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, name)(*arguments) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{name}: {os.strerror(error)}")
