"""Fixtures of several modules."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from teller_kit import Log, job_row

from tenure.store import Store


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with Store.open(f"sqlite:///{tmp_path / 'tenure.db'}") as store:
        made = Log(store, tmp_path)
        made.person("ann")
        made.write(jobs=[job_row(1, "ann"), job_row(2, "bob", budget="lab/vision")])
        yield made
