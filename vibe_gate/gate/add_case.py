"""`cases add`: a reviewed change with what people say of its findings becomes a labelled case of
the repository.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
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
from vibe_gate.domain.tables import advise_nearest
from vibe_gate.domain.verdict import Outcome
from vibe_gate.errors import InfrastructureError, StorageError, UsageError
from vibe_gate.gate.cases import PATCH
from vibe_gate.gate.loading import FOLDER, built_in_gate, load_gate
from vibe_gate.gate.source import is_identifier
from vibe_gate.gate.stored import finding_if_any, is_fingerprint, require_person, sealed_summary
from vibe_gate.git import Repository
from vibe_gate.secrets import Redactor
from vibe_gate.store.clone_state import open_state
from vibe_gate.store.run_result import read_bundle

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
    """What a person asks."""

    what: str
    """The beginning of a finding's fingerprint, or else the name of a run."""

    rubric: str = ""
    """Which of several."""

    expect: tuple[str, ...] = ()
    """Outcomes, of a run's criteria as CRITERION=OUTCOME; () takes those that labels say."""

    patch: bool = False
    """Keep the change's patch instead of the id of its last commit."""


class AddedCase(Struct, frozen=True):
    """A case that was written."""

    folder: str
    """From the repository's root."""

    rubric: str

    expected: str
    """As text."""

    redacted: bool = False
    """Whether its patch makes another tree than the change did."""


class _CaseSubject(Struct, frozen=True):
    """What the case is about."""

    summary: Summary
    """Of the reviewed change."""

    entry: RunEntry

    rubric: str

    criterion: str
    """Of the one finding; "" of a run."""

    finding: str
    """Its fingerprint; "" of a run."""

    @property
    def default_name(self) -> str:
        """The case's name if the person gives none."""
        suffix = self.finding[:8] or self.summary.run_id.rpartition("-")[2]
        return f"{(self.criterion or self.rubric)[:MOST_NAMED]}-{suffix}"

    def is_about(self, criterion: str) -> bool:
        """Whether the case is about this criterion."""
        return self.criterion in ("", criterion)


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
    require_person(repository, "add")
    subject = _find_subject(repository, ask, now, run_named)
    labels = open_state(repository.common_dir).labels.all()
    expected = _read_expected(ask, subject) or _expected_by_labels(subject, labels, is_right)
    _require_known(repository, subject, expected)
    commits, patch = _find_change(repository, subject, keep_patch=ask.patch)
    comments = _write_comments(subject, labels, Redactor(repository.environment.variables))
    text = comments + case_toml(subject.rubric, commits, expected)
    folder = write_case(repository.root, subject.default_name, text, patch)
    is_redacted = False
    if patch:
        after = repository.patched(repository.tree_of(commits["base"]), patch)
        is_redacted = after != subject.summary.change.after
    outcomes = [f"{criterion or 'the rubric'} {outcome}" for criterion, outcome in expected.items()]
    return AddedCase(folder, subject.rubric, ", ".join(outcomes), is_redacted)


def case_toml(rubric: str, commits: Mapping[str, str], expected: Mapping[str, str]) -> str:
    """The keys of case.toml; `expected` by criterion, "" of the rubric."""
    table: dict[str, object] = {"schema": 1, "rubric": rubric}
    if "" in expected:
        table["outcome"] = expected[""]
    table |= commits
    by_criterion = {criterion: outcome for criterion, outcome in expected.items() if criterion}
    if by_criterion:
        table["expect"] = by_criterion
    return tomli_w.dumps(table, multiline_strings=False)


