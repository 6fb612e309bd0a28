"""Baselines: what `vibe-gate calibrate` measured of a rubric, `.vibe-gate/baseline/ID.toml`."""

from __future__ import annotations

from vibe_gate.domain import paths
from vibe_gate.domain.calibration import Baseline
from vibe_gate.gate.source import (
    DefinitionTree,
    Mistake,
    Source,
    check_id,
    check_unique,
    read_model,
    read_toml,
)

BASELINES = ".vibe-gate/baseline"


def read_baselines(
    tree: DefinitionTree, mistakes: list[Mistake]
) -> dict[tuple[str, str], Baseline]:
    """The baselines of a tree, by path and sha-256 of their files; what is wrong with a file goes
    to `mistakes`.
    """
    baselines = {}
    for path in sorted(path for path in tree.list(BASELINES) if path.endswith(".toml")):
        source = read_toml(path, tree.read(path) or b"")
        if path.count("/") > BASELINES.count("/") + 1:
            message = "no definition is read from here"
            advice = f"baselines are {BASELINES}/ID.toml"
            mistakes.append(Mistake(paths.quote(path), 1, "", message, advice))
            continue
        if isinstance(source, Mistake):
            mistakes.append(source)
            continue
        baseline = _read_baseline(source, mistakes)
        if baseline is not None:
            baselines[path, source.digest] = baseline
    return baselines


def _read_baseline(source: Source, mistakes: list[Mistake]) -> Baseline | None:
    """The baseline, or None and what is wrong goes to `mistakes`."""
    file_mistakes: list[Mistake] = []
    baseline = read_model(Baseline, source.tables, (), source, file_mistakes)
    check_unique(source, "criterion", file_mistakes)
    check_id(source, file_mistakes, "rubric")
    mistakes += file_mistakes
    return None if file_mistakes else baseline
