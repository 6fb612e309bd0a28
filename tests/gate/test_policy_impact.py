"""Which changed files are changes of the gate, and which of these need approval: tables, without
git.
"""

from __future__ import annotations

import hashlib

import pytest
from domain.changes import added, change, deleted, file_change, read
from msgspec.structs import replace
from text_tree import text_tree

from vibe_gate.domain import in_ci
from vibe_gate.domain.change import SUBMODULE_MODE, SYMLINK_MODE, Change, FileDiff
from vibe_gate.domain.gate import Gate
from vibe_gate.gate.loading import built_in_gate, load_gate
from vibe_gate.gate.policy import PolicyFile, PolicyImpact, find_steering_files, policy_impact

WORKFLOW, HOOKS, GATE_FILE = (
    ".github/workflows/ci.yml",
    ".pre-commit-config.yaml",
    ".vibe-gate/gate.toml",
)
GATE_TOML = 'schema = 1\nrubrics = ["quality"]\n'
RUBRIC_TOML = (
    'schema = 1\nid = "quality"\n[[criterion]]\nid = "clear"\nkind = "judge"\nquestion = "Clear?"\n'
)
FLOW_TOML = 'schema = 1\nid = "flow"\n[[stage]]\nid = "fix"\nagent = "fixer"\nprompt_file = "prompts/fix.md"\n'
FIXER_TOML = 'schema = 1\nid = "fixer"\n'
SCOPED = GATE_TOML + '[[scope]]\npaths = ["/services/pay/**"]\nrubrics = ["quality"]\n'
OWN_LISTS = GATE_TOML + '[policy]\nblock = [".github/workflows/**"]\nwarn = ["*.lock"]\n'
CALLING, SILENT = b"uses: x/vibe-gate@v1\n", b"jobs: {}\n"


class Contents:
    """What `policy_impact` asks of a repository, for a change made of bytes."""

    read = staticmethod(read)

    def file_patch(self, change: Change, file: FileDiff) -> str:
        return f"patch of {file.path} \x1b[31m"


def gate_of(gate_toml: str = GATE_TOML, *, rubric: str = RUBRIC_TOML, **values: object) -> Gate:
    """The gate of these definitions, and of a workflow with a prompt outside of `.vibe-gate/`."""
    tree = text_tree(
        {
            "gate.toml": gate_toml,
            "rubrics/quality.toml": rubric,
            "workflows/flow.toml": FLOW_TOML,
            "agents/fixer.toml": FIXER_TOML,
        }
    )
    tree["prompts/fix.md"] = b"Repair it.\n"
    gate = load_gate(tree, revision="1" * 40, origin="trusted")
    assert gate is not None
    return replace(gate, **values)


GATES = {
    "trusted": gate_of(),
    "own lists": gate_of(OWN_LISTS),
    "scope": gate_of(SCOPED),
    "criterion's paths": gate_of(rubric=RUBRIC_TOML + 'paths = ["src/**"]\n'),
    "bootstrap": gate_of(origin="bootstrap"),
    "bootstrap, scope": gate_of(SCOPED, origin="bootstrap"),
    "first": gate_of(origin="bootstrap", first=True),
    "built-in": built_in_gate(text_tree({})),
}


def impact_on(gate: str, *files: FileDiff, **environ: str) -> PolicyImpact:
    return policy_impact(Contents(), change(*files), GATES[gate], in_ci=in_ci(environ))


def link(path: str, before: bytes | None = None, mode: int = SYMLINK_MODE) -> FileDiff:
    """A file that becomes a link or a submodule."""
    return file_change(path, before, b"elsewhere", modes=(0o100644, mode))


def moved(path: str, old_path: str) -> FileDiff:
    return file_change(path, b"same\n", b"same\n", old_path=old_path)


