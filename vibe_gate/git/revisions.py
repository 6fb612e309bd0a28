"""Revisions: names to commits, commits to trees and parents, what lies between two; and git notes.

Replace refs and grafts are ignored on purpose. They are local sleight of hand that shows
other commits than those that are pushed, and could hide a change from its review.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, islice, pairwise

from msgspec import Struct

from vibe_gate.domain import paths
from vibe_gate.domain.change import EMPTY_TREE, MAX_COMMITS, Change
from vibe_gate.domain.escape import expression
from vibe_gate.domain.provenance import Commit
from vibe_gate.errors import IntegrityError, RevisionError, StorageError, UsageError
from vibe_gate.git.commit_content import (
    CommitContent,
    CommitSignature,
    parse_commit,
    parse_signature,
)
from vibe_gate.git.object_store import Objects
from vibe_gate.git.program import finish
from vibe_gate.git.repository_place import Place
from vibe_gate.git.trees import Tree

_DEFAULT_BRANCHES = ("main", "master")

_WARNING = ("-c", "core.warnAmbiguousRefs=true")
_AMBIGUOUS = expression(r"refname '(.*)' is ambiguous")
_FULL_ID = expression(r"[0-9a-f]{40}\Z")

_BEFORE_HEAD = ("HEAD~1", "HEAD~", "HEAD^", "HEAD^1", "@~1", "@~", "@^", "@^1")

MAX_SIGNED = 1_000
"""Commits of one change whose authors are looked at, newest first."""

MAX_REFLOG = 5_000
"""Entries of all reflogs that are read."""

MAX_NOTES = 10_000
"""Notes of one ref that are read."""

MAX_NOTE_BYTES = 4 << 20

_UNCUT = {"GIT_SHALLOW_FILE": "/dev/null"}
"""History as the commits themselves have it: any process can write .git/shallow, the list of where
it ends.
"""


_BLAMED = expression(rb"(?m)^([0-9a-f]{40}) \d+ (\d+)(?: \d+)?$")
"""A row of `git blame --porcelain`; the lines themselves begin with a tab."""


class ReflogEntry(Struct, frozen=True):
    """A commit that HEAD or a branch was at; `amends` is the one that an amend replaced by it, or
    "".
    """

    commit: str
    amends: str = ""


class Revisions:
    """What git says about revisions at one place; the commits themselves say the rest."""

    def __init__(self, place: Place, objects: Objects) -> None:
        self._place = place
        self._git = place.git
        self._objects = objects
        self._shallow = {"GIT_SHALLOW_FILE": os.fspath(place.common_dir / "shallow")}
        self._default: tuple[str | None, str] | None = None
        self._remarks: dict[str, None] = {}

    @property
    def remarks(self) -> tuple[str, ...]:
        """Sentences for people: how the commits of a change were found, where the store is. Each
        once.
        """
        return tuple(self._remarks)

    def add_remark(self, sentence: str) -> None:
        """Have `remarks` say this, too."""
        self._remarks[sentence] = None

    def resolve(self, revision: str) -> str:
        """The commit id of anything that `git rev-parse` takes for one; "" is HEAD. RevisionError.

        UsageError for a name of more than one ref: git takes the tag, and whoever made it has
        chosen what is looked at.
        """
        revision = revision or "HEAD"
        if revision.startswith("-") or "\0" in revision:
            raise RevisionError(f"{paths.quote(revision)} is not a revision.")
        if revision == "HEAD":
            if head := self.head():
                return head
            raise RevisionError(
                "HEAD has no commit yet: make the first commit, or review what is staged."
            )
        if commit := self._peeled(revision, "commit"):
            return commit  # a range has a thousand of them, and needs no process for each
        named = self._git.run(*_WARNING, "rev-parse", "--verify", "--end-of-options", revision)
        if (twice := _AMBIGUOUS.search(named.err)) and not _FULL_ID.match(revision):
            raise UsageError(self._ambiguous(twice[1]))
        if named.code:
            raise RevisionError(self._no_revision(revision))
        commit = self._id_of(f"{named.line}^{{commit}}")
        if not commit:
            raise RevisionError(
                f"{paths.quote(revision)} names no commit: give a commit, branch or tag."
            )
        return commit

    def resolve_shared(self, revision: str) -> str:
        """The same of what everybody is bound by: a name that begins with a remote's is that
        remote's branch only.
        """
        of_remote = any(revision.startswith(f"{remote}/") for remote in self._remotes())
        return self.resolve(f"refs/remotes/{revision}" if of_remote else revision)

    def head(self) -> str:
        """HEAD's commit id, "" on an unborn branch."""
        return self._id_of("HEAD^{commit}")

    def branch(self) -> str:
        """The branch that is checked out; "" if HEAD is a commit."""
        return self._git.run("symbolic-ref", "--quiet", "HEAD").line.removeprefix("refs/heads/")

    def tree_of(self, commit: str) -> str:
        """The tree of a commit, by its own first line; the empty tree of no commit ("")."""
        return self._content_of(commit).tree if commit else EMPTY_TREE

    def tree(self, treeish: str) -> Tree:
        """The tree of a commit id, a tree id (also of a snapshot) or any other revision.
        RevisionError.
        """
        name = treeish if _FULL_ID.match(treeish) else self.resolve(treeish)
        target = self._objects.database.find(name)
        if target is None:
            raise RevisionError(f"there is no object {name} in this repository.")
        if target.kind == "tag":
            target = self._objects.database.find(self._id_of(f"{name}^{{}}") or name)
        if target is None or target.kind not in ("commit", "tree"):
            kind = target.kind if target and target.kind != "tag" else "tag of a missing object"
            raise RevisionError(f"{name} is a {kind}, not a commit or tree.")
        return Tree(
            self._objects,
            target.id if target.kind == "tree" else parse_commit(name, target.data).tree,
        )

    def has(self, commit: str) -> bool:
        """Whether the commit with this full id is here."""
        return bool(self._peeled(commit, "commit"))

    def has_tree(self, tree: str) -> bool:
        """Whether the tree with this full id is here; what it holds is not looked at."""
        return bool(self._peeled(tree, "tree"))

    def _peeled(self, name: str, kind: str) -> str:
        """The id of the object of this kind ("commit", "tree") that a full id leads to; "" if it
        leads to none.
        """
        target = self._objects.database.find(name) if _FULL_ID.match(name) else None
        if target is None or target.kind == kind:
            return target.id if target else ""
        return self._id_of(f"{name}^{{{kind}}}")

    def _id_of(self, revision: str) -> str:
        """What git takes a revision for; "" if it names nothing."""
        return self._git.run("rev-parse", "--verify", "--quiet", "--end-of-options", revision).line

    def parents(self, commit: str) -> list[str]:
        """As the commit itself says: neither grafts nor a shallow boundary can shorten it."""
        return list(self._content_of(commit).parents)

    def is_ancestor(self, old: str, new: str) -> bool:
        """Whether `new` has `old` in its history."""
        return self._git.run("merge-base", "--is-ancestor", old, new).code == 0

    def first_parent(self, commit: str) -> str:
        """Its id, "" of a root commit. RevisionError where a shallow clone does not have it."""
        parent = next(iter(self.parents(commit)), "")
        if parent and not self.has(parent):
            raise RevisionError(
                f"the history ends at {commit[:12]} (a shallow clone), so its change cannot be seen: "
                "run `git fetch --deepen=1`, or `git fetch --unshallow` for all of it."
            )
        return parent

    def merge_base(self, left: str, right: str, shown: str) -> str:
        """Where `right` parted from `left`: their best common ancestor; `left` itself if there are
        several.

        Of several (after criss-cross merges) none will do: held against one, what another
        one brought and `right` takes back is no change, and merging takes it back all the
        same. Against `left` nothing that a merge can bring is left out, and `remarks` says so.
        RevisionError, naming `shown`, where there is none, or where a shallow clone hides it.
        """
        found = self._git.run("merge-base", "--all", left, right)
        if found.code:
            more = (
                " This clone is shallow: `git fetch --unshallow` may bring it."
                if self._place.shallow
                else ""
            )
            raise RevisionError(
                f"{paths.quote(shown)} has no merge base: the two share no history here.{more}"
            )
        bases = found.line.split("\n")
        if self._is_cut_off(left, right, bases):
            raise RevisionError(
                f"where the two of {paths.quote(shown)} parted cannot be told here, for this clone is shallow: "
                "run `git fetch --unshallow`."
            )
        if len(bases) == 1:
            return bases[0]
        said = (
            f"{paths.quote(shown)} has {len(bases)} merge bases (merges that cross), so the change was taken against "
            f"{left[:12]} itself: merge that into the branch, and only what the branch changes is shown."
        )
        self._remarks[said] = None
        return left

    def _is_cut_off(self, left: str, right: str, bases: list[str]) -> bool:
        """Whether history may have ended too early to know the merge bases: at a commit that is
        behind none of them.
        """
        try:
            ends = set((self._place.common_dir / "shallow").read_text("ascii").split())
        except FileNotFoundError:
            return False
        since = self._git.run("rev-list", left, right, *(f"^{base}" for base in bases))
        return since.code != 0 or not ends.isdisjoint(since.line.split("\n"))

    def upstream(self) -> str | None:
        """The commit of the upstream that HEAD's branch has; None without one.

        Anybody can have a branch follow one of this repository, itself even, so `remarks` says so.
        """
        name = self._git.run("rev-parse", "--symbolic-full-name", "@{upstream}").line
        if name.startswith("refs/heads/"):
            self._remarks[
                f"HEAD's branch follows {paths.quote(name)} of this repository, so what that has was not looked at: "
                "give a range for more."
            ] = None
        return (
            self._git.run("rev-parse", "--verify", "--quiet", "@{upstream}^{commit}").line or None
        )

    def upstream_base(self) -> str | None:
        """Merge base of HEAD with the remote's default branch; its tip if there is none, or
        several.

        None where no remote has a default branch that is known here.
        """
        default = self.remote_default()
        if default is None:
            self._remark_lost()
            return None
        bases = self._git.run("merge-base", "--all", "HEAD", default).line.split("\n")
        return bases[0] if len(bases) == 1 and bases[0] else default

    def remote_default(self) -> str | None:
        """The default branch's commit id at the remote that HEAD's branch follows; else at origin,
        or the only one.

        A detached HEAD and a branch that was never pushed have no upstream, but what was
        pushed by others binds them all the same. Looked for once, until `forget`.
        """
        if self._default is None:
            self._default = self._find_default()
        return self._default[0]

    @property
    def remote_default_name(self) -> str:
        """That branch as people write it, `origin/main`; "" if there is none."""
        return (self._default or self._find_default())[1].removeprefix("refs/remotes/")

    def forget(self) -> None:
        """Something was fetched: look for the default branch anew."""
        self._default = None

    def _find_default(self) -> tuple[str | None, str]:
        remotes = self._remotes()
        if not remotes and not any(_follows(line.name) for line in self._place.settings.lines):
            return None, ""
        branch = self.branch()
        remote = self._place.settings.value(f"branch.{branch}.remote") if branch else None
        if remote is None or remote == ".":
            remote = (
                "origin" if "origin" in remotes else remotes.pop() if len(remotes) == 1 else None
            )
        default = self._default_branch(remote) if remote else None
        if default is None:
            return None, ""
        tip = self._git.run("rev-parse", "--verify", "--quiet", f"{default}^{{commit}}")
        return (None, "") if tip.code else (tip.line, default)

    @property
    def unknown_default(self) -> str:
        """The sentence that a remote's default branch is not known here; "" if it is, or there is
        no remote.
        """
        remotes = sorted(self._remotes()) if self.remote_default() is None else ()
        return (
            ": ".join(_unknown("origin" if "origin" in remotes else remotes[0])) + "."
            if remotes
            else ""
        )

    def _remark_lost(self) -> None:
        """Say it if a remote was fetched from, and no branch of it is known any more: nothing of it
        binds then.

        A remote that was added for a first push has no branch that could be known.
        """
        settings = self._place.settings
        fetched = sorted(name for name in self._remotes() if settings.value(f"remote.{name}.fetch"))
        followed = any(_follows(line.name) and line.value != "." for line in settings.lines)
        if fetched and (followed or (self._place.git_dir / "FETCH_HEAD").exists()):
            unknown, remedy = _unknown(fetched[0])
            self._remarks[f"{unknown}, so the gate is the one of before the change: {remedy}."] = (
                None
            )

    def has_remote(self, name: str) -> bool:
        """Whether the configuration says anything of a remote of this name."""
        return name in self._remotes()

    def _remotes(self) -> set[str]:
        """The remotes that `git remote` lists: those of which the configuration says anything."""
        names = (line.name.partition(".") for line in self._place.settings.lines)
        return {
            rest.rpartition(".")[0]
            for section, _, rest in names
            if section == "remote" and "." in rest
        }

    def _default_branch(self, remote: str) -> str | None:
        """The remote's HEAD if it is known; else its main or master, for remotes that were added by
        hand.
        """
        start = f"refs/remotes/{remote}"
        known = self._git.run("symbolic-ref", "--quiet", f"{start}/HEAD")
        if not known.code:
            return known.line
        guesses = (f"{start}/{name}" for name in _DEFAULT_BRANCHES)
        return next(
            (
                name
                for name in guesses
                if not self._git.run("show-ref", "--verify", "-q", name).code
            ),
            None,
        )

    def _ambiguous(self, name: str) -> str:
        kinds = (f"refs/{kind}/{name}" for kind in ("heads", "tags", "remotes"))
        found = [ref for ref in kinds if not self._git.run("show-ref", "--verify", "-q", ref).code]
        which = (
            " and ".join(found) if len(found) > 1 else "more than one ref, or a ref and a commit"
        )
        return f"{paths.quote(name)} is ambiguous, it names {paths.quote(which)}: give the full name of the one you mean."

    def names(self) -> list[str]:
        """The short names of branches, remote branches and tags."""
        return self._git.run("for-each-ref", "--format=%(refname:short)").line.split("\n")

    def _no_revision(self, revision: str) -> str:
        said = f"{paths.quote(revision)} names no revision here."
        if os.path.lexists(revision) or os.path.lexists(self._place.root / revision):
            return f"{paths.quote(revision)} is a file or folder; give a commit, branch or range (all its changes)."
        if revision in _BEFORE_HEAD and (head := self.head()) and not self.parents(head):
            return f"{paths.quote(revision)}: HEAD is the first commit; `--commit HEAD` is all that it brings."
        if self._place.shallow:
            return f"{said} This clone is shallow: run `git fetch --deepen=50`, or `git fetch --unshallow`."
        return f"{said} `git log --oneline --all` shows what there is."

    # Commits

    def commit(self, name: str) -> Commit:
        """The commit with this id, as people and agents signed it."""
        content = self._content_of(name)
        return _signed(name, content.author, content.committer, content.message)

    def committed_at(self, commit: str) -> int:
        """When the commit was made, by its committer's clock: seconds since 1970; 0 if it does not
        say.
        """
        return self._content_of(commit).committer.time

    def authored_at(self, commit: str) -> int:
        """When its change was first committed, by its author's clock: seconds since 1970; 0 if it
        does not say.
        """
        return self._content_of(commit).author.time

    def _content_of(self, commit: str) -> CommitContent:
        return parse_commit(commit, self._objects.database.read(commit).data)

    def blame(self, commit: str, path: str, lines: Sequence[int], base: str = "") -> dict[int, str]:
        """By line of the file in that commit (from 1), the commit that wrote it, white space aside.

        Lines that are as old as `base` are left out, and so is everything if the file is not there.
        """
        spans = [f"-L{first},{last}" for first, last in _runs(lines)]
        listed = self._objects.bare.run(
            *("blame", "-w", "--porcelain", "--no-textconv", *spans, commit),
            *([f"^{base}"] if base else []),
            *("--", path),
            variables=self._shallow,
        )
        rows = _BLAMED.findall(listed.out) if not listed.code else []
        return {int(line): name.decode() for name, line in rows if name.decode() != base}

    def commits(self, change: Change) -> tuple[Commit, ...]:
        """The commits that a committed change is made of, newest first; () while it is
        uncommitted.
        """
        if not change.head_commit:
            return ()
        if change.kind == "commit":
            return (self.commit(change.head_commit),)
        return tuple(
            map(self.commit, self.span(change.base_commit, change.head_commit, MAX_SIGNED))
        )

    def pending_commit(self, message: str) -> Commit:
        """The commit that git is about to make here: no id yet, and whom git would name as author
        and committer.
        """
        asked = [
            self._git.start("var", name) for name in ("GIT_AUTHOR_IDENT", "GIT_COMMITTER_IDENT")
        ]
        author, committer = (parse_signature(finish(process).out) for process in asked)
        return _signed("", author, committer, message)

    def span(self, base: str, head: str, limit: int = MAX_COMMITS) -> tuple[str, ...]:
        """Ids of the commits that `head` has and `base` ("": nothing) has not, newest first.

        If a shallow clone lacks some, they end where its list says. IntegrityError if one is gone.
        """
        asked = (
            "rev-list",
            "--topo-order",
            f"--max-count={limit}",
            head,
            *([f"^{base}"] if base else []),
        )
        listed = self._git.run(*asked, variables=_UNCUT)
        listed = self._git.run(*asked) if listed.code else listed
        if listed.code:
            shown = f"{base[:12]}..{head[:12]}"
            raise IntegrityError(
                f"The commits of {shown} are not all here, or damaged: run `git fsck`. {listed.err}".strip()
            )
        return tuple(listed.line.split())

    def origin_of(self, commit: str) -> str:
        """What git keeps when it makes a commit anew: its author, the author's date, its title."""
        content = self._content_of(commit)
        title = content.message.lstrip("\n").partition("\n")[0]
        return paths.decode(content.author_line) + "\n" + title

    def reflog(self) -> list[ReflogEntry]:
        """What the reflogs of HEAD, of every branch and of other worktrees' HEADs hold, each the
        newest first.
        """
        asked = ("log", "-g", "--all", f"--max-count={MAX_REFLOG}", "--format=%gD%x00%H%x00%gs")
        listed = self._git.run(*asked)
        rows = [line.split("\0", 2) for line in listed.line.split("\n") if line.count("\0") >= 2]
        entries = []
        for (name, commit, action), (older, before, _) in pairwise([*rows, ["", "", ""]]):
            same_ref = name.rpartition("@{")[0] == older.rpartition("@{")[0]
            entries.append(
                ReflogEntry(
                    commit, before if same_ref and action.startswith("commit (amend)") else ""
                )
            )
        return entries

    # Notes

    def notes(self, ref: str) -> dict[str, bytes]:
        """The git notes of `refs/notes/<ref>`, by the id of what they are on, but for those over
        `MAX_NOTE_BYTES`.
        """
        ids = dict(islice(self.note_ids(ref).items(), MAX_NOTES))
        texts = self.note_texts(ids.values())
        return {about: texts[note] for about, note in ids.items() if note in texts}

    def note_ids(self, ref: str) -> dict[str, str]:
        """The ids of the notes of `refs/notes/<ref>`, by the id of what they are on."""
        listed = self._git.run("notes", f"--ref={ref}", "list")
        pairs = [line.split() for line in listed.line.split("\n") if line and not listed.code]
        return {about: note for note, about in pairs}

    def note_texts(self, notes: Iterable[str]) -> dict[str, bytes]:
        """The texts of notes, by their own ids, but for those over `MAX_NOTE_BYTES`."""
        database = self._objects.database
        return {
            note: database.read(note).data
            for note in notes
            if database.size(note) <= MAX_NOTE_BYTES
        }

    def note(self, ref: str, about: str) -> bytes:
        """The note of `refs/notes/<ref>` on one object, b"" without one."""
        listed = self._git.run("notes", f"--ref={ref}", "list", about)
        return self._objects.database.read(listed.line).data if not listed.code else b""

    def add_note(self, ref: str, about: str, text: bytes) -> None:
        """Put a note on an object, instead of the one it has. Only the notes' ref moves.
        StorageError.
        """
        written = self._git.run("hash-object", "-w", "--stdin", stdin=text)
        done = (
            written
            if written.code
            else self._git.run("notes", f"--ref={ref}", "add", "-f", "-C", written.line, about)
        )
        if done.code:
            reason = done.err.splitlines()[-1] if done.err else ""
            raise StorageError(f"The note on {about[:12]} was not written: {reason}")


def _runs(lines: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Numbers in order as runs of neighbours, each by its first and last."""
    for _, run in groupby(enumerate(sorted(set(lines))), key=lambda each: each[1] - each[0]):
        numbers = [number for _, number in run]
        yield numbers[0], numbers[-1]


def _follows(setting: str) -> bool:
    """Whether a setting says which remote a branch follows."""
    return setting.startswith("branch.") and setting.endswith(".remote")


def _unknown(remote: str) -> tuple[str, str]:
    """That no default branch of a remote is known here, and the remedy."""
    name = paths.quote(remote)
    what = f"no default branch of the remote {name} is known here"
    return what, f"`git fetch {name}`, then `git remote set-head {name} --auto`"


def _signed(name: str, author: CommitSignature, committer: CommitSignature, message: str) -> Commit:
    return Commit(name, author.name, author.address, committer.address, message)
