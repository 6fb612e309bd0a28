"""Writes the sample bundle of format 1: `PYTHONPATH=.:tests python tests/golden/write_bundle.py
DIRECTORY`.

`tests/golden/bundle-1` was written by the first version of the format, and `bundle-2` when a run
kept each content once and its graph held configurations and last words. Both must load for ever:
never write them anew, add `bundle-3` when the format grows.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from bundle_words import KEY, START, Clock, Ended, OneSecretRedactor
from fail_votes import fail_vote

from vibe_gate.domain.agent_hint import TrailerHint
from vibe_gate.domain.summary import (
    AgentAuthored,
    CacheUse,
    ChangedFile,
    ChangeSummary,
    Cost,
    PolicyChange,
    Summary,
    Trusted,
    Unreviewed,
)
from vibe_gate.domain.turn import GitState, TurnChange, TurnFile, TurnGit
from vibe_gate.domain.verdict import CheckedEvidence, CriterionResult, Finding, RubricResult
from vibe_gate.domain.wire import TurnResult
from vibe_gate.store.run_recorder import RunRecorder
from vibe_gate.store.store import open_store

PATCH = b"""diff --git a/pay.py b/pay.py
index 3367afd..3e75765 100644
--- a/pay.py
+++ b/pay.py
@@ -1 +1 @@
-old
+new
"""
EVIDENCE = CheckedEvidence(
    path="pay.py", line=1, end_line=1, quote="new", standing="relocated", why="it stood at 3"
)


def _turns(run: RunRecorder) -> None:
    run.event("node.status", "judge-quality", status="RUNNING")
    judge = run.turn("judge-quality")
    judge.event(
        {
            "type": "message",
            "role": "user",
            "content": "Is the old price still charged?\nSay \x1b[1mwhy\x1b[0m.",
        }
    )
    for name in ("toolu_1", "toolu_2", "toolu_3"):
        judge.hook(
            {
                "hook_event_name": "PreToolUse",
                "tool_name": "Read",
                "tool_use_id": name,
                "tool_input": {},
            }
        )
    judge.hook({"hook_event_name": "PostToolUse", "tool_name": "Read", "tool_use_id": "toolu_2"})
    judge.hook(
        {
            "hook_event_name": "PostToolUseFailure",
            "tool_name": "Read",
            "tool_use_id": "toolu_1",
            "error": "gone",
        }
    )
    judge.hook({"hook_event_name": "Notification", "message": "done"})
    usage = {"tokens": {"input": 1200, "output": 34}, "cost": 0.0125, "basis": "known"}
    judge.event({"type": "usage", "model": "a-model", "message_id": "msg_1", **usage})
    judge.event({"type": "usage", "total": True, **usage})
    judge.seal(Ended(answer={"answers": []}, permission_denials=[{"tool_use_id": "toolu_3"}]))
    run.event("node.status", "judge-quality", status="DONE")
    fixer = run.turn("fix")
    fixer.event(
        {"type": "todo", "action": "add", "text": "charge the new price", "status": "pending"}
    )
    fixer.event({"type": "todo", "action": "update", "text": "1", "status": "completed"})
    before, after = fixer.keep_content("before", b"old\n"), fixer.keep_content("after", b"new\n")
    file = TurnFile(
        path="pay.py", change_type="modified", added=1, deleted=1, before=before, after=after
    )
    git = TurnGit(before=GitState(head=KEY, dirty=False), after=GitState(head=KEY, dirty=True))
    fixer.seal(
        Ended(
            session_id="5e551011-0000-4000-8000-000000000002",
            text="The new price is charged.",
            change=TurnChange(PATCH, git, (file,)),
        )
    )
    run.turn("judge-quality").seal(TurnResult("died", None, "the agent's process died"))


def _summary(run: RunRecorder) -> Summary:
    vote = fail_vote(
        "the old price", EVIDENCE, counterexample="pay(1) -> 2", turn="nodes/judge-quality/turn-001"
    )
    criteria = (
        CriterionResult(
            id="no-secrets", kind="check", must=True, weight=1, outcome="pass", decided_by="check"
        ),
        CriterionResult(
            id="price",
            kind="judge",
            must=True,
            weight=2,
            outcome="fail",
            decided_by="unanimous",
            votes=(vote,),
        ),
    )
    rubric = RubricResult(
        id="quality", digest="d" * 64, outcome="fail", score=1 / 3, coverage=1.0, criteria=criteria
    )
    finding = Finding(
        path="pay.py", line=1, end_line=1, level="failure", criterion="price", message="the old price",
        evidence=(EVIDENCE,), fingerprint="f" * 64,
    )  # fmt: skip
    policy = PolicyChange(
        path=".vibe-gate/gate.toml", change_type="modified", level="block", diff="-a\n+b\n"
    )
    files = (
        ChangedFile(
            path="pay.py", old_path=None, change_type="modified", added=1, deleted=1, binary=False
        ),
        ChangedFile(
            path='"caf\\351"',
            old_path="cafe",
            change_type="renamed",
            added=0,
            deleted=0,
            binary=True,
        ),
    )
    return Summary(
        run_id=run.run_id, key=KEY, workflow="review", outcome="fail", exit_code=4, bundle=run.relative,
        trusted=Trusted(revision="a" * 40, bootstrap=False),
        change=ChangeSummary(
            before="b" * 40, after="c" * 40, base_commit="a" * 40, head_commit=KEY, patch_id="1" * 40,
            range_patch_id="2" * 40, files=files,
        ),
        rubrics=(rubric,), findings=(finding,), policy_changes=(policy,),
        unreviewed=(Unreviewed(path="pay.py", line=9, end_line=12, reason="budget"),),
        agent_authored=AgentAuthored(decision=True, hints=(TrailerHint(name="Co-Authored-By", agent="Claude"),)),
        cost=Cost(
            usd=0.0125, basis="known", input_tokens=1200, output_tokens=34, by_node={"judge-quality": 0.0125},
            by_model={"claude-sonnet-5": 0.0125},
        ),
        cache=CacheUse(hits=1, misses=2), duration_ms=1500,
    )  # fmt: skip


def write(directory: Path) -> None:
    """The bundle, in a `directory` that does not exist yet."""
    with tempfile.TemporaryDirectory() as name:
        run = open_store(Path(name), OneSecretRedactor(), Clock()).begin(
            KEY, START, {"workflow": "review", "mode": "auto"}
        )
        run.keep_patch(PATCH)
        run.keep_content("before", b"old\n", "pay.py")
        run.keep_content("after", b"new\n", "pay.py")
        run.keep_content("after", b"a long line\n" * 1000, "long.txt")
        run.keep_content("after", bytes(range(256)), '"caf\\351"')
        config = {"model": "a-model", "tools": ["Read"], "rubrics": ["quality"]}
        run.event("node.added", "judge-quality", kind="judge", digest="d" * 64, config=config)
        run.event("node.added", "fix", kind="stage", stage="fix", agent="fixer", digest="e" * 64)
        run.event("edge.added", **{"from": "judge-quality", "to": "fix"})
        _turns(run)
        run.event("verdict.decided", outcome="fail", exit_code=4, rubrics={"quality": "fail"})
        run.seal(_summary(run))
        assert run.lost is None, run.lost
        shutil.copytree(run.directory, directory)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
