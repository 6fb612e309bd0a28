"""Sessions: the SDK's own conformance suite, and what its contracts do not say."""

from __future__ import annotations

import asyncio
import json
import os
from itertools import count
from pathlib import Path

import pytest
from bundle_schemas import find_problems
from bundle_words import SECRET, Clock, OneSecretRedactor
from claude_agent_sdk import list_sessions_from_store
from claude_agent_sdk.testing import run_session_store_conformance

from vibe_gate.agent import fork_stored_session, read_session_messages, sdk_project_key
from vibe_gate.errors import AgentError, StorageError, UsageError
from vibe_gate.secrets import Redactor
from vibe_gate.sessions import Sessions
from vibe_gate.store.clone_state import open_state
from vibe_gate.store.store import open_store

ID = "6f1c2d3e-0a1b-4c2d-8e3f-{0:012d}"
FIRST = ID.format(1)


def sessions_in(
    root: Path,
    redact=OneSecretRedactor(),  # noqa: B008
    index=None,
    clock=None,
    begun=None,
) -> Sessions:
    root.mkdir(exist_ok=True)
    clock = clock or Clock()
    return Sessions(open_store(root, redact, clock).sessions(), redact.value, clock, index, begun)


def opened(sessions: Sessions, workspace: Path, **start):
    return sessions.open(workspace, sdk_project_key(workspace), **start)


def key(workspace: Path, session_id: str = FIRST) -> dict[str, str]:
    return {"project_key": sdk_project_key(workspace), "session_id": session_id}


def entry(number: int, text: str, kind: str = "user", session_id: str = FIRST, **fields):
    parent = ID.format(100 + number - 1) if number > 1 else None
    message = {"role": kind, "content": [{"type": "text", "text": text}]}
    details = {
        "uuid": ID.format(100 + number),
        "parentUuid": parent,
        "sessionId": session_id,
        "isSidechain": False,
    }
    return {
        "type": kind,
        **details,
        "timestamp": "2026-01-02T03:04:05.678Z",
        "message": message,
        **fields,
    }


def tree(letter: str, number: int) -> str:
    return f"{letter}{number}" + "0" * 38


def talk(mirror, workspace: Path, turns: int = 1, session_id: str = FIRST) -> None:
    """So many turns of a prompt and an answer, each finished."""
    for turn in range(1, turns + 1):
        entries = [
            entry(2 * turn - 1, f"Do {turn}.\nMore."),
            entry(2 * turn, f"Done {turn}.", "assistant"),
        ]
        asyncio.run(mirror.append(key(workspace, session_id), entries))
        mirror.finish(
            session_id,
            before=tree("b", turn),
            after=tree("a", turn),
            usd=0.25,
            input_tokens=100,
            output_tokens=20,
        )


def messages(root: Path) -> Path:
    (folder,) = (root / ".vibe-artifacts" / "sessions").iterdir()
    return folder / "messages.jsonl"


# The SDK's contracts


def test_the_sdks_conformance_suite_is_green(tmp_path):
    number = count()

    def create_store():
        return opened(sessions_in(tmp_path / str(next(number)), Redactor({})), tmp_path)

    asyncio.run(
        run_session_store_conformance(
            create_store, skip_optional=frozenset({"list_session_summaries"})
        )
    )


def test_the_sdk_lists_what_we_list(tmp_path):
    sessions = sessions_in(tmp_path)
    talk(opened(sessions, tmp_path), tmp_path)
    (listed_session,) = asyncio.run(
        list_sessions_from_store(opened(sessions, tmp_path), str(tmp_path))
    )
    (ours,) = sessions.all()
    assert (
        (listed_session.session_id, listed_session.first_prompt)
        == (FIRST, "Do 1. More.")
        == (ours.session_id, "Do 1. More.")
    )
    assert ours.title == "Do 1."


# What is written


def test_meta_says_what_the_session_is_and_what_each_turn_made(tmp_path):
    sessions = sessions_in(tmp_path)
    mirror = opened(
        sessions, tmp_path, agent="fixer", model="m", run="r", node="fixer", cwd="/home/ada/project"
    )
    talk(mirror, tmp_path, turns=2)
    (item,) = sessions.all()
    assert item.id == "vibe_20260102_030405_6f1c2d3e" and messages(tmp_path).parent.name == item.id
    document = json.loads((messages(tmp_path).parent / "meta.json").read_text())
    assert document | {"turns": []} == {
        "schema": 1, "session_id": FIRST, "parent_session_id": "", "title": "Do 1.", "cwd": "/home/ada/project",
        "agent": "fixer", "model": "m", "run": "r", "node": "fixer", "project": "",
        "created_at": document["created_at"], "updated_at": document["updated_at"], "turns": [], "private": False,
    }  # fmt: skip
    problems, names = find_problems(messages(tmp_path).parents[2])
    assert (problems, names) == ([], {"session-meta", "session-message"})
    assert [(turn.last, turn.before, turn.after, turn.usd) for turn in item.turns] == [
        (ID.format(102), tree("b", 1), tree("a", 1), 0.25), (ID.format(104), tree("b", 2), tree("a", 2), 0.25),
    ]  # fmt: skip


