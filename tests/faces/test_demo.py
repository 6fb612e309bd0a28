"""The demo: the whole walk with the real CLI, offline, from what ships with the package."""

from __future__ import annotations

import importlib.util
import json
import subprocess
from pathlib import Path

import forked
import pytest
from command import vibe_gate
from program import git

from vibe_gate.faces.cli.demo import make_demo


@pytest.mark.every_python
@pytest.mark.slow
def test_the_demo_reviews_an_ordinary_repository_with_fixed_ids_and_says_that_it_is_a_recording(
    tmp_path, environ
):
    result = vibe_gate("demo", cwd=tmp_path, environ=environ | {"TMPDIR": str(tmp_path)})
    assert result.code == 0, result.err
    [place] = tmp_path.glob("vibe-gate-demo-*")
    assert "answers are a recording" in result.out
    assert "FAIL" in result.out
    assert "src/ledger.py:25" in result.out
    [line] = [
        line for line in result.out.splitlines() if line.endswith("&& vibe-gate report --open")
    ]
    page = subprocess.run(
        line.partition(":  ")[2].removesuffix("--open") + "-o -",
        shell=True,
        cwd="/",
        check=True,
        capture_output=True,
        text=True,
        env=environ | {"PATH": f"{forked.programs()}:/usr/bin:/bin"},
    ).stdout
    assert "errors-not-swallowed" in page
    [run] = json.loads(vibe_gate("bundles", "list", "--json", cwd=place, environ=environ).out)[
        "bundles"
    ]
    document = json.loads((place / run["bundle"] / "summary.json").read_text())
    assert {c["id"]: c["outcome"] for c in document["rubrics"][0]["criteria"]} == {
        "no-secrets": "pass",
        "tests-not-skipped": "pass",
        "errors-not-swallowed": "fail",
        "money-moves-once": "fail",
        "names-say-what-they-are": "abstain",
    }
    assert document["exit_code"] == 1
    assert git(place, "rev-parse", "HEAD") == make_demo(tmp_path / "another")[-1]
    assert git(place, "status", "--porcelain") == ""


@pytest.mark.slow
def test_the_pictures_of_the_terminal_are_what_the_program_prints_today():
    root = Path(__file__).parents[2]
    spec = importlib.util.spec_from_file_location("make", root / "docs/images/make.py")
    picture_module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(picture_module)
    for name, make in picture_module.PICTURES.items():
        picture = (root / "docs/images" / name).read_text(encoding="utf-8")
        assert make() == picture, "run `python docs/images/make.py`"
