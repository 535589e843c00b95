"""The build backend: setuptools, and mypy (which brings mypyc) where a compiled wheel is asked for.

With TENURE_COMPILE=1 in the environment a wheel holds compiled modules besides the sources (see setup.py).
"""

from __future__ import annotations

import os
from typing import Any

from setuptools import build_meta
from setuptools.build_meta import (
    build_sdist,
    build_wheel,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

COMPILER = "mypy>=2.4.1,<2.5"
"""A new mypyc may compile to something else: raise this with the tests of tests/packaging."""


def get_requires_for_build_wheel(config_settings: Any = None) -> list[str]:
    wanted = list(build_meta.get_requires_for_build_wheel(config_settings))
    return [*wanted, COMPILER] if os.environ.get("TENURE_COMPILE") == "1" else wanted


def build_editable(wheel_directory: str, config_settings: Any = None, metadata_directory: str | None = None) -> str:
    if os.environ.get("TENURE_COMPILE") == "1":
        raise SystemExit("TENURE_COMPILE=1 is for wheels: compiled modules in a checkout would hide changed sources")
    return str(build_meta.build_editable(wheel_directory, config_settings, metadata_directory))
