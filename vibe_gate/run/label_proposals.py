"""Find commits of a range that are worth a label: those that a later one reverted or repaired, and
long-lived ones.

What is found is a guess. A person looks at each, and says whether it is a defective change or a
clean one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Literal

from msgspec import Struct

from vibe_gate.domain import paths
from vibe_gate.domain.change import Change, FileDiff
from vibe_gate.domain.escape import counted, expression
from vibe_gate.git import Repository
from vibe_gate.judging.named_lines import is_test
from vibe_gate.parsing import is_code

DAY_S = 86_400

SOON_DAYS = 90
"""A fix within this time is likely to repair what the commit itself did, not what became of it."""

LONG_DAYS = 365
"""A commit of this age whose lines still stand has been used by many."""

SAME_DAY_S = DAY_S
"""What is repaired sooner was repaired in the same piece of work, before anyone used it."""

MAX_FIX = 60
"""Lines of code that a commit changes which repairs one thing."""

CLEAN_LINES = range(5, 251)
"""Statements that a change for a clean case adds."""

LEAST_STANDING_SHARE = 0.9
"""The least share of a clean change's lines that must be there at the end of the range."""

BATCH_SIZE = 50
"""Commits whose changes are read together: git takes as long for one as for ten."""

SHORTEST = 6
"""Characters of a statement that is not everywhere."""

MAX_CLEAN = 60
"""Clean commits that are proposed, and at least LEAST_CLEAN, if so many are there."""

LEAST_CLEAN = 20

_TESTS_AND_EXAMPLES = (
    "**/test/**",
    "**/tests/**",
    "**/testing/**",
    "**/docs/**",
    "**/doc/**",
    "**/examples/**",
    "**/example/**",
)

_REVERTED = expression(r"\bThis reverts commit ([0-9a-f]{7,40})\b")
_BLAMED = expression(
    r"(?im)(?:^fixes:\s*(?:commit\s+)?|\b(?:regress(?:ed|ions?)|breakage|bugs?|broken?|caused)\b[^.\n]{0,60}?\b)"
    r"([0-9a-f]{7,40})\b"
)
"""A commit by its id: in a trailer `Fixes:`, or in a sentence about what it broke."""

_FIX = expression(
    r"(?i)\b(?:fix(?:e[sd]|ing)?|bug|regression|broken?|crash(?:es)?|incorrect|wrong|repairs?)\b"
)
_NOT_CODE = expression(
    r"(?i)\b(?:typos?|docs?|docstrings?|documentation|readme|changelog|spelling|comments?|version|merge|"
    r"lint(?:ing|er)?|flake8|pyflakes|pep ?8|isort|import order|ruff|black|style|format(?:ting)?|"
    r"mypy|pyright|typing|type hints?|annotations?|ci|travis|tests?|coverage|warnings?)\b"
)
"""In the title of a fix: it is not about what the code does."""

_NO_STATEMENT = expression(
    rb"\s*(?:$|#|//|/?\*|\"\"\"|import\b|from\b|__version__|[\])},;:]+\s*$|\w+(?: *, *\w+)+ *,?\)?\s*$)"
)
"""A line that says nothing of what code does."""


class Proposal(Struct, frozen=True):
    """A commit to be labelled."""

    commit: str

    base: str
    """The commit before it."""

    kind: Literal["suspect", "clean"]

    date: str
    """The day on which it was made, in UTC."""

    title: str

    reason: str
    """Why it is worth a label, as a clause for people."""

    by: str = ""
    """The commit that speaks against it; "" of a clean one."""


class _Candidate(Struct, frozen=True):
    """A commit of the range that has one parent."""

    id: str

    base: str
    """Its parent."""

    at: int
    """Seconds since 1970."""

    message: str

    @property
    def title(self) -> str:
        return self.message.lstrip("\n").partition("\n")[0].strip()

    @property
    def is_fix(self) -> bool:
        """Whether its title says that it repairs code."""
        return bool(_FIX.search(self.title)) and not _NOT_CODE.search(self.title)

    @property
    def is_revert(self) -> bool:
        """Whether its message says that it reverts a commit."""
        return bool(_REVERTED.search(self.message)) or self.title.startswith('Revert "')


class _Blame(Struct, frozen=True):
    """What speaks against a commit."""

    by: str
    """The commit that says so."""

    reason: str


