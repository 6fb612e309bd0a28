"""Baselines: what `vibe-gate calibrate` measured of a rubric, `.vibe-gate/baseline/ID.toml`."""

from __future__ import annotations

from vibe_gate.domain import paths
from vibe_gate.domain.calibration import Baseline
from vibe_gate.domain.tables import quoted
from vibe_gate.gate.source import (
    DefinitionTree,
    Mistake,
    Source,
    check_unique,
    is_identifier,
    read_toml,
    stem,
    validated,
)

BASELINES = ".vibe-gate/baseline"


def read_baselines(tree: DefinitionTree, found: list[Mistake]) -> dict[tuple[str, str], Baseline]:
    """The baselines of a tree, by path and sha-256 of their files; what is wrong with a file goes
    to `found`.
    """
    read = {}
    for path in sorted(path for path in tree.list(BASELINES) if path.endswith(".toml")):
        source = read_toml(path, tree.read(path) or b"")
        if path.count("/") > BASELINES.count("/") + 1:
            advice = f"baselines are {BASELINES}/ID.toml"
            found.append(
                Mistake(paths.quote(path), 1, "", "no definition is read from here", advice)
            )
        elif isinstance(source, Mistake):
            found.append(source)
        elif baseline := _baseline(source, found):
            read[path, source.digest] = baseline
    return read


def _baseline(source: Source, found: list[Mistake]) -> Baseline | None:
    before = len(found)
    baseline = validated(Baseline, source.tables, (), source, found)
    check_unique(source, "criterion", found)
    name, own = source.tables.get("rubric"), stem(source.path)
    if is_identifier(name) and name != own:
        what = f"is {quoted(name)}, but the file's name is {quoted(own)}\nmake them the same"
        found.append(source.mistake(("rubric",), what))
    return baseline if len(found) == before else None
