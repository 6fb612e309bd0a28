"""Whose each line is, against the record of who typed it."""

from __future__ import annotations

import operator
import os
import random
from collections import Counter
from datetime import UTC, datetime

import pytest
from command import vibe_gate
from typing_history import History, forty_commits

from vibe_gate.domain.environment import read_environment
from vibe_gate.git import open_repository
from vibe_gate.report import blame_rows, sentences
from vibe_gate.run.file_texts import MAX_SEARCHED
from vibe_gate.run.line_writes import AgentWrite, Chain, Version, find_writes_of_lines
from vibe_gate.store.captured_writes import WritingSessions, line_digests_of
from vibe_gate.store.clone_state import open_state
from vibe_gate.store.stored_writes import StoredWrite

A, B = "aaaaaaaa-session", "bbbbbbbb-session"


@pytest.fixture
def history(tmp_path, environ):
    history = History(tmp_path / "r", environ)
    history.event(A, hook_event_name="SessionStart")
    return history


def test_a_line_is_told_with_its_commit_session_turn_prompt_and_call(history):
    history.add_prompt(A, "Write a loader.\nIn Python.")
    history.put("a.py", 0, "def load(path):", "    return open(path).read()", by=A)
    history.put("a.py", 0, "import os", "")
    first = history.commit()
    history.add_prompt(A, "Close the file")
    history.put(
        "a.py", 3, "    with open(path) as file:", "        return file.read()", by=A, instead=1
    )
    person, _, defined, opened, returned = history.origins("a.py", "")
    assert (person.by, person.commit, person.asked) == ("person", first, "")
    assert (defined.by, defined.agent, defined.session, defined.turn) == ("agent", "claude", A, 1)
    assert (defined.asked, defined.tool, defined.commit) == ("Write a loader.", "Write", first)
    assert (opened.commit, opened.turn, opened.asked, opened.tool) == (
        "",
        2,
        "Close the file",
        "Edit",
    )
    assert returned.tool_use_id == opened.tool_use_id != defined.tool_use_id
    assert history.authors_of_lines("a.py", "") == history.typed["a.py"]


@pytest.fixture
def blame(history, environ):
    """`vibe-gate blame ARGV` about a file with two lines of a session and one of a person."""
    history.add_prompt(
        A,
        "Write \x1b[31mred\u202e text, with more words than a terminal has columns, which must be cut",
    )
    history.edit("a.py", "one()\n", by=A, tool="Write")
    history.edit("a.py", "one()\ntwo()\n", by=A, tool="Write")
    history.put("a.py", 2, "three()")
    history.repo.write("b.bin", b"\0\1")
    history.repo.write("empty.txt", b"")
    history.repo.git("config", "user.name", "\x1b[2Jann")
    history.commit()

    def run_blame(*argv):
        return vibe_gate("blame", *argv, cwd=history.repo.path, environ=environ)

    return run_blame


def test_the_command_groups_lines_and_escapes_what_people_wrote(blame):
    result = blame("a.py", "HEAD")
    assert result.code == 0, result.err
    head, agents, prompt, person = result.out.splitlines()
    assert head == "a.py at HEAD: 3 lines, 2 by agents, 1 by a person"
    assert agents.split()[0] == "1-2" and "Claude Code session aaaaaaaa, turn 1, Write" in agents
    assert "\\x1b[31mred\\u202e text" in prompt and "\x1b" not in result.out
    assert max(map(len, result.out.splitlines())) <= 80
    assert person.split()[2] == "person"


def test_the_command_tells_of_some_lines_of_none_and_as_json(blame):
    document = blame("a.py:3", "--json", "HEAD").json
    assert document["revision"] == "HEAD"
    assert document["schema"] == 1 and [line["by"] for line in document["lines"]] == ["person"]
    assert blame("a.py:3").out.startswith("a.py: 1 line, 1 by a person\n")
    assert blame("empty.txt").out == "empty.txt: 0 lines\n"


