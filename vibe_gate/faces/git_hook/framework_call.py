"""What pre-commit or prek tells a hook in its environment: they keep git's own lines to themselves."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct


class FrameworkCall(Struct, frozen=True):
    """What a framework says about the call of a hook; "" is not set."""

    is_running: bool = False
    """Whether pre-commit or prek runs the hook."""
    from_ref: str = ""
    """Where the range begins that the hook is to look at."""
    to_ref: str = ""
    """Where that range ends."""
    local_branch: str = ""
    """The branch that is pushed."""
    remote_branch: str = ""
    """The branch of the remote that it is pushed to."""
    remote_url: str = ""
    """The address that is pushed to."""
    rewrite_command: str = ""
    """The command of git that rewrote commits: amend or rebase."""


def read_framework_call(variables: Mapping[str, str]) -> FrameworkCall:
    """Read what pre-commit or prek set."""
    return FrameworkCall(
        is_running="PRE_COMMIT" in variables or "PREK_HOOK_STAGE" in variables,
        from_ref=variables.get("PRE_COMMIT_FROM_REF", ""),
        to_ref=variables.get("PRE_COMMIT_TO_REF", ""),
        local_branch=variables.get("PRE_COMMIT_LOCAL_BRANCH", ""),
        remote_branch=variables.get("PRE_COMMIT_REMOTE_BRANCH", ""),
        remote_url=variables.get("PRE_COMMIT_REMOTE_URL", ""),
        rewrite_command=variables.get("PRE_COMMIT_REWRITE_COMMAND", ""),
    )
