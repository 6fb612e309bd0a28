"""Find commits of a range that are worth a label: those that a later one reverted or repaired, and
long-lived ones.

What is found is a guess. A person looks at each, and says whether it is a defective change or a
clean one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Literal

from msgspec import Struct

from vibe_gate.domain import paths
from vibe_gate.domain.change import Change, FileDiff
from vibe_gate.domain.escape import counted, expression
from vibe_gate.git import Repository
from vibe_gate.judging.surroundings import CODE, is_test

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

STILL_THERE = 0.9
"""The least share of a clean change's lines that must be there at the end of the range."""

AT_ONCE = 50
"""Commits whose changes are read together: git takes as long for one as for ten."""

SHORTEST = 6
"""Characters of a statement that is not everywhere."""

MAX_CLEAN = 60
"""Clean commits that are proposed, and at least LEAST_CLEAN, if so many are there."""

LEAST_CLEAN = 20

_ASIDE = (
    "**/test/**",
    "**/tests/**",
    "**/testing/**",
    "**/docs/**",
    "**/doc/**",
    "**/examples/**",
    "**/example/**",
)

_REVERTS = expression(r"\bThis reverts commit ([0-9a-f]{7,40})\b")
_NAMES = expression(
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
    """A commit to be labelled: `date` in UTC, why, and the commit that says so ("" of a clean
    one).
    """

    commit: str
    base: str
    kind: Literal["suspect", "clean"]
    date: str
    title: str
    reason: str
    by: str = ""


class _Candidate(Struct, frozen=True):
    id: str
    base: str
    at: int
    message: str

    @property
    def title(self) -> str:
        return self.message.lstrip("\n").partition("\n")[0].strip()

    @property
    def is_fix(self) -> bool:
        """Whether its title says that it repairs code."""
        return bool(_FIX.search(self.title)) and not _NOT_CODE.search(self.title)


def proposals(
    repository: Repository, base: str, head: str, tell: Callable[[str], object]
) -> list[Proposal]:
    """What to label of the commits that `head` has and `base` has not (full ids; "": nothing),
    newest first.
    """
    own = _commits(repository, base, head)
    tell(f"{counted(len(own), 'commit')}: who was reverted, or named by a fix")
    reverts = {
        each.id
        for each in own.values()
        if _REVERTS.search(each.message) or each.title.startswith('Revert "')
    }
    named = dict(_named(own))
    code = repository.changes_of(list(named))
    # A revert that was itself reverted has repaired nothing.
    blamed = {
        name: found
        for name, found in named.items()
        if name not in reverts and found[0] not in named and _code(code[name])
    }
    replaced = _Replaced(repository, base, own)
    fixes = [each for each in own.values() if each.is_fix and each.id not in reverts]
    for number, (fix, files) in enumerate(_with_code(repository, fixes)):
        tell(f"fix {number + 1} of {len(fixes)}: whose lines it replaces")
        found = replaced.soonest(fix, files)
        if found and found[0] not in blamed and found[0] not in reverts:
            blamed[found[0]] = (fix.id, found[1])
    suspects = [
        _proposal(own[name], "suspect", reason, own[by]) for name, (by, reason) in blamed.items()
    ]
    wanted = min(max(2 * len(suspects), LEAST_CLEAN), MAX_CLEAN)
    never = blamed.keys() | reverts | replaced.ever
    candidates = [
        each for each in own.values() if each.id not in never and not _NOT_CODE.search(each.title)
    ]
    tell("long-lived commits")
    clean = _clean(repository, candidates, head, wanted)
    return sorted([*suspects, *clean], key=lambda one: (one.date, one.commit), reverse=True)


def _commits(repository: Repository, base: str, head: str) -> dict[str, _Candidate]:
    """The commits with one parent by id, newest first."""
    found = {}
    for name in repository.span(base, head):
        parents = repository.parents(name)
        if len(parents) == 1 and repository.has(parents[0]):
            found[name] = _Candidate(
                name, parents[0], repository.committed_at(name), repository.commit(name).message
            )
    return found


def _named(own: Mapping[str, _Candidate]) -> Iterator[tuple[str, tuple[str, str]]]:
    """Commits that the message of a later one names: by whom, and the reason."""
    by_start: dict[str, list[str]] = {}
    for name in own:
        by_start.setdefault(name[:7], []).append(name)
    for commit in own.values():
        for pattern, how in ((_NAMES, "named by the fix"), (_REVERTS, "reverted by")):
            for written in pattern.findall(commit.message):
                found = [name for name in by_start.get(written[:7], ()) if name.startswith(written)]
                if len(found) == 1 and own[found[0]].at <= commit.at and found[0] != commit.id:
                    yield found[0], (commit.id, how)


class _Replaced:
    """Whose lines fixes replace; `ever` gathers the commits of which any was."""

    def __init__(self, repository: Repository, base: str, own: Mapping[str, _Candidate]) -> None:
        self._repository = repository
        self._base = base
        self._own = own
        self.ever: set[str] = set()

    def soonest(self, fix: _Candidate, files: Sequence[FileDiff]) -> tuple[str, str] | None:
        """The commit of whose code the fix replaces most, if it is young, with the reason; None if
        there is none.
        """
        if sum(file.added + file.deleted for file in files) > MAX_FIX:
            return None
        wrote: Counter[str] = Counter()
        for file in files:
            if file.before and (lines := _removed(file)):
                blamed = self._repository.blame(fix.base, file.old_name, lines, self._base)
                wrote.update(name for name in blamed.values() if name in self._own)
        self.ever.update(wrote)
        young = [
            name for name in wrote if SAME_DAY_S <= fix.at - self._own[name].at <= SOON_DAYS * DAY_S
        ]
        if not young:
            return None
        most = max(young, key=lambda name: (wrote[name], self._own[name].at))
        days = (fix.at - self._own[most].at) // DAY_S
        return most, f"{counted(wrote[most], 'line')} replaced {counted(days, 'day')} later by"


def _with_code(
    repository: Repository, commits: Sequence[_Candidate]
) -> Iterator[tuple[_Candidate, list[FileDiff]]]:
    """Each commit with the code that it changes."""
    for start in range(0, len(commits), AT_ONCE):
        some = commits[start : start + AT_ONCE]
        changes = repository.changes_of([each.id for each in some])
        yield from ((each, _code(changes[each.id])) for each in some)


def _code(change: Change) -> list[FileDiff]:
    """The files of a change that are code, and neither tests nor examples."""
    return [file for file in change.files if _is_code(file.path)]


def _is_code(path: str) -> bool:
    return paths.matches(path, CODE) and not (is_test(path) or paths.matches(path, _ASIDE))


def _removed(file: FileDiff) -> list[int]:
    """The numbers, before the change, of the statements that it takes away."""
    numbers = []
    for hunk in file.hunks:
        number = hunk.old_start
        for line in hunk.lines:
            if line.origin == "-" and not _NO_STATEMENT.match(line.content):
                numbers.append(number)
            number += line.origin != "+"
    return numbers


def _clean(
    repository: Repository, candidates: Sequence[_Candidate], head: str, wanted: int
) -> list[Proposal]:
    """Commits of a year and more whose lines still stand, spread over the range."""
    end = repository.committed_at(head)
    old = [each for each in candidates if end - each.at >= LONG_DAYS * DAY_S]
    standing, found = _standing(repository, head) if old else frozenset(), list[Proposal]()
    for each, files in _with_code(repository, _spread(old)):
        added = [line for file in files for line in _added(file)]
        share = sum(line in standing for line in added) / max(len(added), 1)
        if len(added) in CLEAN_LINES and share >= STILL_THERE:
            years = (end - each.at) / (365 * DAY_S)
            reason = (
                f"{share:.0%} of its {counted(len(added), 'line')} stand after {years:.1f} years"
            )
            found.append(_proposal(each, "clean", reason))
        if len(found) == wanted:
            break
    return found


def _standing(repository: Repository, head: str) -> frozenset[bytes]:
    """The statements of all code at the end of the range: files move, and formatters rewrite white
    space and quotes.
    """
    tree = repository.tree(head)
    files = (tree.read(path) or b"" for path in tree.list("") if _is_code(path))
    return frozenset(
        line for content in files for line in map(_normal, content.splitlines()) if line
    )


def _added(file: FileDiff) -> Iterator[bytes]:
    for hunk in file.hunks:
        for line in hunk.lines:
            if line.origin == "+" and (normal := _normal(line.content)):
                yield normal


def _normal(line: bytes) -> bytes:
    """A statement without what formatters change; b"" of a line that says nothing of what code
    does.
    """
    plain = b"".join(line.split()).replace(b"'", b'"').rstrip(b",")
    return b"" if _NO_STATEMENT.match(line) or len(plain) < SHORTEST else plain


def _spread(commits: Sequence[_Candidate]) -> list[_Candidate]:
    """The commits in an order in which every beginning is spread over all of them, the same each
    time.
    """
    return sorted(commits, key=lambda each: each.id)  # ids are as good as random


def _proposal(
    commit: _Candidate, kind: Literal["suspect", "clean"], reason: str, by: _Candidate | None = None
) -> Proposal:
    date = datetime.fromtimestamp(commit.at, UTC).date().isoformat()
    told = f'{reason} {by.id[:12]} "{by.title}"' if by else reason
    return Proposal(commit.id, commit.base, kind, date, commit.title, told, by.id if by else "")
