"""Commits: who wrote them, what lies between two, what they were before a rewrite; and git notes."""

from __future__ import annotations

from collections.abc import Sequence

from vibe_gate.domain.provenance import Commit
from vibe_gate.errors import IntegrityError, StorageError
from vibe_gate.git.objects import Objects
from vibe_gate.git.program import Program, finish
from vibe_gate.git.revisions import Revisions

MAX_COMMITS = 10_000
"""Commits of one range, newest first; whoever verifies more does so in parts."""

MAX_SIGNED = 1_000
"""Commits of one change whose authors are looked at, newest first."""

MAX_REFLOG = 2_000
"""Entries of HEAD's reflog that are looked at: some months of a busy person."""

MAX_NOTES = 10_000
"""Notes of one ref that are read."""

MAX_NOTE_BYTES = 4 << 20

_LOG = ("-c", "log.showSignature=false", "log", "--format=%H%x00%P%x00%s%x00%at %an <%ae>")

_UNCUT = {"GIT_SHALLOW_FILE": "/dev/null"}
"""History as the commits themselves have it: a list of where it ends (.git/shallow) can be written by anybody."""


def commit(objects: Objects, name: str) -> Commit:
    """The commit with this id, as people and agents signed it."""
    header, _, message = objects.read(name).data.partition(b"\n\n")
    fields = dict(line.split(b" ", 1) for line in header.split(b"\n") if line.startswith((b"author ", b"committer ")))
    author, author_email = _person(fields.get(b"author", b""))
    _, committer_email = _person(fields.get(b"committer", b""))
    return Commit(name, author, author_email, committer_email, message.decode("utf-8", "surrogateescape"))


def pending_commit(git: Program, message: str) -> Commit:
    """The commit that git is about to make here: no id yet, and whom git would name as its author and committer."""
    asked = [git.start("var", name) for name in ("GIT_AUTHOR_IDENT", "GIT_COMMITTER_IDENT")]  # `var` answers one
    (author, author_email), (_, committer_email) = (_person(finish(process).out) for process in asked)
    return Commit("", author, author_email, committer_email, message)


def _person(raw: bytes) -> tuple[str, str]:
    name, _, rest = raw.decode("utf-8", "surrogateescape").partition(" <")
    return name, rest.partition(">")[0]


def span(git: Program, base: str, head: str, limit: int = MAX_COMMITS) -> tuple[str, ...]:
    """The commits that `head` has and `base` ("": nothing) has not, newest first. IntegrityError if one is gone.

    If a shallow clone lacks some, they end where its list says; see `shallow_boundaries`.
    """
    asked = ("rev-list", "--topo-order", f"--max-count={limit}", head, *([f"^{base}"] if base else []))
    listed = git.run(*asked, environ=_UNCUT)
    listed = git.run(*asked) if listed.code else listed
    if listed.code:
        shown = f"{base[:12]}..{head[:12]}"
        raise IntegrityError(
            f"The commits of {shown} are not all here, or damaged: run `git fsck`. {listed.err}".strip()
        )
    return tuple(name for name in listed.line.split("\n") if name)


def shallow_boundaries(git: Program, revisions: Revisions, base: str, commits: Sequence[str]) -> tuple[str, ...]:
    """Those of a span's commits with a parent that is here, and neither in the span nor in the history of its base."""
    known = set(commits)
    outside = {
        parent: commit for commit in commits for parent in revisions.parents(commit)
        if parent not in known and parent != base and revisions.has(parent)
    }  # fmt: skip
    return tuple(
        commit for parent, commit in outside.items()
        if not base or git.run("merge-base", "--is-ancestor", parent, base, environ=_UNCUT).code == 1
    )  # fmt: skip


def rewritten_from(git: Program, revisions: Revisions, commits: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """For each commit those of HEAD's reflog that became it by amend, rebase or pick, the latest first.

    Git keeps author and time then, and the parent, or else the title. What it comes after is none of them.
    """
    logged = git.run(*_LOG, f"--max-count={MAX_REFLOG}", "--walk-reflogs", "HEAD").line
    known = [line.split("\0") for line in logged.split("\n")]
    asked = "".join(f"{name}\n" for name in commits).encode()
    found: dict[str, tuple[str, ...]] = dict.fromkeys(commits, ())
    for line in git.run(*_LOG, "--no-walk=unsorted", "--stdin", stdin=asked).line.split("\n"):
        own = line.split("\0")
        old = dict.fromkeys(other[0] for other in known if _became(other, own))
        if old:
            found[own[0]] = tuple(name for name in old if not revisions.is_ancestor(name, own[0]))
    return found


def _became(old: list[str], new: list[str]) -> bool:
    if len(old) != 4 or len(new) != 4 or old[0] == new[0]:
        return False
    return old[3] == new[3] and (old[1] == new[1] or old[2] == new[2])


def notes(git: Program, ref: str) -> dict[str, bytes]:
    """The notes of `refs/notes/<ref>`, by the id of what they are on; {} if there is no such ref."""
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
