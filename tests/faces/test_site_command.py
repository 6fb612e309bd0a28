"""`vibe-gate report --all` as people use it: what is written where, and what is left alone."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from bundle_words import KEY, START, Ended, summary_of, tree
from command import CommandResult, vibe_gate
from lxml import html
from msgspec.structs import replace
from recorded import Kind, begun, record_run
from repos import GATE, gated

from vibe_gate.domain.attempt import TestedRun
from vibe_gate.domain.bundles import Provenance
from vibe_gate.domain.summary import Cost
from vibe_gate.store.run_recorder import RunRecorder
from vibe_gate.store.store_audit import verify_store
from vibe_gate.store.tested_runs import note_tested_run, read_tested_run
from vibe_gate.store.worktree_bundles import Bundles


@pytest.fixture
def report(repo: Path, environ: dict[str, str]) -> Callable[..., CommandResult]:
    return lambda *argv: vibe_gate("report", "--all", *argv, cwd=repo, environ=environ)


@pytest.fixture
def runs(repo: Path) -> list[RunRecorder]:
    recorders = []
    for outcome, code in (("pass", 0), ("fail", 1)):
        run = begun(repo)
        run.seal(summary_of(run, outcome, code))
        recorders.append(run)
    return recorders


@pytest.fixture
def tested(repo: Path, runs: list[RunRecorder]) -> Bundles:
    """Both runs are a test's, each with a model of its own."""
    bundles = Bundles(repo, Provenance(START))
    for run, model, result in zip(runs, ("sonnet", "haiku"), ("passed", "failed"), strict=True):
        tested_run = TestedRun(
            test="t.py::test_a", attempt=run.run_id, model=model, result=result, usd=0.25
        )
        note_tested_run(bundles, bundles.read_run(KEY, run.run_id), tested_run, START)
    return bundles


def test_the_site_has_an_index_and_pages_and_a_new_run_adds_one(
    runs, tested, report, repo, environ, tmp_path
):
    site = tmp_path / "site"
    result = report("-o", str(site))
    assert (result.code, result.out) == (0, f"{site}/index.html\n")
    first = tree(site)
    assert {*first} == {
        ".vibe-gate-site",
        "index.html",
        *(f"runs/{run.run_id}.html" for run in runs),
    }
    assert all(f'href="runs/{run.run_id}.html"' in first["index.html"].decode() for run in runs)
    index = html.fromstring(first["index.html"].decode())
    rows = [
        [cell.text_content() for cell in row][:3] for row in index.xpath("//table[@id='grid']//tr")
    ]
    assert rows[:2] == [["Test", "haiku", "sonnet"], ["t.py::test_a", "✗", "✓"]]
    marks = index.xpath("//table[@id='grid']//a[starts-with(@class, 'attempt')]/@href")
    assert marks == [f"runs/{run.run_id}.html" for run in reversed(runs)]
    page = site / "runs" / f"{runs[0].run_id}.html"
    assert (
        page.read_text()
        == vibe_gate("report", runs[0].run_id, "-o", "-", cwd=repo, environ=environ).out
    )
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


def test_what_a_run_was_for_a_test_is_no_part_of_its_seal_and_anything_else_there_is_nothing(
    tested, runs
):
    assert verify_store(tested.root, tested.provenance).problems == ()
    entry = tested.read_run(KEY, runs[1].run_id)
    tested_run = read_tested_run(tested, entry)
    assert tested_run and (tested_run.model, tested_run.result) == ("haiku", "failed")
    other_word = '{"test": {"test": "t", "model": "m", "attempt": "a", "result": "fine"}}\n'
    for text in ('{"test": 1}\n', "{", '{"test": {"test": "t"}}\n', "[]\n", other_word):
        (tested.root / entry.bundle / "annotations.ndjson").write_text(text)
        assert read_tested_run(tested, entry) is None


