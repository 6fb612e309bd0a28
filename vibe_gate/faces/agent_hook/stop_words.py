"""What the stop hook says: to the agent, which may act on it, and to the person. Pure.

All of it is made of a redacted summary; each line is escaped, and the whole is bounded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from vibe_gate.domain.escape import counted, list_names, safe, shorten_text
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


REPAIR = "Repair {0} in the working tree, then end your turn: the gate looks again."

SESSION_CURE = (
    "What is about your session needs no change of files: {0}, then end your turn. The gate looks "
    "again though no file changes, up to round {1}."
)
"""The line about findings that files do not repair."""

RUN_TESTS = "run the tests"

RUN_OR_CORRECT = "run what you said you ran, or correct what you said"

EXPLAIN = (
    "`vibe-gate explain FINDING` shows the evidence of one (its id stands in the last brackets)."
)


class HandedBack(Struct, frozen=True, kw_only=True):
    """What goes back to the agent, and how it is told."""

    findings: Sequence[ListedFinding]
    """The list, as an agent of `run --fix` is handed it."""
    verdict: str
    """The verdict line."""
    round_number: int
    """Which round of this prompt it is, from 1."""
    max_rounds: int
    """After which round the agent may stop whatever was found."""
    agent: str
    """As `vibe-gate install` names it."""
    place: str = ""
    """Where the files are (`tree_text`); "": where the agent is."""
    has_repairs: bool = True
    """Whether a finding is repaired in files."""
    cures: tuple[str, ...] = ()
    """What cures the findings about what the session ran or said (`tests_cure`, RUN_OR_CORRECT)."""
    disputable: Sequence[str] = ()
    """The fingerprints of those that can be disputed, as they are shown."""


def block_text(handed: HandedBack) -> str:
    """What the agent is given: the findings, what to do about them, and the way out."""
    round_words = f"round {handed.round_number} of {handed.max_rounds}"
    head = f"{spool.GIVEN_BACK} ({round_words}):"
    advice = [line for line in _advice_lines(handed) if line]
    frame_bytes = len(fitted(head, [MORE.format(MAX_BYTES)], advice).encode("utf-8", "replace"))
    listed = fit_findings(handed.findings, MAX_BYTES - frame_bytes - 1, safe)
    lines = list(listed.lines)
    if listed.unlisted:
        lines.append(MORE.format(counted(listed.unlisted, "more finding")))
    elif listed.shortened:
        lines.append(MORE.format("more about these"))
    return "\n".join([head, *lines, *map(_shorten, advice)])


def _advice_lines(handed: HandedBack) -> Iterator[str]:
    """The verdict, and in this order: repair, dispute, or say that neither can be done."""
    yield handed.verdict
    yield handed.place
    if handed.has_repairs:
        yield REPAIR.format("what is about files" if handed.cures else "these")
    if handed.cures:
        yield SESSION_CURE.format("; ".join(handed.cures), handed.max_rounds)
    yield EXPLAIN
    yield dispute_text(handed.disputable)
    inability = "If you cannot repair one, or think it wrong"
    if handed.disputable:
        inability = "If you can do neither"
    elif not handed.has_repairs:
        inability = "If you cannot, or think one wrong"
    condition = f"after round {handed.max_rounds}" if handed.cures else "with unchanged files"
    yield f"{inability}, say so and end your turn: {condition} you may stop, and the user decides."
    yield (
        'The user can switch this off: [hooks.stop] review = "never" in .vibe-gate/gate.toml, or '
        f"`vibe-gate install {handed.agent} --no-stop`."
    )


def tests_cure(commands: Sequence[str]) -> str:
    """What cures tests that did not run, by the `commands` that the criterion names."""
    for command in commands:
        if not any(sign in command for sign in "*?["):
            return f"{RUN_TESTS} (`{safe(command)}`)"
    return RUN_TESTS


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


def not_reviewed_text(problem: str, remedy: str = "") -> str:
    """What the person is told if there is no verdict; `remedy`: what to do about it."""
    text = f"vibe-gate: turn not reviewed: {safe(problem)}"
    return _shorten(f"{text.removesuffix('.')}. Next: {remedy}." if remedy else text)


def undecided_text(open_questions: Sequence[str], *, has_passes: bool, needs_tests: bool) -> str:
    """What the person is told if a review was made and something in it could not be decided.

    Args:
        open_questions: The criteria, each with why.
        has_passes: Whether others were decided.
        needs_tests: Whether a run of the tests would decide one.
    """
    head = "turn reviewed; not decided" if has_passes else "not decided"
    text = f"vibe-gate: {head}: {safe('; '.join(open_questions))}"
    if needs_tests:
        text += ". Ask the agent to run the tests once more, without a pipe."
    return _shorten(text)


def fitted(head: str, lines: Sequence[str], tail: Sequence[str], max_bytes: int = MAX_BYTES) -> str:
    """The text with as many of the lines as fit into `max_bytes`, and how many do not. A finding's
    lines may be several.
    """
    short_lines = ["\n".join(map(_shorten, line.split("\n"))) for line in lines]
    for count in range(len(short_lines), -1, -1):
        text_lines = [head, *short_lines[:count]]
        omitted_count = len(short_lines) - count
        if omitted_count:
            text_lines.append(MORE.format(counted(omitted_count, "more finding")))
        text = "\n".join([*text_lines, *map(_shorten, tail)])
        if len(text.encode("utf-8", "replace")) <= max_bytes:
            return text
    return head


def _shorten(line: str) -> str:
    return shorten_text(line, MAX_LINE)
