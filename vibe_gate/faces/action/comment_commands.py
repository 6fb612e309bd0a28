"""`/vibe-gate` in a comment of a pull request: what a person with write access asks of its gate.

Everybody who sees a public pull request can comment on it. So of the event only the comment's
number counts: whose it is, what it says, whether it was edited and what its author may do, GitHub's
API says. Nothing is checked out, there is no key, and nothing is reviewed here: the gate's own job
runs again, and reads the overrides itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress

from msgspec import Struct

from vibe_gate.domain.escape import counted
from vibe_gate.domain.verdict import SHORT_FINGERPRINT, short
from vibe_gate.errors import PASS, ForgeError, UsageError
from vibe_gate.faces.action.inputs import Inputs
from vibe_gate.faces.action.runner import Runner
from vibe_gate.faces.action.trigger import Trigger
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
    """What a comment asks."""

    verb: str
    findings: tuple[str, ...] = ()
    """Beginnings of fingerprints, separated by commas in the comment."""
    reason: str = ""


def parse_comment_command(body: str) -> CommentCommand | None:
    """The command on the first line of a comment; None if it has none."""
    first_line = body.split("\n", 1)[0]
    words = first_line.split(maxsplit=3)
    if words[:1] != [COMMAND]:
        return None
    verb, findings, reason = (*words[1:], "", "", "")[:3]
    names = findings.replace("`", "").split(",")
    return CommentCommand(verb, tuple(filter(None, names)), short(reason))


class AcceptedFinding(Struct, frozen=True):
    """A finding that somebody accepted."""

    fingerprint: str
    comment: Comment | None
    """The comment that asked for it; None: what was answered does not stand there any more."""
    reason: str = ""


def accepted_findings(comments: Iterable[Comment], head: str) -> Iterator[AcceptedFinding]:
    """What overrides of this head were answered, each with the comment as it stands now."""
    comments_by_id = {comment.id: comment for comment in comments}
    for comment in comments_by_id.values():
        record = _RECORD.match(comment.body) if comment.ours else None
        if record is None or record[2] != head:
            continue
        request = comments_by_id.get(int(record[1]))
        for fingerprint in record[3].split(","):
            command = _override_in(request, fingerprint)
            if command is None:
                yield AcceptedFinding(fingerprint, None)
            else:
                yield AcceptedFinding(fingerprint, request, command.reason)


def _override_in(comment: Comment | None, fingerprint: str) -> CommentCommand | None:
    """The override of this finding that the comment says; None if it does not, or does not any
    more.
    """
    if comment is None or not is_unedited_by_person(comment):
        return None
    command = parse_comment_command(comment.body)
    if command is None or command.verb != "override" or not command.reason:
        return None
    for name in command.findings:
        if _fits(name, fingerprint):
            return command
    return None


def label_in_command(command: CommentCommand) -> bool | None:
    """Whether it says that findings are right, or wrong; None if it says neither."""
    if command.verb not in ("right", "wrong"):
        return None
    return command.verb == "right"


def is_unedited_by_person(comment: Comment) -> bool:
    """Whether a person wrote it, and nobody edited it."""
    return comment.person and comment.created == comment.updated


def match_findings(
    command: CommentCommand, findings: Iterable[ReportedFinding]
) -> list[ReportedFinding]:
    """The findings that the command names, each once; none for a name that fits no finding or
    several.
    """
    findings_by_fingerprint = {finding.fingerprint: finding for finding in findings}
    matches: dict[str, ReportedFinding] = {}
    for name in command.findings:
        fingerprints = [text for text in findings_by_fingerprint if _fits(name, text)]
        if len(fingerprints) == 1:
            fingerprint = fingerprints[0]
            matches[fingerprint] = findings_by_fingerprint[fingerprint]
    return list(matches.values())


def _fits(name: str, fingerprint: str) -> bool:
    return len(name) >= SHORTEST and fingerprint.startswith(name)


class _GateComment(Struct, frozen=True):
    """A comment of the gate, with what it said."""

    comment: Comment
    state: RoundState


class _PermittedCommand(Struct, frozen=True):
    """A command of a person who may give it."""

    runner: Runner
    forge: Forge
    comment: Comment
    command: CommentCommand
    pull: Pull
    links: Links
    gate_comments: tuple[_GateComment, ...]
    """All comments of the gate at the pull request."""

    @property
    def current_comments(self) -> list[_GateComment]:
        """The gate's comments about the newest commit."""
        head = self.pull.head_sha
        return [comment for comment in self.gate_comments if comment.state.head == head]


class _Answer(Struct, frozen=True):
    """What is answered to a command."""

    text: str = ""
    accepts: tuple[str, ...] = ()
    """Fingerprints of findings that may pass."""
    reruns_gate: bool = False
    """Whether the gate's job runs again, and a line of the answer says so."""


