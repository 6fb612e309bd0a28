"""Rubrics: the criteria that a change is reviewed against, `schema = 1`."""

from __future__ import annotations

import hashlib
import json
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from msgspec import Meta, Struct
from msgspec.structs import replace

from vibe_gate.domain.document import digest_of_definition
from vibe_gate.domain.escape import expression
from vibe_gate.domain.paths import is_plain
from vibe_gate.domain.tables import require_right

if TYPE_CHECKING:
    from collections.abc import Collection

    from vibe_gate.domain.change import FileDiff

IDENTIFIER = r"^[a-z0-9][a-z0-9._-]{0,63}(?!\n)$"
Identifier = Annotated[
    str,
    Meta(
        pattern=IDENTIFIER,
        extra={"means": 'lower-case letters, digits, ".", "_" and "-", at most 64'},
    ),
]
"""What names a rubric, criterion, agent or workflow; it becomes part of paths and node ids."""

_RANGE = expression(r"\[[^\]]*?([^\[\]!^])-([^\]])")
"""The first range of a set in a glob, as its two ends."""


def _require_matching(pattern: str) -> None:
    if not pattern.strip("/ "):
        raise ValueError("matches no file; leave the key out to mean every file")
    if pattern != pattern.strip():
        raise ValueError("begins or ends with a space, and no file's name would match")
    if pattern.startswith("!"):
        raise ValueError(
            'begins with "!", which does not negate here; name the paths that are meant'
        )
    if pattern.startswith("./"):
        raise ValueError("starts with ./; globs start at the repository's root: leave it out")
    if ".." in pattern.split("/"):
        raise ValueError("leaves the repository; globs start at its root")
    if any(low > high for low, high in _RANGE.findall(pattern)):
        raise ValueError("has a set [...] whose range runs backwards; nothing would match it")


Glob = Annotated[str, Meta(extra={"check": _require_matching})]
"""A pattern that can match (`paths.matches`)."""


def model_name(name: str) -> str:
    """The name, which is also a word of the agent's command line. ValueError: no language model can
    have it.
    """
    if not name.strip() or not is_plain(name) or name.startswith("-"):
        raise ValueError("is not the name of a language model")
    return name


def _require_argument(word: str) -> None:
    if "\0" in word:
        raise ValueError("holds a NUL character, which no argument can")


ModelName = Annotated[str, Meta(extra={"check": model_name})]
WRITE_SCHEMA = "write schema = 1 at the top of the file\na higher number asks for a newer vibe-gate"

Schema = Annotated[
    int,
    Meta(
        ge=1,
        le=1,
        description="The format's version. A higher one asks for a newer vibe-gate.",
        extra={"says": WRITE_SCHEMA},
    ),
]

Sight = Literal["message", "prompt", "guidance", "issue", "said"]
"""What a judge may be shown besides the change."""


ClaimKind = Literal[Sight, "left_alone"]
"""What a judge is shown besides the change: what a rubric sees, or what an agent that repaired the
change says it left alone, which every rubric is shown.
"""


class Claim(Struct, frozen=True):
    """A text that a judge is shown besides the change, of one kind: what somebody says, nothing
    that was verified.

    `is_private`: it stays in this clone, and so does what has it word for word.
    """

    kind: ClaimKind
    text: str
    is_private: bool = False


Looks = Literal["blocking", "never"]
"""Which fails get a second look: those that would block, or none."""


