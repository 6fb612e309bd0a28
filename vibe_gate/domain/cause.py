"""Why something was not asked, answered or checked: a code with its parameters.

A cause is carried from where it happens to the summary. `reason` is its sentence in documents; what
people do next is made of it in `report.next_step`.
"""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from vibe_gate.domain.rubric import Sight

DETAILS = " Details: "
"""Stands in a reason between our sentence and what another program said (the model's API, Claude
Code).
"""


class Coded(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="code"):
    """One cause; its tag is the code."""

    @property
    def sentence(self) -> str:
        """The cause in our words."""
        raise NotImplementedError

    @property
    def fact(self) -> str:
        """The sentence without what it advises, and without a full stop."""
        return self.sentence.removesuffix(".")

    @property
    def reason(self) -> str:
        """The sentence as documents have it."""
        return self.sentence


# A question that nobody was asked


class NotAsked(Coded, frozen=True, kw_only=True):
    """Judges were not asked, and no earlier answer takes their place."""

    @property
    def because(self) -> str:
        """Why, as a clause: "no API key"."""
        raise NotImplementedError

    @property
    def sentence(self) -> str:
        """The clause, and that it is about a question."""
        return f"not asked: {self.because}"


class CannotAsk(NotAsked, frozen=True, kw_only=True):
    """Something is missing on this machine without which no judge can be asked."""


class NoKey(CannotAsk, frozen=True, kw_only=True, tag="no_key"):
    """There is no credential for the model's API."""

    is_sdk_missing: bool = False
    """Whether claude-agent-sdk, which `vibe-gate-core` leaves out, is missing, too."""

    @property
    def because(self) -> str:
        """The key, and the SDK if it is missing, too."""
        if self.is_sdk_missing:
            return "no API key and no claude-agent-sdk"
        return "no API key"


class NoSdk(CannotAsk, frozen=True, kw_only=True, tag="no_sdk"):
    """There is a credential, and claude-agent-sdk, which `vibe-gate-core` leaves out, is missing."""

    because = "claude-agent-sdk is not installed"


class NoJudge(NotAsked, frozen=True, kw_only=True, tag="no_judge"):
    """The user wants no judge: `--no-judge`, or `judge: "false"` in the Action."""

    because = "--no-judge"


class HookNeverAsks(NotAsked, frozen=True, kw_only=True, tag="hook_never_asks"):
    """The gate says that this git hook asks no judge."""

    stage: str
    """The hook, as in `[hooks.STAGE]`."""

    @property
    def because(self) -> str:
        """The setting."""
        return f'[hooks.{self.stage}] judge = "never"'

    @property
    def sentence(self) -> str:
        """The setting in brackets."""
        return f"not asked ({self.because})"


class StopAsksNoJudge(NotAsked, frozen=True, kw_only=True, tag="stop_asks_no_judge"):
    """The gate says that only checks run when a coding agent ends its turn."""

    because = '[hooks.stop] review = "checks"'


class NotByAgent(NotAsked, frozen=True, kw_only=True, tag="not_by_agent"):
    """The hook asks judges about an agent's changes alone, and nothing shows that an agent wrote
    this one.
    """

    because = "no sign of an AI agent"


class AsksNoModel(NotAsked, frozen=True, kw_only=True, tag="asks_no_model"):
    """A job that a review of the pull request started uses known answers only."""

    because = "a review of the pull request asks no model"


class DraftWaits(NotAsked, frozen=True, kw_only=True, tag="draft"):
    """Judges wait until the pull request is no draft any more."""

    because = "the pull request is a draft"


class CheckFails(NotAsked, frozen=True, kw_only=True, tag="check_fails"):
    """A `must` check fails: no answer could turn that into a pass."""

    check: str
    """The id of its criterion."""

    @property
    def because(self) -> str:
        """The check."""
        return f"the check {self.check!r} fails already"


# A question that needs no answer, or has one from elsewhere


class NoQuestion(Coded, frozen=True, kw_only=True, tag="no_question"):
    """No question to a judge concerns the change."""

    is_any: bool = False
    """Whether a rubric has a question at all."""

    @property
    def sentence(self) -> str:
        """Whether there is no question, or none that applies."""
        if self.is_any:
            return "no question to a judge applies"
        return "no criterion asks a judge"


