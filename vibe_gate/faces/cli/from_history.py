"""`vibe-gate calibrate --from-history`: commits of a range, labelled by a person one by one, become
cases.
"""

from __future__ import annotations

import hashlib
import shutil
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from msgspec import Struct, structs

from vibe_gate.domain.change import Change
from vibe_gate.domain.escape import counted, safe
from vibe_gate.domain.gate import Gate
from vibe_gate.domain.rubric import Criterion, Rubric
from vibe_gate.errors import PASS, UsageError
from vibe_gate.faces import progress
from vibe_gate.faces.cli.command import did_you_mean
from vibe_gate.faces.cli.output import emit_lines, emit_result, now
from vibe_gate.faces.cli.request import parse_selection
from vibe_gate.faces.process_environment import read_process_environment
from vibe_gate.gate.add_case import MOST_NAMED, case_toml, write_case
from vibe_gate.gate.stored import require_person
from vibe_gate.git import Repository
from vibe_gate.run.case_reviews import CaseSet, read_case_set
from vibe_gate.run.label_proposals import Proposal, propose_labels
from vibe_gate.secrets import Redactor
from vibe_gate.store.clone_state import CloneState, open_state

ANSWERS = {"y": "fail", "n": "pass"}
"""What a case expects, by what a person answers to "does it fail?"."""

LINES_AROUND = 12
"""Of the screen: what stands above and below the diff."""


class HistoryArguments(Struct, frozen=True):
    """The arguments of `vibe-gate calibrate --from-history`."""

    span: str
    """The range of commits, A..B."""
    rubrics: tuple[str, ...]
    """The rubrics whose question is meant; none: any."""
    criterion: str | None
    """The question that the labels answer; None: the only one."""
    as_json: bool


def label_history(arguments: HistoryArguments) -> int:
    """Ask a person about each proposal; without a terminal, or with `--json`, print them."""
    environment = read_process_environment()
    with read_case_set(Path.cwd(), environment) as cases:
        question = None
        if not arguments.as_json and _has_person():
            question = _question(cases.gate, arguments.rubrics, arguments.criterion)
        signer = require_person(cases.repository, "label") if question else ("", "")
        base, head = _ends(cases.repository, arguments.span)
        with progress.display_progress(
            environment, quiet=not progress.is_lively(environment)
        ) as display:
            proposed = propose_labels(
                cases.repository, base, head, lambda text: display.show("change", text)
            )
        if question is None:
            return _list_proposals(arguments, proposed, cases)
        with open_state(cases.repository.common_dir) as state:
            return _Labelling(
                cases, question, state, "{} <{}>".format(*signer), Redactor(environment.variables)
            ).run(proposed)


def _has_person() -> bool:
    """Whether a person sits at the terminal."""
    streams = (sys.stdin, sys.stdout)
    return all(stream is not None and stream.isatty() for stream in streams)


class _AskedCriterion(Struct, frozen=True):
    rubric: Rubric
    criterion: Criterion

    def matches(self, rubrics: Sequence[str], criterion: str | None) -> bool:
        """Whether it is a question of these rubrics (none: of any), and the criterion if one is
        named.
        """
        if rubrics and self.rubric.id not in rubrics:
            return False
        return criterion is None or self.criterion.id == criterion

    @property
    def as_words(self) -> str:
        """What names it on the command line."""
        return f"{self.rubric.id} --criterion {self.criterion.id}"


def _question(gate: Gate, rubrics: Sequence[str], criterion: str | None) -> _AskedCriterion:
    """The criterion that the labels are about: the one that is named, or the only one.
    UsageError.
    """
    rubric_ids = [rubric.id for rubric in gate.rubrics]
    for name in rubrics:
        if name not in rubric_ids:
            raise UsageError(f"there is no rubric '{name}'{did_you_mean(name, rubric_ids)}")
    questions: list[_AskedCriterion] = []
    for rubric in gate.rubrics:
        for judge_criterion in rubric.judge_criteria:
            questions.append(_AskedCriterion(rubric, judge_criterion))
    matching = [question for question in questions if question.matches(rubrics, criterion)]
    if len(matching) == 1:
        return matching[0]
    choices = [question.as_words for question in matching or questions]
    reason = "several questions could be meant" if matching else "there is no such question"
    raise UsageError(f"{reason}; name the one that your labels answer: {', '.join(choices)}")


def _ends(repository: Repository, written: str) -> tuple[str, str]:
    """The commits that a range is between. UsageError if it is none."""
    chosen = parse_selection(written)
    if chosen.kind == "worktree":
        raise UsageError(f"'{written}' is not a range. Use A..B, such as v1.0..HEAD.")
    start, end = repository.resolve(chosen.left), repository.resolve(chosen.right)
    if chosen.kind == "merge_base":
        start = repository.merge_base(start, end, written)
    return start, end