def _find_subject(
    repository: Repository, ask: CaseAsked, now: datetime, run_named: Callable[[str], RunEntry]
) -> _CaseSubject:
    stored = finding_if_any(repository, ask.what, now) if is_fingerprint(ask.what) else None
    if stored is None:
        entry = run_named(ask.what)
        summary = sealed_summary(repository, entry, now)
        rubric_ids = [rubric.id for rubric in summary.rubrics]
        rubric = _choose_rubric(rubric_ids, ask.rubric, f"Run {summary.run_id}")
        return _CaseSubject(summary, entry, rubric, "", "")
    sources = {source.rubric: source for source in stored.sources}
    if stored.summary is None or not sources:
        raise UsageError(
            f"{stored.fingerprint} fails no criterion of a rubric, so no case can be made of it."
        )
    wanted_rubric = ask.rubric or next(iter(sources))
    title = f"Finding {stored.fingerprint}"
    source = sources[_choose_rubric(list(sources), wanted_rubric, title)]
    return _CaseSubject(
        stored.summary, stored.entry, source.rubric, source.criterion, stored.fingerprint
    )


def _choose_rubric(rubric_ids: Sequence[str], wanted_id: str, title: str) -> str:
    """The rubric that is wanted, or the only one. UsageError; `title`: what has these rubrics."""
    if wanted_id in rubric_ids:
        return wanted_id
    if wanted_id:
        hint = advise_nearest(wanted_id, rubric_ids)
        raise UsageError(f"{title} has no rubric '{paths.quote(wanted_id)}'{_add_hint(hint)}")
    if len(rubric_ids) == 1:
        return rubric_ids[0]
    count = counted(len(rubric_ids), "rubric")
    choices = "|".join(rubric_ids) or "ID"
    raise UsageError(f"{title} has {count}; name one: --rubric {choices}")


def _add_hint(hint: str) -> str:
    return f"; {hint}" if hint else ""


# What is expected: outcomes by criterion, "" of the rubric itself


def _read_expected(ask: CaseAsked, subject: _CaseSubject) -> dict[str, str]:
    """What the person expects. UsageError for a word that is no outcome."""
    expected = {}
    for assignment in ask.expect:
        name, equals, outcome = assignment.rpartition("=")
        criterion = name if equals else subject.criterion
        outcomes = OUTCOMES if criterion else RUBRIC_OUTCOMES
        if outcome not in outcomes:
            hint = advise_nearest(outcome, outcomes)
            word = paths.quote(outcome)
            raise UsageError(f"'{word}' is not one of {', '.join(outcomes)}{_add_hint(hint)}")
        expected[criterion] = outcome
    return expected


def _expected_by_labels(
    subject: _CaseSubject, labels: Iterable[Label], is_right: Callable[[str], bool | None]
) -> dict[str, str]:
    """Of each labelled criterion: fail if any finding of the run is right, pass if all of them are
    wrong.

    UsageError if that is not known.
    """
    answers = {label.finding: label.right for label in labels if label.rubric == subject.rubric}
    if subject.finding and subject.finding not in answers:
        answer = is_right(subject.finding)
        if answer is not None:
            answers[subject.finding] = answer
    expected = {}
    for criterion, fingerprints in _findings_by_criterion(subject).items():
        unlabelled = [fingerprint for fingerprint in fingerprints if fingerprint not in answers]
        if any(answers.get(fingerprint) for fingerprint in fingerprints):
            expected[criterion] = "fail"
        elif not unlabelled:
            expected[criterion] = "pass"
        elif subject.finding and subject.finding in answers:
            raise UsageError(
                f"{criterion} has findings without a label, too ({', '.join(unlabelled)}): "
                "label them, or use --expect."
            )
    return expected


def _findings_by_criterion(subject: _CaseSubject) -> dict[str, list[str]]:
    """The fingerprints of what the rubric found, by the criteria that the case is about."""
    fingerprints: dict[str, list[str]] = {}
    for finding in subject.summary.findings:
        for source in subject.summary.sources(finding):
            if source.rubric == subject.rubric and subject.is_about(source.criterion):
                fingerprints.setdefault(source.criterion, []).append(finding.fingerprint)
    return fingerprints