class NoFile(Coded, frozen=True, kw_only=True, tag="no_file"):
    """No changed file is one that the criterion is about."""

    sentence = "no changed file matches its paths"


NO_CLAIM: dict[Sight, str] = {
    "message": "the author says nothing about the change",
    "prompt": "no captured session left a changed file as it is now, so what was asked for is not known",
    "guidance": "the trusted revision has no AGENTS.md or CLAUDE.md above the changed files",
    "said": "no captured session left a changed file as it is now and ended its turn, so there are no words to compare",
    "issue": "no issue is known that this closes; the Action reads those of a pull request",
}
"""What is said if there is no claim of that kind."""


class NoClaim(Coded, frozen=True, kw_only=True, tag="no_claim"):
    """The criterion is about a claim that is not known."""

    kind: Sight

    @property
    def sentence(self) -> str:
        """What is not known."""
        return NO_CLAIM[self.kind]


class CommitsReviewed(Coded, frozen=True, kw_only=True, tag="commits_reviewed"):
    """Each commit of a push was reviewed before, and passed."""

    count: int

    @property
    def sentence(self) -> str:
        """How many."""
        if self.count == 1:
            return "not asked again: its one commit was reviewed and passed"
        return f"not asked again: each of its {self.count} commits was reviewed and passed"


class VerdictReused(Coded, frozen=True, kw_only=True, tag="verdict_reused"):
    """Somebody who is listed has signed a pass for exactly this question."""

    signer: str
    created_at: str
    """Of the receipt: ISO 8601, UTC."""
    run: str

    @property
    def sentence(self) -> str:
        """Whose verdict, and of which run."""
        return f"not asked again: the verdict of {self.signer} at {self.created_at} is reused (run {self.run})"


class PassedInRun(Coded, frozen=True, kw_only=True, tag="passed_in_run"):
    """A job of the same pull request was answered "pass" about the same commit, gate and inputs."""

    run: int
    """GitHub's number of the workflow's run."""

    @property
    def sentence(self) -> str:
        """Which run."""
        return f"passed in run {self.run}; not asked again"


# A part of the change that no judge was shown


class Unconcerned(Coded, frozen=True, kw_only=True, tag="unconcerned"):
    """The gate wants no judge to look at the file."""

    sentence = "no judge criterion concerns this path"


class PartNotAsked(Coded, frozen=True, kw_only=True, tag="part_not_asked"):
    """Voting ended before this part of a large change was asked about."""

    sentence = "not asked"


class Binary(Coded, frozen=True, kw_only=True, tag="binary"):
    """The content has no text."""

    sentence = "binary content without a text form"


class TooLarge(Coded, frozen=True, kw_only=True, tag="too_large"):
    """The file is too large to be read, or to be shown whole."""

    is_moved: bool = False
    """Whether it moved to where the rubric looks, so that all of it would have to be shown."""

    @property
    def sentence(self) -> str:
        """What it is too large for."""
        if self.is_moved:
            return "moved here, and too large to be shown whole"
        return "too large to be read"


# A dispute that is not put to a second look


class DisputedBefore(Coded, frozen=True, kw_only=True, tag="disputed_before"):
    """A finding is disputed once on the same files, and was, in a run that put it in other words."""

    run: str
    """The id of the run in which it was disputed."""
    outcome: str
    """What that came to."""

    @property
    def sentence(self) -> str:
        """What it came to, and in which run."""
        return (
            f"disputed on these files before, when the judge put it in other words: {self.outcome} "
            f"(run {self.run})"
        )


class DisputeUnderWay(Coded, frozen=True, kw_only=True, tag="dispute_under_way"):
    """Somebody else disputes the same finding just now."""

    sentence = "the finding is being disputed just now by another command"


class DisputeUnkeepable(Coded, frozen=True, kw_only=True, tag="dispute_unkeepable"):
    """The answer could not be kept, so the finding would be disputed again."""

    problem: str
    """Why, as a clause."""

    @property
    def sentence(self) -> str:
        """That nothing was asked, and why."""
        return f"not asked, as the answer could not be kept ({self.problem})"


