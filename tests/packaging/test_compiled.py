"""The compiled core decides as the interpreted one, to the byte. Takes minutes, so it runs where it is asked for:
TENURE_TEST_COMPILED=1, and a C compiler.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SAME_TESTS = (
    "tests/core/test_codec.py",
    "tests/core/test_reach.py",
    "tests/core/test_worked_examples.py",
    "tests/core/test_properties.py",
    "tests/core/test_waits_for_others.py",
    "tests/engine/test_requests.py",
    "tests/engine/test_recovery_properties.py",
)
"""Worked examples, oracles and invariants, and what goes through JSON and pickle."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.environ.get("TENURE_TEST_COMPILED") != "1", reason="TENURE_TEST_COMPILED is not 1"),
    pytest.mark.skipif(shutil.which(os.environ.get("CC", "cc")) is None, reason="there is no C compiler"),
]


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A compiled wheel, unpacked. Hardly optimised, which changes how long it takes to build and nothing else."""
    folder = tmp_path_factory.mktemp("compiled")
    environ = os.environ | {"TENURE_COMPILE": "1", "MYPYC_OPT_LEVEL": "0"}
    build = [sys.executable, "-m", "build", "--wheel", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(build, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "lib")
    return folder / "lib"


def run(source: Path, *arguments: str) -> str:
    """What this Python says with Tenure from ``source``."""
    environ = os.environ | {"PYTHONPATH": str(source)}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, env=environ, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_version_says_which_form_it_is(compiled: Path) -> None:
    assert "(compiled)" in run(compiled, "-P", "-m", "tenure", "--version")
    assert "compiled" not in run(ROOT / "src", "-P", "-m", "tenure", "--version")


@pytest.mark.parametrize("policy", ["budgets", "backfill"])
def test_a_simulated_month_is_the_same_to_the_byte(compiled: Path, tmp_path: Path, policy: str) -> None:
    month = ["month", "--gpus", "128", "--mix", "saturated", "--days", "4", "--policy", policy, "--no-report"]
    for name, source in (("interpreted", ROOT / "src"), ("compiled", compiled)):
        run(source, "-P", "-m", "tenure", "simulate", *month, "--out", str(tmp_path / name))
    (left,), (right,) = ([*(tmp_path / name).glob("*-seed0")] for name in ("interpreted", "compiled"))
    tables = sorted(path.name for path in left.glob("*.csv"))
    assert "attempts.csv" in tables
    for table in tables:
        assert (left / table).read_bytes() == (right / table).read_bytes(), table


def test_examples_oracles_and_invariants_hold_compiled(compiled: Path) -> None:
    run(compiled, "-m", "pytest", "-q", "-p", "no:cacheprovider", *SAME_TESTS)


def test_nothing_compiled_lies_among_the_sources(compiled: Path) -> None:
    assert [*compiled.rglob("*.so")]
    assert not [*(ROOT / "src").rglob("*.so")]
