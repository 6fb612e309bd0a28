"""`/vibe-gate` in a comment of a pull request: what a person with write access asks of its gate.

Everybody who sees a public pull request can comment on it. So of the event only the comment's
number counts: whose it is, what it says, whether it was edited and what its author may do, GitHub's
API says. Nothing is checked out, there is no key, and nothing is reviewed here: the gate's own job
runs again, and reads the overrides itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress

from msgspec import Struct
from msgspec.structs import replace

from vibe_gate.domain.escape import counted
from vibe_gate.domain.verdict import short
from vibe_gate.errors import PASS, ForgeError, UsageError
from vibe_gate.faces.action.event import Trigger
from vibe_gate.faces.action.inputs import Inputs
from vibe_gate.faces.action.runner import Runner
from vibe_gate.forge import Comment, Forge, Pull, Reaction, open_forge
from vibe_gate.report import sentences
from vibe_gate.report.comment import read_comment_state
from vibe_gate.report.comment_markup import link_commit
from vibe_gate.report.links import Links
from vibe_gate.report.markdown import (
    escape_code,
    escape_prose,
    fence_code,
    link_code,
    render_markdown_table,
)
from vibe_gate.report.reported_finding import ReportedFinding
from vibe_gate.report.round_state import RoundState

COMMAND = "/vibe-gate"

SHORTEST = 4
"""Characters of a fingerprint that name a finding, as for `vibe-gate override`."""

_REVIEWS = ("pull_request", "pull_request_review")
"""Events whose runs review a pull request. A run of anything else (a deployment, say) is never run
again.
"""

_ANSWER = "<!-- vibe-gate:answer "
_RECORD = re.compile(
    _ANSWER + r"(\d{1,16}) ([0-9a-f]{40}|[0-9a-f]{64}) ([0-9a-f]{16}(?:,[0-9a-f]{16}){0,99}) -->\s"
)
"""The first line of an answer to an override: the comment that asked, the head commit, the
findings.
"""


class CommentCommand(Struct, frozen=True):
    """What a comment asks. `findings`: beginnings of fingerprints, separated by commas in the
    comment.
    """

    verb: str
    findings: tuple[str, ...] = ()
    reason: str = ""


def command_of(body: str) -> CommentCommand | None:
    """The command on the first line of a comment; None if it has none."""
    given = body.split("\n", 1)[0].split(maxsplit=3)
    if given[:1] != [COMMAND]:
        return None
    verb, findings, reason = (*given[1:], "", "", "")[:3]
    return CommentCommand(
        verb, tuple(filter(None, findings.replace("`", "").split(","))), short(reason)
    )


class Accepted(Struct, frozen=True):
    """A finding that somebody accepted; `comment` None: what was answered does not stand there any
    more.
    """

    finding: str
    comment: Comment | None
    reason: str = ""


def accepted(comments: Iterable[Comment], head: str) -> Iterator[Accepted]:
    """What overrides of this head were answered, each with the comment as it stands now."""
    known = {comment.id: comment for comment in comments}
    records = (_RECORD.match(comment.body) for comment in known.values() if comment.ours)
    for record in records:
        if record is None or record[2] != head:
            continue
        asked = known.get(int(record[1]))
        command = command_of(asked.body) if asked is not None and stands(asked) else None
        for finding in record[3].split(","):
            if (
                command is None
                or command.verb != "override"
                or not command.reason
                or not _names(command, finding)
            ):
                yield Accepted(finding, None)
            else:
                yield Accepted(finding, asked, command.reason)


def label_of(command: CommentCommand) -> bool | None:
    """Whether it says that findings are right, or wrong; None if it says neither.

    The reason of an override may: its first word is `wrong`, or `accepted` of what is right.
    """
    if command.verb == "override":
        return _LABELS.get(command.reason.partition(" ")[0].rstrip(":,.;").lower())
    return _LABELS.get(command.verb) if command.verb in ("right", "wrong") else None


_LABELS = {"right": True, "accepted": True, "wrong": False}


def stands(comment: Comment) -> bool:
    """Whether a person wrote it, and nobody edited it."""
    return comment.person and comment.created == comment.updated


def _names(command: CommentCommand, fingerprint: str) -> bool:
    return any(len(one) >= SHORTEST and fingerprint.startswith(one) for one in command.findings)


class _GateComment(Struct, frozen=True):
    """A comment of the gate, with what it said."""

    comment: Comment
    state: RoundState


class _PermittedCommand(Struct, frozen=True):
    """A command of a person who may give it; `told`: the gate's comments."""

    runner: Runner
    forge: Forge
    comment: Comment
    command: CommentCommand
    pull: Pull
    links: Links
    told: tuple[_GateComment, ...]

    @property
    def current(self) -> tuple[_GateComment, ...]:
        """What was said about the newest commit."""
        return tuple(one for one in self.told if one.state.head == self.pull.head_sha)


class _Answer(Struct, frozen=True):
    """What is answered; `accepts`: findings that may pass; `again`: the gate's job runs again, and
    a line says so.
    """

    text: str = ""
    accepts: tuple[str, ...] = ()
    again: bool = False


