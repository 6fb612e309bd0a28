"""`cases add`: a reviewed change with what people say of its findings becomes a labelled case of
the repository.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import get_args

import tomli_w
from msgspec import Struct

from vibe_gate.domain import paths
from vibe_gate.domain.bundles import RunEntry
from vibe_gate.domain.change import CASES
from vibe_gate.domain.escape import counted, safe
from vibe_gate.domain.label import Label
from vibe_gate.domain.rubric import Rubric
from vibe_gate.domain.summary import Summary
from vibe_gate.domain.tables import did_you_mean
from vibe_gate.domain.verdict import Outcome
from vibe_gate.errors import InfrastructureError, UsageError
from vibe_gate.gate.cases import PATCH
from vibe_gate.gate.loading import FOLDER, built_in_gate, load_gate
from vibe_gate.gate.source import is_identifier
from vibe_gate.gate.stored import finding_if_any, is_fingerprint, person, sealed_summary
from vibe_gate.git import Repository
from vibe_gate.secrets import Redactor
from vibe_gate.store.clone_state import open_state

OUTCOMES = tuple(word for word in get_args(Outcome) if word != "error")
"""What a case may expect of a criterion."""

RUBRIC_OUTCOMES = ("pass", "fail", "inconclusive")
"""What a case may expect of its rubric."""

MOST_NAMED = 54
"""Characters of a criterion or rubric in a case's name, which has 64 with the beginning of a
fingerprint.
"""

SHA1_DIGITS = 40
"""Of a commit that case.toml names."""


class CaseAsked(Struct, frozen=True):
    """What a person asks: a case of the finding whose fingerprint begins with `what`, or else of
    the run of that name.

    `expect`: outcomes, of a run's criteria as CRITERION=OUTCOME; () takes those that labels say.
    `rubric` of several; `patch`: keep the change's patch instead of the id of its last commit.
    """

    what: str
    name: str = ""
    rubric: str = ""
    expect: tuple[str, ...] = ()
    patch: bool = False


class AddedCase(Struct, frozen=True):
    """A case that was written: its folder from the repository's root, and what is expected, as
    text.
    """

    folder: str
    rubric: str
    expected: str
    redacted: bool = False


class _About(Struct, frozen=True):
    """The reviewed change, its rubric, and the criterion of the one finding that the case is about
    ("" of a run).
    """

    summary: Summary
    entry: RunEntry
    rubric: str
    criterion: str
    finding: str


def add_case(
    ask: CaseAsked,
    repository: Repository,
    *,
    now: datetime,
    run_named: Callable[[str], RunEntry],
    is_right: Callable[[str], bool | None],
) -> AddedCase:
    """Write the case into the working tree. `run_named` finds a run; `is_right` asks a person about
    a finding.

    UsageError: an agent asks, nothing or several things are meant, it is not known what to expect,
    or the change is not one that git still has.
    """
    person(repository, "add")
    about = _meant(repository, ask, now, run_named)
    labels = open_state(repository.common_dir).labels.all()
    expected = _given(ask, about) or dict(_by_labels(about, labels, is_right))
    _require_known(repository, about, expected)
    name = (
        ask.name
        or f"{(about.criterion or about.rubric)[:MOST_NAMED]}-{about.finding[:8] or _short(about)}"
    )
    commits, patch = _change(repository, about, keep_patch=ask.patch)
    told = _told(about, labels, Redactor(repository.environment.variables))
    folder = write_case(
        repository.root, name, told + case_toml(about.rubric, commits, expected), patch
    )
    after = repository.patched(repository.tree_of(commits["base"]), patch) if patch else ""
    said = ", ".join(
        f"{criterion or 'the rubric'} {outcome}" for criterion, outcome in expected.items()
    )
    return AddedCase(
        folder, about.rubric, said, bool(patch) and after != about.summary.change.after
    )


def case_toml(rubric: str, commits: Mapping[str, str], expected: Mapping[str, str]) -> str:
    """The keys of case.toml; `expected` by criterion, "" of the rubric."""
    outcome = {"outcome": expected[""]} if "" in expected else {}
    of_criteria = {criterion: word for criterion, word in expected.items() if criterion}
    table = {"schema": 1, "rubric": rubric, **outcome, **commits} | (
        {"expect": of_criteria} if of_criteria else {}
    )
    return tomli_w.dumps(table, multiline_strings=False)


def _short(about: _About) -> str:
    return about.summary.run_id.rpartition("-")[2]


def _meant(
    repository: Repository, ask: CaseAsked, now: datetime, run_named: Callable[[str], RunEntry]
) -> _About:
    found = finding_if_any(repository, ask.what, now) if is_fingerprint(ask.what) else None
    if found is None:
        entry = run_named(ask.what)
        summary = sealed_summary(repository, entry, now)
        rubric = _one_of([one.id for one in summary.rubrics], ask.rubric, f"Run {summary.run_id}")
        return _About(summary, entry, rubric, "", "")
    sources = {source.rubric: source for source in found.sources}
    if found.summary is None or not sources:
        raise UsageError(
            f"{found.fingerprint} fails no criterion of a rubric, so no case can be made of it."
        )
    rubric = ask.rubric or next(iter(sources))
    source = sources[_one_of(list(sources), rubric, f"Finding {found.fingerprint}")]
    return _About(found.summary, found.entry, source.rubric, source.criterion, found.fingerprint)


def _one_of(rubrics: Sequence[str], wanted: str, of: str) -> str:
    """The rubric that is wanted, or the only one. UsageError."""
    if wanted in rubrics or (not wanted and len(rubrics) == 1):
        return wanted or rubrics[0]
    if not wanted:
        raise UsageError(
            f"{of} has {counted(len(rubrics), 'rubric')}; name one: --rubric {'|'.join(rubrics) or 'ID'}"
        )
    hint = did_you_mean(wanted, rubrics)
    raise UsageError(f"{of} has no rubric '{paths.quote(wanted)}'{hint and f'; {hint}'}")


# What is expected: outcomes by criterion, "" of the rubric itself


def _given(ask: CaseAsked, about: _About) -> dict[str, str]:
    """What the person expects. UsageError for a word that is no outcome."""
    expected = {}
    for given in ask.expect:
        criterion, equals, outcome = given.rpartition("=")
        criterion = criterion if equals else about.criterion
        words = OUTCOMES if criterion else RUBRIC_OUTCOMES
        if outcome not in words:
            hint = did_you_mean(outcome, words)
            raise UsageError(
                f"'{paths.quote(outcome)}' is not one of {', '.join(words)}{hint and f'; {hint}'}"
            )
        expected[criterion] = outcome
    return expected


def _by_labels(
    about: _About, labels: Iterable[Label], is_right: Callable[[str], bool | None]
) -> Iterator[tuple[str, str]]:
    """Of each labelled criterion: fail if any finding of the run is right, pass if all of them are
    wrong.

    UsageError if that is not known.
    """
    said = {one.finding: one.right for one in labels if one.rubric == about.rubric}
    found: dict[str, list[str]] = {}
    for finding in about.summary.findings:
        for source in about.summary.sources(finding):
            if source.rubric == about.rubric and source.criterion == (
                about.criterion or source.criterion
            ):
                found.setdefault(source.criterion, []).append(finding.fingerprint)
    if (
        about.finding
        and about.finding not in said
        and (word := is_right(about.finding)) is not None
    ):
        said[about.finding] = word
    answers = {name: [said.get(one) for one in each] for name, each in found.items()}
    for name, words in answers.items():
        if True in words:
            yield name, "fail"
        elif words and None not in words:
            yield name, "pass"
        elif about.finding and about.finding in said:
            others = ", ".join(one for one in found[name] if one not in said)
            raise UsageError(
                f"{name} has findings without a label, too ({others}): label them, or use --expect."
            )


def _require_known(repository: Repository, about: _About, expected: Mapping[str, str]) -> None:
    """UsageError if nothing is expected, or something of what the working tree's rubric does not
    have.
    """
    if not expected:
        what = (
            f"finding {about.finding}"
            if about.finding
            else f"any finding of run {about.summary.run_id}"
        )
        raise UsageError(
            f"There is no label of {what}, so it is not known what to expect: `vibe-gate label FINDING right|wrong` "
            "first, or add --expect pass|fail (of a run also CRITERION=pass|fail)."
        )
    tree = repository.tree(repository.snapshot())
    gate = load_gate(tree, revision="", origin="trusted") or built_in_gate(tree)
    rubric = _rubric(gate.rubrics, about.rubric)
    ids = [criterion.id for criterion in rubric.criterion]
    for name in filter(None, expected):
        if name not in ids:
            hint = did_you_mean(name, ids)
            raise UsageError(
                f"rubric '{rubric.id}' has no criterion '{paths.quote(name)}'{hint and f'; {hint}'}"
            )
    needing = [
        one.id
        for one in rubric.criterion
        if one.needs == "prompt" and (one.id in expected or "" in expected)
    ]
    if needing:
        raise UsageError(
            f"{needing[0]} is about what an agent was asked for, which no labelled case has."
        )


def _rubric(rubrics: Collection[Rubric], id: str) -> Rubric:
    found = next((rubric for rubric in rubrics if rubric.id == id), None)
    if found is None:
        raise UsageError(
            f"The working tree has no rubric '{id}' any more, and a case tests one that is there."
        )
    return found


# The change


def _change(
    repository: Repository, about: _About, *, keep_patch: bool
) -> tuple[dict[str, str], bytes]:
    """The commits that case.toml names, and the patch beside it (b"" if both ends are commits).
    UsageError.
    """
    change = about.summary.change
    if not change.base_commit or not repository.has(change.base_commit):
        raise UsageError(
            "The change has no commit before it in this clone, so no case can be made of it."
        )
    if len(change.base_commit) != SHA1_DIGITS:
        raise UsageError(
            "This repository's commit ids are SHA-256, and cases name commits by SHA-1."
        )
    if change.head_commit and not keep_patch:
        if not repository.has(change.head_commit):
            raise UsageError(
                f"Commit {change.head_commit[:12]} is not in this clone; fetch it, or use --patch."
            )
        return {"base": change.base_commit, "head": change.head_commit}, b""
    try:
        patch = (repository.store_root / about.entry.bundle / PATCH).read_bytes()
    except OSError as error:
        raise UsageError(f"Run {about.summary.run_id} has no {PATCH}: {error.strerror}.") from error
    if not patch or not repository.patched(repository.tree_of(change.base_commit), patch):
        raise UsageError(
            f"The {PATCH} of run {about.summary.run_id} does not apply to {change.base_commit[:12]} any more: secrets "
            "were replaced in it, or it has binary files. Commit the change, review it, and add that run's finding."
        )
    return {"base": change.base_commit}, patch


def _told(about: _About, labels: Iterable[Label], redactor: Redactor) -> str:
    """Comments at the top of case.toml: where it comes from, and who said so."""
    lines = [
        f"From run {about.summary.run_id}{f', finding {about.finding}' if about.finding else ''}."
    ]
    own = {finding.fingerprint for finding in about.summary.findings}
    for one in labels:
        if (
            one.rubric == about.rubric
            and one.finding in own
            and one.criterion == (about.criterion or one.criterion)
        ):
            word = "right" if one.right else "wrong"
            lines.append(
                f"{one.finding} is {word}, says {one.by}{f': {one.reason}' if one.reason else '.'}"
            )
    return "".join(f"# {safe(redactor.text(line))}\n" for line in lines)


def write_case(root: Path, name: str, text: str, patch: bytes = b"") -> str:
    """Make the case's folder; its path from the root. UsageError if it is there, or behind a
    link.
    """
    if not is_identifier(name):
        raise UsageError(f"'{paths.quote(name)}' is not the name of a case; {_NAMES}")
    place = f"{CASES}/{name}"
    if any((root / folder).is_symlink() for folder in (FOLDER, CASES)):
        raise UsageError(f"{CASES} is behind a symbolic link; put the folder itself there.")
    if (root / place).exists() or (root / place).is_symlink():
        raise UsageError(f"{place} is there already; give another --name.")
    try:
        (root / place).mkdir(parents=True)
        if patch:
            (root / place / PATCH).write_bytes(patch)
        (root / place / "case.toml").write_text(text, encoding="utf-8")
    except OSError as error:
        raise InfrastructureError(f"{place} could not be written: {error.strerror}.") from error
    return place


_NAMES = 'use lower-case letters, digits, ".", "_" and "-", at most 64.'