def _require_known(
    repository: Repository, subject: _CaseSubject, expected: Mapping[str, str]
) -> None:
    """UsageError if nothing is expected, or something of what the working tree's rubric does not
    have.
    """
    if not expected:
        unlabelled = f"any finding of run {subject.summary.run_id}"
        if subject.finding:
            unlabelled = f"finding {subject.finding}"
        raise UsageError(
            f"There is no label of {unlabelled}, so it is not known what to expect: "
            "`vibe-gate label FINDING right|wrong` first, or add --expect pass|fail "
            "(of a run also CRITERION=pass|fail)."
        )
    tree = repository.tree(repository.snapshot())
    gate = load_gate(tree, revision="", origin="trusted") or built_in_gate(tree)
    rubric = _require_rubric(gate.rubrics, subject.rubric)
    ids = [criterion.id for criterion in rubric.criterion]
    for name in filter(None, expected):
        if name not in ids:
            hint = _add_hint(advise_nearest(name, ids))
            raise UsageError(f"rubric '{rubric.id}' has no criterion '{paths.quote(name)}'{hint}")
    for criterion in rubric.criterion:
        is_expected = criterion.id in expected or "" in expected
        if is_expected and criterion.needs == "prompt":
            raise UsageError(
                f"{criterion.id} is about what an agent was asked for, which no labelled case has."
            )


def _require_rubric(rubrics: Collection[Rubric], rubric_id: str) -> Rubric:
    for rubric in rubrics:
        if rubric.id == rubric_id:
            return rubric
    raise UsageError(
        f"The working tree has no rubric '{rubric_id}' any more, and a case tests one that is "
        "there."
    )


# The change


def _find_change(
    repository: Repository, subject: _CaseSubject, *, keep_patch: bool
) -> tuple[dict[str, str], bytes]:
    """The commits that case.toml names, and the patch beside it (b"" if both ends are commits).
    UsageError.
    """
    change = subject.summary.change
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
    run_id = subject.summary.run_id
    try:
        patch = read_bundle(repository.store_root / subject.entry.bundle).change_patch
    except StorageError as error:
        raise UsageError(f"Run {run_id} has no {PATCH}: {error}") from error
    if not patch or not repository.patched(repository.tree_of(change.base_commit), patch):
        raise UsageError(
            f"The {PATCH} of run {run_id} does not apply to {change.base_commit[:12]} any more: "
            "secrets were replaced in it, or it has binary files. Commit the change, review it, "
            "and add that run's finding."
        )
    return {"base": change.base_commit}, patch


def _write_comments(subject: _CaseSubject, labels: Iterable[Label], redactor: Redactor) -> str:
    """Comments at the top of case.toml: where it comes from, and who said so."""
    origin = f"From run {subject.summary.run_id}"
    if subject.finding:
        origin += f", finding {subject.finding}"
    lines = [f"{origin}."]
    fingerprints = {finding.fingerprint for finding in subject.summary.findings}
    for label in labels:
        if label.rubric != subject.rubric or not subject.is_about(label.criterion):
            continue
        if label.finding in fingerprints:
            word = "right" if label.right else "wrong"
            reason = f": {label.reason}" if label.reason else "."
            lines.append(f"{label.finding} is {word}, says {label.by}{reason}")
    return "".join(f"# {safe(redactor.text(line))}\n" for line in lines)


def write_case(root: Path, name: str, text: str, patch: bytes = b"") -> str:
    """Make the case's folder; its path from the root. UsageError if it is there, or behind a
    link.
    """
    if not is_identifier(name):
        raise UsageError(f"'{paths.quote(name)}' is not the name of a case; {_NAMES}")
    case_path = f"{CASES}/{name}"
    folder = root / case_path
    if (root / FOLDER).is_symlink() or (root / CASES).is_symlink():
        raise UsageError(f"{CASES} is behind a symbolic link; put the folder itself there.")
    if folder.exists() or folder.is_symlink():
        raise UsageError(f"{case_path} is there already; rename or delete it.")
    try:
        folder.mkdir(parents=True)
        if patch:
            (folder / PATCH).write_bytes(patch)
        (folder / "case.toml").write_text(text, encoding="utf-8")
    except OSError as error:
        raise InfrastructureError(f"{case_path} could not be written: {error.strerror}.") from error
    return case_path


_NAMES = 'use lower-case letters, digits, ".", "_" and "-", at most 64.'
