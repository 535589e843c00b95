"""How the replicas of a gang talk to each other: length-prefixed messages over TCP, replica 0 in the middle.

The addresses come from the launcher, by the names that torchrun uses: ``PET_NNODES``, ``PET_NODE_RANK``,
``MASTER_ADDR``, ``MASTER_PORT`` (or ``WORLD_SIZE`` and ``RANK`` when every GPU has a process of its own).
"""

from __future__ import annotations

import contextlib
import socket
import struct
import time
from collections.abc import Mapping

from tenure.demo.warn import Warned

_LENGTH = struct.Struct("!Q")
_LONGEST = 1 << 30
_HELLO_SECONDS = 5.0
_RETRY_SECONDS = 0.1


class GangError(Exception):
    """Another replica is missing, has died, or does not answer."""


class Gang:
    """The connections of replica ``rank`` of ``size``; with ``size`` 1 there are none and nothing is sent.

    All replicas must make the same calls in the same order. Every call raises GangError when a replica has
    gone, or when it has not answered for ``timeout`` seconds.
    """

    def __init__(self, rank: int, size: int, timeout: float) -> None:
        self.rank = rank
        self.size = size
        self._timeout = timeout
        self._peers: dict[int, socket.socket] = {}

    @classmethod
    def from_env(cls, env: Mapping[str, str], timeout: float) -> Gang:
        """The place of this process in its gang. Raises GangError for numbers that make no sense."""
        size = env.get("WORLD_SIZE") or env.get("PET_NNODES") or "1"
        rank = (env.get("RANK") if env.get("WORLD_SIZE") else env.get("PET_NODE_RANK")) or "0"
        if not (size.isdecimal() and rank.isdecimal() and int(rank) < int(size)):
            raise GangError(f"replica {rank!r} of {size!r} makes no sense (PET_NODE_RANK, PET_NNODES)")
        return cls(int(rank), int(size), timeout)

    def connect(self, env: Mapping[str, str], warned: Warned) -> None:
        """Find all other replicas. Returns early, unconnected, when the warning comes. Raises GangError."""
        if self.size == 1:
            return
        address, port = env.get("MASTER_ADDR"), env.get("MASTER_PORT")
        if not address or not port or not port.isdecimal():
            raise GangError(f"a gang needs MASTER_ADDR and MASTER_PORT; they are {address!r} and {port!r}")
        # So that a replica of another attempt, which had the port before, is not taken for one of ours.
        hello = f"{self.size} {env.get('TENURE_JOB_ID', '')} {env.get('TENURE_ATTEMPT', '')}"
        if self.rank == 0:
            self._accept(address, int(port), hello, warned)
        else:
            self._call(address, int(port), hello, warned)

    def gather(self, message: bytes) -> list[bytes]:
        """On replica 0 all messages in the order of their ranks, elsewhere nothing. Raises GangError."""
        if self.rank:
            self._send(0, message)
            return []
        return [message, *(self._receive(rank, len(message)) for rank in range(1, self.size))]

    def broadcast(self, message: bytes) -> bytes:
        """The ``message`` of replica 0, on every replica. Raises GangError."""
        if self.rank:
            return self._receive(0)
        for rank in range(1, self.size):
            self._send(rank, message)
        return message

    def barrier(self) -> None:
        """Return when all replicas have come here. Raises GangError."""
        self.gather(b"")
        self.broadcast(b"")

    def close(self) -> None:
        """Hang up; whoever still waits for this replica gets a GangError at once."""
        for peer in self._peers.values():
            peer.close()
        self._peers.clear()

    def _accept(self, address: str, port: int, hello: str, warned: Warned) -> None:
        deadline = time.monotonic() + self._timeout
        try:
            listener = socket.create_server((address, port), backlog=self.size)
        except OSError as error:
            raise GangError(f"replica 0 cannot listen on {address}:{port}: {error}") from error
        with listener:
            while len(self._peers) < self.size - 1 and not warned:
                if warned.wait(deadline - time.monotonic(), listener):
                    self._welcome(listener.accept()[0], hello)
                elif not warned:
                    missing = sorted(set(range(1, self.size)) - set(self._peers))
                    raise GangError(f"replicas {missing} did not come within {self._timeout:g} s")

    def _welcome(self, caller: socket.socket, hello: str) -> None:
        """Keep ``caller`` if it is a replica of this attempt that was missing, else hang up on it."""
        caller.settimeout(_HELLO_SECONDS)
        with contextlib.suppress(OSError, EOFError, UnicodeDecodeError):
            rank, _, said = _receive_from(caller, len(hello) + 16).decode().partition(" ")
            missing = {str(number) for number in range(1, self.size) if number not in self._peers}
            if said == hello and rank in missing:
                self._keep(int(rank), caller)
                return
        caller.close()

    def _call(self, address: str, port: int, hello: str, warned: Warned) -> None:
        deadline = time.monotonic() + self._timeout
        while not warned:
            try:
                root = socket.create_connection((address, port), timeout=_HELLO_SECONDS)
            except OSError as error:
                # Replica 0 may simply not be up yet.
                if time.monotonic() > deadline:
                    raise GangError(
                        f"replica 0 at {address}:{port} did not answer within {self._timeout:g} s: {error}"
                    ) from error
                warned.wait(_RETRY_SECONDS)
            else:
                self._keep(0, root)
                self._send(0, f"{self.rank} {hello}".encode())
                return

    def _keep(self, rank: int, peer: socket.socket) -> None:
        peer.settimeout(self._timeout)
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._peers[rank] = peer

    def _send(self, rank: int, message: bytes) -> None:
        try:
            self._peers[rank].sendall(_LENGTH.pack(len(message)) + message)
        except OSError as error:
            raise self._lost(rank, error) from error

    def _receive(self, rank: int, expected: int | None = None) -> bytes:
        try:
            message = _receive_from(self._peers[rank], _LONGEST)
        except (OSError, EOFError) as error:
            raise self._lost(rank, error) from error
        if expected is not None and len(message) != expected:
            raise GangError(f"replica {rank} sent {len(message)} bytes instead of {expected}")
        return message

    def _lost(self, rank: int, error: Exception) -> GangError:
        if isinstance(error, TimeoutError):
            return GangError(f"replica {rank} has not answered for {self._timeout:g} s")
        return GangError(f"replica {rank} is gone: {error}")


def _receive_from(peer: socket.socket, longest: int) -> bytes:
    """One message. Raises EOFError when the other side hung up, OSError for a fault or a silly length."""
    (length,) = _LENGTH.unpack(_receive_exactly(peer, _LENGTH.size))
    if length > longest:
        raise OSError(f"a message of {length} bytes, longer than {longest}")
    return _receive_exactly(peer, length)


def _receive_exactly(peer: socket.socket, length: int) -> bytes:
    buffer = bytearray()
    while len(buffer) < length:
        chunk = peer.recv(min(length - len(buffer), 1 << 20))
        if not chunk:
            raise EOFError("the connection was closed")
        buffer += chunk
    return bytes(buffer)
