"""What is odd about definitions without being a mistake: what has no effect, or not the one that
was meant.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vibe_gate.domain import nearest, paths
from vibe_gate.domain.gate import CRITERIA_WITHOUT_RUBRIC, POLICY_BLOCK, POLICY_WARN
from vibe_gate.domain.tables import Location, quoted, suggestion
from vibe_gate.gate import loading
from vibe_gate.gate.source import DefinitionTree, Mistake, Source, stem

_GLOBS = (
    ("scope", None, "paths", None),
    ("policy", "block", None),
    ("policy", "warn", None),
    ("criterion", None, "paths", None),
    ("suppression", None, "paths", None),
)
"""Globs of files that should be there. Those of a check's options may be of files that must not
be.
"""


def find_warnings(tree: DefinitionTree, mistakes: Sequence[Mistake]) -> list[Mistake]:
    """What is odd about the tree's definitions; nothing about a key that has one of the
    `mistakes`.
    """
    sources = loading.definition_files(tree)
    files = tree.list("") + tree.links("") if sources else []
    wrong_keys = {(mistake.file, mistake.key) for mistake in mistakes}
    warnings = list(_unread(tree))
    # While a file cannot be read, or a name in it is wrong, what no other file has may be there.
    if not mistakes:
        warnings += _unused(sources)
        warnings += _unknown_criteria(sources)
        warnings += _unprovable(sources)
    for source in sources:
        warnings += _unmatched(source, files)
        warnings += _unsplit(source)
    warnings = [warning for warning in warnings if (warning.file, warning.key) not in wrong_keys]
    return sorted(warnings, key=lambda warning: (warning.file, warning.line))


_READ_FILES = ("gate.toml", "suppressions.toml", "allowed_signers")
_READ_FOLDERS = {
    "rubrics": (".toml",),
    "agents": (".toml", ".md", ".txt"),
    "workflows": (".toml", ".py"),
    "baseline": (".toml",),
    "calibration": (),
    "schema": (".json",),
    "cases": (),
    "cassettes": (),
}
"""Folders of `.vibe-gate/` that something reads, with the endings of the files in them; none:
whatever they hold.
"""

_ANYWHERE = frozenset(
    ("README", "README.md", "README.txt", ".gitignore", ".gitattributes", ".gitkeep")
)


def _unread(tree: DefinitionTree) -> Iterator[Mistake]:
    """Files of `.vibe-gate/` that no part of the gate reads, such as gate.yaml or a folder that is
    misspelt.
    """
    all_paths = tree.list(loading.FOLDER)
    prompts = set(_prompt_files(loading.definition_files(tree)))
    # A workflow in Python may read files of its own.
    python_paths = [path for path in all_paths if path.endswith(".py")]
    has_code = any(path.startswith(loading.WORKFLOWS) for path in python_paths)
    unread_folders = set()
    for path in all_paths:
        if path in prompts or path.rpartition("/")[2] in _ANYWHERE:
            continue
        folder, slash, _ = path.removeprefix(f"{loading.FOLDER}/").partition("/")
        if not slash:
            # A stray TOML file is a mistake.
            if folder not in _READ_FILES and not folder.endswith(".toml"):
                yield _unread_path(path, folder, _READ_FILES)
            continue
        endings = _READ_FOLDERS.get(folder)
        if endings is None:
            is_misspelt = nearest(folder, list(_READ_FOLDERS)) is not None
            if not path.endswith(".toml") and (is_misspelt or not has_code):
                unread_folders.add(folder)
        elif endings and not path.endswith((".toml", *endings)):
            expected = " or ".join(endings)
            message = f"nothing reads this file; those of {folder}/ end with {expected}"
            yield Mistake(paths.quote(path), 1, "", message)
    for folder in sorted(unread_folders):
        yield _unread_path(f"{loading.FOLDER}/{folder}/", folder, tuple(_READ_FOLDERS))


def _prompt_files(sources: Sequence[Source]) -> Iterator[str]:
    """The files that stages name, from the root, and from where they may be meant to stand."""
    for source in sources:
        names = source.values("stage", None, "prompt_file")
        names += source.values("stage", None, "images", None)
        for _, name in names:
            yield str(name)
            yield f"{loading.FOLDER}/{name}"
            yield f"{loading.WORKFLOWS}{name}"


def _unread_path(path: str, name: str, read_names: Sequence[str]) -> Mistake:
    near_name = _nearest_name(name, read_names)
    advice = f"the gate reads {', '.join(read_names)}"
    if near_name:
        advice = f"did you mean {quoted(near_name)}?"
    return Mistake(paths.quote(path), 1, "", f"nothing reads this; {advice}")


def _nearest_name(name: str, read_names: Sequence[str]) -> str | None:
    """The name that may be meant: one with another ending, else one that is written nearly so."""
    name_without_ending = name.partition(".")[0]
    for read_name in read_names:
        if read_name.partition(".")[0] == name_without_ending:
            return read_name
    return nearest(name, list(read_names))


def _unmatched(source: Source, files: Sequence[str]) -> Iterator[Mistake]:
    """Globs that match no file. A list of one's own repeats the default globs, and a repository
    need not have such files.
    """
    globs: list[tuple[Location, object]] = []
    for key_path in _GLOBS:
        globs += source.values(*key_path)
    for location, glob in globs:
        if not isinstance(glob, str) or glob in POLICY_BLOCK + POLICY_WARN:
            continue
        if not any(paths.matches_any_glob(file, (glob,)) for file in files):
            yield source.mistake(location, f"{quoted(glob)} matches no file of this tree")


def _unsplit(source: Source) -> Iterator[Mistake]:
    """Commands whose program and arguments are one text."""
    for location, command in source.values("criterion", None, "command"):
        if not isinstance(command, list) or len(command) != 1:
            continue
        words = str(command[0]).split()
        if len(words) > 1:
            quoted_words = ", ".join(map(quoted, words))
            problem = f"is one program with spaces in its name\nwrite [{quoted_words}]"
            yield source.mistake(location, problem)


def _unknown_criteria(sources: Sequence[Source]) -> Iterator[Mistake]:
    """Suppressions of criteria that no rubric has."""
    criterion_ids = set(CRITERIA_WITHOUT_RUBRIC)
    criterion_ids |= _names_at(sources, ("criterion", None, "id"))
    for source in sources:
        for location, name in source.values("suppression", None, "criterion"):
            if isinstance(name, str) and name not in criterion_ids:
                advice = suggestion(name, sorted(criterion_ids), "criteria")
                yield source.mistake(location, f"no rubric has this criterion\n{advice}")


def _names_at(sources: Sequence[Source], *key_paths: tuple[str | None, ...]) -> set[str]:
    """The names that stand at these paths of keys, in any of the files."""
    names: set[str] = set()
    for source in sources:
        for key_path in key_paths:
            names.update(str(name) for _, name in source.values(*key_path))
    return names


def _unprovable(sources: Sequence[Source]) -> Iterator[Mistake]:
    """Criteria that ask for a proof while no test is run."""
    for source in sources:
        if source.path == loading.GATE_PATH and "counterexample" in source.tables:
            return
    problem = f"blocks nothing: no test is run\nadd [counterexample] to {loading.GATE_PATH}"
    for source in sources:
        for location, _ in source.values("criterion", None, "proof"):
            yield source.mistake(location, problem)


def _unused(sources: Sequence[Source]) -> Iterator[Mistake]:
    """Rubrics that neither gate.toml nor a workflow names. Without gate.toml all are used."""
    if not any(source.path == loading.GATE_PATH for source in sources):
        return
    used_names = _names_at(
        sources,
        ("rubrics", None),
        ("scope", None, "rubrics", None),
        ("stage", None, "rubrics", None),
        ("stage", None, "until", "rubrics", None),
    )
    problem = f"no change is reviewed against this rubric\nname it in {loading.GATE_PATH}"
    for source in sources:
        if source.path.startswith(loading.RUBRICS) and stem(source.path) not in used_names:
            yield source.mistake((), problem)