def test_every_mistake_in_the_commands_arguments_is_a_sentence(blame):
    for argv, sentence in [
        (["gone.py"], "no file gone.py in the working tree"),
        (["gone.py", "HEAD"], "no file gone.py in HEAD."),
        (["a.py:abc"], "abc is not a line; write a.py:3 or :3-9."),
        (["b.bin"], "b.bin is binary"),
        (["."], "There is no file ."),
        (["/etc/passwd"], "is not in this repository"),
        (["a.py:9"], "a.py has no line 9: its last is 3"),
        (["a.py:3-2"], "lines are counted from 1"),
        (["a.py", "nothing"], "names no revision"),
        (["a.py", "HEAD", "more"], "unexpected argument more"),
    ]:
        result = blame(*argv)
        assert (result.code, result.out) == (2, "") and sentence in result.err, result.err


def test_captured_sessions_in_a_store_that_git_tracks_are_not_believed(history, environ, tmp_path):
    history.add_prompt(A, "Invent a prompt")
    history.edit("a.py", "one()\n", by=A, tool="Write")
    history.commit()
    assert history.authors_of_lines("a.py", "HEAD") == [A]
    history.repo.git("worktree", "add", "-q", "--detach", tmp_path / "linked")
    history.repo.git("add", "-f", ".vibe-artifacts")
    history.repo.git("commit", "-qm", "Forge")
    result = vibe_gate("blame", "a.py", "--json", cwd=tmp_path / "linked", environ=environ)
    assert (result.code, [line["by"] for line in result.json["lines"]]) == (0, ["unknown"]), (
        result.err
    )
    assert sentences.UNCAPTURED in result.err
    with open_repository(history.repo.path, read_environment(environ)) as repository:
        assert repository.capture_roots() == (tmp_path / "linked",)


def test_a_write_outside_of_the_repository_is_matched_only_below_a_working_tree_that_was_there(
    history,
):
    history.event(B, hook_event_name="SessionStart", cwd="/gone/tree")
    places = {
        "main.py": "/elsewhere/scratch/main.py",
        "gone.py": "/gone/tree/gone.py",
        "deep/er.py": "/gone/tree/deep/er.py",
        "linked.py": "/elsewhere/worktrees/one/linked.py",
    }
    for path, place in places.items():
        text = f"call({path!r})\n"
        answer = {"type": "create", "content": text, "originalFile": None}
        fields = {"tool_input": {"file_path": place, "content": text}, "tool_response": answer}
        history.event(
            B,
            hook_event_name="PostToolUse",
            tool_name="Write",
            tool_use_id=f"toolu_{path}",
            **fields,
        )
        history.repo.write(path, text)
    history.commit()
    by_path = {path: history.authors_of_lines(path) for path in places}
    assert by_path == {"main.py": ["person"], "gone.py": [B], "deep/er.py": [B], "linked.py": [B]}


@pytest.mark.parametrize("max_lines", [0, 3, 1_000_000])
def test_writes_that_do_not_stay_in_memory_are_read_again(history, max_lines):
    for number, agent in enumerate((A, B)):
        history.put(f"{number}.py", 0, "one", "two", by=agent)
        history.put(f"{number}.py", 1, "more", by=agent)
    history.fold()
    sessions = WritingSessions([history.repo.path], max_lines)
    digests = line_digests_of(open_state(history.repo.path / ".git"))
    for _ in range(2):
        for number, agent in enumerate((A, B)):
            writing = sessions.writes_to(lambda path, n=number: path.endswith(f"{n}.py"), digests)
            writes_by_session = {session.session: session.writes for session in writing}
            assert writes_by_session.keys() == {A, B}
            (first, second) = writes_by_session.pop(agent)
            assert (len(first.final_lines), len(second.final_lines)) == (2, 3)
            assert [*writes_by_session.values()] == [()]


def test_equal_lines_stay_whose_they_are(history):
    person = ["def one():", "    return None", "}", "", "def two():", "    return None", "}"]
    history.put("a.py", 0, *person)
    history.commit()
    history.add_prompt(A, "Add three")
    history.put("a.py", 4, "def three():", "    return None", "}", "", by=A)
    history.put("a.py", 11, "", "def four():", "    return None", "}")
    history.put("a.py", 0, "import os", "", by=B)
    history.commit()
    # Three lines that stand above the agent's block just so: which three are the agent's nobody can
    # tell.
    assert history.typed["a.py"][6:10] == [A] * 4
    history.typed["a.py"][7:10] = ["person"] * 3
    assert history.authors_of_lines("a.py") == history.typed["a.py"]


