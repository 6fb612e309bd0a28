"""`bundles verify|repair|export|import` as a user runs them: what is said, on which stream, with
which exit code.
"""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from bundle_words import KEY, START, Clock, OneSecretRedactor, record_a_review, summary_of
from program import git, repository

from vibe_gate.store.run_recorder import RunRecorder
from vibe_gate.store.store import open_store


@pytest.fixture
def run(repo: Path) -> RunRecorder:
    """A sealed run in the repository's store."""
    return seal_run(repo)


def seal_run(repo: Path, prompt: str = "p") -> RunRecorder:
    run = open_store(repo, OneSecretRedactor(), Clock()).begin(KEY, START, {"prompt": prompt})
    record_a_review(run)
    run.seal(summary_of(run))
    assert run.lost is None
    return run


def test_a_store_that_is_whole_or_not_there_is_well_and_not_said_to_be_anybodys(bundles, repo):
    assert bundles(repo, "verify").returncode == 0
    assert (bundles(repo, "repair").returncode, bundles(repo, "repair").stdout) == (
        0,
        "Nothing to repair.\n",
    )
    seal_run(repo)
    result = bundles(repo, "verify")
    assert (result.returncode, result.stderr) == (0, "")
    assert (
        result.stdout
        == "Checked 1 run, 4 files: all hashes match. Signatures are checked by `vibe-gate verify`.\n"
    )


def test_corruption_is_exit_5_until_it_is_repaired(bundles, repo, run):
    (run.directory / "run.json").write_text("{}")
    result = bundles(repo, "verify", "--json")
    document = result.json
    assert (result.returncode, document["exit_code"], document["runs"]) == (5, 5, 1)
    assert {(flaw["state"], flaw["run_id"]) for flaw in document["flaws"]} == {
        ("corrupt", run.run_id)
    }
    result = bundles(repo, "repair")
    assert result.returncode == 0
    assert (
        "run.json: it was changed after sealing; moved to quarantine, the whole run"
        in result.stdout
    )
    assert "Moved files are in .vibe-artifacts/quarantine/" in result.stdout
    assert bundles(repo, "verify").returncode == 0
    assert bundles(repo, "repair").stdout == "Nothing to repair.\n"


def test_one_run_can_be_named_by_the_beginning_of_its_id(bundles, repo, run):
    other = seal_run(repo, "q")
    (other.directory / "run.json").write_text("{}")
    assert bundles(repo, "verify", run.run_id[:22]).returncode == 0
    assert bundles(repo, "verify", other.run_id).returncode == 5
    assert bundles(repo, "verify", "20270101").returncode == 2


def test_a_bundle_that_the_repository_committed_is_foreign(bundles, repo, run):
    git(repo, "add", "-f", str(run.directory / "summary.json"))
    result = bundles(repo, "verify")
    assert result.returncode == 5
    assert "git tracks it: it came with the repository, no review here wrote it" in result.stdout
    assert bundles(repo, "export").returncode == 2  # no newest run that is ours
    assert bundles(repo, "show").returncode == 2
    assert bundles(repo, "show", run.run_id).returncode == 5
    assert bundles(repo, "export", run.run_id).returncode == 5
    result = bundles(repo, "repair")
    assert (result.returncode, result.stdout) == (3, "")
    assert "Run `git rm -r --cached .vibe-artifacts`" in result.stderr
    assert run.directory.exists()  # repair moves nothing that git tracks


def test_a_run_travels_to_another_repository(bundles, repo, run, tmp_path):
    other = repository(tmp_path / "other")
    export = bundles(repo, "export", run.run_id, "-o", "../run.tar.xz")
    assert (export.returncode, export.stderr) == (0, "")
    assert export.stdout.startswith("../run.tar.xz: 1 run, ")
    imported_run = bundles(other, "import", "../run.tar.xz")
    assert (imported_run.returncode, imported_run.stdout) == (
        0,
        f"{run.run_id} imported, about {KEY}\n",
    )
    imported_run = bundles(other, "import", "../run.tar.xz", "--json")
    assert imported_run.json == {
        "schema": 1, "imported": [], "already": [{"run_id": run.run_id, "key": KEY}],
    }  # fmt: skip
    assert bundles(other, "verify").returncode == 0
    assert git(other, "status", "--porcelain") == ""


