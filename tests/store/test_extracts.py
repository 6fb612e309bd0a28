"""Extracts of summaries: made once of each run, and again after the run's folder or their form
changed.
"""

from __future__ import annotations

import shutil
import time
from pathlib import Path

from bundle_words import START
from recorded import record_run

from vibe_gate.domain.bundles import Provenance
from vibe_gate.domain.summary import Summary
from vibe_gate.store.clone_state import open_state
from vibe_gate.store.summary_extracts import open_extracts
from vibe_gate.store.worktree_bundles import Bundles


def test_a_summary_is_read_once_and_again_only_if_its_run_or_the_form_changed(
    tmp_path: Path,
) -> None:
    for _ in range(3):
        record_run(tmp_path)
    time.sleep(0.06)  # a folder that is younger than a kernel's clock ticks is read again
    state, extracted_ids = open_state(tmp_path / "common"), list[str]()

    def make(summary: Summary) -> str:
        extracted_ids.append(summary.run_id)
        return f"of {summary.run_id}"

    def texts(form: int = 1) -> list[str]:
        extracted_ids.clear()
        bundles = Bundles(
            tmp_path, Provenance(START), state.run_index(tmp_path / ".vibe-artifacts")
        )
        with open_extracts(bundles, form, make) as text_of:
            return [text_of(entry) for entry in bundles.find()]

    first = texts()
    assert first == [f"of {run}" for run in extracted_ids]
    assert (texts(), extracted_ids) == (first, [])
    changed, removed, _ = Bundles(tmp_path, Provenance(START)).find()
    Bundles(tmp_path, Provenance(START)).keep(changed)
    shutil.rmtree(tmp_path / removed.bundle)
    assert len(texts()) == 2
    assert extracted_ids == [changed.run_id]
    assert len(texts(2)) == len(extracted_ids) == 2
    state.file.change(lambda db: db.execute("UPDATE run_extracts SET data = x'00'"))
    assert [text[:3] for text in texts(2)] == ["of ", "of "]