@pytest.mark.slow
def test_a_line_that_a_person_types_again_after_it_was_deleted_is_the_persons(history):
    history.put("a.py", 0, "first()", "last()")
    history.commit()
    history.put("a.py", 1, "value = compute(everything)", "return None", by=A)
    history.commit()
    history.put("a.py", 1, instead=2)
    history.commit()
    history.put("a.py", 1, "value = compute(everything)", "return None")
    history.commit()
    assert history.authors_of_lines("a.py") == ["person"] * 4
    assert history.authors_of_lines("a.py", "HEAD~2") == ["person", A, A, "person"]


def test_a_file_that_an_agent_writes_anew_keeps_the_persons_lines(history):
    lines = [f"value_{number} = compute({number})" for number in range(30)]
    history.edit("a.py", "\r\n".join(lines))  # CRLF, and no newline at the end
    lines[10:12] = ["value_10 = other(10)"]
    text = "\r\n".join([*lines, "more = 1", "no_newline = 2"])
    history.edit("a.py", text, by=A, tool="Write")
    history.commit()
    assert history.authors_of_lines("a.py") == history.typed["a.py"]
    assert history.authors_of_lines("a.py").count(A) == 3


@pytest.mark.slow
def test_reverts_moves_and_formatters_change_no_typist(history):
    history.put(
        "a.py", 0, "import os", *[f"call_{number}('some', value)" for number in range(6)], by=A
    )
    history.put("a.py", 7, "mine = 'typed by hand'")
    history.commit()
    history.git("rm", "-q", "a.py")
    history.git("commit", "-q", "-m", "Remove")
    history.git("revert", "--no-edit", "HEAD")
    whose = ["aaaaaaaa-session"] * 7 + ["person"]
    assert history.authors_of_lines("a.py") == whose
    (history.repo.path / "b").mkdir()
    history.git("mv", "a.py", "b/c.py")
    history.git("commit", "-q", "-m", "Move")
    assert history.authors_of_lines("b/c.py") == whose
    history.repo.write(
        "b/c.py", history._text("b/c.py").replace("'", '"').replace("call_3(", "call_3(\n    ")
    )
    assert history.authors_of_lines("b/c.py", "") == [*whose[:5], *whose[4:]]
    history.commit("Format")
    assert history.authors_of_lines("b/c.py") == [*whose[:5], *whose[4:]]


