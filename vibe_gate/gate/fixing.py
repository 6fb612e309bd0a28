"""The built-in workflow `fix` and its agent `fixer`: review, repair until the rubrics pass.

A repository's own workflow or agent of that id replaces it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from vibe_gate.domain.agent import READ_ONLY_TOOLS, TESTS_TOOL, Agent
from vibe_gate.domain.document import digest_of_definition
from vibe_gate.domain.escape import expression
from vibe_gate.domain.workflow import StageRule, UntilRule, WorkflowDefinition, WorkflowFile

FIX = "fix"

TIMEOUT_S = 1800.0
"""Of a run: a review and three rounds of repair and review take longer than the five minutes that a
review has.
"""

LEFT_ALONE = "Left alone:"
"""The line before what an agent saw and did not touch."""

FIXER = Agent(
    id="fixer",
    description="Repairs what a review found.",
    tools=(*READ_ONLY_TOOLS, "Edit", "Write", TESTS_TOOL),
    system_prompt=f"""\
You repair a change that a review has failed. You are shown one list of what the review failed it for, without mere \
warnings: each finding once, with the question that it answers, the lines that it quotes and, if there are any, \
counterexamples, a test that fails and what a second look traced in the code. Each is marked open, new in a round of \
repair, back after one, or repaired in one. You are shown the change as it is now, what earlier rounds of the repair \
changed and said, and, if it is known, what was asked for when the change was made.

- Repair the cause of each open finding, with the smallest edit that repairs it everywhere in the change. Keep what was \
asked for; undo what was not. If it is not shown, take what the change's names, words and tests are for. Keep what is \
marked repaired as it is, unless a finding is about that repair.
- A line that you touch counts as yours: all that it says must be true when you leave it, also what it said before.
- A finding names an example. Before you end, put its question to the whole change, and to your own edit, once more: \
follow each input of that kind through the changed code, and repair what goes wrong in the same way elsewhere. A review \
names one defect of a kind at a time, and every further one costs a round.
- Leave alone what the review did not object to and its questions do not ask about.
- Never weaken, skip or delete a test or a check, and never move code to where a check does not look.
- Do not edit what decides about the review or steers agents: .vibe-gate/, workflow files, CLAUDE.md, AGENTS.md.
- If a finding is wrong, or its repair would break what was asked for, leave the code as it is and say so.

End with one line for each open finding: what you changed, or why you changed nothing. If you saw something else that \
this change does wrong and did not touch it, add a last section that begins with the line `{LEFT_ALONE}`, and a line \
each with the path, the line's number and what goes wrong. A person and the next review, which is then asked twice, are \
told. What is older than the change does not belong there. Without such a thing, leave the section out.""",
)
MAX_LEFT_ALONE = 4_000
"""Characters of what an agent says it left alone."""

_LEFT_ALONE_LINE = expression(
    r"^[\W_]*left alone[\W_]*$|^[\W_]*left alone[*_ ]*:[*_ ]*(?=\S)", re.I | re.M
)

_NOTHING = ("none", "nothing", "n/a")

_PLACE = re.compile(r"([^\s`'\"(:]+):\d")
"""A path, as a line of that section names it before a line's number."""


def left_alone_in(message: str) -> str:
    """What an agent's last message says it left alone; "" if it says nothing of that."""
    heading = _last_heading(message)
    if heading is None:
        return ""
    text = message[heading.end() :].strip()
    if text.strip("-*. ").casefold() in _NOTHING:
        return ""
    return text[:MAX_LEFT_ALONE]


def without_left_alone(message: str) -> str:
    """An agent's last message without what it says it left alone."""
    heading = _last_heading(message)
    if heading is None:
        return message
    return message[: heading.start()].rstrip()


def _last_heading(message: str) -> re.Match[str] | None:
    """The line that begins the section of what was left alone."""
    headings = list(_LEFT_ALONE_LINE.finditer(message))
    return headings[-1] if headings else None


def without_touched_files(text: str, later_patches: Sequence[str]) -> str:
    """The lines of what an agent left alone, without those about files that a later agent changed:
    that one was shown the lines, and says by itself what is left of them.

    Args:
        text: As `left_alone_in` gives it.
        later_patches: What agents changed after that.
    """
    lines = []
    for line in text.splitlines():
        place = _PLACE.search(line)
        header = f"diff --git a/{place[1]} " if place else ""
        if header and any(header in patch for patch in later_patches):
            continue
        lines.append(line)
    return "\n".join(lines).strip()


PROMPT = "Repair what the review found: every open finding."


def fix_workflow(rubrics: Sequence[str]) -> WorkflowDefinition:
    """The built-in workflow about a change that these rubrics review."""
    stages = [StageRule(id="review", rubrics=tuple(rubrics))]
    if rubrics:
        fix = StageRule(
            id="fix",
            needs=("review",),
            when="review.failed",
            agent=FIXER.id,
            prompt=PROMPT,
            context=("review",),
            until=UntilRule(rubrics=tuple(rubrics)),
        )
        stages.append(fix)
    file = WorkflowFile(schema=1, id=FIX, timeout_s=TIMEOUT_S, stage=tuple(stages))
    return WorkflowDefinition(FIX, "", digest_of_definition(file), file)
