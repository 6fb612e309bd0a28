"""Refuse, before the tool runs, what would go around the gate; say nothing about everything else.

    python -I -S .../guard.py [gemini|codex] [--user] < event.json

Most calls end after a search for a few words in the event. What cannot be understood goes through
and is noted as a gap: git's `reference-transaction` hook looks at every commit that comes of it.
"""

import os
import sys

MARKS = (
    b"git",
    b"vibe",
    b"pre-commit",
    b"prek",
    b"husky",
    b"lefthook",
    b".claude",
    b".gemini",
    b".codex",
)
"""One of them stands in the input of every call that is refused."""

GEMINI_TOOLS = {"run_shell_command": "Bash", "write_file": "Write", "replace": "Edit"}
"""Gemini CLI's tools by Claude Code's names: their arguments are called alike but for two."""

EDITING = {
    "Edit": "file_path",
    "Write": "file_path",
    "MultiEdit": "file_path",
    "NotebookEdit": "notebook_path",
}


def main(agent: str = "", *, user: bool = False) -> int:
    """Judge the event of the agent ("": Claude Code) on stdin; the decision, if there is one, goes
    to stdout. Always 0.

    As a `user`'s own hook only where vibe-gate is used. It refuses also where the project has a
    guard of its own, because an agent may write what looks like one; the project's then keeps the
    call.
    """
    try:
        event = read_stdin()
        # A key stands in bare quotes, which no text inside can hold.
        input_bytes = event[max(event.find(b'"tool_input":'), 0) :]
        if any(mark in input_bytes for mark in MARKS) and (not user or project_uses_vibe_gate()):
            refuse_or_pass(event, agent, user=user)
    except BaseException:  # noqa: BLE001, S110  the agent goes on whatever happens here
        pass
    return 0


def project_uses_vibe_gate() -> bool:
    """Whether vibe-gate is used in the session's repository."""
    from vibe_gate.faces.agent_hook import spool

    return spool.is_used(spool.project_of(os.environ))


def refuse_or_pass(event: bytes, agent: str = "", *, user: bool = False) -> None:
    """Refuse the call, if it is one to refuse; note what cannot be understood. `agent` and `user`
    as of `main`.
    """
    import json

    from vibe_gate.faces.agent_hook import spool

    try:
        call = json.loads(event)
        project = os.environ.get("CLAUDE_PROJECT_DIR") or call.get("cwd") or "/"
        reason = refusal(call, project)
        if reason:
            _refuse(call, f"vibe-gate: {reason}.", agent, user=user)
    except BaseException as error:  # noqa: BLE001
        if folder := spool.spool_folder(os.environ):
            spool.note_gap(folder, f"guard: {type(error).__name__}: {error}")


def _refuse(call: dict, reason: str, agent: str, *, user: bool) -> None:  # type: ignore[type-arg]
    """Tell the agent, and record the call: a refused one has no event of its own afterwards."""
    import json

    from vibe_gate.faces.agent_hook import spool

    os.write(1, json.dumps(decision(reason, agent)).encode())
    if user:
        event_kind = str(call.get("hook_event_name", "PreToolUse"))
        project = spool.project_of(os.environ)
        if spool.has_own_hook(project, event_kind, "guard", agent):
            return  # the project's guard records it
    folder = spool.spool_folder(os.environ)
    if folder:
        call["refused"] = reason
        spool.keep(folder, json.dumps(call).encode(), call, agent)


def decision(reason: str, agent: str) -> dict:  # type: ignore[type-arg]
    """A refusal in the form that the agent reads."""
    if agent == "gemini":
        return {"decision": "deny", "reason": reason}
    output = {
        "hookEventName": "PreToolUse",
        "permissionDecision": "deny",
        "permissionDecisionReason": reason,
    }
    return {"hookSpecificOutput": output}


def refusal(call: dict, project: str) -> str:  # type: ignore[type-arg]
    """Why the call is refused; "" if it is not. `project` is the folder of the session."""
    from vibe_gate.faces.agent_hook import commands, edits, spool

    common_dir = os.path.realpath(os.fsdecode(spool.common_dir(os.fsencode(project)) or b"/"))
    if common_dir == "/":  # no repository: nothing is guarded
        return ""

    def elsewhere(folder: str) -> bool:
        # A folder that cannot be known before the line runs is free: git's own hook looks at what
        # is committed there.
        git_folder = spool.common_dir(os.fsencode(os.path.realpath(folder)))
        real_git_folder = os.path.realpath(os.fsdecode(git_folder or b"/"))
        inside = (real_git_folder + "/", folder + "/")
        return not any(path.startswith(common_dir + "/") for path in inside)

    tool = call.get("tool_name")
    tool_input = call.get("tool_input", {})
    cwd = call.get("cwd") or project
    if tool in GEMINI_TOOLS:
        tool = GEMINI_TOOLS[tool]
        cwd = os.path.join(cwd, tool_input.get("dir_path") or "")  # noqa: PTH118
        tool_input = {**tool_input, "replace_all": tool_input.get("allow_multiple")}
    if tool == "Bash":
        return commands.refusal_of_line(tool_input["command"], cwd, elsewhere)
    for path in _edited_paths(tool, tool_input):
        real_path = os.path.realpath(os.path.join(cwd, path))  # noqa: PTH118
        reason = edits.refusal_of_write(str(tool), tool_input, real_path, common_dir)
        if reason:
            return reason
    return ""


def _edited_paths(tool: object, tool_input: dict) -> list[str]:  # type: ignore[type-arg]
    """The files that a tool for editing is about to write, as the call names them."""
    if tool == "apply_patch":
        return patched(tool_input)
    if tool in EDITING:
        return [os.path.expanduser(tool_input[EDITING[tool]])]  # noqa: PTH111
    return []


def patched(tool_input: dict) -> list[str]:  # type: ignore[type-arg]
    """The files that a patch of Codex adds, changes, deletes or moves."""
    from vibe_gate.faces.agent_hook.spool import PATCH_LINES

    lines = str(tool_input["command"]).split("\n")
    path_lines = [line for line in lines if line.startswith(PATCH_LINES)]
    return [line.partition(": ")[2].strip() for line in path_lines]


def read_stdin() -> bytes:
    """All of stdin."""
    parts = []
    while part := os.read(0, 1 << 20):
        parts.append(part)
    return b"".join(parts)


if __name__ == "__main__":
    package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # noqa: PTH100, PTH120
    sys.path.insert(0, os.path.dirname(package))  # noqa: PTH120
    main(next((word for word in sys.argv[1:] if word[:1] != "-"), ""), user="--user" in sys.argv)
