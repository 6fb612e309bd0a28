"""What lies between commits, and git notes: the two things that a change of two trees does not say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vibe_gate.errors import IntegrityError, StorageError
from vibe_gate.git.program import Program

if TYPE_CHECKING:
    from vibe_gate.git.revisions import Revisions
    from vibe_gate.git.store import Store

MAX_COMMITS = 10_000
"""Commits of one range, newest first; whoever verifies more does so in parts."""

MAX_REFLOG = 2_000
"""Entries of HEAD's reflog that are looked at: some months of a busy person."""

MAX_NOTES = 10_000
"""Notes of one ref that are read."""


MAX_NOTE_BYTES = 4 << 20


_SIGNS = ("-c", "log.showSignature=false", "log", "--format=%H%x00%P%x00%s%x00%at %an <%ae>")

_UNCUT = {"GIT_SHALLOW_FILE": "/dev/null"}
"""History as the commits themselves have it: a list of where it ends (.git/shallow) can be written by anybody."""


def span(git: Program, base: str, head: str) -> tuple[str, ...]:
    """The commits that `head` has and `base` ("": nothing) has not, newest first. IntegrityError where one is gone.

    Where a shallow clone lacks some, they end where its list says; `false_ends` tells whether that can be so.
    """
    asked = ("rev-list", "--topo-order", f"--max-count={MAX_COMMITS}", head, *([f"^{base}"] if base else []))
    listed = git.run(*asked, environ=_UNCUT)
    listed = git.run(*asked) if listed.code else listed
    if listed.code:
        span = f"{base[:12]}..{head[:12]}"
        raise IntegrityError(
            f"The commits of {span} are not all here, or damaged: run `git fsck`. {listed.err}".strip()
        )
    return tuple(name for name in listed.line.split("\n") if name)


def false_ends(git: Program, revisions: Revisions, store: Store, base: str, names: tuple[str, ...]) -> tuple[str, ...]:
    """Those of a span's commits with a parent that is here, and neither in the span nor in the history of its base."""
    known = set(names)
    outside = {
        parent: name for name in names for parent in revisions.parents(name)
        if parent not in known and parent != base and store.contains(parent)
    }  # fmt: skip
    return tuple(
        name for parent, name in outside.items()
        if not base or git.run("merge-base", "--is-ancestor", parent, base, environ=_UNCUT).code == 1
    )  # fmt: skip


def reflog(git: Program) -> list[list[str]]:
    """What `earlier` looks at: of each commit of HEAD's reflog, the latest first, what git keeps in a new one of it."""
    listed = git.run(*_SIGNS, f"--max-count={MAX_REFLOG}", "--walk-reflogs", "HEAD").line
    return [line.split("\0") for line in listed.split("\n")]


def earlier(git: Program, commit: str, known: list[list[str]]) -> tuple[str, ...]:
    """Commits of HEAD's reflog (`known`) that became this one by amend, rebase or pick, the latest first.

    Git keeps author and time then, and the parent, or else the title. What it comes after is none of them.
    """
    own = git.run(*_SIGNS, "--no-walk", commit).line.split("\0")
    found = dict.fromkeys(line[0] for line in known if _became(line, own))
    return tuple(name for name in found if not is_ancestor(git, name, commit))


def _became(old: list[str], new: list[str]) -> bool:
    if len(old) != 4 or len(new) != 4 or old[0] == new[0]:
        return False
    return old[3] == new[3] and (old[1] == new[1] or old[2] == new[2])


def is_ancestor(git: Program, old: str, new: str) -> bool:
    """Whether `new` has `old` in its history."""
    return git.run("merge-base", "--is-ancestor", old, new).code == 0


def notes(git: Program, ref: str) -> dict[str, bytes]:
    """The notes of `refs/notes/<ref>`, by the id of what they are on; {} where there is no such ref."""
    listed = git.run("notes", f"--ref={ref}", "list")
    if listed.code:
        return {}
    pairs = [line.split() for line in listed.line.split("\n")[:MAX_NOTES] if line]
    found = _blobs(git, [note for note, _ in pairs])
    return {about: found[note] for note, about in pairs if note in found}


def _blobs(git: Program, names: list[str]) -> dict[str, bytes]:
    """Contents by id, in two calls; what is larger than a note may be is left out."""
    asked = "".join(f"{name}\n" for name in names).encode()
    sizes = [line.split() for line in git.run("cat-file", "--batch-check", stdin=asked).line.split("\n")]
    wanted = [fields[0] for fields in sizes if fields[1:2] == ["blob"] and int(fields[2]) <= MAX_NOTE_BYTES]
    out = git.run("cat-file", "--batch", stdin="".join(f"{name}\n" for name in wanted).encode()).out
    found, start = {}, 0
    for name in wanted:
        content = out.index(b"\n", start) + 1
        end = content + int(out[start:content].split()[2])
        found[name], start = out[content:end], end + 1
    return found


def note(git: Program, ref: str, about: str) -> bytes:
    """The note on one object, b"" without one."""
    found = git.run("notes", f"--ref={ref}", "list", about)
    return git.run("cat-file", "blob", found.line).out if not found.code else b""


def add_note(git: Program, ref: str, about: str, text: bytes) -> None:
    """Put a note on an object, instead of the one it has. Only the notes' ref moves. StorageError."""
    written = git.run("hash-object", "-w", "--stdin", stdin=text)
    done = git.run("notes", f"--ref={ref}", "add", "-f", "-C", written.line, about) if not written.code else written
    if done.code:
        raise StorageError(f"The note on {about[:12]} was not written: {done.err.splitlines()[-1] if done.err else ''}")