def test_what_an_agent_wrote_is_redacted_and_ids_are_not(tmp_path, environ):
    redact = Redactor(environ | {"DATABASE_PASSWORD": SECRET, "HEROKU_API_KEY": ID.format(101)})
    mirror = opened(sessions_in(tmp_path, redact), tmp_path)
    thinking = {"type": "thinking", "thinking": f"It is {SECRET}.", "signature": "c2lnbmVk"}
    token = "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a"
    prompt = (
        f"{'Use it. ' * 11}{token} {SECRET}."  # the title's limit would leave a part of the token
    )
    entries = [
        entry(1, prompt),
        entry(2, "", "assistant", message={"role": "assistant", "content": [thinking]}),
    ]
    asyncio.run(mirror.append(key(tmp_path), entries))
    mirror.finish(FIRST)
    folder = messages(tmp_path).parent
    written = "".join(path.read_text() for path in folder.iterdir())
    assert SECRET not in written and token[:8] not in written
    first, second = asyncio.run(mirror.load(key(tmp_path)))
    assert [first["uuid"], second["parentUuid"]] == [ID.format(101), ID.format(101)]
    assert second["message"]["content"][0]["type"] == "text"  # its signature is about another text


def test_the_workspace_is_named_and_is_another_one_when_read_elsewhere(tmp_path):
    local_text, other_text = tmp_path / "here", tmp_path / "there"
    local_text.mkdir()
    mirror = opened(sessions_in(tmp_path), local_text)
    texts = [
        f"Read {local_text}/a.py, not {local_text}-2/b.py",
        "a {{workspace}} and a {{\\workspace}}",
        f"{{{{{local_text}}}}}",
    ]
    entries = [entry(number, text, cwd=str(local_text)) for number, text in enumerate(texts, 1)]
    asyncio.run(mirror.append(key(local_text), entries))
    mirror.close()
    assert str(local_text) + "/" not in messages(tmp_path).read_text()
    assert asyncio.run(mirror.load(key(local_text))) == entries
    elsewhere = asyncio.run(opened(sessions_in(tmp_path), other_text).load(key(other_text)))
    assert [entry_elsewhere["cwd"] for entry_elsewhere in elsewhere] == [str(other_text)] * 3
    assert (
        elsewhere[0]["message"]["content"][0]["text"]
        == f"Read {other_text}/a.py, not {local_text}-2/b.py"
    )


def test_an_entry_that_comes_twice_is_kept_once(tmp_path):
    mirror = opened(sessions_in(tmp_path), tmp_path)
    title = {"type": "custom-title", "customTitle": "Better", "sessionId": FIRST}
    asyncio.run(mirror.append(key(tmp_path), [entry(1, "Do it.")]))
    asyncio.run(
        mirror.append(key(tmp_path), [entry(1, "Do it."), entry(2, "Done.", "assistant"), title])
    )
    mirror.close()
    second_bundle = opened(sessions_in(tmp_path), tmp_path)
    asyncio.run(second_bundle.append(key(tmp_path), [entry(2, "Done.", "assistant")]))
    assert len(asyncio.run(second_bundle.load(key(tmp_path)))) == 3
    assert sessions_in(tmp_path).newest().title == "Better"


def test_a_torn_last_line_costs_that_line(tmp_path):
    mirror = opened(sessions_in(tmp_path), tmp_path)
    talk(mirror, tmp_path)
    mirror.close()
    with messages(tmp_path).open("ab") as file:
        file.write(b'{"type":"assistant","uuid":"torn')
    second_bundle = opened(sessions_in(tmp_path), tmp_path)
    assert len(asyncio.run(second_bundle.load(key(tmp_path)))) == 2
    asyncio.run(second_bundle.append(key(tmp_path), [entry(3, "Go on.")]))
    assert [item["uuid"] for item in asyncio.run(second_bundle.load(key(tmp_path)))] == [
        ID.format(100 + n) for n in (1, 2, 3)
    ]


def test_a_damaged_line_is_named(tmp_path):
    mirror = opened(sessions_in(tmp_path), tmp_path)
    talk(mirror, tmp_path)
    messages(tmp_path).write_bytes(b"[1]\n" + messages(tmp_path).read_bytes())
    with pytest.raises(StorageError, match=r"messages\.jsonl, line 1: it is not a JSON object"):
        asyncio.run(mirror.load(key(tmp_path)))


# One writer


def test_a_session_has_one_writer_and_the_second_is_told_who(tmp_path):
    first, second = opened(sessions_in(tmp_path), tmp_path), opened(sessions_in(tmp_path), tmp_path)
    talk(first, tmp_path)
    with pytest.raises(StorageError, match=f"in use by process {os.getpid()}; wait for it"):
        second.hold(FIRST)
    with pytest.raises(StorageError, match="in use by process"):
        sessions_in(tmp_path).delete(sessions_in(tmp_path).newest().id)
    assert len(sessions_in(tmp_path).all()) == 1  # reading needs no lock
    first.close()
    assert second.hold(FIRST).title == "Do 1."