def obey(runner: Runner, inputs: Inputs, trigger: Trigger) -> int:
    """React to the comment of this event and answer it; who may not ask gets a reaction that says
    no.

    UsageError without a token; ForgeError.
    """
    if not inputs.github_token:
        raise UsageError("There is no token: pass `github-token`, or set GITHUB_TOKEN.")
    number = trigger.number or 0
    with open_forge(
        runner.api_url, inputs.github_token, trigger.repository, network=runner.environment.network
    ) as forge:
        comments = {comment.id: comment for comment in forge.comments(number)}
        comment = comments.get(trigger.comment or 0)
        command = command_of(comment.body) if comment else None
        if comment is None or command is None:
            return _ignored(runner, "there is no such comment, or it is no command")
        if not stands(comment) or comment.body != trigger.said:
            return _ignored(runner, "it is an app's comment, or it was edited")
        if not forge.may_write(comment.author, comment.account):
            _react(forge, comment, "-1")
            return _ignored(runner, "its author has no write access")
        pull = forge.pull_if_any(number)
        if pull is None or pull.state != "open":
            _react(forge, comment, "-1")
            return _ignored(runner, "it stands on no open pull request")
        _react(forge, comment, "eyes")
        told = [
            _GateComment(each, state)
            for each in comments.values()
            if each.ours and (state := read_comment_state(each.body))
        ]
        links = runner.links(trigger.repository, pull.head_sha)
        asked = _PermittedCommand(runner, forge, comment, command, pull, links, tuple(told))
        answer = _ANSWERS.get(command.verb, _usage)(asked)
        if answer.accepts:
            _post(asked, answer)  # before the gate runs again, which reads it
        _post(
            asked,
            replace(answer, text=f"{answer.text}\n\n{_run_again(asked)}")
            if answer.again
            else answer,
        )
    return PASS


def _post(asked: _PermittedCommand, answer: _Answer) -> None:
    marker = f"{_ANSWER}{asked.comment.id} "
    record = f"{asked.pull.head_sha} {','.join(answer.accepts)} " if answer.accepts else ""
    asked.forge.put_comment(
        asked.pull.number, f"{marker}{record}-->\n{answer.text.strip()}\n", marker=marker
    )


def _react(forge: Forge, comment: Comment, content: Reaction) -> None:
    with suppress(ForgeError):  # a sign of life; the answer says what is refused
        forge.react(comment.id, content)


def _ignored(runner: Runner, why: str) -> int:
    runner.say(f"The comment is ignored: {why}.\n")
    return PASS


_HELP = (
    (f"`{COMMAND} review`", "runs the gate's job again for the newest commit"),
    (
        f"`{COMMAND} explain FINDING`",
        "answers with its quoted lines, its votes and how to accept it; asks no model",
    ),
    (
        f"`{COMMAND} override FINDING REASON`",
        "accepts it for this commit, records who and why, runs the job again",
    ),
    (
        f"`{COMMAND} right FINDING` or `wrong FINDING`",
        "says whether the finding is right, which measures the judge",
    ),
)
"""What each command does."""


def _usage(asked: _PermittedCommand) -> _Answer:
    given = asked.command.verb
    unknown = f"There is no command {escape_code(given, 40)}. " if given not in ("", "help") else ""
    known = render_markdown_table(("Command", "What it does"), _HELP)
    return _Answer(
        f"{unknown}Write one of these on the first line of a comment:\n\n{known}\n\n"
        "FINDING is its fingerprint, as the gate's comment shows it, or the first four characters or more; several are "
        "separated by commas."
    )


def _review(asked: _PermittedCommand) -> _Answer:
    return _Answer(again=True)


def _run_again(asked: _PermittedCommand) -> str:
    """Run the gate's job for the newest commit again; a sentence about it."""
    try:
        return _rerun(asked)
    except ForgeError as error:
        return (
            f"The gate could not be run again; re-run its job by hand. {escape_prose(str(error))}"
        )


def _rerun(asked: _PermittedCommand) -> str:
    head = link_commit(asked.pull.head_sha, asked.links)
    runs = sorted({one.state.run for one in asked.current if one.state.run})
    if not runs:
        return f"The gate has not reviewed {head} yet, so there is nothing to run again."
    for number in runs:
        run = asked.forge.actions_run(number)
        if run.event not in _REVIEWS or run.head_sha != asked.pull.head_sha:
            return f"Run {number} is not about {head}, so it is not run again. Re-run the gate's job by hand."
        if not run.completed:
            return (
                f"The gate is still running on {head}. When it has ended, write `{COMMAND} review`."
            )
        asked.forge.rerun(number)
    address = asked.runner.links(asked.links.repository, asked.links.head, run=runs[-1]).run_url
    return f"The gate reviews {head} again: {link_code(f'run {runs[-1]}', address)}."


def _explain(asked: _PermittedCommand) -> _Answer:
    found = _found(asked, asked.told)
    return _Answer(
        "\n\n---\n\n".join(_explained(one, asked.links) for one in found) or _unknown(asked)
    )


