"""Questions: what a rubric's judge is asked about a change, the keys of that, and the votes that answer it.

A question as a whole has a key, by which receipts name it. Each vote on it has a key of its own, by which it is kept:
what the judge is shown, the number of the vote and the model that casts it, and not how many votes are planned.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial

from msgspec import Struct, field
from msgspec.structs import replace

from vibe_gate.agent import sdk_version
from vibe_gate.context.facts import Facts
from vibe_gate.domain.change import Change, FileVersion, Hunk
from vibe_gate.domain.gate import CounterexampleRule, Gate
from vibe_gate.domain.rubric import Claim, Rubric, Sight
from vibe_gate.domain.summary import Unreviewed
from vibe_gate.domain.verdict import Vote
from vibe_gate.git import Repository
from vibe_gate.judging import brief
from vibe_gate.judging.brief import TEMPLATE_VERSION, BriefPart
from vibe_gate.judging.evidence import quote_in_change
from vibe_gate.judging.surroundings import Surroundings, surroundings
from vibe_gate.judging.vote_counting import settle
from vibe_gate.version import __version__

TOOLS = ("Read", "Grep", "Glob")
"""What a judge may use: reading only, below the exported tree."""


def question_key(
    *, about: Sequence[str], rubric: str, model: str, claims: Iterable[Claim], versions: Mapping[str, str],
    tools: Sequence[str] = TOOLS, template: int = TEMPLATE_VERSION, vote: int = 0,
    tests: str = "", unshown: Sequence[Sight] = (),
) -> str:  # fmt: skip
    """The sha-256, in hex, of everything an answer depends on: the same key is never paid for twice.

    `about`: the trees before and after, or the prompts that a judge is shown and the blobs that they are about.
    `rubric`: its digest, or of one `vote`, by its number from 1, that of what it asks. `claims` are those that are
    shown, `unshown` the kinds of which a judge is told that they are not; `versions` by program; `tests`: what a judge
    is told of tests that it may bring.
    """
    digests = {claim.kind: _digest(claim.text) for claim in claims}
    message = digests.pop("message", _digest(""))
    plain = {
        "vote": vote,
        "about": about,
        "rubric": rubric,
        "template": template,
        "model": model,
        "tools": sorted(tools),
        "message": message,
        "versions": dict(sorted(versions.items())),
    }
    plain |= {name: value for name, value in (("tests", tests), ("claims", digests), ("unshown", unshown)) if value}
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


class RubricQuestion(Struct, frozen=True):
    """A rubric as it is asked: with `claims`, or without any, of `models` that take turns.

    `about`: both trees. `key` is that of the question as a whole. `tests`: how a test is run that a fail may
    bring; None if none may.
    """

    rubric: Rubric
    claims: tuple[Claim, ...]
    models: tuple[str, ...]
    about: tuple[str, ...]
    key: str
    tests: CounterexampleRule | None = None

    @property
    def is_private(self) -> bool:
        """Whether what is asked stays in this clone."""
        return any(claim.is_private for claim in self.claims)

    @property
    def unshown(self) -> tuple[Sight, ...]:
        """The kinds of claims that the rubric sees elsewhere, and that a judge is told are not shown."""
        shown = {"message", *(claim.kind for claim in self.claims)}
        return tuple(kind for kind in self.rubric.sees if kind not in shown)

    def model_of(self, number: int) -> str:
        """The model that casts the vote of that number, from 1."""
        return self.models[(number - 1) % len(self.models)]

    def vote_keys(self, number: int, about: Sequence[str]) -> dict[str, str]:
        """By model, the key of the vote of that number: of the model whose turn it is, then of the fallback."""
        models = filter(None, (self.model_of(number), self.rubric.fallback))
        return {
            model: question_key(
                about=about,
                rubric=self.rubric.asked_digest,
                model=model,
                claims=self.claims,
                unshown=self.unshown,
                versions=_versions(),
                vote=number,
                tests=brief.tests_prompt(self.tests),
            )
            for model in models
        }


class RubricBrief(Struct, frozen=True):
    """All that a judge is shown for one question. `about` is its sha-256, the same for all trees that show the same.

    `change` has the files that the rubric's judge criteria concern, no others. `unshown` is what of them no part shows.
    `key` is that of the question as a whole, about what is shown.
    """

    question: RubricQuestion
    change: Change
    around: Surroundings
    parts: tuple[BriefPart, ...]
    unshown: tuple[Unreviewed, ...]
    about: str
    key: str

    def prompt(self, part: BriefPart, nonce: str, number: int = 0) -> str:
        """The judge's prompt for a part, or for some of its criteria, in the order of the vote of that number.

        Files and criteria change places from vote to vote, so that none is always the first. The order follows from
        what is shown, so that a recording matches; 0 is the order of the rubric and of the paths.
        """
        change = self.change
        if number:
            change, part = brief.shuffled(change, part, f"{self.about} {number}")
        return brief.prompt(change, part, self.around.facts(piece.path for piece in part.pieces), nonce)

    def texts(self) -> Iterator[str]:
        """The words of the change and of the questions, as they are shown."""
        yield from (piece.text for part in self.parts for piece in part.pieces)
        yield from (file.shown_path for file in self.change.files)
        yield from (criterion.question or "" for criterion in self.question.rubric.judge_criteria)

    def supports(self, vote: CastVote, read: Callable[[FileVersion], bytes]) -> bool:
        """Whether what counted as evidence in a vote, given about other trees, stands in this change, too."""
        asked = {criterion.id: criterion for criterion in self.question.rubric.judge_criteria}
        return vote.by_criterion.keys() <= asked.keys() and all(
            kept.standing == "void" or quote_in_change(asked[name], kept, self.change, read).standing == "holds"
            for name, one in vote.by_criterion.items()
            for kept in one.evidence
        )


class CastVote(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One vote on one question: by criterion id what it says, and the model that cast it. state.db keeps it.

    `unreviewed`: what the judge was not shown. `used_tools`: whether it looked beyond its brief, so that the answer may
    depend on all of both trees.
    """

    by_criterion: dict[str, Vote] = field(name="votes")
    model: str
    unreviewed: tuple[Unreviewed, ...] = ()
    used_tools: bool = True

    def joined(self, other: CastVote) -> CastVote:
        """The same vote on the criteria of both: in one run it was asked about some, in another about the rest."""
        return replace(
            self,
            by_criterion={**self.by_criterion, **other.by_criterion},
            unreviewed=tuple(dict.fromkeys((*self.unreviewed, *other.unreviewed))),
            used_tools=self.used_tools or other.used_tools,
        )

    def kept_in(self, bundle: str) -> CastVote:
        """What a later run can take: real answers, and their turns named from the repository's root.

        A refusal, a lost answer or a fault is not kept: the next run may fare better.
        """

        def moved(turn: str) -> str:
            return turn if not turn.startswith("nodes/") else f"{bundle}/{turn}" if bundle else ""

        votes = {name: vote for name, vote in self.by_criterion.items() if vote.is_whole}
        return replace(self, by_criterion={name: replace(one, turn=moved(one.turn)) for name, one in votes.items()})


