"""Sizes and numbers that no document, content or archive may exceed: on reading, and before on
writing.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from bundle_words import (
    KEY,
    SECRET,
    START,
    Clock,
    Ended,
    OneSecretRedactor,
    export_bundles,
    find_run,
    list_runs,
    summary_of,
    verify_bundles,
)
from msgspec.structs import replace
from test_verify import NOW, seal_review

from vibe_gate import clean_bundles, find_bundles
from vibe_gate.domain import receipt
from vibe_gate.domain.document import MAX_VALUES, require_few
from vibe_gate.domain.summary import ChangedFile, Unreviewed
from vibe_gate.domain.verdict import Finding
from vibe_gate.errors import StorageError, UsageError
from vibe_gate.store.run_recorder import RunRecorder
from vibe_gate.store.run_result import read_bundle
from vibe_gate.store.store import Store, open_store
from vibe_gate.store.store_audit import MAX_PROBLEMS


class Grow(OneSecretRedactor):
    """Its placeholder is longer than the secret."""

    def text(self, text: str) -> str:
        return text.replace(SECRET, "[redacted:environment:0123abcd]")

    def data(self, data: bytes) -> bytes:
        return self.text(data.decode("latin-1")).encode("latin-1")


NEARLY = (SECRET + "\n").encode() * 600_000
"""9.6 MB, and 19.2 MB without its secrets."""


def test_a_summary_grows_by_a_bounded_entry_for_each_file_place_and_finding(store: Store) -> None:
    path = "p" * 50
    file = ChangedFile(
        path=path, old_path=None, change_type="modified", added=99_999, deleted=99_999, binary=False
    )
    place = Unreviewed(path=path, line=0, end_line=0, reason="no API key")
    finding = Finding(
        path=path, line=1, end_line=1, level="failure", criterion="c", message="m" * 280,
        fingerprint="f" * 64,
    )  # fmt: skip

    def size(count: int) -> int:
        run = store.begin(KEY, START, {})
        summary = summary_of(run)
        change = replace(summary.change, files=(file,) * count)
        summary = replace(
            summary, change=change, unreviewed=(place,) * count, findings=(finding,) * count
        )
        run.seal(summary)
        return (run.directory / "summary.json").stat().st_size

    per_entry = (size(2_000) - size(1_000)) / 1_000
    assert per_entry < (50 + 100) + (50 + 70) + (50 + 280 + 64 + 170)


@pytest.mark.slow
def test_what_is_too_large_with_its_placeholders_is_kept_by_hash_and_size(tmp_path: Path) -> None:
    run = open_store(tmp_path, Grow(), Clock()).begin(
        KEY, START, {"change": {"before": "", "after": "t" * 40}}
    )
    digest = run.keep_content("after", NEARLY, "a.txt")
    run.keep_patch(
        b"diff --git a/a.txt b/a.txt\nnew file mode 100644\n--- /dev/null\n+++ b/a.txt\n@@ -0,0 +1 @@\n+a\n"
    )
    run.seal(with_files(run, ["a.txt"]))
    assert run.lost is None
    assert verify_bundles(tmp_path, NOW).problems == ()
    (file,) = read_bundle(run.directory).files.changed()
    assert file.after is not None
    assert (file.after.sha256, file.after.size, file.after.has_bytes) == (
        digest,
        600_000 * 32,
        False,
    )
    assert export_bundles(tmp_path, list_runs(tmp_path), tmp_path / "a.zst", NOW) > 0


def with_files(run: RunRecorder, names: list[str]) -> Any:
    summary = summary_of(run)
    files = tuple(
        ChangedFile(path=name, old_path=None, change_type="added", added=1, deleted=0, binary=False)
        for name in names
    )
    return replace(summary, change=replace(summary.change, files=files))


def test_two_paths_shown_by_one_placeholder_stay_two_files(store: Store) -> None:
    run = store.begin(KEY, START, {})
    section = "diff --git a/{0}.txt b/{0}.txt\nnew file mode 100644\n--- /dev/null\n+++ b/{0}.txt\n@@ -0,0 +1{1} @@\n{2}"
    patch = section.format(SECRET, "", "+same\n") + section.format(SECRET, ",2", "+same2\n+more\n")
    run.keep_patch(patch.encode())
    run.keep_content("after", b"same\n", f"{SECRET}.txt")
    run.keep_content("after", b"same2\nmore\n", f"{SECRET}.txt")
    run.seal(with_files(run, ["[redacted].txt", "[redacted].txt"]))
    first, second = read_bundle(run.directory).files.changed()
    assert [file.after.text() for file in (first, second) if file.after] == [
        "same\n",
        "same2\nmore\n",
    ]
    assert [file.stats.added for file in (first, second)] == [1, 2]
    assert ("+same\n" in first.patch(), "+same2\n" in second.patch()) == (True, True)


@pytest.mark.slow
def test_too_many_values_are_counted_before_they_are_made_and_what_stands_in_a_text_is_none() -> (
    None
):
    many = b'{"a":[' + b"{}," * MAX_VALUES + b"{}]}"
    behind_a_long_string = b'["' + b'\\"' * MAX_VALUES + b'",' + b'"",' * MAX_VALUES
    for data in (many, b"[" * (MAX_VALUES + 2), behind_a_long_string):
        with pytest.raises(ValueError, match="more than 1,000,000 values"):
            require_few(data)
    in_a_string = b'["' + b"{[,\\\\" * 3_000_000 + b'"]'
    for data in (
        in_a_string,
        b'{"a":"' + b'\\"' * 5_000_000,
        b'"' * 4_000_001,
        b'"a\\' * 2_000_000,
    ):
        require_few(data)


@pytest.mark.slow
def test_a_summary_of_many_wrong_values_takes_little_memory(store: Store) -> None:
    run = seal_review(store)
    place = run.directory / "summary.json"
    fields = {
        name: value for name, value in json.loads(place.read_bytes()).items() if name != "findings"
    }
    place.write_bytes(
        json.dumps(fields).encode()[:-1] + b',"findings":[' + b"{}," * 450_000 + b"{}]}"
    )
    code = (
        "import sys; from datetime import UTC, datetime; from pathlib import Path\n"
        "sys.path.insert(0, 'tests'); from vibe_gate.domain.bundles import Provenance\n"
        "from bundle_words import list_runs, read_summary, verify_bundles\n"
        "from vibe_gate.errors import IntegrityError\n"
        "root = Path(sys.argv[1])\n"
        "assert not verify_bundles(root, Provenance(datetime(2027, 1, 1, tzinfo=UTC))).is_sound\n"
        "try: read_summary(list_runs(root)[0].directory)\n"
        "except IntegrityError: sys.exit(0)\n"
        "sys.exit(1)"
    )
    limit = 600_000_000
    result = subprocess.run(
        [sys.executable, "-c", code, str(run.directory.parents[2])],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
        capture_output=True,
        timeout=250,
    )
    assert result.returncode == 0, result.stderr.decode()


@pytest.mark.slow
def test_of_a_run_with_thousands_of_problems_the_first_are_named(
    store: Store, tmp_path: Path
) -> None:
    place = seal_review(store, "q").directory / "summary.json"
    document = json.loads(place.read_bytes())
    missing = MAX_PROBLEMS + 1234
    document["digests"] |= {
        f"nodes/{number:06}/turn-001/turn.log": "0" * 64 for number in range(missing)
    }
    place.write_text(json.dumps(document))
    flaws = verify_bundles(tmp_path, NOW).problems
    assert len(flaws) == MAX_PROBLEMS


def test_a_receipt_that_no_reader_takes_leaves_the_run_unrecorded(store: Store) -> None:
    run = store.begin(KEY, START, {})
    run.seal(summary_of(run), lambda document, digests: b" " * (receipt.MAX_BYTES + 1))
    assert run.lost is not None
    assert "receipt.json would be larger than" in run.lost
    assert find_run(run.directory.parents[2]).state == "incomplete"


@pytest.mark.slow
def test_a_hook_of_too_many_values_is_left_out_and_said(store: Store, tmp_path: Path) -> None:
    run = store.begin(KEY, START, {})
    turn = run.turn("fix")
    turn.hook(
        {"hook_event_name": "PreToolUse", "tool_use_id": "t", "tool_input": [0] * (MAX_VALUES + 1)}
    )
    turn.seal(Ended())
    run.seal(summary_of(run))
    assert (
        "too many values to be recorded"
        in (run.directory / turn.relative / "hooks.ndjson").read_text()
    )
    assert verify_bundles(tmp_path, NOW).is_sound


def test_times_without_a_zone_and_limits_that_cannot_be_meant_are_usage_errors(
    store: Store, tmp_path: Path
) -> None:
    seal_review(store)
    wrong: Any = "yesterday"
    for limits in (
        {"max_age_days": -1},
        {"max_age_days": float("nan")},
        {"min_free_disk_mb": wrong},
    ):
        with pytest.raises(UsageError):
            clean_bundles(tmp_path, now=datetime.now(UTC), **limits)
    for name in ("max_age_days", "min_free_disk_mb"):
        with pytest.raises(UsageError, match=f"{name} is a finite number, not inf"):
            clean_bundles(tmp_path, now=datetime.now(UTC), **{name: float("inf")})
    with pytest.raises(UsageError, match="time zone"):
        clean_bundles(tmp_path, now=datetime(2026, 1, 1))
    for end in (datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC)):
        with pytest.raises(UsageError, match="now is a time from 1970 to 9000"):
            clean_bundles(tmp_path, now=end)
    for word in ("commit", "path", "prefix", "rubric", "run", "tree"):
        not_text: Any = {word: 5}
        with pytest.raises(UsageError, match=f"{word} is a"):
            find_bundles(tmp_path, **not_text)
    for since in (wrong, datetime(2026, 1, 1)):
        with pytest.raises(UsageError, match="time zone"):
            find_bundles(tmp_path, since=since)
    assert (
        clean_bundles(tmp_path, now=datetime(2027, 1, 1, tzinfo=UTC), max_age_days=1e9).deleted
        == ()
    )


def test_a_store_is_named_by_a_path_or_by_text(store: Store, tmp_path: Path) -> None:
    run = seal_review(store)
    assert [entry.run_id for entry in find_bundles(str(tmp_path))] == [run.run_id]
    assert clean_bundles(str(tmp_path), now=datetime(2027, 1, 1, tzinfo=UTC)).deleted == (
        run.run_id,
    )


def test_a_place_that_is_no_folder_is_a_storage_error() -> None:
    for place in ("/", "a\0b"):
        with pytest.raises(StorageError):
            read_bundle(place)
    with pytest.raises(StorageError, match=r"null (byte|character)"):
        find_bundles(Path("a\0b"))


def test_a_remark_that_is_no_text_is_a_usage_error(store: Store) -> None:
    result = read_bundle(seal_review(store).directory, redact=OneSecretRedactor())
    none: Any = None
    for message, type in ((5, "notice"), ("x", none)):
        with pytest.raises(UsageError, match="are texts"):
            result.annotate(message, type)  # type: ignore[arg-type]
    result.annotate("\ud800", "\ud800")
    assert [remark.message for remark in result.annotations()] == ["\ud800"]