def answer_comment(runner: Runner, inputs: Inputs, trigger: Trigger) -> int:
    """React to the comment of this event and answer it; who may not ask gets a reaction that says
    no.

    UsageError without a token; ForgeError.
    """
    if not inputs.github_token:
        raise UsageError("There is no token: pass `github-token`, or set GITHUB_TOKEN.")
    number = trigger.number or 0
    network = runner.environment.network
    with open_forge(
        runner.api_url, inputs.github_token, trigger.repository, network=network
    ) as forge:
        comments = {comment.id: comment for comment in forge.comments(number)}
        comment = comments.get(trigger.comment or 0)
        command = parse_comment_command(comment.body) if comment else None
        if comment is None or command is None:
            return _ignore(runner, "there is no such comment, or it is no command")
        if not is_unedited_by_person(comment) or comment.body != trigger.said:
            return _ignore(runner, "it is an app's comment, or it was edited")
        if not forge.may_write(comment.author, comment.account):
            _react(forge, comment, "-1")
            return _ignore(runner, "its author has no write access")
        pull = forge.pull_if_any(number)
        if pull is None or pull.state != "open":
            _react(forge, comment, "-1")
            return _ignore(runner, "it stands on no open pull request")
        _react(forge, comment, "eyes")
        links = runner.links(trigger.repository, pull.head_sha)
        gate_comments = _gate_comments(comments.values())
        _carry_out(_PermittedCommand(runner, forge, comment, command, pull, links, gate_comments))
    return PASS


def _ignore(runner: Runner, reason: str) -> int:
    runner.say(f"The comment is ignored: {reason}.\n")
    return PASS


def _react(forge: Forge, comment: Comment, content: Reaction) -> None:
    with suppress(ForgeError):  # a sign of life; the answer says what is refused
        forge.react(comment.id, content)


def _gate_comments(comments: Iterable[Comment]) -> tuple[_GateComment, ...]:
    gate_comments = []
    for comment in comments:
        state = read_comment_state(comment.body) if comment.ours else None
        if state is not None:
            gate_comments.append(_GateComment(comment, state))
    return tuple(gate_comments)


def _carry_out(request: _PermittedCommand) -> None:
    """Answer the command; if findings are accepted, before the gate runs again and reads that."""
    answer = _ANSWERS.get(request.command.verb, _explain_usage)(request)
    if answer.accepts:
        _post_answer(request, answer, answer.text)
    text = answer.text
    if answer.reruns_gate:
        text += f"\n\n{_rerun_gate(request)}"
    _post_answer(request, answer, text)


def _post_answer(request: _PermittedCommand, answer: _Answer, text: str) -> None:
    marker = f"{_ANSWER}{request.comment.id} "
    record = ""
    if answer.accepts:
        record = f"{request.pull.head_sha} {','.join(answer.accepts)} "
    body = f"{marker}{record}-->\n{text.strip()}\n"
    request.forge.put_comment(request.pull.number, body, marker=marker)


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


def _explain_usage(request: _PermittedCommand) -> _Answer:
    verb = request.command.verb
    refusal = ""
    if verb not in ("", "help"):
        refusal = f"There is no command {escape_code(verb, 40)}. "
    commands = render_markdown_table(("Command", "What it does"), _HELP)
    return _Answer(
        f"{refusal}Write one of these on the first line of a comment:\n\n{commands}\n\n"
        "FINDING is its fingerprint, as the gate's comment shows it, or the first four characters "
        "or more; several are separated by commas."
    )


def _review_again(request: _PermittedCommand) -> _Answer:
    return _Answer(reruns_gate=True)


def _rerun_gate(request: _PermittedCommand) -> str:
    """Run the gate's job for the newest commit again; a sentence about it."""
    try:
        return _rerun_job(request)
    except ForgeError as error:
        reason = escape_prose(str(error))
        return f"The gate could not be run again; re-run its job by hand. {reason}"


def _rerun_job(request: _PermittedCommand) -> str:
    head = link_commit(request.pull.head_sha, request.links)
    numbers = {comment.state.run for comment in request.current_comments if comment.state.run}
    runs = sorted(numbers)
    if not runs:
        return f"The gate has not reviewed {head} yet, so there is nothing to run again."
    for number in runs:
        run = request.forge.actions_run(number)
        if run.event not in _REVIEWS or run.head_sha != request.pull.head_sha:
            return (
                f"Run {number} is not about {head}, so it is not run again. "
                "Re-run the gate's job by hand."
            )
        if not run.completed:
            return (
                f"The gate is still running on {head}. When it has ended, write `{COMMAND} review`."
            )
        request.forge.rerun(number)
    links = request.links
    address = request.runner.links(links.repository, links.head, run=runs[-1]).run_url
    return f"The gate reviews {head} again: {link_code(f'run {runs[-1]}', address)}."


def _explain(request: _PermittedCommand) -> _Answer:
    findings = match_findings(request.command, _open_findings(request.gate_comments))
    if not findings:
        return _Answer(_refuse_names(request))
    explanations = [_explain_finding(finding, request.links) for finding in findings]
    return _Answer("\n\n---\n\n".join(explanations))


