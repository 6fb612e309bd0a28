"""`vibe-gate report` as people use it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from bundle_words import summary_of
from command import CommandResult, vibe_gate
from recorded import begun

from vibe_gate.store.run_recorder import RunRecorder


@pytest.fixture
def report(repo: Path, environ: dict[str, str]) -> Callable[..., CommandResult]:
    return lambda *argv, **variables: vibe_gate(
        "report", *argv, cwd=repo, environ=environ | variables
    )


@pytest.fixture
def sealed(repo: Path) -> RunRecorder:
    run = begun(repo)
    run.seal(summary_of(run))
    return run


def test_the_page_is_kept_beside_the_runs_and_is_none_of_them(sealed, report, repo, environ):
    result = report()
    page = Path(result.out.strip())
    assert page == repo / f".vibe-artifacts/reports/{sealed.run_id}.html"
    assert page.read_text() == report("-o", "-").out
    report(sealed.run_id, "-o", "page.html")
    assert (repo / "page.html").read_text() == page.read_text()
    assert vibe_gate("bundles", "verify", cwd=repo, environ=environ).code == 0


def test_the_browser_is_shown_the_page(sealed, report, repo):
    browser = repo / "browser"
    browser.write_text('#!/bin/sh\necho "$1" > shown\n')
    browser.chmod(0o755)
    page = Path(report("--open", BROWSER=f"{browser} %s").out.strip())
    assert (repo / "shown").read_text().strip() == page.as_uri()


@pytest.mark.parametrize(
    ("argv", "code", "sentence"),
    [
        (("-o", "/dev/full"), 3, "--output: cannot write /dev/full: No space left on device."),
        (("-o", "missing/page.html"), 2, "folder missing does not exist; create it first."),
        (("-o", f"{'p' * 300}.html"), 2, "File name too long."),
        (("-o", "-", "--open"), 2, "--open shows a file; give -o one, or omit it."),
        (("nothing",), 2, "No run found for nothing"),
        (("--html", "page.html"), 2, "unknown option --html (see `vibe-gate report --help`)"),
    ],
)
def test_what_cannot_be_done_is_a_sentence(sealed, report, argv, code, sentence):
    result = report(*argv)
    assert (result.code, result.out) == (code, "")
    assert sentence in result.err


def test_a_store_that_takes_no_page_is_told_with_the_way_out(sealed, report, repo):
    (repo / ".vibe-artifacts/reports").write_text("in the way")
    result = report()
    assert result.code == 3
    assert "Use -o FILE" in result.err


def test_a_run_that_was_edited_has_no_page(sealed, report):
    summary = sealed.directory / "summary.json"
    summary.write_text(summary.read_text().replace('"pass"', '"fail"'))
    result = report()
    assert (result.code, result.out) == (5, "")


def test_a_review_writes_its_page(repo, environ):
    (repo / "new.py").write_text("x = 1\n")
    review = vibe_gate("review", "--no-judge", "--html", "page.html", cwd=repo, environ=environ)
    page = (repo / "page.html").read_text()
    assert review.code == 0
    assert "new.py" in page
    assert 'data-blob="' in page
