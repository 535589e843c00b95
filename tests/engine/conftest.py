"""Fixtures of the engine tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from engine_kit import Rig, rig


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Rig]:
    """An engine with two hosts of four GPUs and two equal budgets; nothing has been submitted."""
    with rig(tmp_path) as made:
        yield made