def _override(request: _PermittedCommand) -> _Answer:
    """Accept the findings that the command names, for the newest commit."""
    command, comment = request.command, request.comment
    if comment.author.lower() == request.pull.author.lower():
        return _Answer(
            "The author of a pull request cannot accept its findings. "
            "Ask somebody else with write access."
        )
    if not command.reason:
        return _Answer(f"The reason is missing: `{COMMAND} override FINDING REASON`.")
    head = link_commit(request.pull.head_sha, request.links)
    gate_comments = request.current_comments
    if not gate_comments:
        return _Answer(
            f"The gate has not reviewed {head} yet. Wait for its comment about that commit."
        )
    if any(gate.comment.updated >= comment.created for gate in gate_comments):
        return _Answer(
            f"The gate's comment changed after yours: it is about {head} now. "
            "Look at it and write again."
        )
    findings = match_findings(command, _open_findings(gate_comments))
    if len(findings) != len(command.findings):
        return _Answer(_refuse_names(request))
    text = (
        f"{escape_code('@' + comment.author)} overrides {counted(len(findings), 'finding')} at "
        f"{head}: {escape_prose(command.reason)}\n\n{_list_findings(findings, request.links)}\n\n"
        "This holds for this commit only, while the comment stays unedited and its author has "
        "write access and is not an author of the change."
    )
    fingerprints = tuple(finding.fingerprint for finding in findings)
    return _Answer(text, fingerprints, reruns_gate=True)


def _label(request: _PermittedCommand) -> _Answer:
    """Say what the author of the comment says of findings, fixed ones, too."""
    command = request.command
    findings = match_findings(command, _all_findings(request.gate_comments))
    if not findings or len(findings) != len(command.findings):
        return _Answer(_refuse_names(request))
    reason = f": {escape_prose(command.reason)}" if command.reason else "."
    claim = f"{counted(len(findings), 'finding is', 'findings are')} {command.verb}"
    return _Answer(
        f"{escape_code('@' + request.comment.author)} says that {claim}{reason}\n\n"
        f"{_list_findings(findings, request.links)}\n\n"
        "It changes no verdict. It is read at the gate's next run and counts where the judge is "
        "measured, while the comment stays unedited and its author has write access."
    )


_ANSWERS: dict[str, Callable[[_PermittedCommand], _Answer]] = {
    "review": _review_again,
    "explain": _explain,
    "override": _override,
    "right": _label,
    "wrong": _label,
}


def _all_findings(gate_comments: Iterable[_GateComment]) -> list[ReportedFinding]:
    """The findings that these comments have."""
    findings: list[ReportedFinding] = []
    for comment in gate_comments:
        findings += comment.state.findings
    return findings


def _open_findings(gate_comments: Iterable[_GateComment]) -> list[ReportedFinding]:
    """Those that are not fixed."""
    return [finding for finding in _all_findings(gate_comments) if not finding.fixed]


def _refuse_names(request: _PermittedCommand) -> str:
    names = ", ".join(map(escape_code, request.command.findings[:10])) or "nothing"
    return f"The gate's comment has no finding, or several, that begin with each of these: {names}."


def _list_findings(findings: Sequence[ReportedFinding], links: Links) -> str:
    """A line for each finding: its fingerprint, its place, what it says."""
    lines = []
    for finding in findings:
        lines.append(f"- {_name_and_place(finding, links)}: {escape_prose(finding.message)}")
    return "\n".join(lines)


def _name_and_place(finding: ReportedFinding, links: Links) -> str:
    name = escape_code(finding.fingerprint[:SHORT_FINGERPRINT])
    place = sentences.place_words(finding.path, finding.line)
    address = links.permalink(finding.path, finding.line) if finding.path else ""
    return f"{name} at {link_code(place, address)}"


def _explain_finding(finding: ReportedFinding, links: Links) -> str:
    """A finding with its evidence and votes, as the review that posted it kept them."""
    criterion = escape_code(finding.criterion, 64)
    parts = [f"**{finding.level}** · {criterion} · {_name_and_place(finding, links)}"]
    if all(vote.reason != finding.message for vote in finding.votes):
        parts.append(escape_prose(finding.message))
    if finding.quote:
        parts.append(f"Quoted from the change:\n\n{fence_code(finding.quote)}")
    if finding.counterexample:
        parts.append(f"Counterexample: {escape_prose(finding.counterexample)}")
    if finding.votes:
        parts.append(f"Votes:\n\n{_list_votes(finding)}")
    if finding.second_look:
        parts.append(escape_prose(finding.second_look))
    if not finding.votes and not finding.quote:
        parts.append(
            "The comment keeps no more about it; `report.html` in the artifact of the gate's job "
            "has the rest, unless that job has `artifact: none`."
        )
    name = finding.fingerprint[:SHORT_FINGERPRINT]
    parts.append(
        f"First reported at {link_commit(finding.since, links)}. "
        f"Accept it for the newest commit: `{COMMAND} override {name} REASON`. "
        f"If it is wrong, say so: `{COMMAND} wrong {name} REASON`."
    )
    return "\n\n".join(parts)


def _list_votes(finding: ReportedFinding) -> str:
    lines = []
    for vote in finding.votes:
        reason = escape_prose(vote.reason) or "no reason"
        lines.append(f"- {vote.outcome.replace('_', ' ')}: {reason}")
    return "\n".join(lines)
