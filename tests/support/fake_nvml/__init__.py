"""Builds the fake NVML; a process finds it when LD_LIBRARY_PATH named its directory before it started."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

_SOURCE = Path(__file__).with_name("fake_nvml.c")


def build_fake_nvml(directory: Path) -> Path:
    """Compile ``libnvidia-ml.so.1`` into ``directory``; skips the test without a C compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("no C compiler to build the fake NVML with")
    library = directory / "libnvidia-ml.so.1"
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", "-o", str(library), str(_SOURCE)], check=True
    )
    return library
