"""Who wrote a reviewed line: in the run's page, in the store and elsewhere, and by `sessions
show`.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from command import vibe_gate
from lxml import html
from program import git
from report.written_runs import write

from vibe_gate.domain.environment import read_environment
from vibe_gate.faces.run_page import page_of, shares_prompts
from vibe_gate.git import open_repository
from vibe_gate.store.run_result import read_bundle

SESSION = "0f3c9a1e-1111-2222-3333-444455556666"
PROMPT = "Write the prices down.\n\n</script><script>alert(1)</script> \u202eevil"
CODE = "def price():\n    return 1\n"


@pytest.fixture
def ask(repo: Path, environ: dict[str, str]):
    """Runs vibe-gate in a repository in which a captured session wrote two of three staged lines of
    a file.
    """
    file = repo / "src" / "price.py"
    file.parent.mkdir(exist_ok=True)
    call = {"hook_event_name": "PostToolUse", "tool_name": "Write", "tool_use_id": "toolu_1"}
    answer = {"type": "create", "filePath": str(file), "content": CODE}
    call |= {"tool_input": {"file_path": str(file), "content": CODE}, "tool_response": answer}
    events = [{"hook_event_name": "UserPromptSubmit", "prompt": PROMPT}, call]
    spool = repo / ".git" / "vibe-gate" / "captures" / SESSION
    spool.mkdir(parents=True)
    ms = int(time.time() * 1000) - 60_000
    lines = [json.dumps({"ts": ms + number, "event": event}) for number, event in enumerate(events)]
    (spool / "events.ndjson").write_text("\n".join(lines) + "\n")
    file.write_text(f"{CODE}COST = 2  # typed by hand\n")
    git(repo, "add", "src")

    def run(*argv: str) -> str:
        result = vibe_gate(*argv, cwd=repo, environ=environ)
        assert result.code in (0, 1), result.err
        return result.out

    return run


def commit(repo: Path) -> str:
    """A commit of this moment: what was captured was before it."""
    now = f"@{int(time.time())} +0000"
    git(repo, "commit", "-qm", "prices", GIT_AUTHOR_DATE=now, GIT_COMMITTER_DATE=now)
    return git(repo, "rev-parse", "HEAD")


def data_of(page: str) -> dict:
    return json.loads(html.fromstring(page).get_element_by_id("data").text)


def written_lines(page: str) -> list[list[object]]:
    return data_of(page)["written"]


@pytest.mark.slow  # a review and four pages
def test_a_page_in_the_store_has_the_prompt_and_one_elsewhere_the_turn_alone(ask, repo, tmp_path):
    ask("review", "--staged", "--no-judge", "--html", str(tmp_path / "first.html"))
    stored_page = Path(ask("report").strip()).read_text()
    assert written_lines(stored_page) == [["src/price.py", 1, 2, 0, "Write", "toolu_1"]]
    section = html.fromstring(stored_page).get_element_by_id("w-1")
    assert "Claude Code, turn 1" in section.text_content() and SESSION in section.text_content()
    (prompt,) = section.xpath("pre")
    assert prompt.text.startswith(
        "Write the prices down.\n\n</script><script>alert(1)</script> ⟦U+202E⟧"
    )
    away = ask("report", "-o", "-")
    assert away == (tmp_path / "first.html").read_text()
    assert written_lines(away) == written_lines(stored_page) and "made without the prompts" in away
    assert "prices" not in away.replace(str(repo), "") and "alert(1)" not in away
    assert ask("report", "-o", "-", "--prompts") == stored_page
    commit(repo)
    assert Path(ask("report").strip()).read_text() == stored_page


@pytest.mark.slow  # a review and two pages
def test_a_page_tells_who_wrote_staged_lines_after_the_index_changed_or_says_that_it_cannot(
    ask, repo
):
    ask("review", "--staged", "--no-judge")
    (repo / "src" / "price.py").write_text("COST = 3\n")
    git(repo, "add", "src")
    page = Path(ask("report").strip()).read_text()
    assert (
        written_lines(page) == [["src/price.py", 1, 2, 0, "Write", "toolu_1"]]
        and "Write the prices down." in page
    )
    (repo / "src" / "price.py").write_text(f"KEY = 'ghp_{'a1B2c3D4e5F6' * 3}'\n")
    git(repo, "add", "src")
    ask("review", "--staged", "--no-judge")  # what the bundle has of it is redacted
    (repo / "src" / "price.py").write_text("COST = 4\n")
    git(repo, "add", "src")
    page = Path(ask("report").strip()).read_text()
    assert not written_lines(page) and "Who wrote the lines is not known" in page


def test_a_page_that_leaves_has_no_conversation_that_was_shown_a_prompt(tmp_path):
    bundle = read_bundle(write(tmp_path, shown={"prompt": "private"}))
    away, stored_page = (page_of(bundle, None, prompts=prompts) for prompts in (None, True))
    words = "Is every type right?"
    assert (
        words in events_of(stored_page)
        and words not in events_of(away)
        and "because it has prompts" in away
    )
    shared = read_bundle(write(tmp_path, shown={"prompt": "shared"}))
    assert words in events_of(page_of(shared, None, prompts=None))


def events_of(page: str) -> str:
    return "".join(head[-1] for turn in data_of(page)["turns"] for head in turn["heads"])


@pytest.mark.slow
def test_prompts_leave_the_clone_only_if_the_committed_gate_says_redacted(repo, environ):
    def shared() -> bool:
        with open_repository(repo, read_environment(environ)) as repository:
            return shares_prompts(repository)

    assert not shared()
    gate = repo / ".vibe-gate" / "gate.toml"
    for mode, may in (("digest", False), ("redacted", True), ("nonsense", False)):
        gate.parent.mkdir(exist_ok=True)
        gate.write_text(f'schema = 1\n[share]\nprompts = "{mode}"\n')
        git(repo, "add", "-f", ".vibe-gate")
        assert not shared()  # not committed yet
        git(repo, "commit", "-qm", mode)
        assert shared() == may
        git(repo, "reset", "-q", "--hard", "HEAD~1")


def test_a_captured_session_leads_to_its_lines_of_head(ask, repo):
    head = commit(repo)
    output = ask("sessions", "show", SESSION)
    assert f"  Write {repo}/src/price.py\n  at HEAD: src/price.py:1-2  {head[:12]}\n" in output
    (turn,) = json.loads(ask("sessions", "show", SESSION, "--json"))["turns"]
    assert turn["lines"] == [
        {"turn": 1, "path": "src/price.py", "line": 1, "end_line": 2, "commit": head}
    ]
