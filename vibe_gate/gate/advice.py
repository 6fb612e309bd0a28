"""What is odd about definitions without being a mistake: what has no effect, or not the one that
was meant.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vibe_gate.domain import nearest, paths
from vibe_gate.domain.gate import POLICY_BLOCK, POLICY_WARN
from vibe_gate.domain.tables import quoted, suggestion
from vibe_gate.gate import loading
from vibe_gate.gate.source import DefinitionTree, Mistake, Source

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


def warnings(tree: DefinitionTree, mistakes: Sequence[Mistake]) -> list[Mistake]:
    """What is odd about the tree's definitions; nothing about a key that has one of the
    `mistakes`.
    """
    sources = loading.definition_files(tree)
    files = tree.list("") + tree.links("") if sources else []
    wrong = {(mistake.file, mistake.key) for mistake in mistakes}
    odd = list(_unread(tree))
    # While a file cannot be read, or a name in it is wrong, what no other file has may be there.
    if not mistakes:
        odd += [*_unused(sources), *_unknown_criteria(sources), *_unprovable(sources)]
    for source in sources:
        odd += [*_unmatched(source, files), *_unsplit(source)]
    odd = [warning for warning in odd if (warning.file, warning.key) not in wrong]
    return sorted(odd, key=lambda warning: (warning.file, warning.line))


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
    below = tree.list(loading.FOLDER)
    prompts = set(_prompt_files(loading.definition_files(tree)))
    # A workflow in Python may read files of its own.
    has_code = any(path.startswith(loading.WORKFLOWS) and path.endswith(".py") for path in below)
    unread_folders = set()
    for path in below:
        folder, slash, _ = path.removeprefix(f"{loading.FOLDER}/").partition("/")
        if path in prompts or path.rpartition("/")[2] in _ANYWHERE:
            continue
        endings = _READ_FOLDERS.get(folder)
        if not slash:
            if folder not in _READ_FILES and not folder.endswith(
                ".toml"
            ):  # a stray TOML file is a mistake
                yield _unread_path(path, folder, _READ_FILES)
        elif endings is None:
            is_misspelt = nearest(folder, list(_READ_FOLDERS)) is not None
            if not path.endswith(".toml") and (is_misspelt or not has_code):
                unread_folders.add(folder)
        elif endings and not path.endswith((".toml", *endings)):
            expected = " or ".join(endings)
            what = f"nothing reads this file; those of {folder}/ end with {expected}"
            yield Mistake(paths.quote(path), 1, "", what)
    for folder in sorted(unread_folders):
        yield _unread_path(f"{loading.FOLDER}/{folder}/", folder, tuple(_READ_FOLDERS))


def _prompt_files(sources: Sequence[Source]) -> Iterator[str]:
    for source in sources:
        for place in (("stage", None, "prompt_file"), ("stage", None, "images", None)):
            for _, value in source.values(*place):
                yield str(value)
                yield f"{loading.FOLDER}/{value}"
                yield f"{loading.WORKFLOWS}{value}"


def _unread_path(path: str, name: str, read_names: Sequence[str]) -> Mistake:
    stem_matches = [
        read_name
        for read_name in read_names
        if name.partition(".")[0] == read_name.partition(".")[0]
    ]
    near = stem_matches[0] if stem_matches else nearest(name, list(read_names))
    advice = f"did you mean {quoted(near)}?" if near else f"the gate reads {', '.join(read_names)}"
    return Mistake(paths.quote(path), 1, "", f"nothing reads this; {advice}")


def _unmatched(source: Source, files: Sequence[str]) -> Iterator[Mistake]:
    # A list of one's own repeats the default globs, and a repository need not have such files.
    for location, glob in (item for path in _GLOBS for item in source.values(*path)):
        if not isinstance(glob, str) or glob in POLICY_BLOCK + POLICY_WARN:
            continue
        if not any(paths.matches(file, (glob,)) for file in files):
            yield source.mistake(location, f"{quoted(glob)} matches no file of this tree")


def _unsplit(source: Source) -> Iterator[Mistake]:
    for location, command in source.values("criterion", None, "command"):
        if (
            isinstance(command, list)
            and len(command) == 1
            and len(words := str(command[0]).split()) > 1
        ):
            told = ", ".join(map(quoted, words))
            yield source.mistake(
                location, f"is one program with spaces in its name\nwrite [{told}]"
            )


def _unknown_criteria(sources: Sequence[Source]) -> Iterator[Mistake]:
    known = {
        "policy",
        *(str(name) for source in sources for _, name in source.values("criterion", None, "id")),
    }
    for source in sources:
        for location, name in source.values("suppression", None, "criterion"):
            if isinstance(name, str) and name not in known:
                advice = suggestion(name, sorted(known), "criteria")
                yield source.mistake(location, f"no rubric has this criterion\n{advice}")


def _unprovable(sources: Sequence[Source]) -> Iterator[Mistake]:
    if any(
        source.path == loading.GATE_PATH and "counterexample" in source.tables for source in sources
    ):
        return
    for source in sources:
        for location, _ in source.values("criterion", None, "proof"):
            yield source.mistake(
                location,
                f"blocks nothing: no test is run\nadd [counterexample] to {loading.GATE_PATH}",
            )


def _unused(sources: Sequence[Source]) -> Iterator[Mistake]:
    stages = (("stage", None, "rubrics", None), ("stage", None, "until", "rubrics", None))
    places = (("rubrics", None), ("scope", None, "rubrics", None), *stages)
    named = {
        str(name) for source in sources for place in places for _, name in source.values(*place)
    }
    if any(source.path == loading.GATE_PATH for source in sources):
        for source in sources:
            if (
                source.path.startswith(loading.RUBRICS)
                and source.path[len(loading.RUBRICS) : -5] not in named
            ):
                yield source.mistake(
                    (), f"no change is reviewed against this rubric\nname it in {loading.GATE_PATH}"
                )
