"""Which revision, or which other way to select a change, a user means who names a revision that is
not there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from vibe_gate.context.review_request import ReviewRequest
from vibe_gate.domain import nearest
from vibe_gate.domain.environment import Environment
from vibe_gate.errors import RevisionError
from vibe_gate.git import open_repository


def named_revisions(request: ReviewRequest) -> Sequence[str | None]:
    """The revisions that the request names, the one that may be a way to select a change first."""
    selection = request.selection
    return selection.left, selection.right, request.base, request.definitions


@contextmanager
def advising(
    words: Sequence[str | None], start: Path, environment: Environment, instead: Mapping[str, str]
) -> Iterator[None]:
    """Name, with an error about a revision that is not there, what is nearest to it.

    `words`: the revisions that the user named. `instead`: other ways to select a change, by the
    words that people write for them in place of the first revision.
    """
    try:
        yield
    except RevisionError as error:
        wrong_word = error.revision
        if not wrong_word or wrong_word not in words:
            raise
        nearest_way = nearest(wrong_word, instead) if wrong_word == words[0] else ""
        if nearest_way:
            raise RevisionError(f"{error} Did you mean {instead[nearest_way]}?") from error
        with open_repository(start, environment) as repository:
            nearest_name = nearest(wrong_word, repository.names())  # a branch or a tag
        if nearest_name:
            raise RevisionError(f"{error} Did you mean {nearest_name!r}?") from error
        raise
