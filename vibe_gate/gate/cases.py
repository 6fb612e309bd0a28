"""Labelled cases: changes of which the repository says how its rubrics must answer,
`.vibe-gate/cases/NAME/`.

    case.toml         the rubric and the expected outcomes
    before/, after/   the two trees of the change, files as they are; one may be missing
    change.patch      in their place, with `base` in case.toml: the change of that commit's tree
    cassette/         the recorded answers of the rubric's judge

In place of the trees case.toml may name two commits of the repository, `base` and `head`. What
stands in `before` and `after` is never read as definitions, and never reviewed as code of the
project.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Literal

from msgspec import Meta, Struct

from vibe_gate.domain import paths
from vibe_gate.domain.change import CASES
from vibe_gate.domain.rubric import Criterion, Identifier, Rubric, Schema
from vibe_gate.domain.tables import quoted, suggestion
from vibe_gate.gate.source import (
    DefinitionTree,
    Mistake,
    Source,
    is_identifier,
    no_definition,
    read_model,
    read_toml,
)

SIDES = ("before", "after")
PATCH = "change.patch"

CommitId = Annotated[
    str,
    Meta(
        pattern=r"^[0-9a-f]{40}(?!\n)$",
        extra={"means": "a whole commit id, 40 digits of 0 to 9 and a to f"},
    ),
]


class CaseFile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`case.toml`: how a rubric must answer. What neither `outcome` nor `expect` names is not
    compared.
    """

    schema: Schema
    rubric: Annotated[Identifier, Meta(description="The rubric that is asked.")]
    outcome: Annotated[
        Literal["pass", "fail", "inconclusive"] | None, Meta(description="The rubric's outcome.")
    ] = None
    expect: Annotated[
        dict[Identifier, Literal["pass", "fail", "abstain", "not_applicable"]],
        Meta(description="By id, outcomes of criteria. Without `outcome` at least one."),
    ] = {}
    base: Annotated[
        CommitId | None,
        Meta(description="Without `before/` and `after/`: the commit before the change."),
    ] = None
    head: Annotated[
        CommitId | None,
        Meta(
            description="With `base`: the commit after it. Without it, `change.patch` is the change."
        ),
    ] = None


class Case(Struct, frozen=True):
    """A labelled case."""

    name: str

    folder: str
    """Its path in the repository."""

    file: CaseFile
    """What `case.toml` says."""

    def is_clean(self, criterion: Criterion) -> bool | None:
        """Whether the change is right by this criterion, which then must not fail it; None if the
        case does not say.

        If the rubric as a whole must pass, none of its `must` criteria may fail.
        """
        by_rubric = "pass" if self.file.outcome == "pass" and criterion.must else "abstain"
        expected = self.file.expect.get(criterion.id, by_rubric)
        return None if expected == "abstain" else expected != "fail"

    def is_labelled(self, rubric: Rubric) -> bool:
        """Whether it says how a judge's criterion of its rubric must come out."""
        return any(self.is_clean(criterion) is not None for criterion in rubric.judge_criteria)


def read_cases(tree: DefinitionTree, rubrics: Iterable[Rubric]) -> tuple[list[Case], list[Mistake]]:
    """The cases of a tree by name, and every mistake in them; `rubrics` are those of the tree that
    are right.
    """
    rubrics_by_id = {rubric.id: rubric for rubric in rubrics}
    mistakes: list[Mistake] = []
    cases = []
    for name, entries in sorted(_entries_by_case(tree).items()):
        folder = f"{CASES}/{name}"
        mistakes += _misplaced_entries(folder, entries)
        if entries.get("case.toml") is not False:
            continue
        source = read_toml(f"{folder}/case.toml", tree.read(f"{folder}/case.toml") or b"")
        if isinstance(source, Mistake):
            mistakes.append(source)
            continue
        file = read_model(CaseFile, source.tables, (), source, mistakes)
        if file is not None:
            mistakes += _unclear_change(source, file, entries)
            mistakes += _unknown_names(source, file, rubrics_by_id, tree)
            cases.append(Case(name, folder, file))
    return cases, mistakes


