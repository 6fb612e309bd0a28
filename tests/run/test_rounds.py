"""The round before a stored review: which run is one, and what became of its findings."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from bundle_words import START, Clock, OneSecretRedactor
from command import vibe_gate
from lxml import html
from msgspec.structs import replace
from repos import Repo
from summaries import changed, criterion, finding, rubric, summary
from working import WorkingRepo

from vibe_gate.domain.bundles import RunEntry
from vibe_gate.domain.cause import NoKey
from vibe_gate.domain.environment import read_environment
from vibe_gate.domain.leaving import PRIVATE
from vibe_gate.domain.summary import Summary
from vibe_gate.faces import run_page
from vibe_gate.git import Repository, open_repository
from vibe_gate.run.rounds import asks_the_same, find_round_before, record_since
from vibe_gate.store.bundle_listing import find_bundles
from vibe_gate.store.run_result import read_bundle
from vibe_gate.store.store import open_store

FAILED = rubric(criterion("x", "fail"), outcome="fail")
ONE, TWO = (
    finding(name, line=at, criterion="x", fingerprint=f"{at}" * 16)
    for at, name in ((1, "one"), (2, "two"))
)


def failed_review(tree: str, base: str, head: str = "", **fields: object) -> Summary:
    """A review of the tree `tree`, which failed."""
    usual_fields = {"rubrics": (FAILED,), "outcome": "fail", "exit_code": 1, "findings": (ONE,)}
    review = summary(**usual_fields | fields)
    change = replace(review.change, after=tree * 40, base_commit=base, head_commit=head)
    return replace(review, change=change)


class Store:
    """Runs of a repository, each later than the one before."""

    def __init__(self, root: Path, repository: Repository) -> None:
        self.root, self.repository, self._at = root, repository, START

    def keep(self, review: Summary, kind: str = "staged", **fields: object) -> str:
        """Seal a run; its id."""
        self._at += timedelta(minutes=1)
        run = open_store(self.root, OneSecretRedactor(), Clock()).begin(
            review.key, self._at, {"change": {"kind": kind}, **fields}
        )
        run.seal(replace(review, run_id=run.run_id, bundle=run.relative))
        assert run.lost is None, run.lost
        return run.run_id

    def before(self, run: str) -> str:
        """The round before this run; "" if there is none."""
        entries = find_bundles(self.root)
        (entry,) = (entry for entry in entries if entry.run_id == run)
        record = find_round_before(read_bundle(self.root / entry.bundle), entries, self.repository)
        return record.after if record else ""


@pytest.fixture
def repo(tmp_path: Path, environ: dict[str, str]) -> Repo:
    return Repo(tmp_path / "repo", environ)


@pytest.fixture
def store(repo: Repo, environ: dict[str, str]) -> Iterator[Store]:
    with open_repository(repo.path, read_environment(environ)) as repository:
        yield Store(repo.path, repository)


def test_the_round_before_uncommitted_work_is_the_last_review_of_its_kind_upon_the_same_commit(
    store,
):
    base = "d" * 40
    first = store.keep(failed_review("1", base))
    assert not store.before(first)
    store.keep(failed_review("2", base), "worktree")
    store.keep(failed_review("2", "e" * 40))
    store.keep(failed_review("2", base, outcome="inconclusive", exit_code=3))
    store.keep(failed_review("3", base, workflow="fix"))
    assert store.before(store.keep(failed_review("3", base))) == first
    third = store.keep(failed_review("4", base, files=(changed("src/other.py"),)))
    assert not store.before(third), "another change, which was staged meanwhile"
    assert not store.before(store.keep(failed_review("5", base))), (
        "the last one is not about the same files"
    )
    clean = [failed_review(tree, base, outcome="pass", exit_code=0, findings=()) for tree in "67"]
    assert [bool(store.before(store.keep(review))) for review in clean] == [True, False], (
        "nothing was found in either"
    )
    private = store.keep(failed_review("8", base), shown={"prompt": PRIVATE})
    assert not store.before(store.keep(failed_review("9", base))), f"{private} stays in the clone"
    damaged = store.keep(failed_review("1", base))
    next(store.root.glob(f".vibe-artifacts/*/{damaged}/run.json")).write_text("{}")
    assert not store.before(store.keep(failed_review("2", base))), (
        "of a damaged run nothing is told"
    )


def test_the_round_before_commits_has_an_ancestor_as_its_head(store, repo):
    base, first = repo.commit("base"), repo.commit("one")
    repo.git("checkout", "-q", "-b", "other", base)
    beside = repo.commit("beside")
    repo.git("checkout", "-q", "-")
    second, amended = repo.commit("two"), "f" * 40
    run = store.keep(failed_review("1", base, first), "range")
    for tree, head in (("2", beside), ("3", amended), ("4", "--all")):
        store.keep(failed_review(tree, base, head), "range")
    assert store.before(store.keep(failed_review("5", base, second), "range")) == run
    assert not store.before(store.keep(failed_review("5", first, second), "range")), (
        "it began elsewhere"
    )


def test_the_page_of_the_round_before_is_linked_unless_another_run_has_its_id(store, tmp_path):
    first, second = (store.keep(failed_review(tree, "d" * 40)) for tree in "12")
    (tmp_path / f"{first}.html").write_text("whose?")
    entries = find_bundles(store.root)
    result = read_bundle(
        store.root / next(entry.bundle for entry in entries if entry.run_id == second)
    )
    other = RunEntry(first, "f" * 40)
    for runs, page in ((entries, f"{first}.html"), ([*entries, other], "")):
        earlier = run_page.round_before(result, runs, store.repository, tmp_path)
        assert earlier and (earlier.record.after, earlier.page) == (first, page)


def test_other_rubrics_or_questions_that_one_did_not_ask_make_no_round():
    review = failed_review("1", "d" * 40)
    unasked = criterion("y", "not_applicable", kind="judge", decided_by="none", cause=NoKey())
    for rubrics in ((replace(FAILED, digest="1" * 64),), (FAILED, replace(FAILED, id="more"))):
        assert not asks_the_same(review, replace(review, rubrics=rubrics))
    with_judges = replace(review, rubrics=(replace(FAILED, criteria=(*FAILED.criteria, unasked)),))
    assert not asks_the_same(review, with_judges)
    assert asks_the_same(with_judges, with_judges)


def test_nothing_is_fixed_that_this_run_could_not_tell_or_that_is_not_staged_any_more():
    before = failed_review("1", "d" * 40, findings=(ONE, TWO))
    now = failed_review(
        "2", "d" * 40, findings=(TWO, finding("three", criterion="x", fingerprint="3" * 16))
    )
    record = record_since(before, now)
    assert str(record.counts) == "1 new, 1 still open, 1 fixed"
    assert [finding.message for finding in (*record.new, *record.fixed)] == ["three", "one"]
    undecided = replace(now, rubrics=(rubric(criterion("x", "error"), outcome="error"),))
    elsewhere = replace(now, change=replace(now.change, files=(changed("src/b.py"),)))
    for unable in (undecided, elsewhere):
        assert (
            str(record_since(before, unable).counts)
            == "1 new, 1 still open, 0 fixed, 1 not found again"
        )
    committed = replace(
        elsewhere, change=replace(elsewhere.change, head_commit="2" * 40), findings=(TWO,)
    )
    assert record_since(before, committed).counts.fixed == 1, "commits say that it is gone"


@pytest.mark.slow  # three reviews, three pages
def test_the_page_of_a_staged_change_says_what_was_fixed_since_the_run_before_and_links_its_page(
    tmp_path, environ
):
    repo = WorkingRepo(tmp_path / "repo", environ)

    def review(**texts: str) -> str:
        for name, text in texts.items():
            repo.write(f"src/{name}.py", text)
        repo.git("add", "-A")
        return str(
            vibe_gate("review", "--staged", "--json", cwd=repo.path, environ=environ).json["run_id"]
        )

    def page(*argv: str) -> html.HtmlElement:
        result = vibe_gate("report", *argv, cwd=repo.path, environ=environ)
        return html.fromstring(result.out if "-" in argv else Path(result.out.strip()).read_text())

    first = review(load="A = 1  # TODO\n", save="B = 2  # TODO\n")
    assert not page().xpath("//h2[.='Rounds']")
    review(load="A = 1\n", move="C = 3  # TODO\n")
    (paragraph,) = page().xpath("//h2[.='Rounds']/following-sibling::p[1]")
    assert paragraph.text_content() == f"Since run {first}: 1 new, 1 still open, 1 fixed."
    assert paragraph.xpath("a/@href") == [f"{first}.html"]
    assert not page("-o", "-").xpath("//h2[.='Rounds']/following-sibling::p[1]/a"), (
        "nothing stands beside stdout"
    )
    site = Path(vibe_gate("report", "--all", cwd=repo.path, environ=environ).out.strip()).parent
    written = "".join(page_file.read_text() for page_file in (site / "runs").iterdir())
    assert f'Since run <a href="{first}.html">{first}</a>: 1 new' in written
