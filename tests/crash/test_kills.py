"""The server killed at every boundary and at random moments, and supervisors too: nothing is lost, nothing is twice.

``TENURE_CRASH_ROUNDS`` random kills (50), from the seed ``TENURE_CRASH_SEED`` (1).
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from reckoning import check
from stream import Stream

from support.ports import free_ports
from tenure import faults

ROUNDS = int(os.environ.get("TENURE_CRASH_ROUNDS", "50"))
SEED = int(os.environ.get("TENURE_CRASH_SEED", "1"))
LONGEST_LIFE_S = 1.5


@pytest.fixture
def stream(tmp_path: Path) -> Iterator[Stream]:
    made = Stream(tmp_path, SEED, free_ports())
    yield made
    made.close()


def test_a_server_killed_at_every_boundary_loses_nothing(stream: Stream) -> None:
    """Each fault point at its first hit, which may come while the server recovers, and at a later one."""
    stream.start()
    stream.ready()
    stream.run()
    stream.kill()
    later = stream.random.randint(2, 5)
    for hit in (1, later):
        for name in faults.POINTS:
            stream.start(f"{name}:{hit}")
            assert stream.died() == -9
            if stream.random.random() < 0.3:
                stream.kill_a_supervisor()
    stream.start()
    stream.finish()
    check(stream)


def test_a_server_killed_at_random_moments_loses_nothing(stream: Stream) -> None:
    stream.start()
    stream.run()
    for number in range(ROUNDS):
        # Most die while they recover; every third has got as far as serving.
        if number % 3 == 0:
            stream.ready()
        time.sleep(stream.random.uniform(0, LONGEST_LIFE_S) ** 2 / LONGEST_LIFE_S)
        if stream.random.random() < 0.4:
            stream.kill_a_supervisor()
            time.sleep(stream.random.uniform(0, 0.1))
        stream.kill()
        if stream.random.random() < 0.2:
            stream.kill_a_supervisor()
        stream.start()
    stream.finish()
    check(stream)