@pytest.mark.parametrize(
    ("gate", "file", "level"),
    [
        ("trusted", file_change("src/a.py", b"a\n", b"b\n"), None),
        ("trusted", file_change("src/a.py", b"a\n", CALLING), None),
        ("trusted", file_change(GATE_FILE, b"a\n", b"b\n"), "block"),
        ("trusted", added(".vibe-gate/notes.md", b"a\n"), "block"),
        ("trusted", deleted(".Vibe-Gate/cases/a", b"a\n"), "block"),
        ("trusted", moved("gate.toml", GATE_FILE), "block"),
        ("trusted", file_change(WORKFLOW, SILENT, b"jobs: {a: b}\n"), None),
        ("trusted", file_change(WORKFLOW, SILENT, CALLING), "block"),
        ("trusted", file_change(WORKFLOW, CALLING, SILENT), "block"),
        ("trusted", added(WORKFLOW, CALLING), "block"),
        ("trusted", deleted(WORKFLOW, CALLING), "block"),
        ("trusted", added(WORKFLOW, SILENT), None),
        ("trusted", file_change(HOOKS, SILENT, CALLING), "block"),
        ("trusted", file_change("sub/" + HOOKS, SILENT, CALLING), None),
        ("trusted", file_change("prompts/fix.md", b"a\n", b"b\n"), "block"),
        ("trusted", moved("prompts/old.md", "prompts/fix.md"), "block"),
        ("trusted", file_change("prompts/other.md", b"a\n", b"b\n"), None),
        ("trusted", file_change("CLAUDE.md", b"a\n", b"b\n"), "warn"),
        ("trusted", file_change("web/.Claude/Settings.json", b"a\n", b"b\n"), "warn"),
        # A list of the repository's own stands for the usual one, and blocks whatever the file
        # says.
        ("own lists", file_change(WORKFLOW, SILENT, b"jobs: {a: b}\n"), "block"),
        ("own lists", file_change(GATE_FILE, b"a\n", b"b\n"), None),
        ("own lists", file_change(HOOKS, SILENT, CALLING), None),
        ("own lists", file_change("prompts/fix.md", b"a\n", b"b\n"), None),
        ("own lists", file_change("poetry.lock", b"a\n", b"b\n"), "warn"),
        ("own lists", file_change("CLAUDE.md", b"a\n", b"b\n"), None),
        # A link or a submodule where the gate's paths expect a folder.
        ("scope", link("services"), "block"),
        ("scope", link("services/pay", b"a\n"), "block"),
        ("scope", link("services", mode=SUBMODULE_MODE), "block"),
        ("scope", link("serv"), None),
        ("scope", link("services/pay/a.py"), None),
        ("scope", added("services", b"a\n"), None),
        ("scope", deleted("services", b"a\n"), None),
        ("scope", file_change("services", b"1", b"2", modes=(SUBMODULE_MODE, SUBMODULE_MODE)), None),
        ("scope", file_change("services", b"1", b"2", modes=(SYMLINK_MODE, SYMLINK_MODE)), "block"),
        ("scope", file_change("services", b"1", b"2", modes=(SYMLINK_MODE, SUBMODULE_MODE)), "block"),
        ("criterion's paths", link("src"), "block"),
        ("trusted", link("src"), None),
        # Before there are definitions that bind, bringing them needs nobody's approval.
        ("bootstrap", added(GATE_FILE, b"a\n"), "adopted"),
        ("bootstrap", file_change(GATE_FILE, b"a\n", b"b\n"), "block"),
        ("bootstrap", file_change("prompts/fix.md", b"a\n", b"b\n"), "adopted"),
        ("bootstrap", added(WORKFLOW, CALLING), "adopted"),
        ("bootstrap", file_change(WORKFLOW, SILENT, CALLING), "adopted"),
        ("bootstrap", file_change(WORKFLOW, CALLING, CALLING + b"\n"), "block"),
        ("bootstrap", file_change(WORKFLOW, CALLING, SILENT), "block"),
        ("bootstrap", added(WORKFLOW, SILENT), None),
        ("bootstrap", added("src/a.py", CALLING), None),
        ("bootstrap", file_change("CLAUDE.md", b"a\n", b"b\n"), "warn"),
        ("first", file_change(GATE_FILE, b"a\n", b"b\n"), "adopted"),
        ("first", deleted(GATE_FILE, b"a\n"), "adopted"),
        ("bootstrap, scope", link("services"), "block"),
        # Nobody chose the built-in gate.
        ("built-in", file_change(WORKFLOW, SILENT, CALLING), None),
        ("built-in", file_change("CLAUDE.md", b"a\n", b"b\n"), None),
    ],
)  # fmt: skip
def test_what_a_changed_file_means_for_the_gate(
    gate: str, file: FileDiff, level: str | None
) -> None:
    levels = ["adopted" if item.adopted else item.level for item in impact_on(gate, file).files]
    assert levels == ([level] if level else [])


def test_an_adopted_file_warns() -> None:
    (item,) = impact_on("bootstrap", added(GATE_FILE, b"a\n")).files
    assert (item.level, item.adopted) == ("warn", True)