# A limit of the run


def format_limit(usd: float) -> str:
    """What may be spent, in US dollars and cents, below ten cents with all its digits: "0.0001"."""
    if usd >= 0.1 or usd == round(usd, 2):
        return f"{usd:.2f}"
    return f"{usd:.6f}".rstrip("0")


class BudgetReached(Coded, frozen=True, kw_only=True, tag="budget"):
    """What is left of the budget does not pay for the question."""

    limit_usd: float

    @property
    def limit(self) -> str:
        """The budget, in cents if it is a whole number of them: "0.50", "1", "0.0004"."""
        is_whole_dollars = self.limit_usd == round(self.limit_usd)
        is_whole_cents = self.limit_usd == round(self.limit_usd, 2)
        if is_whole_cents and not is_whole_dollars:
            return f"{self.limit_usd:.2f}"
        return f"{self.limit_usd:g}"

    @property
    def sentence(self) -> str:
        """The budget."""
        return f"The budget of ${self.limit} is reached."


class TimeUsedUp(Coded, frozen=True, kw_only=True, tag="deadline"):
    """The run had no time left."""

    seconds: float

    @property
    def sentence(self) -> str:
        """The deadline."""
        return f"The deadline of {self.seconds:g} s was reached."


# A conversation without an answer


class Unanswered(Coded, frozen=True, kw_only=True):
    """A conversation with the model ended without an answer that counts."""

    details: str = ""
    """What the model's API or Claude Code said, on one line, redacted; "" if that is all in the
    code.
    """

    @property
    def reason(self) -> str:
        """The sentence, and what the other program said."""
        if not self.details:
            return self.sentence
        return f"{self.sentence}{DETAILS}{self.details}"


class ModelRefused(Unanswered, frozen=True, kw_only=True, tag="refused"):
    """The model refused."""

    sentence = "The model refused to answer."


class AnswerCut(Unanswered, frozen=True, kw_only=True, tag="max_tokens"):
    """The model reached the limit of its output."""

    sentence = "The model's answer was cut at its token limit."


class TurnsUsedUp(Unanswered, frozen=True, kw_only=True, tag="max_turns"):
    """The session reached its limit of turns."""

    sentence = "The session used up its turns without an answer."


class NoForm(Unanswered, frozen=True, kw_only=True, tag="no_form"):
    """The model gave no answer that fits the asked form."""

    sentence = "The model gave no answer in the asked form."


class NoAnswer(NoForm, frozen=True, kw_only=True, tag="no_answer"):
    """The model ended the conversation without using the form."""

    sentence = "The model ended without an answer in the asked form."


class Misfit(NoForm, frozen=True, kw_only=True, tag="misfit"):
    """The model's answer fits the form's schema and not what was asked."""

    sentence = "The model's answer does not fit its form."


class ManyAnswers(Unanswered, frozen=True, kw_only=True, tag="many_answers"):
    """The model answered more than once."""

    count: int

    @property
    def sentence(self) -> str:
        """How often."""
        return f"The model gave {self.count} answers where one was asked."


# The model's API or the agent's program


class NoCredit(Unanswered, frozen=True, kw_only=True, tag="no_credit"):
    """The account of the API key is empty."""

    fact = "HTTP 400: the account of this API key has no credit left"
    sentence = f"{fact}; add some or use another key."


_NOT_SERVED = (
    "this address does not serve the model's API",
    "check it with `vibe-gate doctor --ask`",
)

_STATUSES: dict[int, tuple[str, str]] = {
    400: ("the model's API does not accept the request", "check the model's name"),
    401: ("the model's API does not accept the key", "check it with `vibe-gate doctor`"),
    403: ("the model's API denies this key the request", "check what it may use"),
    404: ("the model's API does not know this model or address", "check both"),
    413: ("the request is too large for the model's API", ""),
    429: ("the model's API limits the rate of this key", "try again later"),
    500: ("the model's API failed", "try again later"),
    501: _NOT_SERVED,
    505: _NOT_SERVED,
    529: ("the model's API is overloaded", "try again later"),
}
"""HTTP status of the model's API -> what it means, and what helps."""


