"""Faults while a store is repaired, exported or imported: it stays sound, and doing it again goes
through.

Here, too, every call into the system fails once, or the process dies at it once.
"""

from __future__ import annotations

import resource
import subprocess
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from bundle_words import (
    KEY,
    START,
    Clock,
    OneSecretRedactor,
    export_bundles,
    import_bundles,
    list_runs,
    repair_bundles,
    verify_bundles,
)
from faults.system_calls import each_call_fails, each_call_kills
from faults.test_bundle_faults import assert_sound, empty, review

from vibe_gate.domain.bundles import Provenance
from vibe_gate.store import run_archive, store_repair
from vibe_gate.store.folder import Folder, make_durable
from vibe_gate.store.store import open_store

TESTS = Path(__file__).parents[1]
LOADED = (run_archive, store_repair)
"""Modules that are imported on first use: an import is not a call that may fail here."""
NOW = Provenance(START + timedelta(days=1))
LATER = START + timedelta(hours=1)


def break_store(root: Path) -> None:
    """A store with something for every hand that heals: a corrupt run, a torn log, a temporary
    file.
    """
    review(root)
    damaged_run = review(root)
    open_run = open_store(root, OneSecretRedactor(), Clock()).begin(KEY, START, {})
    open_run.keep_content("after", b"new\n" * 4000, "a")
    open_run.event("node.added", "judge", kind="judge")
    open_run.close()
    (damaged_run.directory / "run.json").unlink()
    with (open_run.directory / "events.ndjson").open("ab") as log:
        log.write(b'{"seq"')
    (root / ".vibe-artifacts/.tmp-1").write_text("half")


def mend(root: Path) -> None:
    repair_bundles(root, Provenance(LATER))


def assert_mended(root: Path) -> None:
    """Mending succeeds once more, and then the store is sound and has its two runs."""
    mend(root)
    assert verify_bundles(root, NOW).is_sound
    assert not [flaw for flaw in verify_bundles(root, NOW).problems if flaw.state == "untidy"]
    assert_sound(root) if not (root / ".vibe-artifacts/quarantine").exists() else None
    (sealed,) = [run for run in list_runs(root) if run.state == "sealed"]
    assert sealed.summary.outcome == "pass"
    assert len(list_runs(root)) == 2


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A broken store, an archive, made once and copied for every fault."""
    root = tmp_path_factory.mktemp("stores")
    (root / "broken").mkdir()
    break_store(root / "broken")
    (root / "whole").mkdir()
    review(root / "whole")
    export_bundles(root / "whole", list_runs(root / "whole"), root / "archive", NOW)
    return root


def copy(source: Path, target: Path) -> Path:
    """Copy a folder with its hard links."""
    subprocess.run(["cp", "-a", str(source), str(target)], check=True)
    return target


def assert_imported(root: Path, archive: Path) -> None:
    for run in list_runs(root):
        assert run.summary.outcome == "pass"
    assert verify_bundles(root, NOW).is_sound
    import_bundles(root, archive, NOW)
    assert verify_bundles(root, NOW).is_sound
    repair_bundles(root, Provenance(LATER))
    assert verify_bundles(root, NOW).problems == ()
    assert list_runs(root)[0].summary.outcome == "pass"


@pytest.mark.parametrize("fault", [each_call_fails, each_call_kills])
def test_whichever_call_of_a_repair_fails_or_kills_a_second_repair_ends_it(
    tmp_path: Path, stores: Path, fault: Callable[..., int]
) -> None:
    calls = fault(
        mend, lambda number: copy(stores / "broken", tmp_path / str(number)), assert_mended
    )
    assert calls > 100


@pytest.mark.parametrize("fault", [each_call_fails, each_call_kills])
def test_whichever_call_of_an_import_fails_or_kills_nothing_half_is_seen(
    tmp_path: Path, stores: Path, fault: Callable[..., int]
) -> None:
    archive = stores / "archive"
    calls = fault(
        lambda root: import_bundles(root, archive, NOW),
        lambda number: empty(tmp_path, number),
        lambda root: assert_imported(root, archive),
    )
    assert calls > 100


def test_whichever_call_of_an_export_fails_there_is_no_archive_or_a_whole_one(
    tmp_path: Path, stores: Path
) -> None:
    root = copy(stores / "whole", tmp_path / "whole")

    def write(place: Path) -> None:
        export_bundles(root, list_runs(root), place / "a.tar.xz", NOW)

    def look(place: Path) -> None:
        for path in place.glob("*.tar.xz"):
            other = place / "other"
            other.mkdir()
            import_bundles(other, path, NOW)

    assert each_call_fails(write, lambda number: empty(tmp_path, number), look) > 50


def test_a_bundle_may_have_more_folders_and_files_than_a_process_may_open(tmp_path: Path) -> None:
    for number in range(40):
        (tmp_path / f"nodes/n{number}/turn-001").mkdir(parents=True)
        for name in range(17):  # one more than are synced at once
            (tmp_path / f"nodes/n{number}/turn-001/{name}").touch()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken = {int(path.name) for path in Path("/dev/fd").iterdir()}
    free = [number for number in range(len(taken) + 50) if number not in taken]
    resource.setrlimit(resource.RLIMIT_NOFILE, (free[30], hard))
    try:
        make_durable(Folder.at(tmp_path))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
