"""Runs for tests of the report and its benchmark: as many files and tool calls as wanted, hostile
or not.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from pathlib import Path

from bundle_words import KEY, START, Clock, Ended, OneSecretRedactor, summary_of
from fail_votes import fail_vote
from msgspec.structs import replace
from summaries import changed, criterion, finding, rubric

from vibe_gate.domain.summary import ChangedFile, Cost, Summary, Unreviewed
from vibe_gate.domain.turn import GitState, TurnChange, TurnFile, TurnGit
from vibe_gate.domain.verdict import CheckedEvidence, FindingPlace
from vibe_gate.report.html.authors import Authors, WritingTurn, WrittenLines
from vibe_gate.store.run_recorder import RunRecorder
from vibe_gate.store.store import open_store

ATTACK = (
    "</script><script>window.ran=1</script><img src=x onerror=window.ran=1><svg/onload=window.ran=1> "
    "{{7*7}} javascript:window.ran=1 '\"&amp; \u202egnp.exe\u2066 \u200b\x1b[31m \U000e0041"
)
"""Text that does something wherever it is taken for markup, code or a terminal's order."""

EVERY = 20
"""One line of so many is changed."""

STATES = ("PostToolUse", "PostToolUse", "PostToolUse", "PostToolUseFailure", "")
"""How the tool calls of a turn end, in turn; "" not at all."""


def write(
    root: Path,
    *,
    files: int = 3,
    lines: int = 60,
    calls: int = 5,
    attack: str = "",
    voided: bool = False,
    spread: bool = False,
    **run_fields: object,
) -> Path:
    """A failed run with a finding in its second file, kept below `root`; its bundle.

    `calls` tool calls of an agent follow a judge's turn; the fifth is refused. The judge's answer
    is `voided`: it does not count. The first finding is `spread`: it has two more places, one in the
    first file. `attack` stands in names, contents, messages and results.
    `run_fields` are further ones of run.json.
    """
    run = open_store(root, OneSecretRedactor(), Clock(7)).begin(
        KEY, START, {"workflow": "review", "prompt": attack, **run_fields}
    )
    file_changes, patch, edits = [], b"", lines // EVERY
    for number in range(files):
        path = path_of(number, attack)
        before, after = _contents(number, lines, attack)
        patch += _patch(path, before, after)
        run.keep_content("before", before.encode(), path)
        run.keep_content("after", after.encode(), path)
        file_changes.append(changed(path, edits, edits))
    run.keep_patch(patch)
    run.event("node.added", "judge-quality", kind="judge")
    run.event("node.added", "fix", kind="agent", agent=f"fixer{attack}")
    run.event("edge.added", **{"from": "judge-quality", "to": "fix"})
    _judge(run, file_changes[min(1, files - 1)].path, attack)
    _agent(run, calls, attack)
    run.event("verdict.decided", outcome="fail", exit_code=1)
    summary = _summary(run, file_changes, attack, voided)
    if spread:
        summary = _spread(summary)
    run.seal(summary)
    assert run.lost is None, run.lost
    return run.directory


def authors(attack: str = "") -> Authors:
    """Two turns that wrote the changed lines of the second and third file, and what a tool's record
    says of a line.
    """
    first_prompt, last_prompt = f"Make the value a text.{attack}", "And the last file.\n"
    turns = (
        WritingTurn(
            "Claude Code",
            "3f2a9c1e-aaaa",
            1,
            START,
            first_prompt,
            f"{first_prompt}\n\nKeep the names.\n{attack}",
        ),
        WritingTurn(
            "Claude Code",
            "3f2a9c1e-aaaa",
            2,
            START,
            f"{last_prompt.strip()}{attack}",
            last_prompt * 3_000,
        ),
        WritingTurn(f"Cursor{attack}", f"c-1{attack}", None, source=f"Cursor{attack}"),
    )
    second, third = (path_of(number, attack) for number in (1, 2))
    lines = (
        WrittenLines(second, 11, 11, 0, f"Edit{attack}", f"toolu_1{attack}"),
        WrittenLines(second, 31, 31, 2),
        WrittenLines(third, 11, 11, 0, "Write", "toolu_2"),
        WrittenLines(third, 51, 51, 1, "Edit", "toolu_3"),
    )
    return Authors(turns, lines)


def path_of(number: int, attack: str = "") -> str:
    """The path of a run's file."""
    return (
        f"src/part{number % 7}/module_{number}.py"
        if not attack
        else f"{attack[:60]}/__proto__/m{number}.py"
    )


def _contents(number: int, lines: int, attack: str) -> tuple[str, str]:
    before = [
        f"def function_{number}_{line}(value: int) -> int:  # {attack}" for line in range(lines)
    ]
    after = [
        line.replace("int:", "str:") if at % EVERY == 10 else line for at, line in enumerate(before)
    ]
    return "\n".join(before) + "\n", "\n".join(after) + "\n"


def _patch(path: str, before: str, after: str) -> bytes:
    def split_lines(text: str) -> list[str]:
        return [f"{line}\n" for line in text.split("\n")[:-1]]

    hunks = difflib.unified_diff(split_lines(before), split_lines(after), f"a/{path}", f"b/{path}")
    return f"diff --git a/{path} b/{path}\nindex 1111111..2222222 100644\n{''.join(hunks)}".encode()


def _evidence(path: str) -> CheckedEvidence:
    return CheckedEvidence(path=path, line=11, end_line=11, quote="def function", standing="holds")


