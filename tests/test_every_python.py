"""What can differ by the version of Python, beside the tests of other files that bear the same
mark.
"""

from __future__ import annotations

import importlib.util
import pkgutil
import subprocess
import sys

import pytest

import vibe_gate

pytestmark = pytest.mark.every_python

IMPORT_ALL = """\
import importlib, sys, warnings
warnings.filterwarnings("error", module="vibe_gate")
for name in sys.argv[1:]:
    importlib.import_module(name)
"""
NEED_EXTRAS = {
    "vibe_gate.run.cluster": "distributed",
    "vibe_gate.store.object_storage": "obstore",
    "vibe_gate.telemetry": "opentelemetry",
}
"""Modules, and what they import of an extra."""


def importable_modules() -> list[str]:
    """The modules of the package, without programs, what the demo reviews, and those whose extra is
    not installed.
    """
    names = [module.name for module in pkgutil.walk_packages(vibe_gate.__path__, "vibe_gate.")]
    programs = [
        name
        for name in names
        if name.endswith(".__main__") or ".demo_data" in name or ".install." in name
    ]
    absent = [
        name for name, needed in NEED_EXTRAS.items() if importlib.util.find_spec(needed) is None
    ]
    return [name for name in names if name not in programs and name not in absent]


@pytest.mark.slow
def test_every_module_is_imported_by_a_new_interpreter_without_a_warning(
    environ: dict[str, str],
) -> None:
    names = importable_modules()
    assert len(names) > 200
    result = subprocess.run(
        [sys.executable, "-I", "-c", IMPORT_ALL, *names],
        capture_output=True,
        text=True,
        env=environ,
        check=False,
    )
    assert (result.returncode, result.stderr) == (0, "")