def propose_labels(
    repository: Repository, base: str, head: str, tell: Callable[[str], object]
) -> list[Proposal]:
    """What to label of the commits that `head` has and `base` has not (full ids; "": nothing),
    newest first.

    `tell` hears what is looked at.
    """
    candidates = _read_candidates(repository, base, head)
    tell(f"{counted(len(candidates), 'commit')}: who was reverted, or named by a fix")
    revert_ids = {commit.id for commit in candidates.values() if commit.is_revert}
    blames = _blames_of_messages(repository, candidates, revert_ids)

    replaced = _ReplacedCommits(repository, base, candidates)
    other_commits = [commit for commit in candidates.values() if commit.id not in revert_ids]
    fixes = [commit for commit in other_commits if commit.is_fix]
    for number, (fix, files) in enumerate(_with_code(repository, fixes), start=1):
        tell(f"fix {number} of {len(fixes)}: whose lines it replaces")
        replaced_id, blame = replaced.find_young(fix, files)
        if blame is not None and replaced_id not in revert_ids:
            blames.setdefault(replaced_id, blame)

    proposals = []
    for commit_id, blame in blames.items():
        blaming_commit = candidates[blame.by]
        proposals.append(_suspect(candidates[commit_id], blaming_commit, blame.reason))
    tell("long-lived commits")
    excluded_ids = blames.keys() | revert_ids | replaced.ids
    clean_count = min(max(2 * len(blames), LEAST_CLEAN), MAX_CLEAN)
    proposals += _propose_clean(repository, candidates, excluded_ids, head, clean_count)
    proposals.sort(key=lambda proposal: (proposal.date, proposal.commit), reverse=True)
    return proposals


def _read_candidates(repository: Repository, base: str, head: str) -> dict[str, _Candidate]:
    """The commits with one parent by id, newest first."""
    candidates = {}
    for commit_id in repository.span(base, head):
        parents = repository.parents(commit_id)
        if len(parents) != 1 or not repository.has(parents[0]):
            continue
        at = repository.committed_at(commit_id)
        message = repository.commit(commit_id).message
        candidates[commit_id] = _Candidate(commit_id, parents[0], at, message)
    return candidates


def _blames_of_messages(
    repository: Repository, candidates: Mapping[str, _Candidate], revert_ids: Collection[str]
) -> dict[str, _Blame]:
    """Of commits with code that the message of a later one names, what that one says."""
    blames = dict(_named_commits(candidates))
    changes = repository.changes_of(list(blames))
    effective_blames = {}
    for commit_id, blame in blames.items():
        # A revert that was itself reverted has repaired nothing.
        if commit_id in revert_ids or blame.by in blames:
            continue
        if _code_files(changes[commit_id]):
            effective_blames[commit_id] = blame
    return effective_blames


def _named_commits(candidates: Mapping[str, _Candidate]) -> Iterator[tuple[str, _Blame]]:
    """Commits that the message of a later one names by an unambiguous id."""
    ids_by_start: dict[str, list[str]] = {}
    for commit_id in candidates:
        ids_by_start.setdefault(commit_id[:7], []).append(commit_id)
    for commit in candidates.values():
        for pattern, reason in ((_BLAMED, "named by the fix"), (_REVERTED, "reverted by")):
            for short_id in pattern.findall(commit.message):
                candidate_ids = ids_by_start.get(short_id[:7], ())
                ids = [full_id for full_id in candidate_ids if full_id.startswith(short_id)]
                if len(ids) != 1 or ids[0] == commit.id:
                    continue
                if candidates[ids[0]].at <= commit.at:
                    yield ids[0], _Blame(commit.id, reason)


