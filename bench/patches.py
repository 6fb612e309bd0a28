"""How long changes, patches and renames take, as ratios to the git program doing the same.

    python bench/patches.py [--pairs 7]

Ours runs in this process and makes the objects that the gate works with; git is a whole
process that prints to nowhere (`git patch-id` itself is not part of the last line). They run
in turn, A B A B ..., and the figure is the median of the pairs' ratios. Before anything is
timed, the files, types and old paths of both are compared. The inputs are generated once,
under bench/.work/patches.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import pygit2  # noqa: E402

from vibe_gate.git import diff, patch  # noqa: E402

WORK = ROOT / "bench" / ".work" / "patches"
RENAMES = 1_550
DIFF = ("diff", "-M", "-l0")
MEASURED: tuple[tuple[str, Callable[..., object], tuple[str, ...]], ...] = (
    ("diff.deltas / git diff --name-status", diff.deltas, ("--name-status",)),
    ("diff.files / git diff", diff.files, ()),
    ("patch.unified / git diff --binary", patch.unified, ("--binary", "--full-index")),
    ("patch.patch_id / git diff", patch.patch_id, ("--full-index",)),
)
TYPES = {"A": "added", "M": "modified", "D": "deleted", "R": "renamed", "T": "type_changed"}
Files = dict[str, list[str]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--pairs", type=int, default=7)
    pairs = parser.parse_args().pairs
    environ = environment()
    cases = {
        "3 files": few(),
        "40,000 lines": lines(),
        "5,000 files": many(),
        f"{RENAMES:,} renames with edits": renames(licence=0),
        f"{RENAMES:,} renames, a third of each file one licence": renames(licence=40),
    }
    repo, trees = generate(cases, environ)
    print(f"ours / git, medians of {pairs} pairs in turn; git {version(environ)}, libgit2 {pygit2.LIBGIT2_VERSION}")
    for case, sides in trees.items():
        verify(repo, *sides, environ)
        print(f"{case}:")
        for name, ours, options in MEASURED:
            print("  " + compare(name, partial(ours, repo, *sides), git(environ, *DIFF, *options, *sides), pairs))


def environment() -> dict[str, str]:
    """Nothing of the user's: no git configuration, a home of its own."""
    home = WORK / "home"
    home.mkdir(parents=True, exist_ok=True)
    kept = {name: value for name, value in os.environ.items() if name in {"PATH", "TMPDIR", "LANG", "LC_ALL"}}
    return kept | {"HOME": str(home), "GIT_CONFIG_NOSYSTEM": "1"}


def version(environ: dict[str, str]) -> str:
    return subprocess.run(["git", "version"], env=environ, capture_output=True, text=True, check=True).stdout.split()[2]


def git(environ: dict[str, str], *arguments: str) -> Callable[[], object]:
    command = ["git", f"--git-dir={WORK / 'repo.git'}", *arguments]
    return lambda: subprocess.run(command, env=environ, stdout=subprocess.DEVNULL, check=True)


def compare(name: str, ours: Callable[[], object], theirs: Callable[[], object], pairs: int) -> str:
    """One line: the median ratio, the middle half of the ratios, and both medians."""
    taken = [(timed(ours), timed(theirs)) for _ in range(pairs + 1)][1:]  # the first pair warms up
    ratios = sorted(one / other for one, other in taken)
    low, _, high = statistics.quantiles(ratios, n=4)
    ours_s, theirs_s = (statistics.median(side) for side in zip(*taken, strict=True))
    median = statistics.median(ratios)
    return f"{name:<38} {median:5.2f}  ({low:.2f}-{high:.2f})  {ours_s * 1000:7.0f} ms / {theirs_s * 1000:.0f} ms"


def timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    made = work()
    taken = time.perf_counter() - start
    del made
    return taken