def _override(asked: _PermittedCommand) -> _Answer:
    if asked.comment.author.lower() == asked.pull.author.lower():
        return _Answer(
            "The author of a pull request cannot accept its findings. Ask somebody else with write access."
        )
    if not asked.command.reason:
        return _Answer(f"The reason is missing: `{COMMAND} override FINDING REASON`.")
    head = link_commit(asked.pull.head_sha, asked.links)
    if not asked.current:
        return _Answer(
            f"The gate has not reviewed {head} yet. Wait for its comment about that commit."
        )
    if any(one.comment.updated >= asked.comment.created for one in asked.current):
        return _Answer(
            f"The gate's comment changed after yours: it is about {head} now. Look at it and write again."
        )
    found = _found(asked, asked.current)
    if len(found) != len(asked.command.findings):
        return _Answer(_unknown(asked))
    about = "\n".join(f"- {_named(one, asked.links)}: {escape_prose(one.message)}" for one in found)
    text = (
        f"{escape_code('@' + asked.comment.author)} overrides {counted(len(found), 'finding')} at {head}: "
        f"{escape_prose(asked.command.reason)}\n\n{about}\n\n"
        "This holds for this commit only, while the comment stays unedited and its author has write access and is not "
        "an author of the change."
    )
    return _Answer(text, tuple(one.fingerprint for one in found), again=True)


def _label(asked: _PermittedCommand) -> _Answer:
    found = named_by(asked.command, (seen for one in asked.told for seen in one.state.findings))
    if not found or len(found) != len(asked.command.findings):
        return _Answer(_unknown(asked))
    about = "\n".join(f"- {_named(one, asked.links)}: {escape_prose(one.message)}" for one in found)
    reason = f": {escape_prose(asked.command.reason)}" if asked.command.reason else "."
    finding = f"{counted(len(found), 'finding is', 'findings are')} {asked.command.verb}"
    return _Answer(
        f"{escape_code('@' + asked.comment.author)} says that {finding}{reason}\n\n{about}\n\n"
        "It changes no verdict. It is read at the gate's next run and counts where the judge is measured, while the "
        "comment stays unedited and its author has write access."
    )


_ANSWERS: dict[str, Callable[[_PermittedCommand], _Answer]] = {
    "review": _review,
    "explain": _explain,
    "override": _override,
    "right": _label,
    "wrong": _label,
}


def _found(asked: _PermittedCommand, told: Iterable[_GateComment]) -> list[ReportedFinding]:
    """The findings that the command names and that are not fixed, each once."""
    return named_by(
        asked.command, (seen for one in told for seen in one.state.findings if not seen.fixed)
    )


def named_by(command: CommentCommand, reported: Iterable[ReportedFinding]) -> list[ReportedFinding]:
    """The findings that the command names, each once; none for a name that fits no finding or
    several.
    """
    said = {seen.fingerprint: seen for seen in reported}
    found = []
    for name in command.findings:
        fits = [
            seen
            for seen in said.values()
            if len(name) >= SHORTEST and seen.fingerprint.startswith(name)
        ]
        found += fits if len(fits) == 1 else []
    return list({seen.fingerprint: seen for seen in found}.values())


def _unknown(asked: _PermittedCommand) -> str:
    names = ", ".join(map(escape_code, asked.command.findings[:10])) or "nothing"
    return f"The gate's comment has no finding, or several, that begin with each of these: {names}."


def _named(seen: ReportedFinding, links: Links) -> str:
    place = sentences.place_words(seen.path, seen.line)
    address = links.permalink(seen.path, seen.line) if seen.path else ""
    return f"{escape_code(seen.fingerprint[: sentences.SHORT_FINGERPRINT])} at {link_code(place, address)}"


def _explained(seen: ReportedFinding, links: Links) -> str:
    """A finding with its evidence and votes, as the review that posted it kept them."""
    parts = [f"**{seen.level}** · {escape_code(seen.criterion, 64)} · {_named(seen, links)}"]
    parts += (
        []
        if any(one.reason == seen.message for one in seen.votes)
        else [escape_prose(seen.message)]
    )
    parts += [f"Quoted from the change:\n\n{fence_code(seen.quote)}"] if seen.quote else []
    parts += [f"Counterexample: {escape_prose(seen.counterexample)}"] if seen.counterexample else []
    votes = "\n".join(
        f"- {one.outcome.replace('_', ' ')}: {escape_prose(one.reason) or 'no reason'}"
        for one in seen.votes
    )
    parts += [f"Votes:\n\n{votes}"] if votes else []
    parts += [escape_prose(seen.second_look)] if seen.second_look else []
    if not seen.votes and not seen.quote:
        parts += [
            "The comment keeps no more about it; `report.html` in the artifact of the gate's job has the rest."
        ]
    name = seen.fingerprint[: sentences.SHORT_FINGERPRINT]
    accepts = f"Accept it for the newest commit: `{COMMAND} override {name} REASON`."
    accepts += f" If it is wrong, say so: `{COMMAND} wrong {name} REASON`."
    return "\n\n".join([*parts, f"First reported at {link_commit(seen.since, links)}. {accepts}"])