@pytest.mark.parametrize("count", [MAX_SEARCHED // 2, MAX_SEARCHED + 10])
def test_a_commit_that_formats_and_writes_many_lines_changes_no_typist(history, count):
    calls = [f"call_{number}('some', value)" for number in range(count)]
    history.put("a.py", 0, *calls, by=A)
    history.commit()
    lines = []
    for call in calls:
        lines += [call.replace("'", '"'), f"mine = {call!r}"]
    history.repo.write("a.py", "\n".join([*lines, ""]))
    history.commit("Format")
    assert history.authors_of_lines("a.py") == [A, "person"] * count


def test_a_formatter_that_runs_before_the_commit_changes_no_typist(history):
    history.put("a.py", 0, "x = 1")
    history.commit()
    history.put(
        "a.py",
        1,
        "result = call('some', value, another, third)",
        "def f( ):",
        "    return  result",
        by=A,
    )
    call = 'result = call(\n    "some",\n    value,\n    another,\n    third,\n)\n'
    history.repo.write("a.py", f"x = 1\n{call}def f():\n    return result\n")
    history.commit()
    assert history.authors_of_lines("a.py") == ["person", *[A] * 8]


def test_what_is_not_known_is_unknown(history):
    history.put("a.py", 0, "typed()")
    history.commit("Change\n\nCo-Authored-By: Claude <noreply@anthropic.com>")
    (line,) = history.origins("a.py")
    assert (line.by, line.why) == (
        "unknown",
        f"commit {line.commit[:12]}: trailer Co-Authored-By: Claude",
    )
    history.now -= 10 * 86_400
    history.put("a.py", 1, "older()")
    history.commit("Before any session")
    origins = history.origins("a.py")
    assert [origin.by for origin in origins] == ["unknown", "unknown"]
    assert blame_rows.render_blame_row("a.py", "", origins, {}, str).plain.endswith(
        "\nunknown: no session was captured at that time\n"
    )


def call(history, tool, tool_input, answer=None, session=A):
    """Record the hook event of a tool call, whose file nobody has changed since."""
    data = {
        "tool_name": tool,
        "tool_use_id": "toolu_x",
        "tool_input": tool_input,
        "tool_response": answer,
    }
    history.event(session, hook_event_name="PostToolUse", cwd=str(history.repo.path), **data)


def settle(history, path):
    """Give the file the time of the last event, as if it had been written then."""
    os.utime(history.repo.path / path, (history.now, history.now))


def by(history, path, revision="HEAD"):
    return [origin.by for origin in history.origins(path, revision)]


def test_the_first_update_of_a_file_by_codex_is_known_by_its_patch(history):
    history.put("a.py", 0, "first()", "second()", "third()")
    history.commit()
    history.put("a.py", 3, "a_person_typed_this()")
    history.repo.write("a.py", "first()\nSECOND()\nthird()\na_person_typed_this()\n")
    patch = "*** Begin Patch\n*** Update File: a.py\n@@\n first()\n-second()\n+SECOND()\n third()\n*** End Patch\n"
    call(history, "apply_patch", {"command": patch}, session=f"codex.{A}")
    settle(history, "a.py")
    assert by(history, "a.py", "") == ["person", "agent", "person", "person"]
    history.commit()
    assert by(history, "a.py") == ["person", "agent", "person", "person"]


@pytest.mark.parametrize("is_settled", [True, False])
@pytest.mark.parametrize(
    ("tool", "tool_input", "answer"),
    [
        ("MultiEdit", {"file_path": "a.py", "edits": []}, None),
        ("NotebookEdit", {"notebook_path": "a.py"}, None),
        ("Edit", {"file_path": "a.py"}, {"originalFile": None}),
        ("Write", {"file_path": "a.py"}, {"type": "update"}),
        ("apply_patch", {"command": "*** Update File: a.py\n@@\n-not\n+there\n"}, None),
    ],
)
def test_lines_of_a_write_whose_change_is_not_told_are_no_persons(
    history, tool, tool_input, answer, is_settled
):
    history.put("a.py", 0, "first()")
    history.commit()
    history.repo.write("a.py", "first()\nan_agent_typed_this()\n")
    call(history, tool, tool_input, answer, session=f"codex.{A}" if tool == "apply_patch" else A)
    if is_settled:
        settle(history, "a.py")
    assert by(history, "a.py", "") == ["person", "unknown"]
    history.commit()
    assert by(history, "a.py") == ["person", "unknown"]


def test_a_notebook_and_several_edits_at_once_are_the_agents(history):
    before, after = "one()\ntwo()\n", "one()\nTWO()\nthree()\n"
    for path in ("n.ipynb", "m.py"):
        history.repo.write(path, before)
    history.commit()
    for path in ("n.ipynb", "m.py"):
        history.repo.write(path, after)
    call(
        history,
        "NotebookEdit",
        {"notebook_path": "n.ipynb"},
        {"original_file": before, "updated_file": after},
    )
    edits = [
        {"old_string": "two()", "new_string": "TWO()"},
        {"old_string": "TWO()", "new_string": "TWO()\nthree()"},
    ]
    call(
        history,
        "MultiEdit",
        {"file_path": "m.py", "edits": edits},
        {"originalFileContents": before},
    )
    history.commit()
    for path in ("n.ipynb", "m.py"):
        assert by(history, path) == ["person", "agent", "agent"], path


@pytest.mark.parametrize(
    "given_path", ["src/../src/a.py", "linked/a.py", "other.py", "{top}/linked/../src/a.py"]
)
def test_a_path_through_links_or_upwards_is_the_file_that_it_leads_to(history, given_path):
    history.put("src/a.py", 0, "first()")
    (history.repo.path / "linked").symlink_to("src")
    (history.repo.path / "other.py").symlink_to("src/a.py")
    history.commit()
    history.repo.write("src/a.py", "first()\nsecond()\n")
    tool_input = {"file_path": given_path.format(top=history.repo.path)}
    call(
        history,
        "Write",
        tool_input,
        {"type": "update", "originalFile": "first()\n", "content": "first()\nsecond()\n"},
    )
    history.commit()
    assert by(history, "src/a.py") == ["person", "agent"]


@pytest.mark.slow
def test_lines_from_the_time_of_a_lost_event_are_no_persons(history):
    history.put("before.py", 0, "one()")
    history.commit()
    history.put("after.py", 0, "one()")
    history.put("before.py", 1, "two()")
    gaps = history.repo.path / ".git/vibe-gate/captures/gaps"
    gaps.write_text(f"{history.now * 1000} OSError: No space left on device\n")
    history.commit()
    assert by(history, "before.py") == ["person", "unknown"]
    assert by(history, "after.py") == ["unknown"]
    history.put("later.py", 0, "one()")
    history.put("before.py", 2, "three()")
    history.commit()
    assert by(history, "before.py") == ["person", "unknown", "person"]
    assert "an agent's event was lost" in history.origins("before.py")[1].why


def test_an_event_that_only_the_guard_could_not_judge_is_not_lost(history):
    history.put("a.py", 0, "one()")
    gaps = history.repo.path / ".git/vibe-gate/captures/gaps"
    gaps.write_text(f"{history.now * 1000} guard: ValueError: No closing quotation\n")
    history.commit()
    assert by(history, "a.py") == ["person"]


def test_what_agents_wrote_after_a_commit_is_not_worked_out_for_its_lines():
    states = [((), (1, 2)), ((1, 2), (1, 2, 3)), ("cannot be matched", 3)]
    chain = Chain(
        AgentWrite(
            "claude",
            A,
            StoredWrite(datetime.fromtimestamp(at, UTC), "Edit", "", "a.py", frozenset(), *state),
        )
        for at, state in enumerate(states)
    )
    brought = find_writes_of_lines(chain, Version((1, 7, 2, 3), "", (1.5,)), range(4), lambda _: {})
    assert {line: write.at for line, write in brought.items()} == {0: 0, 2: 0, 3: 1}
    with pytest.raises(TypeError):
        find_writes_of_lines(chain, Version((3,), "", (9.0,)), [0], lambda _: {})


@pytest.mark.slow  # 40 commits by the git program
@pytest.mark.parametrize(("seed", "most"), [(28, 0), (8, 4), (18, 4)])
def test_forty_commits_of_two_agents_and_a_person(history, seed, most):
    """With amend, squash, rebase, a formatter, a moved file, equal lines, lines typed again, and a
    revert.

    `most`: lines of the person's that are said to be an agent's. None of those is the only one of
    its kind.
    """
    chance = random.Random(seed)
    rewritten = forty_commits(history, chance)
    right = lines = 0
    stolen: list[int] = []
    for path, typed in history.typed.items():
        named_authors = history.authors_of_lines(path)
        assert len(named_authors) == len(typed)
        text = ["".join(line.split()) for line in history.lines(path)]
        lines += len(typed)
        right += sum(map(operator.eq, named_authors, typed))
        stolen += [
            text.count(line)
            for author, other, line in zip(typed, named_authors, text, strict=True)
            if author == "person" and other not in ("person", "unknown")
        ]
    share = Counter(by for typed in history.typed.values() for by in typed)
    figures = f"{right / lines:.1%} right, {len(stolen)} taken from a person"
    print(f"{history.commits} commits, {lines} lines {dict(share)}: {figures}")
    assert history.commits >= 40 and rewritten
    assert int(history.repo.git("rev-list", "--count", "HEAD")) >= 35
    assert right / lines >= 0.98
    assert len(stolen) <= most
    assert 1 not in stolen