class RubricVotes(Struct, frozen=True, kw_only=True):
    """The answer to one question: votes by criterion id, why voting stopped early, what no judge was shown.

    `is_kept`: whether an earlier run cast any of the votes.
    """

    by_criterion: dict[str, tuple[Vote, ...]]
    stopped: str = ""
    unreviewed: tuple[Unreviewed, ...] = ()
    is_kept: bool = False

    @property
    def is_final(self) -> bool:
        """Whether asking again could only cost: every vote is an answer, and none is missing."""
        cast = [vote for votes in self.by_criterion.values() for vote in votes]
        return not self.stopped and bool(cast) and all(vote.is_whole for vote in cast)


def asked_of(question: RubricQuestion, change: Change) -> list[str]:
    """The ids of the question's criteria that concern a file of the change: those that get an answer."""
    criteria = question.rubric.judge_criteria
    return [criterion.id for criterion in criteria if any(criterion.concerns(file) for file in change.files)]


def counted(asked: Iterable[str], planned: int, cast: Mapping[int, CastVote]) -> dict[str, tuple[Vote, ...]]:
    """The votes that count, by criterion id: in the order of their numbers, up to the one that settles the outcome.

    `cast` by number. A vote that is missing, or says nothing of a criterion, ends the count of that criterion.
    """

    def of(name: str) -> tuple[Vote, ...]:
        votes: list[Vote] = []
        for number in range(1, planned + 1):
            one = cast.get(number)
            if settle(votes, planned) is not None or one is None or name not in one.by_criterion:
                break
            votes.append(one.by_criterion[name])
        return tuple(votes)

    return {name: of(name) for name in asked}