def _entries_by_case(tree: DefinitionTree) -> dict[str, dict[str, bool]]:
    """By case, the paths in its folder ("": the folder itself), and whether each is a link."""
    entries: dict[str, dict[str, bool]] = {}
    for path in tree.list(CASES):
        name, slash, inner_path = path.removeprefix(f"{CASES}/").partition("/")
        if path != CASES and (slash or name.endswith(".toml")):
            entries.setdefault(name, {})[inner_path] = False
    for path in tree.links(CASES):
        name, _, inner_path = path.removeprefix(f"{CASES}/").partition("/")
        if path != CASES:
            entries.setdefault(name, {})[inner_path] = True
    return entries


def _misplaced_entries(folder: str, entries: dict[str, bool]) -> Iterator[Mistake]:
    """What is wrong with the folder itself. Links are content below `before` and `after`, and
    nowhere else.
    """
    unknown_folders = set()
    for path, is_link in entries.items():
        top, slash, _ = path.partition("/")
        quoted_path = paths.quote(f"{folder}/{path}".rstrip("/"))
        if is_link and not (slash and top in SIDES):
            message = "symbolic links (and submodules) are not followed"
            yield Mistake(quoted_path, 1, "", message, "put the file or folder itself here")
        elif not slash and top in ("", *SIDES):
            advice = "a case is .vibe-gate/cases/NAME/case.toml" if not top else ""
            yield Mistake(quoted_path, 1, "", "a file stands where a folder belongs", advice)
        elif slash and top not in (*SIDES, "cassette"):
            unknown_folders.add(top)
    if "" in entries:
        return
    for top in sorted(unknown_folders):
        advice = suggestion(top, (*SIDES, "cassette"), "a case has")
        yield Mistake(paths.quote(f"{folder}/{top}"), 1, "", "unknown folder", advice)
    quoted_folder = paths.quote(folder)
    if not is_identifier(folder.rsplit("/", 1)[-1]):
        advice = 'use lower-case letters, digits, ".", "_" and "-", at most 64'
        yield Mistake(quoted_folder, 1, "", "not the name of a case", advice)
    if "case.toml" not in entries:
        yield Mistake(quoted_folder, 1, "", "no case.toml", "write one, or move the folder away")


def _unclear_change(source: Source, file: CaseFile, entries: Iterable[str]) -> Iterator[Mistake]:
    """Why it is not clear what the change is: two trees, two commits, or a commit and a patch."""
    has_trees = any(path.startswith(("before/", "after/")) for path in entries)
    has_patch = PATCH in entries
    folder = paths.quote(source.path.rpartition("/")[0])
    if has_trees and (file.base or file.head or has_patch):
        message = "before/ and after/ are the change already"
        advice = f"keep them, or base with head or {PATCH}"
        if file.base:
            yield source.mistake(("base",), f"{message}\n{advice}")
        else:
            yield Mistake(folder, 1, "", message, advice)
    elif file.base and (file.head is None) is not has_patch:
        yield source.mistake(("base",), f"needs either head or {PATCH} beside it")
    elif file.base and file.base == file.head:
        yield source.mistake(("head",), "is the same commit as base")
    elif not file.base and (file.head or has_patch):
        yield source.mistake(("base",), "is missing\nname the commit before the change")
    elif not has_trees and not file.base:
        message = "no file in before/ or after/"
        yield Mistake(folder, 1, "", message, "put the two sides of the change there")


def _unknown_names(
    source: Source, file: CaseFile, rubrics: dict[str, Rubric], tree: DefinitionTree
) -> Iterator[Mistake]:
    """Names that the repository's rubrics do not have; of a rubric that is wrong itself nothing is
    known.
    """
    if not file.expect and file.outcome is None:
        advice = "name a criterion and its outcome there, or the rubric's outcome"
        yield source.mistake(("expect",), f"is missing\n{advice}")
    if file.rubric in rubrics:
        ids = [criterion.id for criterion in rubrics[file.rubric].criterion]
        for name in file.expect:
            if name not in ids:
                advice = suggestion(name, ids, "its criteria")
                problem = f"rubric {quoted(file.rubric)} has no such criterion\n{advice}"
                yield source.mistake(("expect", name), problem)
    elif tree.read(f".vibe-gate/rubrics/{file.rubric}.toml") is None:
        yield source.mistake(("rubric",), no_definition("rubric", file.rubric, list(rubrics)))
