"""What pyproject.toml cannot say: with TENURE_COMPILE=1 a wheel holds compiled modules besides the same sources.

Only a wheel: nothing compiled is ever written into src/, where it would hide sources that have changed since.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from setuptools import setup

_BUILD = Path("build", "compiled")

_CORE = (
    "admission apply capacity cycle defrag drain effects fairshare foreign headroom ledger lifecycle look outcomes "
    "packing placement pool preemption prospects queue reservation scheduler series state tally transitions tree trial "
    "waits waking walk watch"
)
_SIM = "claims driver loop meter recorder site"
COMPILED = [f"src/tenure/core/{name}.py" for name in _CORE.split()]
COMPILED += [f"src/tenure/sim/{name}.py" for name in _SIM.split()]
"""What a simulated month spends its time in. Left out:

- core/model, events, decisions, records and spans: ``codec`` reads the types of their fields when JSON becomes
  a record, and compiled classes forget them in part (a tuple of integers is just a tuple);
- core/reasons: mypyc cannot compile an exception that is a dataclass;
- sim/researchers: some numbers that are annotated as integers are floats, which compiled code refuses.
"""


def compile_modules() -> None:
    """Build a wheel with compiled modules, in a folder of its own that begins empty."""
    from mypyc.build import mypycify

    shutil.rmtree(_BUILD, ignore_errors=True)
    # Checked as far as mypyc needs it. `make lint` checks everything, and has the packages that are missing here.
    os.environ["MYPYPATH"] = "src"
    options = ["--config-file=", "--ignore-missing-imports", "--explicit-package-bases", *COMPILED]
    level = os.environ.get("MYPYC_OPT_LEVEL", "2")
    modules = mypycify(options, opt_level=level, debug_level="0", target_dir=str(_BUILD))
    setup(ext_modules=modules, options={"build": {"build_base": str(_BUILD)}})


if os.environ.get("TENURE_COMPILE") == "1" and "bdist_wheel" in sys.argv:
    compile_modules()
else:
    setup()
