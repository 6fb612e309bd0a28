"""Questions: what a rubric's judge is asked about a change, the key of that, and the votes that answer it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial

from msgspec import Struct, field
from msgspec.structs import replace

from vibe_gate import __version__
from vibe_gate.agent import sdk_version
from vibe_gate.domain.change import Change, FileVersion, Hunk
from vibe_gate.domain.context import Facts
from vibe_gate.domain.gate import Gate
from vibe_gate.domain.rubric import Rubric
from vibe_gate.domain.summary import Unreviewed
from vibe_gate.domain.verdict import Vote
from vibe_gate.git import Repository
from vibe_gate.judging import brief
from vibe_gate.judging.brief import TEMPLATE_VERSION, BriefPart
from vibe_gate.judging.evidence import quote_in_change
from vibe_gate.judging.surroundings import Surroundings, surroundings

TOOLS = ("Read", "Grep", "Glob")
"""What a judge may use: reading only, below the exported tree."""


def question_key(
    *, about: Sequence[str], rubric: str, model: str, message: str, versions: Mapping[str, str],
    tools: Sequence[str] = TOOLS, template: int = TEMPLATE_VERSION,
) -> str:  # fmt: skip
    """The sha-256, in hex, of everything an answer depends on: the same key is never paid for twice.

    `about`: the trees before and after, or the prompts that a judge is shown and the blobs that they are about.
    `message` is "" unless it is shown; `versions` by program.
    """
    plain = {
        "about": about,
        "rubric": rubric,
        "template": template,
        "model": model,
        "tools": sorted(tools),
        "message": hashlib.sha256(message.encode("utf-8", "surrogateescape")).hexdigest(),
        "versions": dict(sorted(versions.items())),
    }
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()


class RubricQuestion(Struct, frozen=True):
    """A rubric as it is asked once: with the author's `message`, or without it (""), of the language model `model`.

    `key` is that of both trees.
    """

    rubric: Rubric
    message: str
    model: str
    key: str


class RubricBrief(Struct, frozen=True):
    """All that a judge is shown for one question, and the `key` of that: the same for all trees that show the same.

    `change` has the files that the rubric's judge criteria concern, no others. `unshown` is what of them no part shows.
    """

    question: RubricQuestion
    change: Change
    around: Surroundings
    parts: tuple[BriefPart, ...]
    unshown: tuple[Unreviewed, ...]
    key: str

    def prompt(self, part: BriefPart, nonce: str) -> str:
        """The judge's prompt for a part, or for some of its criteria."""
        return brief.prompt(self.change, part, self.around.facts(piece.path for piece in part.pieces), nonce)

    def supports(self, votes: RubricVotes, read: Callable[[FileVersion], bytes]) -> bool:
        """Whether what counted as evidence in these votes, given about other trees, stands in this change, too."""
        asked = {criterion.id: criterion for criterion in self.question.rubric.judge_criteria}
        return votes.by_criterion.keys() <= asked.keys() and all(
            kept.standing == "void" or quote_in_change(asked[name], kept, self.change, read).standing == "holds"
            for name, cast in votes.by_criterion.items()
            for vote in cast
            for kept in vote.evidence
        )


class RubricVotes(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The answer to one question: votes by criterion id, why voting stopped early, what no judge was shown.

    state.db keeps it, with the votes under the key `votes`.

    `used_tools`: whether a judge looked beyond its brief, so that the answer may depend on all of both trees.
    """

    by_criterion: dict[str, tuple[Vote, ...]] = field(name="votes")
    stopped: str = ""
    unreviewed: tuple[Unreviewed, ...] = ()
    used_tools: bool = True

    @property
    def is_final(self) -> bool:
        """Whether asking again could only cost: every vote is an answer, and none is missing.

        A refusal, a lost answer or a fault is not kept: the next run may fare better.
        """
        cast = [vote for votes in self.by_criterion.values() for vote in votes]
        return not self.stopped and bool(cast) and all(vote.said is not None for vote in cast)

    def from_bundle(self, bundle: str) -> RubricVotes:
        """The same for another run: the votes' turns are named from the repository's root, as those of others are."""

        def moved(turn: str) -> str:
            return turn if not turn.startswith("nodes/") else f"{bundle}/{turn}" if bundle else ""

        votes = {
            name: tuple(replace(vote, turn=moved(vote.turn)) for vote in votes)
            for name, votes in self.by_criterion.items()
        }
        return replace(self, by_criterion=votes)


def questions_of(facts: Facts, model: str, sdk: str | None = None) -> tuple[RubricQuestion, ...]:
    """What is asked about the change: of a rubric that sees the message two questions, without it and with it.

    `model` is asked where a rubric names none. `sdk`: the version of the SDK that asks, if not the installed one.
    """
    trees, asked = (facts.change.before, facts.change.after), []
    for rubric in facts.rubrics_with_judge:
        seen = facts.message if "message" in rubric.sees else ""
        for message in dict.fromkeys(("", seen)):
            question = RubricQuestion(rubric, message, rubric.model or model, "")
            asked.append(replace(question, key=_key(question, trees, sdk)))
    return tuple(asked)


def keys_of(questions: Iterable[RubricQuestion]) -> dict[str, str]:
    """By rubric id, the key of both trees of the question that shows the most."""
    return {question.rubric.id: question.key for question in questions}


def briefs_of(questions: Iterable[RubricQuestion], facts: Facts, repository: Repository) -> list[RubricBrief]:
    """What a judge is shown for each question; rubrics about the same files share what stands around them."""
    around, made = cache(partial(surroundings, repository)), []
    for question in questions:
        change = brief.concerned(facts.change, question.rubric)
        near = around(change)
        change, hunks, large = _with_moved_in(change, question.rubric, facts.gate, repository)
        parts, unshown = brief.parts(change, question.rubric, {**near.hunks, **hunks}, question.message)
        shown = RubricBrief(question, change, near, parts, (*unshown, *large), "")
        prompts = [shown.prompt(part, "") for part in parts]  # the nonce is another in every run
        sides = (side for file in change.files for side in (file.before, file.after))
        blobs = [side.blob if side else "" for side in sides]
        made.append(replace(shown, key=_key(question, [*blobs, *prompts])))
    return made


def _with_moved_in(
    change: Change, rubric: Rubric, gate: Gate, repository: Repository
) -> tuple[Change, dict[str, tuple[Hunk, ...]], list[Unreviewed]]:
    """The change with whole files where they move in, by path their hunks, and which are too large for that."""
    files = {file.path: file for file in change.files}
    whole, large = {}, []
    for path, file in files.items():
        if not (file.after and brief.moves_in(file, rubric, gate.reach(rubric.id))):
            continue
        if file.after.size > brief.MAX_NEW:
            why = "moved here, and too large to be shown whole"
            large.append(Unreviewed(path=file.shown_path, line=0, end_line=0, reason=why))
        else:
            whole[path] = file.as_new(repository.read(file.after))
    hunks = {path: file.hunks for path, file in whole.items()}
    return replace(change, files=tuple({**files, **whole}.values())), hunks, large


def _key(question: RubricQuestion, about: Sequence[str], sdk: str | None = None) -> str:
    return question_key(
        about=about,
        rubric=question.rubric.digest,
        model=question.model,
        message=question.message,
        versions={"vibe-gate": __version__, "claude-agent-sdk": sdk_version() if sdk is None else sdk},
    )