def settled(asked: Iterable[str], planned: int, cast: Mapping[int, CastVote]) -> RubricVotes | None:
    """The answer to a question if these votes settle it, else None."""
    votes = counted(asked, planned, cast)
    if not votes or any(settle(one, planned) is None for one in votes.values()):
        return None
    numbers = range(1, max(map(len, votes.values())) + 1)
    unreviewed = dict.fromkeys(item for number in numbers for item in cast[number].unreviewed)
    return RubricVotes(by_criterion=votes, unreviewed=tuple(unreviewed), is_kept=True)


def questions_of(facts: Facts, model: str, sdk: str | None = None) -> tuple[RubricQuestion, ...]:
    """What is asked about the change: of a rubric that sees claims two questions, without and with those there are.

    A question without them leaves out the criteria that need them, and is not asked if none is left.
    `model` is asked where a rubric names none. `sdk`: the version of the SDK that asks, if not the installed one.
    """
    trees, asked = (facts.change.before, facts.change.after), []
    for rubric in facts.rubrics_with_judge:
        models = rubric.models or (rubric.model or model,)
        seen = tuple(claim for claim in facts.claims if claim.kind in rubric.sees)
        for claims in dict.fromkeys(((), seen)):
            kinds = {claim.kind for claim in claims}
            # No test shows what was asked for, and its text could repeat that.
            tests = None if "prompt" in kinds else facts.asks_for_tests
            question = RubricQuestion(rubric.knowing(kinds), claims, models, trees, "", tests)
            if question.rubric.judge_criteria:
                asked.append(replace(question, key=_key(question, trees, sdk)))
    return tuple(asked)


def keys_of(questions: Iterable[RubricQuestion]) -> dict[str, str]:
    """By rubric id, the key of both trees of the question that shows the most."""
    return {question.rubric.id: question.key for question in questions}


def named_keys_of(questions: Iterable[RubricQuestion]) -> dict[str, str]:
    """The same of what a receipt may name: a key would confirm a guess at what only this clone knows."""
    return keys_of(question for question in questions if not question.is_private)


def briefs_of(questions: Iterable[RubricQuestion], facts: Facts, repository: Repository) -> list[RubricBrief]:
    """What a judge is shown for each question; rubrics about the same files share what stands around them."""
    around, made = cache(partial(surroundings, repository)), []
    for question in questions:
        change = brief.concerned(facts.change, question.rubric)
        near = around(change)
        change, hunks, large = _with_moved_in(change, question.rubric, facts.gate, repository)
        parts, unshown = brief.parts(
            change, question.rubric, {**near.hunks, **hunks}, question.claims, question.unshown
        )
        shown = RubricBrief(question, change, near, parts, (*unshown, *large), "", "")
        prompts = [shown.prompt(part, "") for part in parts]  # the nonce is another in every run
        sides = (side for file in change.files for side in (file.before, file.after))
        blobs = [side.blob if side else "" for side in sides]
        about = hashlib.sha256(json.dumps([blobs, prompts]).encode()).hexdigest()
        made.append(replace(shown, about=about, key=_key(question, [about])))
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
        model=question.model_of(1),
        claims=question.claims,
        unshown=question.unshown,
        versions=_versions(sdk),
        tests=brief.tests_prompt(question.tests),
    )


def _versions(sdk: str | None = None) -> dict[str, str]:
    return {"vibe-gate": __version__, "claude-agent-sdk": sdk_version() if sdk is None else sdk}
