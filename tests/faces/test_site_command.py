"""`vibe-gate report --all` as people use it: what is written where, and what is left alone."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from bundle_words import summary_of, tree
from command import Done, vibe_gate
from recorded import begun

from vibe_gate.store import RunRecorder


@pytest.fixture
def report(repo: Path, environ: dict[str, str]) -> Callable[..., Done]:
    return lambda *argv: vibe_gate("report", "--all", *argv, cwd=repo, environ=environ)


@pytest.fixture
def runs(repo: Path) -> list[RunRecorder]:
    made = []
    for outcome, code in (("pass", 0), ("fail", 1)):
        run = begun(repo)
        run.seal(summary_of(run, outcome, code))
        made.append(run)
    return made


def test_the_site_has_an_index_and_pages_and_a_new_run_adds_one(runs, report, repo, environ, tmp_path):
    site = tmp_path / "site"
    done = report("-o", str(site))
    assert (done.code, done.out) == (0, f"{site}/index.html\n")
    first = tree(site)
    assert {*first} == {".vibe-gate-site", "index.html", *(f"runs/{run.run_id}.html" for run in runs)}
    assert all(f'href="runs/{run.run_id}.html"' in first["index.html"].decode() for run in runs)
    page = site / "runs" / f"{runs[0].run_id}.html"
    assert page.read_text() == vibe_gate("report", runs[0].run_id, "-o", "-", cwd=repo, environ=environ).out
    page.write_text("as it was written")
    os.utime(page, (4e9, 4e9))
    run = begun(repo)
    run.seal(summary_of(run))
    assert report("-o", str(site)).code == 0
    second = tree(site)
    assert {*second} - {*first} == {f"runs/{run.run_id}.html"}
    assert page.read_text() == "as it was written"
    assert report("-o", str(site)).code == 0
    assert tree(site) == second


def test_a_folder_of_others_is_left_alone(runs, report, tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/index.html").write_text("mine")
    (tmp_path / "file").write_text("mine")
    for name, sentence in (
        ("docs", "has files that are not of such a site"),
        ("file", "is a file; --all writes a folder"),
        ("none/site", "does not exist; create it first"),
    ):
        done = report("-o", str(tmp_path / name))
        assert (done.code, done.out) == (2, "")
        assert sentence in done.err
    assert tree(tmp_path / "docs") == {"index.html": b"mine"}
    site = tmp_path / "site"
    site.mkdir()
    (site / "runs").symlink_to(tmp_path / "docs")
    (site / ".vibe-gate-site").write_text("")
    (site / "index.html").symlink_to(tmp_path / "file")
    assert report("-o", str(site)).code == 3
    assert tree(tmp_path / "docs") == {"index.html": b"mine"}
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        (("--all", "HEAD"), "--all is about all runs; omit RUN, or --all."),
        (("--all", "-o", "-"), "--all writes a folder; give -o one, or omit it."),
        (("--since", "3d"), "--since is for a site of all runs; add --all."),
        (("--all", "--commits", "nothing..HEAD"), "nothing"),
    ],
)
def test_what_a_site_cannot_be_is_a_sentence(runs, repo, environ, argv, sentence):
    done = vibe_gate("report", *argv, cwd=repo, environ=environ)
    assert (done.code, done.out) == (2, "")
    assert sentence in done.err


def test_an_empty_store_has_a_site_and_without_a_folder_it_stands_beside_the_runs(report, repo):
    done = report()
    assert (done.code, done.err) == (0, "")
    index = repo / ".vibe-artifacts/reports/all/index.html"
    assert done.out == f"{index}\n"
    assert "No runs yet; vibe-gate review records one." in index.read_text()
