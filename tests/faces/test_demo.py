"""The demo: the whole walk with the real CLI, offline, from what ships with the package."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from command import vibe_gate
from program import git


@pytest.mark.slow
def test_the_demo_reviews_an_ordinary_repository_with_fixed_ids_and_says_that_it_is_a_recording(tmp_path, environ):
    one, two = tmp_path / "one", tmp_path / "two"
    done = vibe_gate("demo", "--in", str(one), cwd=tmp_path, environ=environ)
    assert done.code == 0, done.err
    assert "answers are a recording" in done.out
    assert "FAIL" in done.out
    assert "src/ledger.py:25" in done.out
    assert str(one) in done.out
    document = vibe_gate("demo", "--in", str(two), "--json", cwd=tmp_path, environ=environ).json
    assert {c["id"]: c["outcome"] for c in document["rubrics"][0]["criteria"]} == {
        "no-secrets": "pass",
        "tests-not-skipped": "fail",
        "errors-not-swallowed": "fail",
        "money-moves-once": "fail",
        "names-say-what-they-are": "abstain",
    }
    assert document["exit_code"] == 1
    assert git(one, "rev-parse", "HEAD") == git(two, "rev-parse", "HEAD")
    assert git(one, "status", "--porcelain") == ""


def test_the_demo_needs_a_folder_that_is_not_there_yet(tmp_path, environ):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").write_text("precious")
    done = vibe_gate("demo", "--in", str(tmp_path / "mine"), cwd=tmp_path, environ=environ)
    assert done.code == 2
    assert (tmp_path / "mine" / "file").read_text() == "precious"


@pytest.mark.slow
def test_the_readmes_picture_is_what_the_program_prints_today():
    root = Path(__file__).parents[2]
    spec = importlib.util.spec_from_file_location("make", root / "docs/images/make.py")
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    assert made.picture() == (root / "docs/images/demo.svg").read_text(encoding="utf-8"), (
        "run `python docs/images/make.py`"
    )
