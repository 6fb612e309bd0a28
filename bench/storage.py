"""What the store saves against naive copies, and what it costs to write, over a real history.

    python bench/storage.py [--repository PATH]... [--commits 100] [--files 50] [--contents 5000] [--pairs 5]

Naive is a copy of every changed file before and after, for every commit. Saved is what
the contents of the store take less than that; of the archive all is counted, logs included.

    one bundle          the N largest text files that the history has modified, in one run   goal 79 %
    a series            N commits in a row, a run each, in one store                         goal 82 %
    exported            the same runs in one archive                                         goal 90 %
    writing             N contents stored and linked, against their bytes in one file        goal 6

Both sides of `writing` end with their bytes on the disk: one fsync against one barrier.
What is saved hangs on the sizes: contents of up to 10 KiB are stored as they are (the
format says so), so a history of small files saves what its versions share, and no more.
Beside each figure stand the files' mean size, the share of the bytes that lie in contents
of up to 10 KiB, and the ceiling: what the format's rule would save if every larger content
were packed with zlib's best. A goal above the ceiling cannot be reached on that history.
What writing costs hangs on the sizes, too: the smaller the contents, the more of it is
the file system's price of a file. The histories are written one after the other and
deleted at the end: ext4 may create files many times slower for some minutes after a mass
delete, whoever it was by. What an empty file takes is printed beside the figure: where that
is several times what it usually is, measure again later.

Without an argument the history is this project's own, and one generated from its
sources: modules of 40 to 80 KB, edited in 20 places at a time.
"""

from __future__ import annotations

import argparse
import os
import random
import secrets
import statistics
import subprocess
import tempfile
import time
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar

from vibe_gate.domain.bundles import Provenance
from vibe_gate.domain.summary import ChangeSummary, Summary, Trusted
from vibe_gate.store import Bundles, find_bundles, open_store
from vibe_gate.store.contents import COMPRESS_ABOVE, LARGEST_CONTENT, Contents
from vibe_gate.store.folder import Folder, make_durable

HERE = Path(__file__).resolve().parent
NONE = "0" * 40
MAX_RATIO = 6.0
START = datetime(2026, 1, 2, tzinfo=UTC)


@dataclass(frozen=True)
class Version:
    """One changed file of a commit; b"" where a side does not exist."""

    path: str
    before: bytes
    after: bytes


@dataclass(frozen=True)
class Commit:
    id: str
    versions: tuple[Version, ...]


class Plain:
    """Redacts nothing: the bench is about bytes."""

    found: ClassVar[dict[str, int]] = {}

    def part(self) -> Plain:
        return self

    def text(self, text: str) -> str:
        return text

    def data(self, data: bytes) -> bytes:
        return data

    def value(self, value: Any) -> Any:
        return value


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repository", action="append", type=Path, default=[], help="a git repository; repeatable")
    parser.add_argument("--commits", type=int, default=100)
    parser.add_argument("--files", type=int, default=50)
    parser.add_argument("--contents", type=int, default=5000)
    parser.add_argument("--pairs", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=HERE, prefix=".storage-") as work:
        for name, commits in histories(options):
            place = Path(work) / secrets.token_hex(4)
            place.mkdir()
            report(name, commits, options, place)


def histories(options: argparse.Namespace) -> Iterator[tuple[str, list[Commit]]]:
    """Name and newest commits of what is to be measured, one after the other."""
    for repository in options.repository:
        name = repository.resolve().parent.name if repository.name in {"repo", ".git"} else repository.name
        yield name, history(repository, options.commits, options.contents)
    if not options.repository:
        yield "this project", history(HERE.parent, options.commits, options.contents)
        yield "generated", generated(options.commits)


def report(name: str, commits: list[Commit], options: argparse.Namespace, work: Path) -> None:
    one = [Commit("5" * 40, tuple(most(commits, options.files)))]
    series = commits[: options.commits]
    print(f"{name}: {len(commits)} commits read")
    kept, _ = saved(one, work / "one")
    line(f"one bundle of {len(one[0].versions)} modified files", kept, 0.79, one)
    kept, archived = saved(series, work / "series")
    line(f"a series of {len(series)} commits in one store", kept, 0.82, series)
    line("the same, exported", archived, 0.90)
    contents = unique(commits)[: options.contents]
    ratios = sorted(writing(contents, work, options.pairs))
    each = ", ".join(f"{ratio:.1f}" for ratio in ratios)
    ratio = statistics.median(ratios)
    mean = sum(map(len, contents)) / len(contents) / 1000
    label = f"{len(contents):,} contents written"
    told = f"mean {mean:.0f} KB; an empty file takes {creating(work):.0f} us ({each})"
    print(f"  {label:<42} {ratio:6.1f} x one file   goal 6    {verdict(ratio <= MAX_RATIO)}  {told}")


