"""Questions: what a rubric's judge is asked about a change, and the keys of that.

A question as a whole has a key, by which receipts name it. Each vote on it has a key of its own, by
which it is kept: what the judge is shown, the number of the vote and the model that casts it, and
not how many votes are planned.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from vibe_gate.agent import sdk_version
from vibe_gate.context.facts import Facts
from vibe_gate.domain.change import Change
from vibe_gate.domain.gate import CounterexampleRule
from vibe_gate.domain.leaving import PRIVATE, SHARED
from vibe_gate.domain.rubric import Claim, Rubric, Sight
from vibe_gate.judging.brief import TEMPLATE_VERSION, write_tests_prompt
from vibe_gate.version import __version__

TOOLS = ("Read", "Grep", "Glob")
"""What a judge may use: reading only, below the exported tree."""


def question_key(
    *,
    content_ids: Sequence[str],
    rubric: str,
    model: str,
    claims: Iterable[Claim],
    versions: Mapping[str, str],
    tools: Sequence[str] = TOOLS,
    template: int = TEMPLATE_VERSION,
    vote: int = 0,
    tests: str = "",
    unshown: Sequence[Sight] = (),
) -> str:
    """The sha-256, in hex, of everything an answer depends on: the same key is never paid for
    twice.

    Args:
        content_ids: The trees before and after, or the digest of what a judge is shown of them.
        rubric: Its digest; of one `vote`, by its number from 1, that of what it asks.
        model: The language model.
        claims: Those that are shown.
        versions: By program.
        tools: What the judge may use.
        template: The version of our instructions.
        vote: The number of the vote, from 1; 0 for the question as a whole.
        tests: What a judge is told of tests that it may bring.
        unshown: The kinds of claims of which a judge is told that they are not shown.
    """
    digests = {claim.kind: _text_digest(claim.text) for claim in claims}
    message = digests.pop("message", _text_digest(""))
    document = {
        "vote": vote,
        "about": content_ids,
        "rubric": rubric,
        "template": template,
        "model": model,
        "tools": sorted(tools),
        "message": message,
        "versions": dict(sorted(versions.items())),
    }
    if tests:
        document["tests"] = tests
    if digests:
        document["claims"] = digests
    if unshown:
        document["unshown"] = unshown
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


def _text_digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


class RubricQuestion(Struct, frozen=True):
    """A rubric as it is asked about a change."""

    rubric: Rubric
    """As it is asked: without criteria that need a claim which is not shown."""

    claims: tuple[Claim, ...]
    """Those that are shown; () for none."""

    models: tuple[str, ...]
    """The language models that take turns."""

    about: tuple[str, ...]
    """The trees before and after."""

    criterion_ids: tuple[str, ...]
    """The criteria that concern a file of the change: those that get an answer."""

    versions: Mapping[str, str]
    """By program that takes part in asking."""

    tests: CounterexampleRule | None = None
    """How a test is run that a fail may bring; None if none may."""

    @property
    def visibility(self) -> dict[str, str]:
        """Which claims that may have to stay in this clone are shown with it, as
        `leaving.may_leave` takes them.
        """
        visibility: dict[str, str] = {}
        for claim in self.claims:
            if claim.is_private:
                visibility[claim.kind] = PRIVATE
            elif claim.kind == "prompt":
                visibility[claim.kind] = SHARED
        return visibility

    @property
    def unshown(self) -> tuple[Sight, ...]:
        """The kinds of claims that the rubric sees elsewhere, and that a judge is told are not
        shown.
        """
        shown_kinds = {"message", *(claim.kind for claim in self.claims)}
        return tuple(kind for kind in self.rubric.sees if kind not in shown_kinds)

    def model_of(self, number: int) -> str:
        """The model that casts the vote of that number, from 1."""
        return self.models[(number - 1) % len(self.models)]

    @property
    def key(self) -> str:
        """That of the question as a whole."""
        return self.key_about(self.about)

    def key_about(self, content_ids: Sequence[str]) -> str:
        """The key of the question as a whole, put about these trees or about what is shown of
        them.
        """
        return question_key(
            content_ids=content_ids,
            rubric=self.rubric.digest,
            model=self.model_of(1),
            claims=self.claims,
            unshown=self.unshown,
            versions=self.versions,
            tests=write_tests_prompt(self.tests),
        )

    def vote_keys(self, number: int, content_ids: Sequence[str]) -> dict[str, str]:
        """By model, the key of the vote of that number: of the model whose turn it is, then of the
        fallback.
        """
        keys = {}
        for model in (self.model_of(number), self.rubric.fallback):
            if not model:
                continue
            keys[model] = question_key(
                content_ids=content_ids,
                rubric=self.rubric.asked_digest,
                model=model,
                claims=self.claims,
                unshown=self.unshown,
                versions=self.versions,
                vote=number,
                tests=write_tests_prompt(self.tests),
            )
        return keys


def questions_of(facts: Facts, model: str, sdk: str | None = None) -> tuple[RubricQuestion, ...]:
    """What is asked about the change: of a rubric that sees claims two questions, without and with
    those there are.

    A question without them leaves out the criteria that need them, and is not asked if none is
    left.

    Args:
        facts: What is known of the change.
        model: Asked if a rubric names none.
        sdk: The version of the SDK that asks; None for the installed one.
    """
    versions = {"vibe-gate": __version__, "claude-agent-sdk": sdk_version() if sdk is None else sdk}
    trees = (facts.change.before, facts.change.after)
    questions = []
    for rubric in facts.rubrics_with_judge:
        models = rubric.models or (rubric.model or model,)
        seen_kinds = {*rubric.sees, "left_alone"}
        seen_claims = tuple(claim for claim in facts.claims if claim.kind in seen_kinds)
        for claims in dict.fromkeys(((), seen_claims)):
            kinds = {claim.kind for claim in claims}
            # No test shows what was asked for or said, and its text could repeat that.
            tests = facts.asks_for_tests if kinds.isdisjoint(("prompt", "said")) else None
            asked_rubric = rubric.knowing(kinds)
            if not asked_rubric.judge_criteria:
                continue
            ids = _concerned_ids(asked_rubric, facts.change)
            questions.append(
                RubricQuestion(asked_rubric, claims, models, trees, ids, versions, tests)
            )
    return tuple(questions)


def _concerned_ids(rubric: Rubric, change: Change) -> tuple[str, ...]:
    """The ids of the judge criteria that concern a file of the change."""
    ids = []
    for criterion in rubric.judge_criteria:
        if any(criterion.concerns(file) for file in change.files):
            ids.append(criterion.id)
    return tuple(ids)


def keys_by_rubric(questions: Iterable[RubricQuestion]) -> dict[str, str]:
    """By rubric id, the key of the question that shows the most."""
    return {question.rubric.id: question.key for question in questions}
