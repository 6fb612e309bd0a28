"""Programs that look after hooks: what of them takes the gate away."""

from vibe_gate.faces.claude_hook.guarded import HOOKS

CAPTURE = "vibe-gate: {0} is for Claude Code's own hooks: events that never happened are no evidence; leave it to them."

CALLED = (
    "vibe-gate: `vibe-gate hook` is for git alone: a record of what never happened is no evidence; "
    "use `git commit` and `git push`, or `vibe-gate review --staged` to look first."
)

_FRAMEWORKS = frozenset({"pre-commit", "prek", "lefthook", "husky"})
_INSTALLERS = frozenset({"pip", "pip3", "uv", "pipx", "conda", "mamba", "poetry", "brew"})
_REMOVING = frozenset({"uninstall", "remove"})
_FORCING = ("-f", "--overwrite", "--force", "-c", "--config")


def refused(program: str, arguments: list[str]) -> str | None:
    """Why a call of such a program is refused, if it is; None for every other program."""
    if program == "claude" and any("disableallhooks" in word.lower() for word in arguments):
        return f"vibe-gate: `claude` without hooks would go around the gate; {HOOKS}."
    if program in _INSTALLERS:
        named = any(word.replace("_", "-").partition("=")[0] == "vibe-gate" for word in arguments)
        return _away(program) if named and _REMOVING & set(arguments) else None
    if program not in _FRAMEWORKS and program != "vibe-gate":
        return None
    if "--help" in arguments or "-h" in arguments:
        return None
    given = next((word for word in arguments if not word.startswith("-")), "")
    if given == "uninstall":
        return _away(program)
    if program == "vibe-gate" and given == "capture":
        return CAPTURE.format("`vibe-gate capture`")
    if program == "vibe-gate" and given == "hook":
        return CALLED
    if program == "vibe-gate" and given in ("override", "suppress"):
        return f"vibe-gate: `vibe-gate {given}` is for a human; fix the finding, or tell the user why it is wrong."
    if program in ("pre-commit", "prek") and given == "install":
        forced = next((word for word in arguments if word.partition("=")[0] in _FORCING), None)
        if forced:
            return f"vibe-gate: `{program} install {forced}` puts other hooks in the place of the gate's; {HOOKS}."
    return None


def _away(program: str) -> str:
    return f"vibe-gate: `{program} uninstall` would take the gate away; {HOOKS}."