def _list_proposals(
    arguments: HistoryArguments, proposals: Sequence[Proposal], cases: CaseSet
) -> int:
    by_commit: dict[str, list[str]] = {}
    for case in cases.cases:
        by_commit.setdefault(case.file.head or "", []).append(case.name)
    rows, lines = [], []
    for proposal in proposals:
        rows.append(structs.asdict(proposal) | {"cases": by_commit.get(proposal.commit, [])})
        commit = f"{proposal.commit[:12]}  {proposal.date}"
        lines.append(f"{proposal.kind:<7}  {commit}  {proposal.title}: {proposal.reason}")
    kinds = Counter(proposal.kind for proposal in proposals)
    total = f"{counted(kinds['suspect'], 'suspect')}, {kinds['clean']} clean; in a terminal, you can label them."
    document = {"exit_code": PASS, "proposals": rows}
    return emit_result(document, [*lines, total], as_json=arguments.as_json)


class _Labelling:
    """A person's way through the proposals; what is labelled or skipped is not asked again."""

    def __init__(
        self,
        cases: CaseSet,
        question: _AskedCriterion,
        state: CloneState,
        signer: str,
        redactor: Redactor,
    ) -> None:
        self._cases = cases
        self._question = question
        self._state = state
        self._signer = signer
        self._redactor = redactor

    def run(self, proposed: Sequence[Proposal]) -> int:
        """Ask until all is answered, or the person quits."""
        waiting = [proposal for proposal in proposed if not self._is_answered(proposal)]
        counts: Counter[str] = Counter()
        for number, proposal in enumerate(waiting, 1):
            answer = self._ask(proposal, f"{number} of {len(waiting)}")
            if answer == "q":
                break
            counts[answer] += 1
            if answer == "s":
                self._state.answers.put(self._key(proposal), {"skipped": True}, now())
            else:
                self._write(proposal, ANSWERS[answer])
        open_count = len(waiting) - counts.total()
        line = (
            f"{counts['y']} labelled fail, {counts['n']} labelled pass, {counts['s']} skipped, "
            f"{open_count} left"
        )
        next_line = ""
        if counts["y"] + counts["n"]:
            rubric = self._question.rubric.id
            next_line = f"`vibe-gate calibrate {rubric}` measures the judge on them."
        emit_lines(f"{line}: the same command goes on." if open_count else f"{line}.", next_line)
        return PASS

    def _is_answered(self, proposal: Proposal) -> bool:
        """Whether a case labels it, or a person skipped it."""
        for case in self._cases.cases:
            file = case.file
            is_of_question = file.rubric == self._question.rubric.id
            is_labelled = self._question.criterion.id in file.expect
            if file.head == proposal.commit and is_of_question and is_labelled:
                return True
        return self._state.answers.get(self._key(proposal), now()) is not None

    def _key(self, proposal: Proposal) -> str:
        rubric, criterion = self._question.rubric.id, self._question.criterion.id
        text = f"skipped {rubric} {criterion} {proposal.commit}"
        return hashlib.sha256(text.encode()).hexdigest()

    def _ask(self, proposal: Proposal, number: str) -> str:
        """Show the proposal on one screen; what the person answers: y, n, s or q."""
        change = self._cases.repository.changes_of([proposal.commit])[proposal.commit]
        room = max(shutil.get_terminal_size().lines - LINES_AROUND, 5)
        emit_lines(
            f"── {number} · {proposal.kind} · {proposal.commit[:12]} · {proposal.date}",
            proposal.title,
            f"({proposal.reason})",
            "",
            *_first_lines(_diff(change), room, proposal.commit),
            "",
            f"{self._question.criterion.id}: {' '.join((self._question.criterion.question or '').split())}",
        )
        while True:
            sys.stdout.write("Does this change fail it? y: yes, n: no, s: skip, q: quit ")
            sys.stdout.flush()
            line = sys.stdin.readline()
            answer = line.strip().lower()[:1] if line else "q"
            if answer in {*ANSWERS, "s", "q"}:
                return answer

    def _write(self, proposal: Proposal, expected: str) -> None:
        criterion = self._question.criterion.id
        remarks = (
            f"{proposal.date} {proposal.title}",
            f"{proposal.kind}: {proposal.reason}",
            f"labelled by {self._signer}",
        )
        comments = "".join(f"# {safe(self._redactor.text(line))}\n" for line in remarks)
        commits = {"base": proposal.base, "head": proposal.commit}
        text = comments + case_toml(self._question.rubric.id, commits, {criterion: expected})
        write_case(self._cases.root, f"{criterion[:MOST_NAMED]}-{proposal.commit[:8]}", text)


def _diff(change: Change) -> Iterator[str]:
    """The change as lines of text."""
    for file in change.files:
        yield f"{file.shown_path}  +{file.added} -{file.deleted}"
        for hunk in file.hunks:
            yield f"@@ -{hunk.old_start},{hunk.old_lines} +{hunk.new_start},{hunk.new_lines} @@"
            yield from (row.decode("utf-8", "replace").rstrip("\n") for row in hunk.rows)


def _first_lines(lines: Iterator[str], room: int, commit: str) -> Iterator[str]:
    yield from islice(lines, room)
    omitted = sum(1 for _ in lines)
    if omitted:
        yield f"… {counted(omitted, 'more line')}: git show {commit[:12]}"