class Criterion(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One binary question, asked so that "yes" passes, or one deterministic check."""

    LATER: ClassVar[frozenset[str]] = frozenset({"proof", "needs"})
    """Keys of later versions: a rubric that does not use them keeps its digest, by which receipts
    are found.
    """

    id: Annotated[
        Identifier, Meta(description="Names the criterion in findings; once in a rubric.")
    ]
    kind: Annotated[
        Literal["judge", "check"], Meta(description="A model answers, or deterministic code.")
    ]
    must: Annotated[bool, Meta(description="A fail blocks whatever the score.")] = False
    weight: Annotated[float, Meta(gt=0, le=1000, description="What it counts in the score.")] = 1
    question: Annotated[
        str | None, Meta(description='Of a judge: one question that "yes" passes.')
    ] = None
    good: Annotated[str | None, Meta(description="Of a judge: an example that passes.")] = None
    bad: Annotated[str | None, Meta(description="Of a judge: an example that fails.")] = None
    paths: Annotated[
        tuple[Glob, ...],
        Meta(
            description="Globs: only these files are looked at. A rename counts under both names."
        ),
    ] = ()
    proof: Annotated[
        Literal["required"] | None,
        Meta(
            description='Of a judge: with "required" only a fail whose test proves it blocks; others are warnings.'
        ),
    ] = None
    needs: Annotated[
        Sight | None,
        Meta(
            description="Of a judge: what its question is about besides the change, one of the rubric's `sees`. "
            "Where that is not known the question is not asked, and not applicable."
        ),
    ] = None
    check: Annotated[
        str | None, Meta(description="Of a check, this or `command`: the name of a built-in check.")
    ] = None
    command: Annotated[
        tuple[Annotated[str, Meta(extra={"check": _require_argument})], ...] | None,
        Meta(
            description="Of a check: a program and its arguments, run in an export of the reviewed tree."
        ),
    ] = None
    options: Annotated[dict[str, Any], Meta(description="The check's own settings.")] = {}
    # The default of `weight` is a whole number: digests of rubrics, by which receipts are found,
    # have it as 1, not 1.0.

    def __post_init__(self) -> None:
        """Check what code gave; refuse keys that contradict the kind or each other. ValueError names
        the key.
        """
        require_right(self)
        if self.kind == "judge":
            if not (self.question or "").strip():
                raise ValueError("a judge criterion needs a question")
            if self.check or self.command or self.options:
                raise ValueError('check, command and options belong to criteria of kind = "check"')
            if self.needs in ("prompt", "said") and self.proof:
                raise ValueError(
                    "no test proves what was asked for or said: leave out proof, or needs"
                )
        else:
            if self.check is None and self.command is None:
                raise ValueError("a check criterion needs a check or a command")
            if self.check is not None and self.command is not None:
                raise ValueError("check and command exclude each other; keep one")
            if self.command is not None and not "".join(self.command[:1]).strip():
                raise ValueError("command needs at least the program's name")
            if self.question or self.good or self.bad or self.proof or self.needs:
                raise ValueError(
                    'question, good, bad, needs and proof belong to criteria of kind = "judge"'
                )

    @property
    def check_name(self) -> str:
        """The entry of CHECKS that decides this criterion (kind "check" only)."""
        return self.check or "command"

    @property
    def is_about_session(self) -> bool:
        """Whether it is about what agents ran or said, which no change of files repairs."""
        return self.check == "tests-ran" or self.needs == "said"

    def concerns(self, file: FileDiff) -> bool:
        """Whether `paths` select the file, by either of its names; no judge is asked about labelled
        cases.
        """
        return not (self.kind == "judge" and file.is_case) and (
            not self.paths or file.touches(self.paths)
        )


class Rubric(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, dict=True):
    """A named set of criteria with a threshold."""

    LATER: ClassVar[frozenset[str]] = frozenset({"models", "fallback", "second_look"})
    """As of `Criterion`."""

    schema: Schema = 1
    id: Annotated[Identifier, Meta(description="The file's name without `.toml`.")]
    pass_threshold: Annotated[
        float,
        Meta(ge=0, le=1, description="Least score: weight that passed / weight that was decided."),
    ] = 0.7
    votes: Annotated[
        int,
        Meta(
            ge=1,
            le=9,
            description="How often each question is asked, until the outcome cannot change.",
        ),
    ] = 1
    model: Annotated[
        ModelName | None, Meta(description="The model for this rubric (default: the gate's).")
    ] = None
    models: Annotated[
        tuple[ModelName, ...],
        Meta(
            max_length=9,
            description="Instead of `model`: models that take turns, one a vote, in this order. With one "
            "vote the first casts it, and the last takes the second looks.",
        ),
    ] = ()
    fallback: Annotated[
        ModelName | None,
        Meta(
            description="The model that is asked if another stays overloaded or is not there (default: none)."
        ),
    ] = None
    sees: Annotated[
        tuple[Sight, ...],
        Meta(
            description="What the judge is shown, too: the commit message, or what people asked the agent for in the "
            "captured sessions that wrote the change (prompt), AGENTS.md and CLAUDE.md of the trusted revision "
            "(guidance), the issues that the pull request closes (issue, in the Action), or what agents said at the end of "
            "their turns, beside the record of what they ran (said)."
        ),
    ] = ()
    second_look: Annotated[
        Looks,
        Meta(
            description="Which fails of judge criteria are put to one more conversation, which tries to refute them: "
            "those that would block, or none."
        ),
    ] = "blocking"
    criterion: Annotated[
        tuple[Criterion, ...], Meta(min_length=1, description="The questions and checks.")
    ]

    def __post_init__(self) -> None:
        """Check what code gave; refuse criteria of the same id, and two ways to name the model.
        ValueError names the key.
        """
        # `knowing` may leave none, which no file and no caller may.
        require_right(self, () if self.criterion else ("criterion",))
        if self.model and self.models:
            raise ValueError("model and models exclude each other; keep one")
        ids = [criterion.id for criterion in self.criterion]
        twice = sorted({name for name in ids if ids.count(name) > 1})
        if twice:
            raise ValueError(f"criterion ids appear twice: {', '.join(twice)}")
        if lacking := next(
            (
                criterion
                for criterion in self.criterion
                if criterion.needs and criterion.needs not in self.sees
            ),
            None,
        ):
            raise ValueError(
                f'{lacking.id} needs the {lacking.needs}: write sees = ["{lacking.needs}"] in the rubric'
            )

    @cached_property
    def digest(self) -> str:
        """sha-256, in hex, of what it demands: the same demands, the same digest."""
        return digest_of_definition(self)

    def judged_by(self, default: str) -> str:
        """The model that is asked, or models; `default` if it names none."""
        return ", ".join(self.models) or self.model or default

    @property
    def asked_digest(self) -> str:
        """sha-256 of what a model is asked: the questions and how, not how often, nor what their
        answers come to.
        """
        asked_fields = [
            [criterion.id, criterion.question, criterion.good, criterion.bad, criterion.paths]
            for criterion in self.judge_criteria
        ]
        return hashlib.sha256(json.dumps(asked_fields).encode()).hexdigest()

    def knowing(self, known_sights: Collection[ClaimKind]) -> Rubric:
        """The rubric without the questions that need what is not known."""
        criteria = tuple(
            criterion
            for criterion in self.criterion
            if criterion.needs is None or criterion.needs in known_sights
        )
        if len(criteria) == len(self.criterion):
            return self
        return replace(self, criterion=criteria)

    @property
    def judge_criteria(self) -> tuple[Criterion, ...]:
        """The criteria that a model answers."""
        return tuple(c for c in self.criterion if c.kind == "judge")

    @property
    def has_command(self) -> bool:
        """Whether one of its checks is a command."""
        return any(criterion.check_name == "command" for criterion in self.check_criteria)

    @property
    def check_criteria(self) -> tuple[Criterion, ...]:
        """The criteria that our own code answers."""
        return tuple(c for c in self.criterion if c.kind == "check")