def verify(repo: pygit2.Repository, before: str, after: str, environ: dict[str, str]) -> None:
    command = ["git", f"--git-dir={WORK / 'repo.git'}", *DIFF, "--name-status", before, after]
    said = subprocess.run(command, env=environ, capture_output=True, text=True, check=True).stdout.splitlines()
    theirs = [(TYPES[row[0]], *row.split("\t")[1:]) for row in said]
    ours = [
        (file.change_type, *([file.old_path] if file.old_path else []), file.path)
        for file in diff.files(repo, before, after)
    ]
    assert ours == theirs, "not what git says"


def generate(cases: dict[str, tuple[Files, Files]], environ: dict[str, str]) -> tuple[pygit2.Repository, dict]:
    path = WORK / "repo.git"
    if not (path / "generated").exists():
        subprocess.run(["git", "init", "-q", "--bare", str(path)], env=environ, check=True)
        stream = b"".join(
            commit(f"refs/heads/{number}-{side}", files)
            for number, sides in enumerate(cases.values())
            for side, files in zip(("before", "after"), sides, strict=True)
        )
        command = ["git", f"--git-dir={path}", "fast-import", "--quiet"]
        subprocess.run(command, input=stream, env=environ, check=True)
        (path / "generated").touch()
    repo = pygit2.Repository(str(path))
    tree = lambda name: str(repo.references[f"refs/heads/{name}"].peel(pygit2.Tree).id)  # noqa: E731
    return repo, {case: (tree(f"{n}-before"), tree(f"{n}-after")) for n, case in enumerate(cases)}


def commit(ref: str, files: Files) -> bytes:
    out = [f"commit {ref}\ncommitter Ada <ada@example.org> 1767322800 +0000\ndata 0\n".encode()]
    for name, body in files.items():
        content = "".join(line + "\n" for line in body).encode()
        out.append(b"M 100644 inline %s\ndata %d\n%s\n" % (name.encode(), len(content), content))
    return b"".join(out)


def code(rng: random.Random, length: int) -> list[str]:
    """Lines as in a program: two of five common to many files."""
    common = ["", "    return None", "        pass", "import os", "    }", "try:", "else:", "    def __init__(self):"]
    return [
        rng.choice(common)
        if rng.random() < 0.4
        else "    " + " ".join(f"name_{rng.randrange(3_000)}" for _ in range(rng.randint(2, 6)))
        for _ in range(length)
    ]


def edited(rng: random.Random, body: list[str], edits: int) -> list[str]:
    body = list(body)
    for _ in range(edits):
        body[rng.randrange(len(body))] = f"    edited {rng.randrange(10**6)}"
    return body


def few() -> tuple[Files, Files]:
    rng = random.Random(1)
    before = {f"src/{n}.py": code(rng, 200) for n in range(400)}
    return before, before | {f"src/{n}.py": edited(rng, before[f"src/{n}.py"], 5) for n in range(3)}


def lines() -> tuple[Files, Files]:
    rng = random.Random(2)
    body = [f"{n} {rng.randrange(10**9)}" for n in range(60_000)]
    return {"long": body}, {"long": [line + " edited" if n < 40_000 else line for n, line in enumerate(body)]}


def many() -> tuple[Files, Files]:
    rng = random.Random(3)
    before = {f"{n % 70}/{n}.py": code(rng, 40) for n in range(5_000)}
    return before, {name: edited(rng, body, 3) for name, body in before.items()}


def renames(licence: int) -> tuple[Files, Files]:
    rng = random.Random(4)
    top = [f"# term {n} of the licence" for n in range(licence)]
    bodies = [top + code(rng, rng.randint(20, 120)) for _ in range(RENAMES)]
    places = rng.sample(range(RENAMES), RENAMES)
    after = {f"new/m{place:04}.py": edited(rng, body, 4) for place, body in zip(places, bodies, strict=True)}
    return {f"old/{n:04}.py": body for n, body in enumerate(bodies)}, after


if __name__ == "__main__":
    main()