def _judge(run: RunRecorder, path: str, attack: str) -> None:
    run.event("node.status", "judge-quality", status="RUNNING")
    turn = run.turn("judge-quality")
    turn.event({"type": "message", "role": "user", "content": f"Is every type right?\n{attack}"})
    answer = {
        "criterion": "types", "outcome": "fail", "reason": f"A number is no text. {attack}",
        "evidence": [{"path": path, "line": 11, "quote": f"def function{attack}", "side": "after"}],
    }  # fmt: skip
    message_fields = {
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-5",
        "message_id": "m1",
    }
    turn.event(
        {
            **message_fields,
            "content": f"The second file has one. {attack}",
            "thinking": f"Let me see. {attack}",
        }
    )
    call = {
        "tool": "StructuredOutput",
        "tool_use_id": "toolu_answer",
        "input": {"answers": [answer]},
    }
    turn.event({**message_fields, "content": "", **call})
    turn.event(
        {
            "type": "usage",
            "tokens": {"input": 900, "output": 60, "cache_read": 400},
            "message_id": "m1",
        }
    )
    turn.event(
        {
            "type": "usage",
            "total": True,
            "tokens": {"input": 900, "output": 60},
            "cost": 0.0125,
            "basis": "known",
        }
    )
    turn.seal(Ended(text="Those were my last words."))
    run.event("node.status", "judge-quality", status="DONE")


def _agent(run: RunRecorder, calls: int, attack: str) -> None:
    turn = run.turn("fix")
    turn.event({"type": "message", "role": "user", "content": "Repair what the judge found."})
    turn.event(
        {
            "type": "todo",
            "action": "add",
            "text": f"repair the type {attack}",
            "status": "completed",
        }
    )
    for event, hooks in _calls(calls, attack):
        turn.event(event)
        for hook in hooks:
            turn.hook(hook)
    before, after = turn.keep_content("before", b"old\n"), turn.keep_content("after", b"new\n")
    file = TurnFile(
        path="repaired.py", change_type="modified", added=1, deleted=1, before=before, after=after
    )
    git = TurnGit(before=GitState(head=KEY, dirty=False), after=GitState(head=KEY, dirty=True))
    change = TurnChange(_patch("repaired.py", "old\n", "new\n"), git, (file,))
    turn.seal(Ended(permission_denials=({"tool_use_id": "toolu_4"},), change=change))


def _calls(calls: int, attack: str) -> Iterator[tuple[dict, list[dict]]]:
    """Each event of the agent's calls, with the hook events that follow it."""
    for number in range(calls):
        use, tool, ends = (
            f"toolu_{number}",
            ("Read", "Bash", "Edit")[number % 3],
            STATES[number % len(STATES)],
        )
        tool_input = {
            "file_path": f"src/module_{number}.py",
            "command": attack or "ls",
            "__proto__": attack,
        }
        hook = {"tool_name": tool, "tool_use_id": use, "tool_input": tool_input}
        message_fields = {
            "type": "message",
            "role": "assistant",
            "content": "",
            "tool": tool,
            "tool_use_id": use,
        }
        yield (
            {**message_fields, "input": tool_input, "message_id": f"m{number}"},
            [{"hook_event_name": "PreToolUse", **hook}],
        )
        yield (
            {"type": "usage", "tokens": {"input": 1200, "output": 34}, "message_id": f"m{number}"},
            [],
        )
        result = {
            "type": "message",
            "role": "tool",
            "content": "",
            "tool": tool,
            "tool_use_id": use,
        }
        after = [{"hook_event_name": ends, **hook, "error": "no such file"}] if ends else []
        yield (
            {**result, "result": f"result {number}\n{attack}", "is_error": "Failure" in ends},
            after,
        )


def _summary(run: RunRecorder, files: list[ChangedFile], attack: str, voided: bool) -> Summary:
    path, reason = files[min(1, len(files) - 1)].path, f"A number is no text. {attack}"
    vote = fail_vote(
        reason,
        _evidence(path),
        outcome="abstain" if voided else "fail",
        counterexample=f"f(1) -> '1' {attack}",
        turn="nodes/judge-quality/turn-001",
    )
    criteria = (
        criterion(reason="No secret."),
        criterion(
            "types", "fail", kind="judge", decided_by="unanimous", votes=(vote,), reason=reason
        ),
    )
    base = summary_of(run, "fail", 1)
    changes = {
        "change": replace(base.change, files=tuple(files)),
        "rubrics": (rubric(*criteria, outcome="fail"),),
        "findings": (
            finding(reason, path=path, line=11, criterion="types", evidence=(_evidence(path),)),
            finding(reason, path=files[-1].path, line=51, criterion="types", level="warning"),
        ),
        "unreviewed": (
            Unreviewed(path=files[0].path, line=9, end_line=12, reason=f"budget {attack}"),
        ),
        "cost": Cost(usd=0.2625, basis="known", by_node={"judge-quality": 0.0125, "fix": 0.25}),
    }
    return replace(base, **changes)


def _spread(summary: Summary) -> Summary:
    """The summary with two more places of its first finding."""
    first, *other_findings = summary.findings
    other_places = (
        FindingPlace(path=first.path, line=51, end_line=51),
        FindingPlace(path=summary.change.files[0].path, line=11, end_line=11),
    )
    return replace(summary, findings=(replace(first, other_places=other_places), *other_findings))
