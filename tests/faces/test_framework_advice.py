"""What a person is told to add to the settings that a framework reads here."""

from __future__ import annotations

from pathlib import Path

import pytest

from vibe_gate.faces.git_hook.framework_advice import advise_framework, settings_with_gate
from vibe_gate.faces.git_hook.frameworks import HOOKS, Framework, HookFile, InstalledHooks


def hooks_of(framework: Framework) -> InstalledHooks:
    """Every hook is the framework's, and none runs vibe-gate."""
    return InstalledHooks(
        tuple(HookFile(name, framework, runs_gate=False) for name in HOOKS), framework
    )


def advice(root: Path, framework: Framework) -> str:
    return advise_framework(hooks_of(framework), root, root / ".git/hooks", "0.1.0")


@pytest.mark.parametrize(
    ("files", "settings"),
    [
        ({}, "package.json"),
        ({"package.json": "{}"}, "package.json"),
        ({"package.json": "{}", ".simple-git-hooks.json": "{}"}, ".simple-git-hooks.json"),
        ({"simple-git-hooks.cjs": "module.exports = {}"}, "simple-git-hooks.cjs"),
    ],
)
def test_the_settings_of_simple_git_hooks_that_are_in_force_are_named(tmp_path, files, settings):
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    instructions = advice(tmp_path, "simple-git-hooks")
    assert f"Add this to {settings} " in instructions
    assert ('"simple-git-hooks": {' in instructions) is (settings == "package.json")
    hooks = hooks_of("simple-git-hooks")
    assert (
        settings_with_gate(hooks, tmp_path, tmp_path)
        == f"the settings of simple-git-hooks ({settings})"
    )


@pytest.mark.parametrize(
    ("text", "present"),
    [
        ("", ""),
        ("# pre-commit:\n", ""),
        ("pre-commit:\n  jobs:\n    - run: make\n", "pre-commit"),
        ("pre-push:\n  commands: {}\npre-commit:\n  jobs: []\n", "pre-commit, pre-push"),
        ("x:\n  pre-commit:\n", ""),
    ],
)
def test_a_hook_that_lefthook_has_already_gets_no_second_key(tmp_path, text, present):
    (tmp_path / "lefthook.yml").write_text(text)
    instructions = advice(tmp_path, "lefthook")
    assert (f"lefthook.yml has {present} already" in instructions) is bool(present)
    assert ("A second key breaks the file" in instructions) is bool(present)
