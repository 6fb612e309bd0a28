"""What agents made, judged: by a rubric, as in a review, or by one agent that fills a form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, Self, TypeVar

from vibe_gate.domain.agent import Agent
from vibe_gate.domain.gate import Gate
from vibe_gate.domain.rubric import Rubric
from vibe_gate.errors import AgentFailed, UsageError
from vibe_gate.gate.chosen import rubric_named
from vibe_gate.gate.given_rubrics import require_known_checks
from vibe_gate.run.conclusion import WorkflowRun
from vibe_gate.run.handed_over import turns_of_other_runs
from vibe_gate.run.run_request import one_agent
from vibe_gate.run.stage_result import StageResult
from vibe_gate.run.workflow_plan import Plan
from vibe_gate.store.run_result import RunResult

JUDGE = """\
You judge what a coding agent did to a repository. Your working directory holds the files as the agent left them; read \
them where the question needs it. Give one answer, in the form that is asked for."""


class AnswerModel(Protocol):
    """A pydantic model."""

    @classmethod
    def model_json_schema(cls) -> dict[str, Any]:
        """The form of an answer."""

    @classmethod
    def model_validate(cls, obj: Any, /) -> Self:  # noqa: ANN401  what JSON holds
        """The answer as a value. ValueError: it does not fit."""


M = TypeVar("M", bound=AnswerModel)

MakePlan = Callable[[Gate], Plan]


def plan_judgement(
    result: StageResult | RunResult,
    rubric: Rubric | str | None,
    instructions: str | None,
    form: type[AnswerModel] | None,
) -> MakePlan:
    """The plan of a run that judges the files that a result and those before it left.

    Without `form` a gate of the rubric; else an agent that only reads, which is asked the rubric's
    questions and the instructions. UsageError: nothing is asked.
    """
    if form is None:
        if rubric is None or instructions is not None:
            raise UsageError("Without `answer`, judge takes a rubric and no instructions.")
        return _gate_of_rubric(result, rubric)
    return _agent_with_form(result, rubric, instructions or "", form)


def _gate_of_rubric(result: StageResult | RunResult, rubric: Rubric | str) -> MakePlan:
    handed_turns = tuple(turns_of_other_runs(result))

    def plan_gate(gate: Gate) -> Plan:
        asked_rubric = rubric_named(gate, rubric) if isinstance(rubric, str) else rubric
        require_known_checks([asked_rubric])
        return Plan(
            id="judge",
            steps=lambda wf: wf.stage("judge", rubrics=[asked_rubric]),
            handed_turns=handed_turns,
            asks_agents=bool(asked_rubric.judge_criteria),
        )

    return plan_gate


def _agent_with_form(
    result: StageResult | RunResult,
    rubric: Rubric | str | None,
    instructions: str,
    form: type[AnswerModel],
) -> MakePlan:
    schema = form.model_json_schema()

    def plan_agent(gate: Gate) -> Plan:
        asked_rubric = rubric_named(gate, rubric) if isinstance(rubric, str) else rubric
        criteria = asked_rubric.judge_criteria if asked_rubric else ()
        questions = "\n".join(f"- {criterion.question}" for criterion in criteria)
        prompt = "\n\n".join(filter(None, [questions, instructions]))
        if not prompt:
            raise UsageError(
                "judge asks nothing: give it a rubric with questions, or instructions."
            )
        judge = Agent(id="judge", system_prompt=JUDGE)
        make_plan = one_agent(judge, prompt, context=result, schema=schema)
        return make_plan(gate)

    return plan_agent


def read_judgement(run: WorkflowRun, form: type[M]) -> M:
    """The form that the judge of `plan_judgement` filled. AgentFailed: it gave no answer, or one
    that does not fit.
    """
    (stage,) = run.results
    recorded = stage.result if stage.bundle else None
    if not stage.passed or stage.answer is None:
        raise AgentFailed(f"The judge gave no answer: {stage.reason}", stage.status, recorded)
    try:
        return form.model_validate(stage.answer)
    except ValueError as error:
        first_line = str(error).partition("\n")[0]
        reason = f"the judge's answer does not fit {form.__name__}: {first_line}"
        raise AgentFailed(reason, "no_answer", recorded) from None
