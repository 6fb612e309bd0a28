"""A review printed: the verdict screen, the JSON document, or the sentence that nothing changed."""

from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING

from vibe_gate.context.review_request import ReviewRequest
from vibe_gate.domain.change import Selection
from vibe_gate.domain.escape import safe
from vibe_gate.domain.summary import ChangeSummary
from vibe_gate.faces.cli.output import complain, emit, is_terminal, takes_colour
from vibe_gate.faces.process_environment import read_process_environment
from vibe_gate.report import sentences
from vibe_gate.run.review_result import Review

if TYPE_CHECKING:
    from rich.text import Text

PIPE_WIDTH = 1000
"""Columns if stdout is not a terminal: a log has no width, so no reason (280 characters) is cut."""

NO_GATE = "`vibe-gate init` writes a .vibe-gate/ of your own."


def present_review(finished: Review, request: ReviewRequest, *, as_json: bool) -> None:
    """Print a review: the JSON document, one sentence if there was nothing to review, or the
    verdict screen.
    """
    if as_json:
        print_document(finished)
    elif finished.summary.run_id == "":
        lines = [explain_no_change(request.selection, finished.summary.change)]
        lines += [f"note: {safe(note)}" for note in finished.notes]
        emit("\n".join(lines) + "\n")
    else:
        emit(render_verdict(finished) + "\n")


def print_document(finished: Review) -> None:
    """Print the summary as JSON, and the notes as sentences."""
    for note in (*sentences.missing_key_note(finished.summary), *finished.notes):
        complain(f"note: {safe(note)}")
    emit(finished.summary.to_json())


def explain_no_change(selection: Selection, change: ChangeSummary) -> str:
    """The sentence for a change without files. `change`: what the selection came to."""
    is_from_head = selection.kind in ("staged", "worktree") and selection.left == "HEAD"
    if is_from_head and not change.base_commit:
        return _explain_no_files(selection.kind)
    before, after = safe(selection.left), safe(selection.right)
    return {
        "staged": "Nothing to review: the index is the same as HEAD.",
        "worktree": f"Nothing to review: the working tree is the same as {before}.",
        "range": f"Nothing to review: {before} and {after} have the same files.",
        "merge_base": f"Nothing to review: {after} has no changes since its merge base with {before}.",
        "commit": f"Nothing to review: commit {before} changes no files.",
    }[selection.kind]


def _explain_no_files(kind: str) -> str:
    """The sentence for a repository without a commit, where HEAD names nothing yet."""
    if kind == "staged":
        return "Nothing to review: there is no commit yet, and the index has no files."
    return (
        "Nothing to review: there is no commit yet, and the working tree has no files "
        "that git would add."
    )


def render_verdict(finished: Review, next_command: str = "", decision: str = "") -> str:
    """The verdict screen, for the terminal or the pipe that stdout is; `next_command` and
    `decision` are `then` and `decision` of `verdict_screen.render_screen`.
    """
    # rich takes longer to load than a review that finds nothing to do.
    from vibe_gate.report import verdict_screen

    notes = [*sentences.missing_key_note(finished.summary)]
    notes += [note for note in finished.notes if note != decision]  # the headline says that one
    notes += _advice(finished)
    columns = shutil.get_terminal_size().columns if is_terminal() else PIPE_WIDTH
    text = verdict_screen.render_screen(
        finished.summary,
        tuple(notes),
        columns,
        every=not is_terminal(),
        then=next_command,
        decision=decision,
        reader=verdict_screen.ScreenReader(
            is_agent=bool(read_process_environment().agents),
            session_criteria=finished.gate.session_criteria if finished.gate else frozenset(),
        ),
    )
    return coloured(text, columns)


def coloured(text: Text, columns: int) -> str:
    """The text for stdout, with its colours if that takes them."""
    if not takes_colour():
        return text.plain
    from rich.console import Console

    console = Console(file=sys.stdout, width=columns, highlight=False, force_terminal=True)
    with console.capture() as captured:
        console.print(text, soft_wrap=True, end="")
    return captured.get()


def _advice(finished: Review) -> list[str]:
    """What a person who has no gate of their own should know."""
    has_own_gate = finished.gate is None or finished.gate.origin != "built-in"
    environment = read_process_environment()
    if has_own_gate or environment.in_ci or environment.agents:
        return []
    return [NO_GATE]
