"""Which revision's definitions bind, and which gate is in force then: tables, without git."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import pytest
from domain.changes import change, file_change
from msgspec.structs import replace
from text_tree import FileTree, text_tree

from vibe_gate.domain.change import Change, FileDiff
from vibe_gate.domain.environment import read_environment
from vibe_gate.domain.gate import Gate
from vibe_gate.errors import DefinitionError, RevisionError, UsageError
from vibe_gate.gate.trusted import (
    gate_for,
    own_gate,
    standing_gate,
    standing_store,
    trusted_revision,
    unconfirmed_store,
    unknown_branch,
)

MINE, TRUST, BASE, DEFAULT, UPSTREAM, BEFORE, HEAD = (letter * 40 for letter in "1234567")
GATE_TOML = 'schema = 1\nrubrics = ["quality"]\n'
QUESTION = (
    'schema = 1\nid = "quality"\n[[criterion]]\nid = "{}"\nkind = "judge"\nquestion = "Is it?"\n'
)
FLOW = 'schema = 1\nid = "flow"\n[[stage]]\nid = "fix"\nagent = "fixer"\nprompt = "Go."\n'
FIXER = 'schema = 1\nid = "fixer"\n'


def gate_tree(name: str, **files: str) -> FileTree:
    """A tree whose gate has one criterion of this name, by which it is known."""
    return text_tree(
        {"gate.toml": GATE_TOML, "rubrics/quality.toml": QUESTION.format(name), **files}
    )


BROKEN = text_tree({"gate.toml": "broken = [\n"})
EMPTY = FileTree()


class Revisions:
    """What is asked of a repository here: trees by revision, settings, and where branches are."""

    def __init__(
        self, trees: dict[str, FileTree], *, settings: dict[str, str] | None = None, **places: Any
    ) -> None:
        self.trees = {change().after: EMPTY} | trees
        self.settings = settings or {}
        self.names = {"mine": MINE, "base": BASE, "HEAD": HEAD} | places.pop("names", {})
        self.default, self.upstream = places.pop("default", None), places.pop("upstream", None)
        self.remote_default_name = places.pop("default_name", "origin/main" if self.default else "")
        self.unknown_default = places.pop("unknown", "")
        self.ancestors = places.pop("ancestors", set())
        self.root = places.pop("root", None)
        assert not places

    def tree(self, revision: str) -> FileTree:
        return self.trees.get(revision, EMPTY)

    def snapshot(self) -> str:
        return "snapshot"

    def resolve(self, name: str) -> str:
        if name not in self.names and len(name) != 40:
            raise RevisionError(f"no revision {name}")
        return self.names.get(name, name)

    def resolve_shared(self, name: str) -> str:
        return {"main": TRUST}[name]

    def config(self, name: str) -> str | None:
        return self.settings.get(name)

    def remote_default(self) -> str | None:
        return self.default

    def upstream_base(self) -> str | None:
        return self.upstream

    def with_folder(self, revisions: Iterable[str], folder: str) -> list[str]:
        return [revision for revision in revisions if self.tree(revision).list(folder)]

    def is_ancestor(self, ancestor: str, commit: str) -> bool:
        return (ancestor, commit) in self.ancestors


@pytest.mark.parametrize(
    ("options", "places", "revision"),
    [
        ({"definitions": "worktree", "base": "base"}, {}, "worktree"),
        ({"definitions": "mine", "base": "base"}, {}, MINE),
        ({"base": "base"}, {"settings": {"vibe-gate.trust": "main"}}, BASE),
        ({}, {"settings": {"vibe-gate.trust": "main"}, "upstream": UPSTREAM}, TRUST),
        ({}, {"upstream": UPSTREAM}, UPSTREAM),
        ({}, {}, BEFORE),
    ],
)
def test_definitions_are_read_where_the_change_cannot_reach_them(options, places, revision) -> None:
    assert trusted_revision(Revisions({}, **places), BEFORE, **options) == revision


def a_change(*files: FileDiff, kind: str = "commit", **values: Any) -> Change:
    """A change of a file of the gate, or of these."""
    edit = files or (file_change("src/a.py", b"a\n", b"b\n"),)
    place = {"before": "before", "after": "after", "base_commit": BEFORE, "head_commit": HEAD}
    return replace(change(*edit, kind=kind), **place | values)


EDIT = file_change(".vibe-gate/gate.toml", b"a\n", b"b\n")
UNCOMMITTED = {"kind": "worktree", "head_commit": "", "base_commit": BEFORE}


def in_force(trees: dict[str, FileTree], reviewed: Change | None = None, **places: Any) -> Gate:
    """The gate for a change; `base`, `definitions`: what the user names."""
    options = {name: places.pop(name, None) for name in ("base", "definitions")}
    return gate_for(Revisions(trees, **places), reviewed or a_change(), **options)


def criterion_of(gate: Gate) -> str:
    return gate.rubrics[0].criterion[0].id


ONLY_BEFORE = {BEFORE: gate_tree("trusted"), "after": gate_tree("own")}


@pytest.mark.parametrize(
    ("trees", "places", "origin", "criterion", "revision"),
    [
        (ONLY_BEFORE, {}, "trusted", "trusted", BEFORE),
        (ONLY_BEFORE | {BASE: gate_tree("base")}, {"base": "base"}, "trusted", "base", BASE),
        (ONLY_BEFORE | {"snapshot": gate_tree("files")}, {"definitions": "worktree"}, "trusted", "files", "worktree"),
        (ONLY_BEFORE | {MINE: gate_tree("mine")}, {"definitions": "mine"}, "trusted", "mine", MINE),
        # A branch that left before there was a gate does not bring its own.
        ({"after": gate_tree("own"), DEFAULT: gate_tree("main")}, {"default": DEFAULT}, "trusted", "main", DEFAULT),
        ({"after": gate_tree("own"), DEFAULT: gate_tree("main")}, {"default": DEFAULT, "definitions": "mine"},
         "bootstrap", "own", HEAD),
        ({"after": gate_tree("own")}, {"default": DEFAULT}, "bootstrap", "own", HEAD),
        ({"after": gate_tree("own")}, {}, "bootstrap", "own", HEAD),
        ({BEFORE: BROKEN, "after": gate_tree("own")}, {}, "bootstrap", "own", HEAD),
    ],
)  # fmt: skip
def test_which_gate_is_in_force(trees, places, origin, criterion, revision) -> None:
    gate = in_force(trees, **places)
    assert (gate.origin, criterion_of(gate), gate.revision) == (origin, criterion, revision)


def test_of_a_change_before_any_commit_the_tree_before_it_counts() -> None:
    gate = in_force({"before": gate_tree("trusted")}, a_change(base_commit=""))
    assert (criterion_of(gate), gate.revision) == ("trusted", "")


def test_without_any_definitions_the_built_in_gate_is_in_force() -> None:
    gate = in_force({})
    assert (gate.origin, gate.revision, gate.first, gate.absence) == ("built-in", "", False, "")


@pytest.mark.parametrize(
    ("reviewed", "revision"),
    [
        (a_change(), HEAD),
        (a_change(**UNCOMMITTED), "worktree"),
        (a_change(**UNCOMMITTED | {"kind": "staged"}), ""),
    ],
)
def test_a_changes_own_gate_says_where_it_was_read(reviewed: Change, revision: str) -> None:
    assert in_force({"after": gate_tree("own")}, reviewed).revision == revision


WITH_WORKFLOW = {"workflows/flow.toml": FLOW, "agents/fixer.toml": FIXER}


@pytest.mark.parametrize(("reviewed", "number"), [(a_change(), 0), (a_change(**UNCOMMITTED), 1)])
def test_what_a_commit_brings_to_be_run_is_not_run_and_what_the_user_wrote_is(
    reviewed: Change, number: int
) -> None:
    gate = in_force({"after": gate_tree("own", **WITH_WORKFLOW)}, reviewed)
    assert (len(gate.agents), len(gate.workflows)) == (number, number)


@pytest.mark.parametrize(
    ("trees", "reviewed", "number"),
    [
        ({"after": text_tree(WITH_WORKFLOW)}, a_change(), 0),
        ({"after": text_tree(WITH_WORKFLOW)}, a_change(**UNCOMMITTED), 1),
        ({BEFORE: text_tree(WITH_WORKFLOW)}, a_change(), 1),
        ({BEFORE: text_tree(WITH_WORKFLOW)}, a_change(**UNCOMMITTED), 1),
    ],
)
def test_beside_the_built_in_gate_agents_are_those_of_the_trusted_tree_or_the_users_own(
    trees, reviewed, number
) -> None:
    gate = in_force(trees, reviewed)
    assert (gate.origin, len(gate.agents), len(gate.workflows)) == ("built-in", number, number)


def test_definitions_that_do_not_parse_are_let_in_nowhere() -> None:
    edits = (EDIT, file_change(".claude/agents/a.md", b"a\n", b"b\n"))
    for edit in edits:
        with pytest.raises(DefinitionError):
            in_force({BEFORE: gate_tree("trusted"), "after": BROKEN}, a_change(edit))
    with pytest.raises(DefinitionError):
        in_force({BEFORE: BROKEN, "after": BROKEN})
    with pytest.raises(DefinitionError):
        in_force({MINE: BROKEN, "after": gate_tree("own")}, definitions="mine")


def test_definitions_that_the_change_leaves_alone_are_not_read() -> None:
    assert criterion_of(in_force({BEFORE: gate_tree("trusted"), "after": BROKEN})) == "trusted"
    gate_in_force = in_force(
        {MINE: gate_tree("mine"), "after": BROKEN}, a_change(EDIT), definitions="mine"
    )
    assert criterion_of(gate_in_force) == "mine"


@pytest.mark.parametrize(
    ("trees", "places", "first", "absence"),
    [
        ({}, {}, True, ""),
        ({BEFORE: BROKEN}, {}, False, "broken"),
        ({DEFAULT: BROKEN}, {"default": DEFAULT}, False, "broken"),
        ({BEFORE: text_tree({"cases/a": "x"})}, {}, False, ""),
        ({DEFAULT: text_tree({"cases/a": "x"})}, {"default": DEFAULT}, False, ""),
        # The base branch has lost the gate that the change's own base still has.
        ({BEFORE: gate_tree("old")}, {"base": "base", "ancestors": {(BEFORE, BASE)}}, True, "removed"),
        ({BEFORE: gate_tree("old")}, {"base": "base"}, True, ""),
        ({BEFORE: text_tree({"rubrics/quality.toml": QUESTION.format("old")})},
         {"base": "base", "ancestors": {(BEFORE, BASE)}}, True, ""),
        ({BEFORE: gate_tree("old"), BASE: BROKEN}, {"base": "base", "ancestors": {(BEFORE, BASE)}}, False, "broken"),
    ],
)  # fmt: skip
def test_why_a_changes_own_gate_is_in_force(trees, places, first, absence) -> None:
    gate = in_force({"after": gate_tree("own")} | trees, **places)
    assert (gate.origin, criterion_of(gate), gate.first, gate.absence) == (
        "bootstrap",
        "own",
        first,
        absence,
    )


@pytest.mark.parametrize(
    ("places", "branch"),
    [
        ({}, ""),
        ({"default": DEFAULT}, "origin/main"),
        ({"default": DEFAULT, "settings": {"vibe-gate.trust": "main"}}, "main"),
        ({"base": "base", "settings": {"vibe-gate.trust": "main"}}, "base"),
        ({"base": BASE}, "the base branch"),
        ({"definitions": "mine"}, "mine"),
        ({"base": "base", "definitions": "mine"}, "base"),
    ],
)
def test_a_gate_that_does_not_bind_yet_names_the_branch_where_it_would(
    places: dict[str, Any], branch: str
) -> None:
    assert in_force({"after": gate_tree("own")}, **places).branch == branch


@pytest.mark.parametrize(
    ("files", "trees", "default", "origin"),
    [
        ((EDIT,), {}, None, "bootstrap"),
        ((EDIT,), {BEFORE: gate_tree("trusted")}, None, "trusted"),
        ((EDIT,), {BEFORE: BROKEN}, None, "trusted"),
        ((EDIT,), {DEFAULT: gate_tree("main")}, DEFAULT, "trusted"),
        ((), {}, None, "trusted"),
    ],
)
def test_a_gate_of_the_working_tree_is_a_first_one_where_no_other_binds(
    files, trees, default, origin
) -> None:
    reviewed = a_change(*files, **UNCOMMITTED)
    trees = {"snapshot": gate_tree("worktree")} | trees
    gate = in_force(trees, reviewed, definitions="worktree", default=default)
    assert (gate.origin, criterion_of(gate)) == (origin, "worktree")
    assert gate.branch == ""


def test_allowed_secrets_are_those_of_the_trusted_revision() -> None:
    trusted, proposed = gate_tree("trusted"), gate_tree("own")
    trusted[".gitleaks.toml"], proposed[".gitleaks.toml"] = b"trusted", b"own"
    assert in_force({BEFORE: trusted, "after": proposed}).gitleaks == b"trusted"
    assert in_force({"after": proposed}).gitleaks == b""


def test_what_is_checked_out_decides_by_the_gate_of_its_trusted_revision() -> None:
    gate = standing_gate(
        Revisions({UPSTREAM: gate_tree("trusted"), HEAD: gate_tree("own")}, upstream=UPSTREAM)
    )
    assert gate is not None
    assert (criterion_of(gate), gate.origin, gate.revision) == ("trusted", "trusted", UPSTREAM)
    assert standing_gate(Revisions({})) is None
    unborn = Revisions({})
    del unborn.names["HEAD"]
    assert standing_gate(unborn) is None


BUCKET = '[store]\nurl = "s3://bucket/team"\n'
KEY = {"VIBE_GATE_STORE_KEY": "k" * 64}


def store_of(gate_toml: str, environ: dict[str, str], **places: Any) -> str:
    """Why the shared store is not used."""
    trees = {
        HEAD: text_tree({"gate.toml": gate_toml, "rubrics/quality.toml": QUESTION.format("a")})
    }
    repository = Revisions(trees, **places)
    repository.environment = read_environment(environ)
    with pytest.raises(UsageError) as refusal:
        standing_store(repository, lambda: datetime.now(UTC))
    return str(refusal.value)


@pytest.mark.parametrize(
    ("gate_toml", "environ", "places", "sentence"),
    [
        (GATE_TOML, KEY, {}, f"No shared store: .vibe-gate/gate.toml at HEAD ({HEAD[:12]}) has no [store]. "
                             "Name one there: [store] url = ..."),
        (GATE_TOML, KEY, {"default": DEFAULT}, "gate.toml on origin/main"),
        (GATE_TOML + BUCKET, KEY, {"unknown": "no remote."}, "The shared store is not used: no remote."),
        (GATE_TOML + BUCKET, {}, {}, "VIBE_GATE_STORE_KEY"),
        (GATE_TOML + '[store]\nurl = "file:///srv"\n', KEY, {}, "must be allowed here once"),
    ],
)  # fmt: skip
def test_why_there_is_no_shared_store(tmp_path, gate_toml, environ, places, sentence) -> None:
    assert sentence in store_of(gate_toml, environ, root=tmp_path, **places)


def test_a_store_that_only_the_working_tree_names_is_to_be_committed(tmp_path) -> None:
    for path, raw in text_tree(
        {"gate.toml": GATE_TOML + BUCKET, "rubrics/quality.toml": QUESTION.format("a")}
    ).items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(raw)
    advice = "The working tree has one: commit it"
    assert store_of(GATE_TOML, KEY, root=tmp_path).endswith(f"{advice}.")
    assert store_of(GATE_TOML, KEY, root=tmp_path, default=DEFAULT).endswith(
        f"{advice}, merge it into origin/main and push."
    )
    (tmp_path / ".vibe-gate/gate.toml").write_text("broken = [")
    assert store_of(GATE_TOML, KEY, root=tmp_path).endswith("Name one there: [store] url = ...")


@pytest.mark.parametrize(
    ("url", "setting", "refused"),
    [
        ("s3://bucket/team", "", False),
        ("file:///srv", "", True),
        ("file:///srv", "file:///other", True),
        ("file:///srv", "file:///srv", False),
    ],
)
def test_a_folder_of_this_machine_is_a_store_only_if_its_user_allowed_it(
    url, setting, refused
) -> None:
    sentence = unconfirmed_store(Revisions({}, settings={"vibe-gate.store": setting}), url)
    assert bool(sentence) is refused
    assert not refused or "`git config vibe-gate.store file:///srv`" in sentence


@pytest.mark.parametrize(
    ("revisions", "settings", "unknown"),
    [
        ((), {}, "no remote"),
        ((None, ""), {}, "no remote"),
        ((None, "base"), {}, ""),
        ((), {"vibe-gate.trust": "main"}, ""),
    ],
)
def test_a_trusted_revision_that_may_be_the_changes_own_is_said(
    revisions, settings, unknown
) -> None:
    assert (
        unknown_branch(Revisions({}, settings=settings, unknown="no remote"), *revisions) == unknown
    )


def test_a_working_trees_gate_is_read_from_its_files(tmp_path) -> None:
    assert own_gate(tmp_path).origin == "built-in"
    (tmp_path / ".vibe-gate/rubrics").mkdir(parents=True)
    (tmp_path / ".vibe-gate/rubrics/quality.toml").write_text(QUESTION.format("own"))
    gate = own_gate(tmp_path)
    assert (criterion_of(gate), gate.origin, gate.revision) == ("own", "trusted", "worktree")