@pytest.mark.parametrize(
    ("gate", "environ", "file", "needs_approval"),
    [
        ("trusted", {}, file_change(GATE_FILE, b"a\n", b"b\n"), True),
        ("trusted", {"CI": "true"}, file_change("src/a.py", b"a\n", b"b\n"), False),
        ("trusted", {"CI": "true"}, file_change("CLAUDE.md", b"a\n", b"b\n"), False),
        ("bootstrap", {}, added(GATE_FILE, b"a\n"), False),
        ("bootstrap", {"CI": "true"}, added(GATE_FILE, b"a\n"), True),
        ("bootstrap", {"CI": "true"}, file_change("src/a.py", b"a\n", b"b\n"), True),
        ("built-in", {"CI": "true"}, added("src/a.py", b"a\n"), False),
    ],
)
def test_who_has_to_approve(
    gate: str, environ: dict[str, str], file: FileDiff, needs_approval: bool
) -> None:
    assert impact_on(gate, file, **environ).needs_approval is needs_approval


def test_a_summary_has_the_path_the_kind_the_level_and_a_patch_that_is_safe_to_show() -> None:
    impact = impact_on(
        "trusted", moved("gate.toml", GATE_FILE), file_change("CLAUDE.md", b"a\n", b"b\n")
    )
    renamed, warned = impact.changes
    assert (renamed.path, renamed.change_type, renamed.level) == ("gate.toml", "renamed", "block")
    assert (warned.path, warned.change_type, warned.level) == ("CLAUDE.md", "modified", "warn")
    assert renamed.diff.startswith("patch of gate.toml ")
    assert "\x1b" not in renamed.diff


def test_a_long_diff_is_cut_at_a_line_and_says_how_much_more_there_is() -> None:
    file = PolicyFile(EDIT, "block", diff="+a line\n" * 10_000)
    (change,) = PolicyImpact((file,)).changes
    assert change.diff.startswith("+a line\n" * 2_500)
    assert change.diff.splitlines()[-1] == "… 7,500 more lines: change.patch has them"
    short = replace(file, diff="+a line\n")
    assert PolicyImpact((short,)).changes[0].diff == "+a line\n"


EDIT = file_change(GATE_FILE, b"a\n", b"b\n")
REMOVAL = deleted(".vibe-gate/rubrics/quality.toml", b"a\n")


def fingerprint_of(*files: FileDiff, level: str = "block") -> str:
    return PolicyImpact(tuple(PolicyFile(file, level) for file in files)).fingerprint


def test_a_fingerprint_is_made_of_the_paths_modes_and_contents_of_what_blocks() -> None:
    assert EDIT.before is not None
    assert EDIT.after is not None
    text = f"\0{GATE_FILE}\x00100644 {EDIT.before.blob}\x00100644 {EDIT.after.blob}\0"
    assert fingerprint_of(EDIT) == hashlib.sha256(text.encode()).hexdigest()[:16]


def test_a_fingerprint_names_the_old_path_and_a_side_that_is_not_there() -> None:
    rename = moved(".vibe-gate/new.toml", ".vibe-gate/old.toml")
    assert rename.before is not None
    text = f".vibe-gate/old.toml\0.vibe-gate/new.toml\x00100644 {rename.before.blob}\x00100644 {rename.before.blob}\0"
    assert fingerprint_of(rename) == hashlib.sha256(text.encode()).hexdigest()[:16]
    assert REMOVAL.before is not None
    text = f"\0.vibe-gate/rubrics/quality.toml\x00100644 {REMOVAL.before.blob}\0-\0"
    assert fingerprint_of(REMOVAL) == hashlib.sha256(text.encode()).hexdigest()[:16]


def test_the_order_of_files_makes_no_other_fingerprint_and_what_warns_none() -> None:
    assert fingerprint_of(EDIT, REMOVAL) == fingerprint_of(REMOVAL, EDIT)
    assert fingerprint_of(EDIT, REMOVAL) != fingerprint_of(EDIT)
    assert fingerprint_of(EDIT, level="warn") == ""
    assert fingerprint_of() == ""


@pytest.mark.parametrize(
    ("path", "steers"),
    [
        (GATE_FILE, True),
        ("CLAUDE.md", True),
        ("web/.cursor/rules/a.mdc", True),
        (".HUSKY/pre-commit", True),
        ("poetry.lock", True),
        ("src/a.py", False),
    ],
)
def test_files_that_steer_are_those_of_the_gates_own_lists_and_of_the_usual_one(
    path: str, steers: bool
) -> None:
    file = file_change(path, b"a\n", b"b\n")
    assert find_steering_files(GATES["own lists"], (file,)) == ((file,) if steers else ())


def test_what_the_gates_own_list_blocks_steers() -> None:
    gate = gate_of(GATE_TOML + '[policy]\nblock = ["deploy/**"]\n')
    assert [
        file.path
        for file in find_steering_files(gate, [added("deploy/a.sh", b"a\n"), added("b.sh", b"b\n")])
    ] == ["deploy/a.sh"]