class ApiStatus(Unanswered, frozen=True, kw_only=True, tag="http_status"):
    """The model's API refused the request."""

    status: int
    """Of HTTP."""

    @property
    def fact(self) -> str:
        """The status, and what it means."""
        meaning, _ = _STATUSES.get(self.status, ("the model's API refused the request", ""))
        return f"HTTP {self.status}: {meaning}"

    @property
    def sentence(self) -> str:
        """The fact, and what helps."""
        _, advice = _STATUSES.get(self.status, ("", ""))
        if not advice:
            return f"{self.fact}."
        return f"{self.fact}; {advice}."


class ApiUnavailable(Unanswered, frozen=True, kw_only=True, tag="unavailable"):
    """The model's API did not recover while there was time."""

    message: str
    """What was seen last, as a sentence."""

    @property
    def sentence(self) -> str:
        """What was seen last."""
        return self.message


class Unreachable(ApiUnavailable, frozen=True, kw_only=True, tag="unreachable"):
    """There is no way to the model's API: name, proxy, firewall, certificate."""


class BrokeOff(Unanswered, frozen=True, kw_only=True, tag="broke_off"):
    """The connection to the model's API ended within an answer."""

    sentence = "The conversation with the model's API broke off."


class ProcessEnded(Unanswered, frozen=True, kw_only=True, tag="process_ended"):
    """The agent's program ended before its conversation did."""

    sentence = "The agent's process ended before its conversation did."


class NotRecorded(Unanswered, frozen=True, kw_only=True, tag="not_recorded"):
    """A replay has no answer to this request."""

    fact = "The cassette holds no answer to this request"
    sentence = f"{fact}; record it again."


class NoConversation(Unanswered, frozen=True, kw_only=True, tag="no_conversation"):
    """The agent's program could not be started, or was stopped."""

    message: str

    @property
    def sentence(self) -> str:
        """What happened."""
        return self.message


# A check


class TextTooLong(Coded, frozen=True, kw_only=True, tag="text_too_long"):
    """A check of text did not read a file."""

    limit: int
    """Bytes that are read at most."""

    @property
    def fact(self) -> str:
        """The limit."""
        return f"Text of more than {self.limit:,} bytes is not read"

    @property
    def sentence(self) -> str:
        """The limit, and what helps."""
        return f"{self.fact}: let git ignore the file, split it, or name it in `exclude` of the criterion's options"


class ProgramMissing(Coded, frozen=True, kw_only=True, tag="program_missing"):
    """The program of a check's command is not installed, or not in the tree."""

    program: str
    """As the command names it."""

    @property
    def fact(self) -> str:
        """Where it was looked for."""
        if "/" in self.program:
            return f"there is no file {self.program}"
        return f"no program {self.program} in PATH"

    @property
    def sentence(self) -> str:
        """That it was not found, and where it was looked for."""
        return f"not found: {self.fact}"


ConversationCause: TypeAlias = (
    ModelRefused
    | AnswerCut
    | TurnsUsedUp
    | NoForm
    | NoAnswer
    | Misfit
    | ManyAnswers
    | NoCredit
    | ApiStatus
    | ApiUnavailable
    | Unreachable
    | BrokeOff
    | ProcessEnded
    | NotRecorded
    | NoConversation
)
"""Why a conversation ended without an answer."""

Cause: TypeAlias = (
    NoKey
    | NoSdk
    | NoJudge
    | HookNeverAsks
    | NotByAgent
    | StopAsksNoJudge
    | AsksNoModel
    | DraftWaits
    | CheckFails
    | NoQuestion
    | NoFile
    | NoClaim
    | CommitsReviewed
    | VerdictReused
    | PassedInRun
    | Unconcerned
    | PartNotAsked
    | Binary
    | TooLarge
    | DisputedBefore
    | DisputeUnderWay
    | DisputeUnkeepable
    | BudgetReached
    | TimeUsedUp
    | TextTooLong
    | ProgramMissing
    | ConversationCause
)
"""Any of them, as documents have them: `{"code": "budget", "limit_usd": 0.5}`."""