def line(label: str, share: float, goal: float, commits: list[Commit] | None = None) -> None:
    told = "" if commits is None else bound(commits)
    print(f"  {label:<42} {share:6.1%} saved      goal {goal:.0%}  {verdict(share >= goal)}{told}")


def verdict(reached: bool) -> str:
    return "reached" if reached else "MISSED "


def bound(commits: list[Commit]) -> str:
    """What the format's rule allows at most on these commits, and why."""
    sides = [side for c in commits for v in c.versions for side in (v.before, v.after) if side]
    total = sum(map(len, sides))
    small = sum(len(side) for side in sides if len(side) <= COMPRESS_ABOVE) / total
    best = sum(len(side) if len(side) <= COMPRESS_ABOVE else len(zlib.compress(side, 9)) for side in set(sides))
    return (
        f"  mean {total / len(sides) / 1000:.0f} KB; {small:.0%} of the bytes in contents stored as they are; "
        f"ceiling {1 - best / total:.1%}"
    )


def most(commits: list[Commit], count: int) -> list[Version]:
    """The largest text files, each as it was last modified."""
    latest: dict[str, Version] = {}
    for commit in commits:
        for version in commit.versions:
            if version.before and version.after and b"\0" not in version.before + version.after:
                latest.setdefault(version.path, version)
    return sorted(latest.values(), key=lambda version: -len(version.after))[:count]


def unique(commits: list[Commit]) -> list[bytes]:
    """Every content once."""
    return list(dict.fromkeys(side for c in commits for v in c.versions for side in (v.before, v.after) if side))


def saved(commits: list[Commit], root: Path) -> tuple[float, float]:
    """Shares saved by the store and by an archive of it; naive is the before and after of every file."""
    root.mkdir()
    naive = sum(len(version.before) + len(version.after) for commit in commits for version in commit.versions)
    for number, commit in enumerate(reversed(commits)):
        record(root, commit, START + timedelta(minutes=number))
    store = sum(used(side) for side in (root / ".vibe-artifacts").glob("*/*/files"))
    bundles = Bundles(root, Provenance(START + timedelta(days=365)))
    bundles.export(find_bundles(root), root / "all.tar.gz")
    return 1 - store / naive, 1 - (root / "all.tar.gz").stat().st_size / naive


def record(root: Path, commit: Commit, now: datetime) -> None:
    run = open_store(root, Plain(), lambda: now).begin(commit.id, now, {"workflow": "review"})
    for version in commit.versions:
        for side, data in (("before", version.before), ("after", version.after)):
            if data:
                run.content(side, data, version.path)
    change = ChangeSummary(before="b" * 40, after="c" * 40, base_commit="", head_commit=commit.id, patch_id="",
                           range_patch_id="", files=())  # fmt: skip
    run.seal(
        Summary(run_id=run.run_id, key=commit.id, workflow="review", outcome="pass", exit_code=0, bundle=run.relative,
                trusted=Trusted(revision="", bootstrap=False), change=change)
    )  # fmt: skip
    assert run.lost is None, run.lost


def used(folder: Path) -> int:
    """Bytes of every file below a folder, a file with several names once."""
    stats = [path.lstat() for path in folder.rglob("*") if path.is_file()]
    return sum({(stat.st_dev, stat.st_ino): stat.st_size for stat in stats}.values())


def writing(contents: list[bytes], work: Path, pairs: int) -> list[float]:
    """Ratios of storing `contents` to writing their bytes into one file, A B A B ..."""
    ratios = []
    for _ in range(pairs):
        os.sync()
        raw = timed_raw(contents, work / "raw")
        os.sync()
        ratios.append(timed_store(contents, work / f"store-{secrets.token_hex(4)}") / raw)
    return ratios


def creating(work: Path) -> float:
    """Microseconds that the file system takes to create an empty file."""
    folder = work / "empty"
    folder.mkdir()
    began = time.perf_counter()
    for number in range(1000):
        (folder / str(number)).touch()
    return (time.perf_counter() - began) * 1000