def test_the_runs_that_are_named_go_into_one_archive(bundles, repo, run):
    other = seal_run(repo, "q")
    result = bundles(repo, "export", run.run_id, other.run_id, "--json")
    document = result.json
    assert (result.returncode, document["file"], document["runs"]) == (0, "bundles.tar.xz", 2)
    assert document["size"] == (repo / "bundles.tar.xz").stat().st_size
    result = bundles(repo, "export")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == "vibe-gate: bundles.tar.xz exists already; name another file.\n"


def test_all_runs_go_into_one_archive_and_a_bad_one_among_several_keeps_no_other_out(
    bundles, repo, run, tmp_path
):
    other, unsealed = (
        seal_run(repo, "q"),
        open_store(repo, OneSecretRedactor(), Clock()).begin(KEY, START, {"prompt": "r"}),
    )
    unsealed.abandon("stopped")
    assert bundles(repo, "export", "--all", "-o", "all.tar.xz", "--json").json["runs"] == 2
    assert bundles(repo, "export", "--all", run.run_id, "-o", "some.tar.xz").returncode == 2
    (repo / "bad.tar.xz").write_bytes(b"PK\3\4")
    repository(tmp_path / "other")
    result = bundles(
        tmp_path / "other", "import", str(repo / "bad.tar.xz"), str(repo / "all.tar.xz"), "--json"
    )
    assert result.returncode == 5
    assert {entry["run_id"] for entry in result.json["imported"]} == {run.run_id, other.run_id}
    second_import = bundles(tmp_path / "other", "import", str(repo / "all.tar.xz"))
    assert second_import.stdout.endswith("\n0 runs imported, 2 already here.\n")
    assert [sentence.split(": ")[0] for sentence in result.json["refused"]] == [
        str(repo / "bad.tar.xz")
    ]


def test_a_hostile_archive_is_one_sentence_and_exit_5(bundles, repo, run):
    (repo / "x.tar.xz").write_bytes(b"PK\3\4")
    result = bundles(repo, "import", "x.tar.xz")
    assert (result.returncode, result.stdout) == (5, "")
    assert (
        result.stderr
        == "vibe-gate: The archive is refused: it is not a whole tar.xz. Nothing was imported.\n"
    )
    (repo / "x.tar.xz").write_bytes(gzip.compress(b""))
    assert "it is packed by gzip, not by xz" in bundles(repo, "import", "x.tar.xz").stderr
    result = bundles(repo, "import", "none.tar.xz")
    assert (result.returncode, result.stderr) == (
        2,
        "vibe-gate: none.tar.xz cannot be read: No such file or directory.\n",
    )


@pytest.mark.parametrize("name", ["runs.tgz", "runs.tar", "runs", "runs.tar.gz", "-", ""])
def test_an_archive_is_named_for_what_it_is(bundles, repo, run, name):
    result = bundles(repo, "export", "-o", name)
    assert (result.returncode, result.stderr) == (
        2,
        "vibe-gate: An archive is a file that xz packs; name it FILE.tar.xz.\n",
    )
    assert git(repo, "status", "--porcelain") == ""


@pytest.mark.parametrize("name", ["runs.tar.xz", "runs.txz", "RUNS.TAR.XZ"])
def test_both_endings_of_an_archive_are_taken(bundles, repo, run, name):
    assert bundles(repo, "export", "-o", name).returncode == 0
    assert (repo / name).is_file()


@pytest.mark.parametrize(
    ("place", "code", "reason"),
    [
        ("a" * 300, 2, "cannot be written: File name too long."),
        ("none/a", 2, "cannot be written: folder none does not exist; create it first."),
        ("file/a", 2, "cannot be written: file is not a folder."),
        ("/proc/a", 3, "was not written: No such file or directory."),
    ],
)
def test_a_place_that_takes_no_archive_is_told_with_the_reason(
    bundles, repo, run, place, code, reason
):
    (repo / "file").touch()
    result = bundles(repo, "export", "-o", f"{place}.tar.xz")
    assert (result.returncode, result.stdout) == (code, "")
    assert result.stderr == f"vibe-gate: {place}.tar.xz {reason}\n"