# Lists and names


def test_a_list_opens_only_what_has_changed_and_is_rebuilt_when_its_index_is_gone(tmp_path):
    with open_state(tmp_path / "git") as state:
        index = state.run_index(tmp_path / ".vibe-artifacts" / "sessions")
        sessions = sessions_in(tmp_path, index=index)
        for number in (1, 2):
            with_one = opened(sessions, tmp_path)
            talk(
                with_one,
                tmp_path,
                session_id=ID.format(number).replace("6f1c2d3e", f"{number:08x}"),
            )
            with_one.close()
        expected = sessions.all()
        assert [listed_session.session_id[:8] for listed_session in expected] == [
            "00000002",
            "00000001",
        ]
        for folder in (tmp_path / ".vibe-artifacts" / "sessions").iterdir():
            (folder / "messages.jsonl").unlink()
            assert index.folders()[folder.name][0] == (folder / "meta.json").stat().st_ctime_ns
        assert sessions_in(tmp_path, index=index).all() == expected
    (tmp_path / "git" / "vibe-gate" / "state.db").unlink()
    with open_state(tmp_path / "git") as state:
        index = state.run_index(tmp_path / ".vibe-artifacts" / "sessions")
        assert sessions_in(tmp_path, index=index).all() == expected and len(index.folders()) == 2


def test_a_session_is_named_by_its_id_or_an_unambiguous_beginning(tmp_path):
    sessions = sessions_in(tmp_path)
    other = "7f" + FIRST[2:]
    for session_id in (FIRST, other):
        talk(opened(sessions, tmp_path), tmp_path, session_id=session_id)
    for name in (FIRST, "6f", "vibe_20260102_030405_6", "20260102_030405_6f1c2d3e"):
        assert sessions.find(name).session_id == FIRST
    with pytest.raises(UsageError, match="'vibe_2026' is ambiguous: 2 sessions match"):
        sessions.find("vibe_2026")
    for name in ("8", "*", "vibe_*", "", "../x", "?f1c2d3e"):
        with pytest.raises(UsageError, match="No session"):
            sessions.find(name)


def test_what_is_damaged_or_a_link_is_left_out_and_named(tmp_path):
    sessions = sessions_in(tmp_path)
    talk(opened(sessions, tmp_path), tmp_path)
    folder = messages(tmp_path).parent
    (folder.parent / "vibe_20260102_030405_00000000").symlink_to(folder)
    damaged = folder.parent / "vibe_20260102_030405_11111111"
    damaged.mkdir()
    document = json.loads((folder / "meta.json").read_text())
    for wrong in ({"schema": 1}, document | {"created_at": "0001-01-01T00:00:00+14:00"}):
        (damaged / "meta.json").write_text(json.dumps(wrong))
        assert [session.id for session in sessions.all()] == [folder.name] and sessions.damaged == [
            damaged.name
        ]
    sessions.delete(damaged.name)
    assert not damaged.exists()


@pytest.mark.parametrize(
    "bad", [{"after": "--exec=x"}, {"before": "main"}, {"run": "../../elsewhere"}]
)
def test_a_session_of_somebody_else_names_no_folder_and_no_option_of_git(tmp_path, bad):
    sessions = sessions_in(tmp_path)
    talk(opened(sessions, tmp_path), tmp_path)
    meta = messages(tmp_path).parent / "meta.json"
    document = json.loads(meta.read_text())
    document["turns"][0] |= bad
    meta.write_text(json.dumps(document))
    assert sessions_in(tmp_path).all() == []


# Forks


def test_a_fork_is_a_copy_with_ids_of_its_own(tmp_path):
    sessions = sessions_in(tmp_path)
    mirror = opened(sessions, tmp_path)
    talk(mirror, tmp_path, turns=5)
    mirror.close()
    before, anywhere = messages(tmp_path).read_bytes(), sessions.open(tmp_path / "anywhere")
    copy, uuids = asyncio.run(fork_stored_session(anywhere, FIRST, ID.format(104)))
    forked_messages = asyncio.run(read_session_messages(anywhere, copy))
    assert [message["message"]["content"][0]["text"] for message in forked_messages][::2] == [
        "Do 1.\nMore.",
        "Do 2.\nMore.",
    ]
    assert (
        list(uuids) == [ID.format(100 + n) for n in (1, 2, 3, 4)]
        and forked_messages[-1]["uuid"] == uuids[ID.format(104)]
    )
    assert sessions.find(FIRST).id != sessions.find(copy).id
    assert (
        tmp_path / ".vibe-artifacts/sessions" / sessions.find(FIRST).id / "messages.jsonl"
    ).read_bytes() == before
    with pytest.raises(AgentError, match="cannot be copied"):
        asyncio.run(fork_stored_session(anywhere, FIRST, ID.format(999)))
