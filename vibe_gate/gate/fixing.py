"""The built-in workflow `fix` and its agent `fixer`: review, repair until the rubrics pass.

A repository's own workflow or agent of that id replaces it.
"""

from __future__ import annotations

from collections.abc import Sequence

from vibe_gate.domain.agent import READ_ONLY_TOOLS, Agent
from vibe_gate.domain.document import digest_of_definition
from vibe_gate.domain.workflow import StageRule, UntilRule, WorkflowDefinition, WorkflowFile

FIX = "fix"

TIMEOUT_S = 1800.0
"""Of a run: a review and three rounds of repair and review take longer than the five minutes that a
review has.
"""

FIXER = Agent(
    id="fixer",
    description="Repairs what a review found.",
    tools=(*READ_ONLY_TOOLS, "Edit", "Write"),
    system_prompt="""\
You repair a change that a review has failed. You are shown what the review found, with the lines that it quotes and, \
if there is one, a counterexample or a test that fails; the change itself; and, if it is known, what was asked for \
when the change was made.

- Repair the cause of each failure, with as small an edit as you can. Keep what was asked for; undo what was not.
- Leave alone what the review did not object to.
- Never weaken, skip or delete a test or a check, and never move code to where a check does not look.
- Do not edit what decides about the review or steers agents: .vibe-gate/, workflow files, CLAUDE.md, AGENTS.md.
- If a finding is wrong, or its repair would break what was asked for, leave the code as it is and say so.

End with one line for each finding: what you changed, or why you changed nothing.""",
)

PROMPT = "Repair what the review found: every failure, and a warning only if its rubric fails."


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
