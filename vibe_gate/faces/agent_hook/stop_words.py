"""What the stop hook says: to the agent, which may act on it, and to the person. Pure.

All of it is made of a redacted summary; each line is escaped, and the whole is bounded.
"""

from __future__ import annotations

from collections.abc import Sequence

from vibe_gate.domain.escape import counted, list_names, safe
from vibe_gate.faces.agent_hook import spool
from vibe_gate.report.finding_list import ListedFinding, fit_findings

MAX_BYTES = 4096
"""Of what the agent is given: findings are for reading, and every round costs their tokens."""

MAX_LINE = 600
"""Characters of one line."""

DISPUTE = (
    "If the code shows that a finding is wrong ({0}), say once where: `vibe-gate dispute FINDING "
    "--reason TEXT`, before you change other files. A second look reads that as a claim and decides "
    "from the code."
)
"""The line that says how these findings are disputed."""

MAX_DISPUTABLE = 5
"""Findings that the line names."""

MORE = "... and {0}: run `vibe-gate bundles show` for all of them."


SESSION_ADVICE = (
    "What is about your session (which tests ran, what you said) needs no change of files: run what "
    "is missing, or correct what you said, and end your turn."
)


def block_text(
    findings: Sequence[ListedFinding],
    verdict: str,
    round_number: int,
    max_rounds: int,
    asides: Sequence[str] = (),
    disputable: Sequence[str] = (),
) -> str:
    """What the agent is given: the findings, what to do about them, and the way out.

    Args:
        findings: The list, as an agent of `run --fix` is handed it.
        verdict: The verdict line.
        round_number: Which round of this prompt it is, from 1.
        max_rounds: After which round the agent may stop whatever was found.
        asides: What is to be known of the findings besides (`tree_text`, SESSION_ADVICE).
        disputable: The fingerprints of those that can be disputed, as they are shown.
    """
    round_words = f"round {round_number} of {max_rounds}"
    head = f"{spool.GIVEN_BACK} ({round_words}):"
    advice = [
        verdict,
        *asides,
        "Repair these in the working tree, then end your turn: the gate looks again. "
        "`vibe-gate explain FINDING` shows the evidence of one (its id stands in the last brackets).",
        dispute_text(disputable),
        "If you cannot repair one, or think it wrong, say so and end your turn: with unchanged files "
        "you may stop, and the user decides.",
        'The user can switch this off: [hooks.stop] review = "never" in .vibe-gate/gate.toml, or '
        "`vibe-gate install AGENT --no-stop`.",
    ]
    advice = [line for line in advice if line]
    frame_bytes = len(fitted(head, [MORE.format(MAX_BYTES)], advice).encode("utf-8", "replace"))
    listed = fit_findings(findings, MAX_BYTES - frame_bytes - 1, safe)
    lines = list(listed.lines)
    if listed.unlisted:
        lines.append(MORE.format(counted(listed.unlisted, "more finding")))
    elif listed.shortened:
        lines.append(MORE.format("more about these"))
    return "\n".join([head, *lines, *map(_shorten, advice)])


def dispute_text(disputable: Sequence[str]) -> str:
    """How these findings are disputed; "" if none can be."""
    names = list_names(disputable, MAX_DISPUTABLE)
    return DISPUTE.format(names) if names else ""


def findings_text(lines: Sequence[str], verdict: str) -> str:
    """The findings and the verdict as they are remembered: so short that a head fits before them."""
    return fitted("", lines, [verdict], MAX_BYTES - MAX_LINE).removeprefix("\n")


def still_fails_text(findings: str, stop_reason: str) -> str:
    """What the person is told if the agent stops although its files fail.

    Args:
        findings: As `findings_text` made it, or whatever lies in its place by now.
        stop_reason: Why the agent may stop.
    """
    head = (
        f"vibe-gate: the agent stopped ({stop_reason}), and what it wrote does not pass the gate:"
    )
    lines = [safe(line) for line in findings.split("\n")]
    return fitted(_shorten(safe(head)), lines, ["`vibe-gate review` shows it again."])


def other_files_text(lines: Sequence[str]) -> str:
    """What the person is told of findings in files that the session did not write."""
    head = "vibe-gate: found in files that this session did not write (the agent was not held):"
    return fitted(head, lines, [])


def handed_back_text(count: int, round_number: int, max_rounds: int) -> str:
    """What the person is told when the agent goes on."""
    count_words = counted(count, "finding")
    return (
        f"vibe-gate: {count_words} given back to the agent (round {round_number} of {max_rounds})"
    )


def tree_text(tree: str) -> str:
    """Where the files are, if not in the tree in which the agent is."""
    return _shorten(f"These files are in the working tree {safe(tree)}.")


def unread_tree_text(tree: str) -> str:
    """What the person is told of a working tree that this stop did not review."""
    return _shorten(
        f"vibe-gate: this session also wrote in {safe(tree)}: reviewed when its next turn ends"
    )


def not_reviewed_text(problem: str) -> str:
    """What the person is told if there is no verdict."""
    return _shorten(f"vibe-gate: turn not reviewed: {safe(problem)}")


def fitted(head: str, lines: Sequence[str], tail: Sequence[str], max_bytes: int = MAX_BYTES) -> str:
    """The text with as many of the lines as fit into `max_bytes`, and how many do not. A finding's
    lines may be several.
    """
    short_lines = ["\n".join(map(_shorten, line.split("\n"))) for line in lines]
    for count in range(len(short_lines), -1, -1):
        omitted_count = len(short_lines) - count
        omitted = [MORE.format(counted(omitted_count, "more finding"))] if omitted_count else []
        text = "\n".join([head, *short_lines[:count], *omitted, *(_shorten(line) for line in tail)])
        if len(text.encode("utf-8", "replace")) <= max_bytes:
            return text
    return head


def _shorten(line: str) -> str:
    return line if len(line) <= MAX_LINE else f"{line[: MAX_LINE - 1]}…"
