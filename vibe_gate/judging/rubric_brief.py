"""All that a judge is shown for one question, and what of a change no judge can be shown."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial

from msgspec import Struct
from msgspec.structs import replace

from vibe_gate.context.facts import Facts
from vibe_gate.domain import paths
from vibe_gate.domain.cause import TooLarge
from vibe_gate.domain.change import Change, FileVersion, Hunk
from vibe_gate.domain.gate import Gate
from vibe_gate.domain.rubric import Criterion, Rubric
from vibe_gate.domain.summary import Unreviewed, whole_file_unreviewed
from vibe_gate.domain.verdict import CheckedEvidence, Defect
from vibe_gate.git import Repository
from vibe_gate.judging import brief
from vibe_gate.judging.brief import BriefPart
from vibe_gate.judging.cast_vote import CastVote
from vibe_gate.judging.evidence import quote_in_change
from vibe_gate.judging.questions import RubricQuestion
from vibe_gate.judging.surroundings import Surroundings, find_surroundings
from vibe_gate.parsing import SourceParser


class RubricBrief(Struct, frozen=True):
    """All that a judge is shown for one question."""

    question: RubricQuestion

    change: Change
    """The files that the rubric's judge criteria concern, no others."""

    around: Surroundings

    parts: tuple[BriefPart, ...]
    """One for each conversation of a vote."""

    unshown: tuple[Unreviewed, ...]
    """What of the files no part shows."""

    about: str
    """The sha-256 of what is shown, the same for all trees that show the same."""

    @property
    def key(self) -> str:
        """That of the question as a whole, about what is shown."""
        return self.question.key_about((self.about,))

    def prompt(self, part: BriefPart, nonce: str, number: int = 0) -> str:
        """The judge's prompt for a part, or for some of its criteria, in the order of the vote of
        that number.

        Files and criteria change places from vote to vote, so that none is always the first. The
        order follows from what is shown, so that a recording matches; 0 is the order of the rubric
        and of the paths.
        """
        if not number:
            return _part_prompt(self.change, self.around, part, nonce)
        change, shuffled_part = brief.shuffle_part(self.change, part, f"{self.about} {number}")
        return _part_prompt(change, self.around, shuffled_part, nonce)

    def texts(self) -> Iterator[str]:
        """The words of the change and of the questions, as they are shown."""
        for part in self.parts:
            for piece in part.pieces:
                yield piece.text
        for file in self.change.files:
            yield file.shown_path
        for criterion in self.question.rubric.judge_criteria:
            yield criterion.question or ""

    def supports(self, cast: CastVote, read: Callable[[FileVersion], bytes]) -> bool:
        """Whether what counted as evidence in a vote, given about other trees, stands in this
        change, too.
        """
        criteria = {criterion.id: criterion for criterion in self.question.rubric.judge_criteria}
        for criterion_id, vote in cast.by_criterion.items():
            if criterion_id not in criteria:
                return False
            for line in vote.evidence:
                if not self._has(line, criteria[criterion_id], read):
                    return False
            if not all(map(self._has_unchanged_line, vote.defects)):
                return False
        return True

    def _has_unchanged_line(self, defect: Defect) -> bool:
        """Whether the further lines of the defect are of files whose contents belong to what is
        shown.
        """
        other_paths = {line.path for line in defect.also if line.standing != "void"}
        return all(self.change.file(paths.unquote(path)) is not None for path in other_paths)

    def _has(
        self, line: CheckedEvidence, criterion: Criterion, read: Callable[[FileVersion], bytes]
    ) -> bool:
        """Whether the quoted line stands in this change; one that counted for nothing need not."""
        if line.standing == "void":
            return True
        return quote_in_change(criterion, line, self.change, read).standing == "holds"


def _part_prompt(change: Change, around: Surroundings, part: BriefPart, nonce: str) -> str:
    piece_paths = [piece.path for piece in part.pieces]
    return brief.write_prompt(change, part, around.facts(piece_paths), nonce)


def briefs_of(
    questions: Iterable[RubricQuestion], facts: Facts, repository: Repository
) -> list[RubricBrief]:
    """What a judge is shown for each question; rubrics about the same files share what stands
    around them.
    """
    surroundings_of = cache(
        partial(find_surroundings, repository, facts.change, parser=SourceParser())
    )
    briefs = []
    for question in questions:
        concerned_change = brief.keep_concerned_files(facts.change, question.rubric)
        around = surroundings_of(concerned_change)
        change, moved_hunks, too_large = _show_moved_files(
            concerned_change, question.rubric, facts.gate, repository
        )
        hunks = {**around.hunks, **moved_hunks}
        parts, without_text = brief.cut_into_parts(
            change, question.rubric, hunks, question.claims, question.unshown
        )
        digest = _shown_digest(change, around, parts)
        unshown = (*without_text, *too_large)
        briefs.append(RubricBrief(question, change, around, parts, unshown, digest))
    return briefs


def _shown_digest(change: Change, around: Surroundings, parts: Sequence[BriefPart]) -> str:
    """The sha-256 of the contents of the files and of the prompts, without the nonce, which each
    run has anew.
    """
    blobs = []
    for file in change.files:
        for side in (file.before, file.after):
            blobs.append(side.blob if side else "")
    prompts = [_part_prompt(change, around, part, "") for part in parts]
    return hashlib.sha256(json.dumps([blobs, prompts]).encode()).hexdigest()


def _show_moved_files(
    change: Change, rubric: Rubric, gate: Gate, repository: Repository
) -> tuple[Change, Mapping[str, tuple[Hunk, ...]], list[Unreviewed]]:
    """Show files whole that move to where the rubric looks, as no judge was asked about them
    before.

    Returns the change with these files whole, by path their hunks, and those that are too large for
    that.
    """
    files = {}
    moved_hunks = {}
    too_large = []
    for file in change.files:
        files[file.path] = file
        if file.after is None or not brief.is_moved_in(file, rubric, gate.reach(rubric.id)):
            continue
        if file.after.size > brief.MAX_NEW:
            too_large.append(whole_file_unreviewed(file, TooLarge(is_moved=True)))
            continue
        whole_file = file.as_new(repository.read(file.after))
        files[file.path] = whole_file
        moved_hunks[file.path] = whole_file.hunks
    return replace(change, files=tuple(files.values())), moved_hunks, too_large
