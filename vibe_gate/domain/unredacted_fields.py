"""Which texts of our documents are our own words: ids, hashes, literals, names of files and fields.

They are never redacted: an environment may hold a commit id or a word such as `completed` under a
secret's name, and replaced in a document it would make that one that no reader takes. Everything
not listed here is redacted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from msgspec import UNSET, Struct
from msgspec.structs import asdict, replace

from vibe_gate.domain.bundles import CHANGE_IDS
from vibe_gate.domain.summary import Summary
from vibe_gate.domain.verdict import MAX_REASON, short

Redact = Callable[[Any], Any]
"""Takes and gives JSON values."""

Own: TypeAlias = "bool | Mapping[str, Own]"
"""True: ours as a whole. An object: what of its members is ours, their names always are; lists are
looked through.

Where an object's names are somebody's (a path, a model), `UNDER` says what is ours of each member.
"""

UNDER = "**"

_IDS = dict.fromkeys(CHANGE_IDS, True)
_CAUSE = dict.fromkeys(("code", "check", "kind", "stage", "created_at", "run"), True)
_EVIDENCE = {"side": True, "standing": True}
_LOOK: dict[str, Own] = {
    "outcome": True,
    "said": True,
    "evidence": _EVIDENCE,
    "turn": True,
    "cause": _CAUSE,
    "dispute": dict.fromkeys(("run", "question", "findings"), True),
}
_PROOF: Own = {"status": True, "obligation": _EVIDENCE}
_DEFECT: Own = {
    "evidence": _EVIDENCE,
    "also": _EVIDENCE,
    "second_look": _LOOK,
    "proof": _PROOF,
}
_VOTE: Own = {
    **dict.fromkeys(("outcome", "said", "turn", "outranked"), True),
    "cause": _CAUSE,
    "defects": _DEFECT,
}
_CRITERION: Own = {
    **dict.fromkeys(("id", "kind", "outcome", "decided_by"), True),
    "votes": _VOTE,
    "cause": _CAUSE,
    "trust": {"state": True, "recall": True},
}

SUMMARY: Own = {
    **dict.fromkeys(("run_id", "key", "workflow", "outcome", "bundle"), True),
    "trusted": {"revision": True},
    "change": {**_IDS, "files": {"change_type": True}},
    "rubrics": {"id": True, "digest": True, "outcome": True, "criteria": _CRITERION},
    "findings": {
        **dict.fromkeys(("level", "criterion", "fingerprint", "basis", "remark"), True),
        "evidence": _EVIDENCE,
        "also": _EVIDENCE,
        "allowed_by": dict.fromkeys(("finding", "expires", "local"), True),
        "second_look": _LOOK,
        "proof": _PROOF,
    },
    "policy_changes": {"change_type": True, "level": True},
    "unreviewed": {"rubrics": True, "cause": _CAUSE},
    "agent_authored": {"hints": dict.fromkeys(("code", "commit", "role"), True)},
    "cost": {"basis": True, "by_node": True, "by_model": {UNDER: True}},
    "cache": True,
    "left_alone": {"node": True},
    "tests": {"state": True},
    "labels": dict.fromkeys(
        ("ts", "finding", "rubric", "criterion", "digest", "model", "run", "source"), True
    ),
}
"""Of a run's summary."""

_TURN_FILE: Own = {"changeType": True, "before": True, "after": True}

TURN: Own = {
    **dict.fromkeys(("testId", "metrics", "git", "fileStats", "status"), True),
    "files": _TURN_FILE,
    "toolCalls": {"hookRef": True},
    "todos": {"status": True},
    "hookCaptureStatus": {},
    "chain": {
        "steps": {"testId": True, "patch": True, "files": _TURN_FILE},
        "files": _TURN_FILE,
    },
    "setup": {"source": True, "digest": True},
}
"""Of a turn's summary."""

ABOUT: Own = {
    "shown": True,
    **dict.fromkeys(
        (
            "run_id",
            "key",
            "workflow",
            "mode",
            "change",
            "trusted",
            "rubrics",
            "versions",
            "isolation",
            "request",
        ),
        True,
    ),
    **dict.fromkeys(("batch", "replay_of", "disputes"), True),
    "budgets": {},
    "definitions": {UNDER: True},
    "setup": {UNDER: True},
    "questions": {},
}
"""Of run.json."""

