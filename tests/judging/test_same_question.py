"""A question is asked again if a judge would be shown something else, or had looked further; else
nothing is asked.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing

import pytest
import repos
from answers import CHANGES, answers, fails, passes
from repos import GATE, Repo
from scripted_messages_api import MessagesRequest, ToolUse, Turn
from walks import run_review
from wire import answer, answering

from vibe_gate.domain.summary import Summary
from vibe_gate.report import queries

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("quick_agents")]

RUBRIC = """\
schema = 1
id = "quality"
second_look = "never"
[[criterion]]
id = "errors-not-swallowed"
kind = "judge"
must = true
question = "Does every new handler say why?"
paths = ["src/**"]
[[criterion]]
id = "queries-are-bound"
kind = "judge"
question = "Are all values of queries bound?"
paths = ["db/**"]
"""
LIMITS = "".join(f"LIMIT_{number} = {number}\n" for number in range(40))
LOAD = f"{LIMITS}\n\n{repos.GOOD}".replace("def load(", "def load_rows(")
SWALLOWS = f"{LIMITS}\n\n{repos.SWALLOWS}".replace("def load(", "def load_rows(")
SHOP = "from load import load_rows\n\n\ndef buy(path):\n    return load_rows(path)\n"
TEST = "from load import load_rows\n\n\ndef test_it():\n    assert load_rows('a')\n"
HANDLER = {"path": "src/load.py", "line": 46, "quote": "    except OSError:", "side": "after"}

Files = dict[str, str]
"""Contents by path; "" is a file that is not there."""

BASE: Files = {
    ".vibe-gate/gate.toml": GATE,
    ".vibe-gate/rubrics/quality.toml": RUBRIC,
    "src/load.py": LOAD,
    "app/shop.py": SHOP,
    "tests/test_load.py": TEST,
    "docs/index.md": "Hello.\n",
}
CHANGE: Files = {"src/load.py": SWALLOWS}
FUNCTIONS = "".join(f"def function_{number}():\n    return {{0}}\n\n\n" for number in range(40))


def moved(files: Files) -> Files:
    return {path.replace("load.py", "loader.py"): text for path, text in files.items()}


NOT_SHOWN: dict[str, tuple[Files, Files]] = {
    "the base changed a file outside of the paths": (BASE | {"docs/index.md": "Hello!\n"}, CHANGE),
    "the change has a file outside of the paths, too": (BASE, CHANGE | {"docs/more.md": "More.\n"}),
    "it moves one": (BASE, CHANGE | {"docs/index.md": "", "docs/hello.md": "Hello.\n"}),
    "it changes more functions there than are looked up": (
        BASE | {"app/a.py": FUNCTIONS.format(1)}, CHANGE | {"app/a.py": FUNCTIONS.format(2)},
    ),
    "a caller stands a line further down": (BASE | {"app/shop.py": f"import os\n{SHOP}"}, CHANGE),
    "there is another test, of something else": (BASE | {"tests/test_docs.py": "def test_docs():\n    pass\n"}, CHANGE),
}  # fmt: skip
SHOWN: dict[str, tuple[Files, Files]] = {
    "a line of the file that is too far away to be shown is another": (
        BASE | {"src/load.py": LOAD.replace("LIMIT_0 = 0", "LIMIT_0 = 9")},
        {"src/load.py": SWALLOWS.replace("LIMIT_0 = 0", "LIMIT_0 = 9")},
    ),
    "a line near the same hunk is another": (
        BASE | {"src/load.py": LOAD.replace("LIMIT_39 = 39", "LIMIT_39 = 9")},
        {"src/load.py": SWALLOWS.replace("LIMIT_39 = 39", "LIMIT_39 = 9")},
    ),
    "the same hunk is a line further down": (
        BASE | {"src/load.py": f"import os\n{LOAD}"}, {"src/load.py": f"import os\n{SWALLOWS}"},
    ),
    "the same hunk is in a file of another name": (moved(BASE), moved(CHANGE)),
    "a caller outside of the paths calls it otherwise": (
        BASE | {"app/shop.py": SHOP.replace("load_rows(path)", "load_rows(path) or 0")}, CHANGE,
    ),
    "the change brings a caller outside of the paths": (BASE, CHANGE | {"app/cli.py": "from load import load_rows\n"}),
    "a test that names it has another name": (
        BASE | {"tests/test_load.py": "", "tests/test_all.py": TEST}, CHANGE,
    ),
    "no test is left": (BASE | {"tests/test_load.py": ""}, CHANGE),
    "a file that another criterion of the rubric is about changes, too": (BASE, CHANGE | {"db/a.sql": "SELECT 1;\n"}),
}  # fmt: skip


class Asking:
    """Reviews in one clone, by one model."""

    def __init__(
        self, repo: Repo, environ: dict[str, str], requests: list[MessagesRequest]
    ) -> None:
        self.repo, self.environ, self.requests = repo, repo.environ | environ, requests

    def __call__(self, base: Files = BASE, change: Files = CHANGE) -> int:
        """How many requests the review of `change` on top of `base` takes."""
        before = len(self.requests)
        self.review(base, change)
        return len(self.requests) - before

    def review(self, base: Files = BASE, change: Files = CHANGE) -> Summary:
        for files in (base, base | change):
            self.repo.git("rm", "-rq", "--ignore-unmatch", ".")
            self.repo.commit("Change", **{path: text for path, text in files.items() if text})
        return run_review(self.repo.path, self.environ).summary


@pytest.fixture
def asking(tmp_path, environ) -> Iterator[Callable[..., Asking]]:
    """Begins with a first review, of CHANGE on top of BASE, by a model that does as `step` says."""
    with ExitStack() as stack:

        def begin(step: Callable[[MessagesRequest], Turn]) -> Asking:
            model = stack.enter_context(answering(step, repeat_last=True))
            asker = Asking(Repo(tmp_path / "repo", environ), model.environ, model.script.requests)
            asker.review()
            return asker

        yield begin


def asked_about(request: MessagesRequest) -> list[str]:
    """The criteria of the request."""
    return [
        name
        for name in ("errors-not-swallowed", "queries-are-bound")
        if f"[{name}]" in request.all_text
    ]


def judge(request: MessagesRequest) -> Turn:
    return answer(passes(*asked_about(request)))


def looking(request: MessagesRequest) -> Turn:
    return (
        judge(request)
        if request.tool_results
        else Turn(ToolUse("Read", {"file_path": "after/src/load.py"}))
    )


def test_what_a_judge_is_not_shown_asks_nothing_again(asking):
    second_question = asking(judge)
    assert {name: second_question(*files) for name, files in NOT_SHOWN.items()} == dict.fromkeys(
        NOT_SHOWN, 0
    )


def test_what_a_judge_is_shown_is_asked_about(asking):
    second_question = asking(judge)
    assert {name: second_question(*files) for name, files in SHOWN.items()} == dict.fromkeys(
        SHOWN, 1
    )
    assert asked_about(second_question.requests[-1]) == [
        "errors-not-swallowed",
        "queries-are-bound",
    ]


def test_nothing_outside_of_the_paths_is_shown_but_callers_and_tests_by_name(asking):
    asker = asking(judge)
    assert asker(change=CHANGE | {"db/a.sql": "SELECT 1;\n", "docs/more.md": "More.\n"}) == 1
    assert "db/a.sql" in asker.requests[-1].all_text
    assert "docs/more.md" not in asker.requests[-1].all_text


MOVED = {"lib/more.py": "", "src/more.py": SWALLOWS}


def test_a_file_that_moves_to_where_a_question_looks_is_shown_whole(asking):
    asker = asking(judge)
    assert asker(BASE | {"lib/more.py": SWALLOWS}, MOVED) == 1
    assert "+|LIMIT_0 = 0" in asker.requests[-1].all_text


def test_a_quote_of_a_file_that_moves_there_holds(asking):
    asker = asking(lambda _: answer(answers(fails(HANDLER | {"path": "src/more.py"}))))
    (finding,) = asker.review(BASE | {"lib/more.py": SWALLOWS}, MOVED).findings
    assert (finding.path, finding.line) == ("src/more.py", 46)


def test_a_line_that_a_move_removes_is_shown_and_counts_as_evidence(asking):
    removed = {"path": "src/more.py", "line": 40, "quote": "LIMIT_39 = 39", "side": "before"}
    asker = asking(lambda _: answer(answers(fails(removed))))
    moved = MOVED | {"src/more.py": SWALLOWS.replace("LIMIT_39 = 39\n", "")}
    summary = asker.review(BASE | {"lib/more.py": SWALLOWS}, moved)
    assert "    40        -|LIMIT_39 = 39" in asker.requests[-1].all_text
    assert "           40 +|" in asker.requests[-1].all_text
    assert summary.outcome == "fail"


def test_a_file_that_is_too_large_to_be_shown_whole_is_listed_and_its_changed_lines_are_shown(
    asking,
):
    large = "".join(f"LIMIT_{number} = {number}\n" for number in range(60_000))
    asker = asking(judge)
    summary = asker.review(
        BASE | {"lib/more.py": large}, MOVED | {"src/more.py": f"{large}LAST = 1\n"}
    )
    assert "+|LAST = 1" in asker.requests[-1].all_text
    assert [
        (item.path, item.reason) for item in summary.unreviewed if item.path.startswith("src")
    ] == [("src/more.py", "moved here, and too large to be shown whole")]


def test_a_file_that_moves_into_the_scope_of_a_rubric_is_shown_whole(asking):
    scoped = {
        ".vibe-gate/gate.toml": 'schema = 1\n[[scope]]\npaths = ["src/**"]\nrubrics = ["quality"]\n',
        ".vibe-gate/rubrics/quality.toml": RUBRIC.replace('paths = ["src/**"]\n', ""),
    }
    asker = asking(judge)
    assert asker(BASE | scoped | {"lib/more.py": SWALLOWS}, MOVED) == 1
    assert "+|LIMIT_0 = 0" in asker.requests[-1].all_text


def test_a_file_that_leaves_a_labelled_case_is_shown_whole(asking):
    asker = asking(judge)
    case = ".vibe-gate/cases/one/after/more.py"
    everywhere = {".vibe-gate/rubrics/quality.toml": RUBRIC.replace('paths = ["src/**"]\n', "")}
    assert asker(BASE | everywhere | {case: SWALLOWS}, {case: "", "src/moved.py": SWALLOWS}) == 1
    assert "+|LIMIT_0 = 0" in asker.requests[-1].all_text


def test_an_answer_about_a_moved_file_is_none_about_other_content(asking):
    second_question = asking(judge)
    inside = {"src/more.py": "", "src/moved.py": LOAD}
    other = LOAD.replace("LIMIT_0 = 0", "LIMIT_0 = 9")
    assert second_question(BASE | {"src/more.py": LOAD}, inside) == 1
    assert second_question(BASE | {"src/more.py": other}, inside | {"src/moved.py": other}) == 1


@pytest.mark.usefixtures("real_cli")
def test_a_judge_that_used_tools_is_asked_again_about_other_trees(asking):
    second_question = asking(looking)
    assert (
        second_question(),
        second_question(*NOT_SHOWN["the base changed a file outside of the paths"]),
    ) == (0, 2)


def test_a_fail_that_is_reused_has_its_finding_and_counts_as_from_the_cache(asking):
    second_question = asking(lambda _: answer(answers(fails(HANDLER))))
    first = second_question.review()
    reused = second_question.review(*NOT_SHOWN["a caller stands a line further down"])
    assert len(second_question.requests) == 1
    assert (reused.exit_code, reused.findings) == (1, first.findings)
    assert queries.change_description(reused) == queries.change_description(first) == CHANGES
    assert (reused.cache.hits, reused.cache.misses, reused.cost.usd) == (1, 0, 0)


def test_an_answer_whose_evidence_does_not_stand_in_the_change_is_asked_for_again(asking):
    second_question = asking(lambda _: answer(answers(fails(HANDLER))))
    with closing(
        sqlite3.connect(second_question.repo.path / ".git/vibe-gate/state.db", isolation_level=None)
    ) as database:
        database.execute(
            "UPDATE answers SET answer = replace(answer, 'except OSError', 'except KeyError')"
        )
    reused = second_question.review(*NOT_SHOWN["a caller stands a line further down"])
    assert len(second_question.requests) == 2
    assert reused.findings[0].evidence[0].quote == "except OSError:"
