"""How long `bundles list --store` takes, and what it asks of the store: 10 to 10,000 runs, a folder
and moto's S3.

    python bench/shared_store.py [--sizes 10,100,1000,10000]

Runs from the checkout, with the extras of tests. Objects have genuine names and no content: a list
opens none.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from s3 import BUCKET, bucket, moto

from vibe_gate.domain.bundles import Provenance, RunEntry
from vibe_gate.domain.store_access import StoreAccess
from vibe_gate.store.bundle_names import make_run_id
from vibe_gate.store.shared_runs import SharedRuns, object_name
from vibe_gate.store.shared_store import SharedStore

SECRET = "not a secret, of nobody"
NOW = datetime(2026, 3, 4, tzinfo=UTC)


def entry(number: int) -> RunEntry:
    key = f"{number:040x}"
    ids = {
        name: f"{hash((number, name)) & (1 << 160) - 1:040x}"
        for name in ("before", "after", "base_commit", "patch_id")
    }
    at = NOW - timedelta(minutes=number)
    more = {
        "outcome": "pass",
        "author": "agent",
        "workflow": "review",
        "rubrics": (("quality", "pass"), ("safety", "pass")),
    }
    return RunEntry(
        make_run_id(at, key.encode(), 0),
        key,
        head_commit=key,
        range_patch_id=ids["patch_id"],
        **ids,
        **more,
    )


def filled(runs: SharedRuns, first: int, last: int) -> None:
    for number in range(first, last):
        runs._objects.create(object_name(entry(number), f"{number:064x}", runs._codes), b"")


def measured(url: str, requests: list[tuple[str, str]], sizes: list[int]) -> None:
    store = SharedStore(url, StoreAccess(SECRET, allows_http=True), lambda: NOW)
    runs, done = store.runs(Path(), Provenance(NOW + timedelta(days=1))), 0
    for size in sizes:
        filled(runs, done, size)
        done = size
        requests.clear()
        began = time.perf_counter()
        found = runs.find()
        took = time.perf_counter() - began
        assert [one.state for one in found] == ["sealed"] * size
        lists = sum(method == "GET" and "list-type" in path for method, path in requests)
        print(
            f"{url[:8]:<10}{size:>7} runs{took * 1000:>9.1f} ms  {lists} list requests, {len(requests) - lists} others"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sizes", default="10,100,1000,10000", help="runs, with commas, ascending")
    sizes = [int(size) for size in parser.parse_args().sizes.split(",")]
    with tempfile.TemporaryDirectory() as folder:
        measured(Path(folder).as_uri(), [], sizes)
    with moto() as port, bucket(port) as s3:
        os.environ.update(s3.environ)
        measured(f"s3://{BUCKET}/shop", s3.seen, sizes)


if __name__ == "__main__":
    main()