SESSION_RECORD: Own = {
    "sessions": True,
    "writes": {"at": True},
    "commands": dict.fromkeys(("session", "agent", "began_at", "ended_at", "order"), True),
}
"""Of record.json."""

SESSIONS: Own = {"nodes": {}}
"""Of sessions.json: the nodes are ours, their sessions' ids an agent's."""

_REPORTED: Own = {
    **dict.fromkeys(("fingerprint", "criterion", "level", "since", "fixed", "last"), True),
    **dict.fromkeys(("lines", "thread"), True),
    "votes": {"outcome": True},
    "found_by": dict.fromkeys(("rubric", "criterion", "digest", "run"), True),
}

_CONFIG: Own = dict.fromkeys(("isolation", "rubrics", "criteria"), True)

EVENT: Mapping[str, Own] = {
    "run.created": {"key": True},
    "run.mode_changed": {"mode": True},
    "run.completed": {"status": True, "outcome": True},
    "node.added": {
        **dict.fromkeys(("kind", "stage", "gate", "agent", "digest", "needs"), True),
        "config": _CONFIG,
    },
    "node.status": {
        **dict.fromkeys(("status", "outcome", "before", "after", "digest", "prompt"), True),
        "config": _CONFIG,
    },
    "edge.added": {"from": True, "to": True},
    "turn.started": {"turn": True},
    "turn.completed": {"turn": True, "status": True, "before": True, "after": True},
    "artifact.written": {"artifact": True, "sha256": True, "side": True},
    "gate.decided": {"after": True, "back": True}
    | dict.fromkeys(("new", "fixed", "unanswered"), _REPORTED),
    "verdict.decided": {"outcome": True, "rubrics": True},
}
"""Of an event's data, by its type; of other types nothing but the names."""

STREAM: Own = {"type": True, "role": True, "action": True}
"""Of what a turn's log says at each of its lines."""

_HOOKS = frozenset(
    {
        "PreToolUse",
        "PostToolUse",
        "PostToolUseFailure",
        "PostToolBatch",
        "PermissionRequest",
        "Notification",
        "UserPromptSubmit",
        "Stop",
        "SubagentStart",
        "SubagentStop",
        "PreCompact",
        "PostCompact",
        "SessionStart",
        "SessionEnd",
    }
)


def of_hook(event: Mapping[str, Any]) -> Own:
    """Of a line of the hooks' log: its names, without which no call can be put together, and its
    hook, if it is one.
    """
    return {name: True for name in ("hook", "hook_event_name") if str(event.get(name)) in _HOOKS}


def redacted(value: Any, own_fields: Own, redact: Redact) -> Any:  # noqa: ANN401 - any JSON
    """The value with what is somebody's text redacted: JSON, or a document."""
    if own_fields is True or value is UNSET:
        return value
    if isinstance(value, (list, tuple)):
        return type(value)(redacted(item, own_fields, redact) for item in value)
    if isinstance(value, Struct):
        return replace(value, **redacted(asdict(value), own_fields, redact))
    if not isinstance(own_fields, Mapping) or not isinstance(value, Mapping):
        return redact(value)
    redacted_members = {}
    for name, member in value.items():
        if UNDER in own_fields:
            redacted_members[redact(name)] = redacted(member, own_fields[UNDER], redact)
        elif name in own_fields:
            redacted_members[name] = redacted(member, own_fields[name], redact)
        else:
            redacted_members[name] = _member(name, member, redact)
    return redacted_members


def _member(name: str, value: Any, redact: Redact) -> Any:  # noqa: ANN401 - any JSON
    """Redacted under its name, which may say that it is a secret."""
    if value is None or isinstance(value, (bool, int, float)):
        return value
    (safe_value,) = redact({name: value}).values()
    if isinstance(value, tuple):
        return tuple(safe_value)
    return safe_value


def redacted_summary(summary: Summary, redact: Redact) -> Summary:
    """A run's summary without secrets; it is as valid as it was."""
    safe_summary: Summary = redacted(summary, SUMMARY, redact)
    findings = []
    for finding in safe_summary.findings:
        if len(finding.message) > MAX_REASON:  # a placeholder may be longer than what it stands for
            findings.append(replace(finding, message=short(finding.message)))
        else:
            findings.append(finding)
    return replace(safe_summary, findings=tuple(findings))