def test_a_folder_of_others_is_left_alone(runs, report, tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/index.html").write_text("mine")
    (tmp_path / "file").write_text("mine")
    for name, sentence in (
        ("docs", "has files that vibe-gate did not write"),
        ("file", "is a file; --all writes a folder"),
        ("none/site", "does not exist; create it first"),
        ("file/site", "file is not a folder"),
        ("s" * 300, "File name too long"),
    ):
        result = report("-o", str(tmp_path / name))
        assert (result.code, result.out) == (2, "")
        assert sentence in result.err
    assert tree(tmp_path / "docs") == {"index.html": b"mine"}
    site = tmp_path / "site"
    site.mkdir()
    (site / "runs").symlink_to(tmp_path / "docs")
    (site / ".vibe-gate-site").write_text("")
    (site / "index.html").symlink_to(tmp_path / "file")
    result = report("-o", str(site))
    assert (result.code, result.out) == (3, "")
    assert f"{site} cannot be read or written: " in result.err
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
    result = vibe_gate("report", *argv, cwd=repo, environ=environ)
    assert (result.code, result.out) == (2, "")
    assert sentence in result.err


def test_an_empty_store_has_a_site_and_without_a_folder_it_stands_beside_the_runs(
    report, repo, environ
):
    result = report()
    assert (result.code, result.err) == (0, "note: No runs yet; `vibe-gate review` records one.\n")
    index = repo / ".vibe-artifacts/reports/all/index.html"
    assert result.out == f"{index}\n"
    assert "No runs yet; vibe-gate review records one." in index.read_text()
    run = begun(repo)
    run.seal(summary_of(run))
    assert report().code == 0
    for argv in (("bundles", "verify"), ("bundles", "clean"), ("stats",)):
        assert vibe_gate(*argv, cwd=repo, environ=environ).code == 0
    assert index.is_file()
    assert report("--since", "2026-01-01T05:30+05:00", "--path", "src/**").code == 0
    assert "since 2026-01-01 00:30 (UTC), paths src/**" in index.read_text()
    assert (
        report("--path", "nothing/**").err
        == "note: No runs match; `vibe-gate bundles list` shows all runs.\n"
    )
    assert "No runs match." in index.read_text()
    status = subprocess.run(
        ["git", "status", "--porcelain"], cwd=repo, env=environ, capture_output=True, check=True
    )
    assert status.stdout == b""


def test_a_run_that_is_damaged_has_no_page_and_the_others_have(runs, report, repo, tmp_path):
    intact, damaged = sorted(runs, key=lambda run: run.run_id)
    (damaged.directory / "events.ndjson").write_text("{}\n")
    foreign = repo / f".vibe-artifacts/{'f' * 40}/29991231T235959999Z-00000000"
    foreign.mkdir(parents=True)
    begun(repo)  # by this process, so it is running
    result = report(
        "-o", str(tmp_path / "site"), "--pages", "1"
    )  # the damaged one is newer, and is none
    assert result.code == 0
    assert f"no page of {damaged.run_id}: " in result.err
    index = (tmp_path / "site/index.html").read_text()
    rows = [
        [cell.text_content() for cell in row]
        for row in html.fromstring(index).xpath("//table[@id='list']//tr")
    ]
    assert [row[1] for row in rows if row[-1] == damaged.run_id] == ["corrupt"]
    assert f'href="runs/{intact.run_id}.html"' in index
    assert f"runs/{damaged.run_id}.html" not in index
    assert ">foreign<" in index and ">running<" in index


def test_runs_of_one_id_have_each_a_page_of_its_own(runs, report, repo, tmp_path):
    failed, other = runs[1].directory, repo / ".vibe-artifacts" / ("f" * 40) / runs[1].run_id
    shutil.copytree(failed, other)  # as an import would bring it
    summary = (other / "summary.json").read_text().replace(f'"key":"{KEY}"', f'"key":"{"f" * 40}"')
    (other / "summary.json").write_text(summary)
    assert report("-o", str(tmp_path / "site")).code == 0
    page = html.fromstring((tmp_path / "site/index.html").read_bytes())
    links = [
        link.get("href") for link in page.xpath(f"//table[@id='list']//a[text()='{failed.name}']")
    ]
    heads = [
        html.fromstring((tmp_path / "site" / link).read_bytes()).xpath("string(//header)")
        for link in links
    ]
    assert ["f" * 12 in head for head in heads] == [True, False]
    assert [KEY[:12] in head for head in heads] == [False, True]
    assert f'href="runs/{runs[0].run_id}.html"' in (tmp_path / "site/index.html").read_text()


def test_a_run_with_endless_figures_takes_nobodys_site_or_statistics(
    runs, report, repo, environ, tmp_path
):
    huge = begun(repo)
    turn = huge.turn("judge-q")
    turn.event({"type": "usage", "tokens": {"input": 10**400, "output": 1}, "cost": 0.01})
    turn.seal(Ended())
    huge.seal(replace(summary_of(huge), cost=Cost(usd=1.0, basis="known")))
    forged = next(run for run in runs if run.run_id != huge.run_id).directory / "summary.json"
    forged.write_text(forged.read_text().replace('"duration_ms":0', f'"duration_ms":{10**400}'))
    result = report("-o", str(tmp_path / "site"))
    assert result.code == 0
    assert f"no page of {huge.run_id}: " in result.err
    assert vibe_gate("report", huge.run_id, "-o", "-", cwd=repo, environ=environ).code == 5
    stats = vibe_gate("stats", cwd=repo, environ=environ)
    assert (stats.code, stats.out.splitlines()[:2]) == (
        0,
        ["2 runs: 1 fail, 1 nothing", "not counted: 1 corrupt"],
    )


def test_a_page_is_written_again_after_something_was_added_to_its_run(
    runs, report, repo, environ, tmp_path
):
    site = tmp_path / "site"
    assert report("-o", str(site), "--pages", "1").code == 0
    assert len([*site.glob("runs/*")]) == 1
    assert report("-o", str(site)).code == 0
    page = site / "runs" / f"{runs[0].run_id}.html"
    page.write_text("old")
    os.utime(page, (0, 0))
    assert report("-o", str(site)).code == 0
    assert page.read_text().startswith("<!doctype html>")
    site.chmod(0o755)
    page.unlink()
    assert report("-o", str(site)).code == 0
    assert [oct(path.stat().st_mode & 0o777) for path in (site / "runs", page)] == [
        "0o755",
        "0o644",
    ]


def test_a_run_that_stays_in_the_clone_has_a_page_only_if_asked_for(runs, report, tmp_path):
    run_file = runs[0].directory / "run.json"
    run_file.write_text(run_file.read_text().replace("{", '{"shown": {"prompt": "private"},', 1))
    result = report("-o", str(tmp_path / "site"))
    assert (
        "note: 1 run without a page: a model was shown what an agent was asked for here"
        in result.err
    )
    assert [path.stem for path in tmp_path.glob("site/runs/*")] == [runs[1].run_id]
    assert (
        f"no page of {runs[0].run_id}" in report("-o", str(tmp_path / "site"), "--prompts").err
    )  # it was edited


@pytest.mark.slow  # three processes of their own
def test_two_at_once_and_one_that_is_ended_leave_whole_files(runs, repo, environ, tmp_path):
    site = tmp_path / "site"
    command = [sys.executable, "-m", "vibe_gate", "report", "--all", "-o", str(site)]
    processes = [
        subprocess.Popen(command, cwd=repo, env=environ, stdout=subprocess.DEVNULL)
        for _ in range(3)
    ]
    processes[2].send_signal(signal.SIGINT)
    assert [process.wait() for process in processes[:2]] == [0, 0]
    processes[2].wait()
    files = tree(site)
    assert {*files} == {
        ".vibe-gate-site",
        "index.html",
        *(f"runs/{run.run_id}.html" for run in runs),
    }
    assert all(
        data.rstrip().endswith(b"</html>") for name, data in files.items() if name.endswith(".html")
    )


def test_a_site_names_the_authors_of_commits_and_says_whether_judges_of_the_gate_block(
    environ, tmp_path
):
    repo = gated(tmp_path / "gated", environ, f'{GATE}[trust]\nblock = "earned"\n')
    first = repo.git("rev-parse", "HEAD")
    forging = f"Later\u2028{first} Mallory\r{first} Mallory"
    repo.git("commit", "-q", "--allow-empty", "-m", forging)
    record_run(repo.path, kind=Kind(key=first))
    record_run(repo.path, START + timedelta(hours=1), Kind(key=repo.git("rev-parse", "HEAD")))
    assert vibe_gate("report", "--all", "-o", "../site", cwd=repo.path, environ=environ).code == 0
    page = html.fromstring((tmp_path / "site/index.html").read_bytes())
    rows = [
        [cell.text_content() for cell in row][2:4]
        for row in page.xpath("//table[@id='list']/tbody/tr")
    ]
    assert rows[1] == ["Ada", "First"]
    assert rows[0][0] == "Ada" and rows[0][1].startswith("Later")
    rows = [
        [cell.text_content() for cell in row]
        for row in page.xpath("//figure[@id='judges']//tbody/tr")
    ]
    assert rows == [
        [
            f"quality/{name}",
            "no, only advises until 78 more clean changes are labelled",
            "",
            "",
            "uncalibrated",
        ]
        for name in ("errors-not-swallowed", "names-are-clear")
    ]
    assert (
        page.xpath("//section[@id='commits']/h2")[0].text
        == f"Commits: {repo.git('branch', '--show-current')}"
    )
    rows = [
        [cell.text_content() for cell in row]
        for row in page.xpath("//section[@id='commits']/details//tbody/tr")
    ]
    assert ["First", repo.git("log", "-1", "--format=%as"), "Ada"] in [row[1:4] for row in rows]
    run = next((repo.path / ".vibe-artifacts" / first).iterdir())
    (run / "events.ndjson").write_text(
        "{}\n"
    )  # in place: its page is current, its folder as it was
    result = vibe_gate("report", "--all", "-o", "../site", cwd=repo.path, environ=environ)
    assert f"run {run.name} is corrupt: " in result.err
    page = html.fromstring((tmp_path / "site/index.html").read_bytes())
    words = [cell.text_content() for cell in page.xpath("//table[@id='list']//td[2]")]
    assert words == ["pass", "corrupt"]


SECRETS = (
    "ghp_aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3fG5",
    "sk-ant-api03-own-key-of-this-environment",
    "AKIAQ3EGRZ7UP5KLMN2B",
)


def test_no_secret_of_a_title_a_name_or_a_branch_is_in_the_site(report, repo, environ, tmp_path):
    in_title, in_name, in_branch = SECRETS
    environ["ANTHROPIC_API_KEY"] = in_name
    (repo / "a.py").write_text("x = 1\n")
    commands = (
        ("checkout", "-q", "-b", f"try-{in_branch}"),
        ("add", "a.py"),
        (
            "commit",
            "-q",
            f"--author=Ann {in_name} <ann@example.com>",
            "-m",
            f"plain title {in_title}",
        ),
    )
    for command in commands:
        subprocess.run(["git", *command], cwd=repo, env=environ, check=True)
    assert vibe_gate("review", "HEAD~1..HEAD", "--no-judge", cwd=repo, environ=environ).code == 0
    assert report("-o", str(tmp_path / "site")).code == 0
    pages = b"".join(tree(tmp_path / "site").values()).decode()
    assert [secret for secret in SECRETS if secret in pages] == []
    assert "plain title" in pages and "Ann [redacted:" in pages


MONTH = timedelta(days=30)


def commit_then(repo: Path, environ: dict[str, str], at: datetime, title: str) -> str:
    """A commit that was made then; its id."""
    (repo / "a.py").write_text(f"title = {title!r}\n")
    dates = {"GIT_AUTHOR_DATE": at.isoformat(), "GIT_COMMITTER_DATE": at.isoformat()}
    for command in (("add", "a.py"), ("commit", "-q", "-m", title), ("rev-parse", "HEAD")):
        result = subprocess.run(
            ["git", *command],
            cwd=repo,
            env={**environ, **dates},
            capture_output=True,
            text=True,
            check=True,
        )
    return result.stdout.strip()


@pytest.fixture
def history(repo: Path, environ: dict[str, str]) -> list[str]:
    """A commit of two months before START, one of a month before it, and one of an hour after
    it.
    """
    subprocess.run(["git", "update-ref", "-d", "HEAD"], cwd=repo, env=environ, check=True)
    times = (START - 2 * MONTH, START - MONTH, START + timedelta(hours=1))
    return [commit_then(repo, environ, at, f"commit {number}") for number, at in enumerate(times)]


def coverage_told(site: Path) -> tuple[str, list[str]]:
    """The sentence about commits, and the heads of their folds."""
    page = html.fromstring((site / "index.html").read_bytes())
    section = page.xpath("//section[@id='commits']")[0]
    heads = [head.text_content() for head in section.xpath("./details/summary")]
    return section.xpath(".//p[@class='sentence']")[0].text, heads


def test_the_site_of_a_first_day_counts_commits_since_its_only_run(history, report, repo, tmp_path):
    record_run(repo, START, Kind(key=history[1]))
    for options in (
        (),
        ("--since", "2100-01-01"),
        ("--path", "nothing/**"),
    ):  # which choose runs, not the first one
        assert report("-o", str(tmp_path / "site"), *options).code == 0
        sentence, heads = coverage_told(tmp_path / "site")
        assert sentence.startswith(
            "Reviewed since 2026-01-02, the first run stored here: vibe-gate verify accepts 0 of 1"
        )
        assert heads == ["missing: 1 commit", "older than the first run: 2 commits"]


def test_the_site_of_a_clone_without_runs_calls_no_commit_a_gap(history, report, tmp_path):
    assert report("-o", str(tmp_path / "site")).code == 0
    sentence, heads = coverage_told(tmp_path / "site")
    assert sentence == "No run is stored here yet; commits count from the first run on."
    assert heads == ["without a run: 3 commits"]


@pytest.mark.parametrize(
    ("is_of_this_repository", "day", "older"), [(True, "2025-12-02", 1), (False, "2026-01-02", 2)]
)
def test_an_old_run_that_was_imported_counts_if_its_commit_is_here(
    history, report, repo, environ, tmp_path, is_of_this_repository, day, older
):
    other = tmp_path / "other"
    subprocess.run(["git", "clone", "-q", str(repo), str(other)], env=environ, check=True)
    key = history[1] if is_of_this_repository else KEY
    run = record_run(other, START - MONTH - timedelta(days=1), Kind(key=key))
    archive = str(tmp_path / "run.tar.xz")
    for place, words in ((other, ("export", run, "-o", archive)), (repo, ("import", archive))):
        result = vibe_gate("bundles", *words, cwd=place, environ=environ)
        assert result.code == 0, result.err
    record_run(repo, START, Kind(key=history[0]))
    assert report("-o", str(tmp_path / "site")).code == 0
    sentence, heads = coverage_told(tmp_path / "site")
    assert sentence.startswith(f"Reviewed since {day}, the first run stored here: ")
    assert heads[-1] == f"older than the first run: {older} commit{'s' if older > 1 else ''}"