class _ReplacedCommits:
    """Whose lines fixes replace."""

    def __init__(
        self, repository: Repository, base: str, candidates: Mapping[str, _Candidate]
    ) -> None:
        self._repository = repository
        self._base = base
        self._candidates = candidates
        self.ids: set[str] = set()
        """The commits of which any line was replaced, by the fixes until now."""

    def find_young(self, fix: _Candidate, files: Sequence[FileDiff]) -> tuple[str, _Blame | None]:
        """The commit of whose code the fix replaces most, if it is young; "" and None if there is
        none.
        """
        if sum(file.added + file.deleted for file in files) > MAX_FIX:
            return "", None
        counts = self._count_replaced(fix, files)
        self.ids.update(counts)
        young_ids = []
        for commit_id in counts:
            age = fix.at - self._candidates[commit_id].at
            if SAME_DAY_S <= age <= SOON_DAYS * DAY_S:
                young_ids.append(commit_id)
        if not young_ids:
            return "", None
        most_replaced = max(
            young_ids, key=lambda commit_id: (counts[commit_id], self._candidates[commit_id].at)
        )
        lines = counted(counts[most_replaced], "line")
        days = counted((fix.at - self._candidates[most_replaced].at) // DAY_S, "day")
        return most_replaced, _Blame(fix.id, f"{lines} replaced {days} later by")

    def _count_replaced(self, fix: _Candidate, files: Sequence[FileDiff]) -> Counter[str]:
        """By commit how many of its statements the fix takes away."""
        counts: Counter[str] = Counter()
        for file in files:
            numbers = _removed_statements(file) if file.before else []
            if not numbers:
                continue
            blamed = self._repository.blame(fix.base, file.old_name, numbers, self._base)
            counts.update(commit for commit in blamed.values() if commit in self._candidates)
        return counts


def _with_code(
    repository: Repository, commits: Sequence[_Candidate]
) -> Iterator[tuple[_Candidate, list[FileDiff]]]:
    """Each commit with the code that it changes."""
    for start in range(0, len(commits), BATCH_SIZE):
        batch = commits[start : start + BATCH_SIZE]
        changes = repository.changes_of([commit.id for commit in batch])
        for commit in batch:
            yield commit, _code_files(changes[commit.id])


def _code_files(change: Change) -> list[FileDiff]:
    """The files of a change that are code, and neither tests nor examples."""
    return [file for file in change.files if _is_code(file.path)]


def _is_code(path: str) -> bool:
    if not is_code(path):
        return False
    return not is_test(path) and not paths.matches_any_glob(path, _TESTS_AND_EXAMPLES)


def _removed_statements(file: FileDiff) -> list[int]:
    """The numbers, before the change, of the statements that it takes away."""
    numbers = []
    for hunk in file.hunks:
        number = hunk.old_start
        for line in hunk.lines:
            if line.origin == "-" and not _NO_STATEMENT.match(line.content):
                numbers.append(number)
            number += line.origin != "+"
    return numbers


def _propose_clean(
    repository: Repository,
    candidates: Mapping[str, _Candidate],
    excluded_ids: Collection[str],
    head: str,
    count: int,
) -> list[Proposal]:
    """At most `count` commits of a year and more whose lines still stand, spread over the range."""
    end = repository.committed_at(head)
    old_commits = []
    for commit in candidates.values():
        if commit.id in excluded_ids or _NOT_CODE.search(commit.title):
            continue
        if end - commit.at >= LONG_DAYS * DAY_S:
            old_commits.append(commit)
    if not old_commits:
        return []
    statements = _statements_at(repository, head)
    proposals: list[Proposal] = []
    for commit, files in _with_code(repository, _spread(old_commits)):
        added = _added_statements(files)
        share = _standing_share(added, statements)
        if len(added) in CLEAN_LINES and share >= LEAST_STANDING_SHARE:
            lines = counted(len(added), "line")
            years = (end - commit.at) / (365 * DAY_S)
            reason = f"{share:.0%} of its {lines} stand after {years:.1f} years"
            proposals.append(_proposal(commit, "clean", reason))
        if len(proposals) == count:
            break
    return proposals


def _standing_share(added: Sequence[bytes], statements: Collection[bytes]) -> float:
    """The share of the added statements that are among these; 0 if none was added."""
    if not added:
        return 0.0
    standing = [statement for statement in added if statement in statements]
    return len(standing) / len(added)


def _statements_at(repository: Repository, head: str) -> frozenset[bytes]:
    """The statements of all code at the end of the range: files move, and formatters rewrite white
    space and quotes.
    """
    tree = repository.tree(head)
    statements: set[bytes] = set()
    for path in tree.list(""):
        if _is_code(path):
            content = tree.read(path) or b""
            statements.update(map(_without_format, content.splitlines()))
    return frozenset(statements - {b""})


def _added_statements(files: Sequence[FileDiff]) -> list[bytes]:
    """What the change adds that says what code does, without what formatters change."""
    statements: list[bytes] = []
    for file in files:
        for hunk in file.hunks:
            added_lines = [line.content for line in hunk.lines if line.origin == "+"]
            statements += filter(None, map(_without_format, added_lines))
    return statements


def _without_format(line: bytes) -> bytes:
    """A statement without what formatters change; b"" of a line that says nothing of what code
    does.
    """
    statement = b"".join(line.split()).replace(b"'", b'"').rstrip(b",")
    if _NO_STATEMENT.match(line) or len(statement) < SHORTEST:
        return b""
    return statement


def _spread(commits: Sequence[_Candidate]) -> list[_Candidate]:
    """The commits in an order in which every beginning is spread over all of them, the same each
    time.
    """
    return sorted(commits, key=lambda commit: commit.id)  # ids are as good as random


def _suspect(commit: _Candidate, blaming_commit: _Candidate, reason: str) -> Proposal:
    sentence = f'{reason} {blaming_commit.id[:12]} "{blaming_commit.title}"'
    return _proposal(commit, "suspect", sentence, blaming_commit.id)


def _proposal(
    commit: _Candidate, kind: Literal["suspect", "clean"], reason: str, by: str = ""
) -> Proposal:
    date = datetime.fromtimestamp(commit.at, UTC).date().isoformat()
    return Proposal(commit.id, commit.base, kind, date, commit.title, reason, by)