def timed_raw(contents: list[bytes], path: Path) -> float:
    began = time.perf_counter()
    with path.open("wb", buffering=0) as file:
        for data in contents:
            file.write(data)
        os.fsync(file.fileno())
    took = time.perf_counter() - began
    path.unlink()
    return took


def timed_store(contents: list[bytes], root: Path) -> float:
    root.mkdir()
    store = Folder.at(root)
    bundle = store.make("bundle")
    kept = Contents(bundle, Plain())
    began = time.perf_counter()
    for data in contents:
        kept.keep("after", data)
    make_durable(bundle)
    return time.perf_counter() - began


def history(repository: Path, count: int, contents: int) -> list[Commit]:
    """The newest commits that are no merges and change anything small enough to be kept: as many as are needed."""
    ids = git(repository, "rev-list", "--no-merges", "HEAD").decode().split()
    found: list[Commit] = []
    for start in range(0, len(ids), 200):
        found += changed(repository, ids[start : start + 200])
        if len(found) >= count * 10 and len(unique(found)) >= contents:
            break
    return found


def changed(repository: Path, commits: Iterable[str]) -> list[Commit]:
    listed = {
        commit: git(repository, "diff-tree", "-r", "-z", "--root", "--no-commit-id", commit).decode(errors="replace")
        for commit in commits
    }
    entries = {commit: list(parsed(text)) for commit, text in listed.items()}
    blobs = contents_of(repository, {blob for found in entries.values() for _, *sides in found for blob in sides})
    made = []
    for commit, found in entries.items():
        versions = tuple(Version(path, blobs[before], blobs[after]) for path, before, after in found)
        kept = tuple(v for v in versions if max(len(v.before), len(v.after)) <= LARGEST_CONTENT and v.before != v.after)
        if kept:
            made.append(Commit(commit, kept))
    return made


def parsed(text: str) -> Iterable[tuple[str, str, str]]:
    """Path, blob before and blob after of regular files."""
    fields = text.split("\0")
    for facts, path in zip(fields[::2], fields[1::2], strict=False):
        old_mode, new_mode, before, after, _ = facts[1:].split(" ")
        if "160000" not in (old_mode, new_mode):
            yield path, before, after


def contents_of(repository: Path, ids: set[str]) -> dict[str, bytes]:
    ordered = sorted(ids - {NONE})
    out = git(repository, "cat-file", "--batch", data="\n".join(ordered).encode() + b"\n")
    found, at = {NONE: b""}, 0
    for blob in ordered:
        end = out.index(b"\n", at)
        size = int(out[at:end].split()[2])
        found[blob] = out[end + 1 : end + 1 + size]
        at = end + 2 + size
    return found


def git(repository: Path, *arguments: str, data: bytes | None = None) -> bytes:
    return subprocess.run(["git", *arguments], cwd=repository, input=data, capture_output=True, check=True).stdout


def generated(count: int) -> list[Commit]:
    """Sixty modules out of the project's own definitions; each commit edits some lines in a few of them."""
    chance = random.Random(7)  # the same history every time
    sources = sorted((HERE.parent / "vibe_gate").rglob("*.py")) + sorted((HERE.parent / "tests").rglob("*.py"))
    pieces = [piece for path in sources for piece in path.read_text().split("\n\n\n")]
    modules = {f"src/module_{number:02d}.py": module(pieces, chance) for number in range(60)}
    commits = []
    for number in range(count + 1):
        # The newest commit edits most of them: a sweeping rename, say.
        paths = chance.sample(sorted(modules), 50 if number == count else chance.randint(1, 5))
        versions = []
        for path in paths:
            after = edited(modules[path], pieces, chance)
            versions.append(Version(path, modules[path].encode(), after.encode()))
            modules[path] = after
        commits.append(Commit(f"{number:040x}", tuple(versions)))
    return commits[::-1]


def module(pieces: list[str], chance: random.Random) -> str:
    """Neighbours stay neighbours: what stands together in a real file shares its words."""
    text, size = "", chance.randint(40_000, 80_000)
    start = chance.randrange(len(pieces))
    while len(text) < size:
        text += pieces[start % len(pieces)] + "\n\n\n"
        start += 1
    return text


def edited(text: str, pieces: list[str], chance: random.Random) -> str:
    lines = text.split("\n")
    for _ in range(20):
        at = chance.randrange(len(lines))
        lines[at : at + chance.randint(0, 2)] = chance.choice(pieces).split("\n")[:3]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
