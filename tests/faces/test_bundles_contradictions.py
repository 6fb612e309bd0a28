"""A summary that contradicts itself or its receipt is corrupt, however right its digests are."""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from bundle_words import START, verify_bundles
from command import vibe_gate
from program import git, repository
from recorded import record_run

from vibe_gate.domain.bundles import Provenance
from vibe_gate.errors import IntegrityError
from vibe_gate.store.run_result import read_bundle

NOW = Provenance(START.replace(year=2100))


def change_summary(bundle: Path, change: Callable[[dict[str, Any]], None]) -> None:
    path = bundle / "summary.json"
    document = json.loads(path.read_bytes())
    change(document)
    path.write_text(json.dumps(document))


def reseal(bundle: Path) -> None:
    def seal(document: dict[str, Any]) -> None:
        for name in document["digests"]:
            document["digests"][name] = hashlib.sha256((bundle / name).read_bytes()).hexdigest()

    change_summary(bundle, seal)


def forge_outcome(outcome: str, exit_code: int) -> Callable[[dict[str, Any]], None]:
    return lambda document: document.update(outcome=outcome, exit_code=exit_code)


@pytest.fixture(scope="module")
def template_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("made")


@pytest.fixture
def reviewed(template_folder: Path, tmp_path: Path, environ: dict[str, str]) -> tuple[Path, Path]:
    """A repository with one real review, and its bundle."""
    if not (template_folder / "r").exists():
        vibe_gate(
            "review",
            "--commit",
            "HEAD",
            "--no-judge",
            cwd=repository(template_folder / "r"),
            environ=environ,
        )
    root = tmp_path / "r"
    shutil.copytree(template_folder / "r", root)
    return root, next((root / ".vibe-artifacts" / git(root, "rev-parse", "HEAD")).iterdir())


def whys(root: Path) -> list[str]:
    """What is wrong with the one run; whatever it is, no reader shows a verdict of it."""
    flaws = [flaw for flaw in verify_bundles(root, NOW).problems if flaw.state == "corrupt"]
    for run in {flaw.run for flaw in flaws}:
        with pytest.raises(IntegrityError, match="is corrupt: "):
            _ = read_bundle(root / ".vibe-artifacts" / run).summary
    return [flaw.why for flaw in flaws]


def test_a_real_review_agrees_with_itself(
    reviewed: tuple[Path, Path], environ: dict[str, str]
) -> None:
    assert whys(reviewed[0]) == []
    assert vibe_gate("bundles", "verify", cwd=reviewed[0], environ=environ).returncode == 0


def test_another_outcome_contradicts_the_receipt(
    reviewed: tuple[Path, Path], environ: dict[str, str]
) -> None:
    root, bundle = reviewed
    outcome = json.loads((bundle / "summary.json").read_bytes())["outcome"]
    change_summary(bundle, forge_outcome(*(("fail", 1) if outcome == "pass" else ("pass", 0))))
    assert whys(root) == ["the receipt belongs to another run"]
    assert vibe_gate("bundles", "verify", cwd=root, environ=environ).returncode == 5


def test_a_receipt_of_another_summary_or_none_at_all_is_told(reviewed: tuple[Path, Path]) -> None:
    root, bundle = reviewed
    change_summary(bundle, lambda document: document.update(workflow="other"))
    assert whys(root) == ["the receipt is for another summary"]
    envelope = json.loads((bundle / "receipt.json").read_bytes())
    envelope["payload"] = base64.b64encode(b"{}").decode()
    (bundle / "receipt.json").write_text(json.dumps(envelope))
    reseal(bundle)
    (reason,) = whys(root)
    assert reason.startswith("it is not a receipt: ")


def test_an_exit_code_that_is_none_of_the_outcome_is_told(tmp_path: Path) -> None:
    bundle = next((tmp_path / ".vibe-artifacts").glob(f"*/{record_run(tmp_path)}"))
    for outcome, code in (("pass", 1), ("pass", 3), ("fail", 0), ("error", 0), ("inconclusive", 1)):
        change_summary(bundle, forge_outcome(outcome, code))
        assert f"exit code {code} contradicts outcome {outcome!r}" in whys(tmp_path)


@pytest.mark.parametrize(
    ("place", "key"),
    [
        (("rubrics", 0), "rubrics[0].id"),
        (("rubrics", 0, "criteria", 0), "rubrics[0].criteria[0].id"),
    ],
)
def test_an_id_that_no_gate_allows_is_told(
    reviewed: tuple[Path, Path], place: tuple[str | int, ...], key: str
) -> None:
    root, bundle = reviewed

    def rename(document: Any) -> None:
        for step in place:
            document = document[step]
        document["id"] = "Quality=pass,\n"

    change_summary(bundle, rename)
    (reason,) = whys(root)
    assert reason.startswith(f"{key}: expected `str` matching regex")
