"""Fixtures of the API's tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
from api_kit import Api, serving


@pytest.fixture(scope="session", autouse=True)
def quiet_logs() -> Iterator[None]:
    """Traces as plain text: to draw them with all their variables takes longer than a test."""
    structlog.configure(
        processors=[structlog.processors.format_exc_info, structlog.processors.KeyValueRenderer()],
        logger_factory=structlog.ReturnLoggerFactory(),
    )
    yield
    structlog.reset_defaults()


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    with serving(tmp_path) as running:
        yield running


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """One for all tests of a module: for those that leave nothing behind."""
    with serving(tmp_path_factory.mktemp("api")) as running:
        yield running
