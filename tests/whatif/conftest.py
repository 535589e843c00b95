"""A past that several tests look at."""

from __future__ import annotations

import pytest
from whatif_kit import CANCELS, HOSTS, course_of, crowd, setup_of

from tenure.core.model import HOUR
from tenure.whatif.course import Course


@pytest.fixture(scope="session")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Course:
    """Two days of a crowd on a full cluster, from the 14th hour on."""
    setup = setup_of(crowd(3, 150), cancels=CANCELS, hosts=HOSTS)
    return course_of(tmp_path_factory.mktemp("busy"), setup, 14 * HOUR)[0]
