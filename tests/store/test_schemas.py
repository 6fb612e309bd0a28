"""The published JSON Schemas are made of the types, and hold for what is written."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
from bundle_schemas import FOLDER, SUFFIX, check_document, find_problems, read_schema
from bundle_words import KEY, START, OneSecretRedactor, record_a_review, summary_of
from jsonschema import Draft202012Validator

from vibe_gate.store.run_result import read_bundle
from vibe_gate.store.store import Store

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests/golden"
NAMES = sorted(path.name.removesuffix(SUFFIX) for path in FOLDER.glob(f"*{SUFFIX}"))


@pytest.mark.slow
def test_the_published_schemas_are_those_of_the_types(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`python docs/site/schemas.py --write` writes them."""
    monkeypatch.syspath_prepend(str(ROOT / "docs/site"))
    spec = importlib.util.spec_from_file_location("schemas", ROOT / "docs/site/schemas.py")
    assert spec is not None and spec.loader is not None
    schemas = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(schemas)
    assert schemas.main([]) == 0, capsys.readouterr().out
    assert sorted(schemas.SCHEMAS) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_schema_is_one_and_describes_itself(name: str) -> None:
    schema = read_schema(name)
    Draft202012Validator.check_schema(schema)
    assert (
        schema["description"]
        and f"schemas/{name}{SUFFIX}" in (ROOT / "docs/reference/documents.md").read_text()
    )


@pytest.mark.parametrize("name", ["bundle-1", "bundle-2"])
def test_the_golden_bundles_fit_them(name: str) -> None:
    problems, names = find_problems(GOLDEN / name, allow_unknown=True)
    assert problems == []
    assert {"run", "run-event", "graph", "sessions", "summary", "turn-summary"} <= names


@pytest.mark.slow
def test_what_this_version_writes_of_the_golden_bundle_fits_them_and_no_member_is_unnamed(
    tmp_path: Path,
) -> None:
    script = ROOT / "tests/golden/write_bundle.py"
    environ = {"PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"}
    subprocess.run([sys.executable, script, tmp_path / "new"], check=True, env=environ)
    assert find_problems(tmp_path / "new")[0] == []


def test_a_new_bundle_fits_them_and_no_member_is_unnamed(store: Store) -> None:
    run = store.begin(KEY, START, {"prompt": "review"})
    record_a_review(run)
    run.seal(summary_of(run))
    read_bundle(run.directory, redact=OneSecretRedactor()).annotate("Look here.")
    problems, names = find_problems(run.directory)
    assert problems == []
    assert {"run", "run-event", "graph", "sessions", "summary", "annotation"} <= names
    assert {"turn-event", "turn-hook", "turn-summary"} <= names


@pytest.mark.parametrize(
    ("name", "document"),
    [
        ("run", {"schema": 1, "run_id": "a"}),
        ("run-event", {"seq": 1, "ts": "", "type": "node.added", "run_id": "", "data": {}}),
        ("turn-summary", {"testId": "a", "files": [{"path": "a"}]}),
        ("graph", {"schema": 2}),
        ("capture-write", {"ts": 1}),
    ],
)
def test_what_is_no_such_file_is_refused(name: str, document: object) -> None:
    assert list(check_document(name, document, is_open=True))
