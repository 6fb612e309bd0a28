"""Revisions: names to commits, commits to trees and parents, what lies between two; and git notes.

Replace refs and grafts are ignored on purpose. They are local sleight of hand that shows
other commits than those that are pushed, and could hide a change from its review.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice, pairwise

from msgspec import Struct

from vibe_gate.domain import paths
from vibe_gate.domain.change import EMPTY_TREE, MAX_COMMITS, Change
from vibe_gate.domain.escape import expression, shorten_text
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
from vibe_gate.git.repository_place import RepositoryPlace
from vibe_gate.git.trees import Tree

_DEFAULT_BRANCHES = ("main", "master")

_WARNING = ("-c", "core.warnAmbiguousRefs=true")
_AMBIGUOUS = expression(r"refname '(.*)' is ambiguous")
_FULL_ID = expression(r"[0-9a-f]{40}\Z")

_BEFORE_HEAD = ("HEAD~1", "HEAD~", "HEAD^", "HEAD^1", "@~1", "@~", "@^", "@^1")

MAX_SIGNED = 1_000
"""Commits of one change whose authors are looked at, newest first."""

_MAX_RECENT = 2_000
"""Commits that are kept in memory, to be looked at again."""

_MAX_RECENT_BYTES = 16 << 10
"""Of one of them: a message has no limit of its own."""

MAX_SHOWN = 200
"""Characters of a revision in a sentence about it: it may be whatever was pasted."""

MAX_REFLOG = 5_000
"""Entries of all reflogs that are read."""

MAX_NOTES = 100_000
"""Notes of one ref that are read."""

MAX_NOTE_BYTES = 4 << 20

_UNCUT = {"GIT_SHALLOW_FILE": "/dev/null"}
"""History as the commits themselves have it: any process can write .git/shallow, the list of where
it ends.
"""


_BLAMED = expression(rb"(?m)^([0-9a-f]{40}) \d+ (\d+)(?: \d+)?$")
"""A row of `git blame --porcelain`; the lines themselves begin with a tab."""


def _quote_revision(revision: str) -> str:
    """The revision, or the beginning of a long one, as text that is safe anywhere."""
    return paths.quote(shorten_text(revision, MAX_SHOWN))


class ReflogEntry(Struct, frozen=True):
    """A commit that HEAD or a branch was at."""

    commit: str

    amends: str = ""
    """The one that an amend replaced by it, or ""."""


class Revisions:
    """What git says about revisions at one place; the commits themselves say the rest."""

    def __init__(self, place: RepositoryPlace, objects: Objects) -> None:
        self._place = place
        self._git = place.git
        self._objects = objects
        self._shallow = {"GIT_SHALLOW_FILE": os.fspath(place.common_dir / "shallow")}
        self._default: tuple[str | None, str] | None = None
        self._remarks: dict[str, None] = {}
        self._recent: dict[str, CommitContent] = {}
        """Commits that were read, by id."""

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
            raise RevisionError(f"{_quote_revision(revision)} is not a revision.", revision)
        if revision == "HEAD":
            if head := self.head():
                return head
            raise RevisionError(
                "HEAD has no commit yet: make the first commit, or review what is staged."
            )
        if commit := self._peeled(revision, "commit"):
            return commit  # a range has a thousand of them, and needs no process for each
        answer = self._git.run(*_WARNING, "rev-parse", "--verify", "--end-of-options", revision)
        warning = _AMBIGUOUS.search(answer.err)
        if warning and not _FULL_ID.match(revision):
            raise UsageError(self._describe_ambiguous(warning[1]))
        if answer.code:
            raise RevisionError(self._describe_missing(revision), revision)
        commit = self._peeled(answer.line, "commit")
        if not commit:
            raise RevisionError(
                f"{_quote_revision(revision)} names no commit: give a commit, branch or tag.",
                revision,
            )
        return commit

    def resolve_shared(self, revision: str) -> str:
        """The same of what everybody is bound by: a name that begins with a remote's is that
        remote's branch only.
        """
        if any(revision.startswith(f"{remote}/") for remote in self._remotes()):
            return self.resolve(f"refs/remotes/{revision}")
        return self.resolve(revision)

    def head(self) -> str:
        """HEAD's commit id, "" on an unborn branch."""
        return self._id_of("HEAD^{commit}")

    def branch(self) -> str:
        """The branch that is checked out; "" if HEAD is a commit."""
        return self._git.run("symbolic-ref", "--quiet", "HEAD").line.removeprefix("refs/heads/")

    def tree_of(self, commit: str) -> str:
        """The tree of a commit, by its own first line; the empty tree of no commit ("")."""
        if commit:
            return self._content_of(commit).tree
        return EMPTY_TREE

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
        if target is None or target.kind == "tag":
            raise RevisionError(f"{name} is a tag of a missing object, not a commit or tree.")
        if target.kind == "tree":
            return Tree(self._objects, target.id)
        if target.kind == "commit":
            return Tree(self._objects, parse_commit(name, target.data).tree)
        raise RevisionError(f"{name} is a {target.kind}, not a commit or tree.")

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
        if not _FULL_ID.match(name):
            return ""
        target = self._objects.database.find(name)
        if target is None:
            return ""
        if target.kind == kind:
            return target.id
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
                f"the history ends at {commit[:12]} (a shallow clone), so its change cannot be "
                "seen: run `git fetch --deepen=1`, or `git fetch --unshallow` for all of it."
            )
        return parent

    def merge_base(self, base: str, head: str, revisions: str) -> str:
        """Where `head` parted from `base`: their best common ancestor; `base` itself if there are
        several.

        Of several (after criss-cross merges) none will do: held against one, what another
        one brought and `head` takes back is no change, and merging takes it back all the
        same. Against `base` nothing that a merge can bring is left out, and `remarks` says so.
        RevisionError, naming `revisions`, where there is none, or where a shallow clone hides it.
        """
        answer = self._git.run("merge-base", "--all", base, head)
        name = _quote_revision(revisions)
        if answer.code:
            advice = ""
            if self._place.shallow:
                advice = " This clone is shallow: `git fetch --unshallow` may bring it."
            raise RevisionError(f"{name} has no merge base: the two share no history here.{advice}")
        ancestors = answer.line.split("\n")
        if self._is_cut_off(base, head, ancestors):
            raise RevisionError(
                f"where the two of {name} parted cannot be told here, for this clone is shallow: "
                "run `git fetch --unshallow`."
            )
        if len(ancestors) == 1:
            return ancestors[0]
        self.add_remark(
            f"{name} has {len(ancestors)} merge bases (merges that cross), so the change was taken "
            f"against {base[:12]} itself: merge that into the branch, and only what the branch "
            "changes is shown."
        )
        return base

    def _is_cut_off(self, base: str, head: str, ancestors: list[str]) -> bool:
        """Whether history may have ended too early to know the merge bases: at a commit that is
        behind none of them.
        """
        try:
            ends = set((self._place.common_dir / "shallow").read_text("ascii").split())
        except FileNotFoundError:
            return False
        limits = [f"^{ancestor}" for ancestor in ancestors]
        listing = self._git.run("rev-list", base, head, *limits)
        return listing.code != 0 or not ends.isdisjoint(listing.line.split("\n"))

    def upstream(self) -> str | None:
        """The commit of the upstream that HEAD's branch has; None without one.

        Anybody can have a branch follow one of this repository, itself even, so `remarks` says so.
        """
        name = self._git.run("rev-parse", "--symbolic-full-name", "@{upstream}").line
        if name.startswith("refs/heads/"):
            self.add_remark(
                f"HEAD's branch follows {paths.quote(name)} of this repository, so what that has "
                "was not looked at: give a range for more."
            )
        commit = self._git.run("rev-parse", "--verify", "--quiet", "@{upstream}^{commit}").line
        return commit or None

    def upstream_base(self) -> str | None:
        """Merge base of HEAD with the remote's default branch; its tip if there is none, or
        several.

        None where no remote has a default branch that is known here.
        """
        default = self.remote_default()
        if default is None:
            self._remark_lost_default()
            return None
        ancestors = self._git.run("merge-base", "--all", "HEAD", default).line.split("\n")
        if len(ancestors) > 1 or not ancestors[0]:
            return default
        return ancestors[0]

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
        settings = self._place.settings
        if not remotes and not any(_says_remote(setting.name) for setting in settings.lines):
            return None, ""
        remote = _likeliest_remote(remotes)
        followed = {line.value for line in settings.lines if _says_remote(line.name)}
        if not followed <= {remote, "."}:  # else it is that one, whatever is checked out
            branch = self.branch()
            configured = settings.value(f"branch.{branch}.remote") if branch else None
            remote = remote if configured in (None, ".") else configured
        default, target = self._default_branch(remote) if remote else ("", "")
        tip = self._peeled(target, "commit")
        if not tip:
            return None, ""
        return tip, default

    @property
    def unknown_default(self) -> str:
        """The sentence that a remote's default branch is not known here; "" if it is, or there is
        no remote.
        """
        if self.remote_default() is not None:
            return ""
        remotes = sorted(self._remotes())
        if not remotes:
            return ""
        remote = "origin" if "origin" in remotes else remotes[0]
        fact, remedy = _describe_unknown(remote)
        return f"{fact}: {remedy}."

    def _remark_lost_default(self) -> None:
        """Say it if a remote was fetched from, and no branch of it is known any more: nothing of it
        binds then.

        A remote that was added for a first push has no branch that could be known.
        """
        settings = self._place.settings
        remotes = [name for name in self._remotes() if settings.value(f"remote.{name}.fetch")]
        if not remotes or not self._has_fetched():
            return
        fact, remedy = _describe_unknown(min(remotes))
        self.add_remark(f"{fact}, so the gate is the one of before the change: {remedy}.")

    def _has_fetched(self) -> bool:
        """Whether there are signs that something was fetched: git's own, or a branch that follows a
        remote's.
        """
        if (self._place.git_dir / "FETCH_HEAD").exists():
            return True
        follows = [line for line in self._place.settings.lines if _says_remote(line.name)]
        return any(line.value != "." for line in follows)

    def has_remote(self, name: str) -> bool:
        """Whether the configuration says anything of a remote of this name."""
        return name in self._remotes()

    def _remotes(self) -> set[str]:
        """The remotes that `git remote` lists: those of which the configuration says anything."""
        remotes = set()
        for setting in self._place.settings.lines:
            section, _, name_and_key = setting.name.partition(".")
            if section == "remote" and "." in name_and_key:
                remotes.add(name_and_key.rpartition(".")[0])
        return remotes

    def _default_branch(self, remote: str) -> tuple[str, str]:
        """Where the remote's HEAD leads, if it is known; else its main or master, for remotes that
        were added by hand: the ref, and what it is at. ("", "") if none is known, as of a HEAD
        that leads to a branch that is gone: whoever may push a `main` would choose the gate.
        """
        refs = [f"refs/remotes/{remote}/{name}" for name in ("HEAD", *_DEFAULT_BRANCHES)]
        columns = "--format=%(refname) %(objectname) %(symref)"
        listing = self._git.run("for-each-ref", columns, *refs)
        branches: dict[str, tuple[str, str]] = {}
        for line in listing.line.split("\n"):
            ref, _, tip_and_target = line.partition(" ")
            tip, _, target = tip_and_target.partition(" ")
            if target or ref != refs[0]:  # a HEAD that is no symbolic ref names no branch
                branches[ref] = (target or ref, tip)
        if refs[0] not in branches and self._is_symbolic(refs[0]):
            return "", ""
        for ref in refs:
            if ref in branches:
                return branches[ref]
        return "", ""

    def _is_symbolic(self, ref: str) -> bool:
        """Whether the ref leads to another one, which may be missing."""
        return not self._git.run("symbolic-ref", "--quiet", ref).code

    def _has_ref(self, ref: str) -> bool:
        return not self._git.run("show-ref", "--verify", "-q", ref).code

    def _describe_ambiguous(self, name: str) -> str:
        candidates = [f"refs/{kind}/{name}" for kind in ("heads", "tags", "remotes")]
        refs = [ref for ref in candidates if self._has_ref(ref)]
        meanings = "more than one ref, or a ref and a commit"
        if len(refs) > 1:
            meanings = " and ".join(refs)
        return (
            f"{_quote_revision(name)} is ambiguous, it names {paths.quote(meanings)}: "
            "give the full name of the one you mean."
        )

    def names(self) -> list[str]:
        """The short names of branches, remote branches and tags."""
        return self._git.run("for-each-ref", "--format=%(refname:short)").line.split("\n")

    def _describe_missing(self, revision: str) -> str:
        name = _quote_revision(revision)
        if os.path.lexists(revision) or os.path.lexists(self._place.root / revision):
            return f"{name} is a file or folder; give a commit, branch or range (all its changes)."
        head = self.head() if revision in _BEFORE_HEAD else ""
        if head and not self.parents(head):
            return f"{name}: HEAD is the first commit; `--commit HEAD` is all that it brings."
        fact = f"{name} names no revision here."
        if self._place.shallow:
            return (
                f"{fact} This clone is shallow: run `git fetch --deepen=50`, "
                "or `git fetch --unshallow`."
            )
        return f"{fact} `git log --oneline --all` shows what there is."

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
        content = self._recent.get(commit)
        if content is not None:
            return content
        data = self._objects.database.read(commit).data
        content = parse_commit(commit, data)
        if len(data) <= _MAX_RECENT_BYTES:
            if len(self._recent) == _MAX_RECENT:
                self._recent.clear()
            self._recent[commit] = content
        return content

    def blame(self, commit: str, path: str, lines: Sequence[int], base: str = "") -> dict[int, str]:
        """By line of the file in that commit (from 1), the commit that wrote it, white space aside.

        Lines that are as old as `base` are left out, and so is everything if the file is not there.
        """
        spans = [f"-L{first},{last}" for first, last in _runs(lines)]
        command = ["blame", "-w", "--porcelain", "--no-textconv", *spans, commit]
        if base:
            command.append(f"^{base}")
        blame = self._objects.bare.run(*command, "--", path, variables=self._shallow)
        if blame.code:
            return {}
        commits = {}
        for commit_id, line in _BLAMED.findall(blame.out):
            if commit_id.decode() != base:
                commits[int(line)] = commit_id.decode()
        return commits

    def commits(self, change: Change) -> tuple[Commit, ...]:
        """The commits that a committed change is made of, newest first; () while it is
        uncommitted.
        """
        if not change.head_commit:
            return ()
        if change.kind == "commit":
            return (self.commit(change.head_commit),)
        commit_ids = self.span(change.base_commit, change.head_commit, MAX_SIGNED)
        return tuple(self.commit(commit_id) for commit_id in commit_ids)

    def pending_commit(self, message: str) -> Commit:
        """The commit that git is about to make here: no id yet, and whom git would name as author
        and committer.
        """
        variables = ("GIT_AUTHOR_IDENT", "GIT_COMMITTER_IDENT")
        processes = [self._git.start("var", name) for name in variables]
        author, committer = (parse_signature(finish(process).out) for process in processes)
        return _signed("", author, committer, message)

    def span(self, base: str, head: str, limit: int = MAX_COMMITS) -> tuple[str, ...]:
        """Ids of the commits that `head` has and `base` ("": nothing) has not, newest first.

        If a shallow clone lacks some, they end where its list says. IntegrityError if one is gone.
        """
        command = ["rev-list", "--topo-order", f"--max-count={limit}", head]
        if base:
            command.append(f"^{base}")
        listing = self._git.run(*command, variables=_UNCUT)
        if listing.code:
            listing = self._git.run(*command)
        if listing.code:
            sentence = (
                f"The commits of {base[:12]}..{head[:12]} are not all here, or damaged: "
                f"run `git fsck`. {listing.err}"
            )
            raise IntegrityError(sentence.strip())
        return tuple(map(sys.intern, listing.line.split()))

    def origin_of(self, commit: str) -> str:
        """What git keeps when it makes a commit anew: its author, the author's date, its title."""
        content = self._content_of(commit)
        title = content.message.lstrip("\n").partition("\n")[0]
        return paths.decode(content.author_line) + "\n" + title

    def reflog(self) -> list[ReflogEntry]:
        """What the reflogs of HEAD, of every branch and of other worktrees' HEADs hold, each the
        newest first.
        """
        command = ("log", "-g", "--all", f"--max-count={MAX_REFLOG}", "--format=%gD%x00%H%x00%gs")
        lines = self._git.run(*command).line.split("\n")
        rows = [line.split("\0", 2) for line in lines if line.count("\0") >= 2]
        before_all = ["", "", ""]
        entries = []
        for row, older_row in pairwise([*rows, before_all]):
            name, commit, action = row
            older_name, older_commit, _ = older_row
            amends = ""
            if action.startswith("commit (amend)") and _ref_of(name) == _ref_of(older_name):
                amends = older_commit
            entries.append(ReflogEntry(commit, amends))
        return entries

    # Notes

    def notes(self, ref: str) -> Iterator[tuple[str, bytes]]:
        """The git notes of `refs/notes/<ref>`, each after the id of what it is on, but for those
        over `MAX_NOTE_BYTES`.
        """
        for object_id, note in islice(self.note_ids(ref).items(), MAX_NOTES):
            for text in self.note_texts([note]).values():
                yield object_id, text

    def note_ids(self, ref: str) -> dict[str, str]:
        """The ids of the notes of `refs/notes/<ref>`, by the id of what they are on."""
        listing = self._git.run("notes", f"--ref={ref}", "list")
        if listing.code:
            return {}
        ids = {}
        for line in listing.line.split("\n"):
            if line:
                note, object_id = line.split()
                ids[object_id] = note
        return ids

    def note_texts(self, notes: Iterable[str]) -> dict[str, bytes]:
        """The texts of notes, by their own ids, but for those over `MAX_NOTE_BYTES`."""
        database = self._objects.database
        texts = {}
        for note in notes:
            if database.size(note) <= MAX_NOTE_BYTES:
                texts[note] = database.read(note).data
        return texts

    def note(self, ref: str, object_id: str) -> bytes:
        """The note of `refs/notes/<ref>` on one object, b"" without one."""
        note = self._git.run("notes", f"--ref={ref}", "list", object_id)
        if note.code:
            return b""
        return self._objects.database.read(note.line).data

    def add_note(self, ref: str, object_id: str, text: bytes) -> None:
        """Put a note on an object, instead of the one it has. Only the notes' ref moves.
        StorageError.
        """
        answer = self._git.run("hash-object", "-w", "--stdin", stdin=text)
        if not answer.code:
            add = ("notes", f"--ref={ref}", "add", "-f", "-C", answer.line, object_id)
            answer = self._git.run(*add)
        if answer.code:
            reason = answer.err.splitlines()[-1] if answer.err else ""
            raise StorageError(f"The note on {object_id[:12]} was not written: {reason}")


def _ref_of(entry: str) -> str:
    """The ref of a reflog's entry, `ref@{number}`."""
    return entry.rpartition("@{")[0]


def _runs(lines: Sequence[int]) -> list[tuple[int, int]]:
    """Numbers in order as runs of neighbours, each by its first and last."""
    runs: list[tuple[int, int]] = []
    for line in sorted(set(lines)):
        if runs and runs[-1][1] == line - 1:
            runs[-1] = (runs[-1][0], line)
        else:
            runs.append((line, line))
    return runs


def _says_remote(setting: str) -> bool:
    """Whether a setting says which remote a branch follows."""
    return setting.startswith("branch.") and setting.endswith(".remote")


def _likeliest_remote(remotes: Collection[str]) -> str | None:
    """The remote of a branch that follows none."""
    if "origin" in remotes:
        return "origin"
    if len(remotes) != 1:
        return None
    return next(iter(remotes))


def _describe_unknown(remote: str) -> tuple[str, str]:
    """That no default branch of a remote is known here, and the remedy."""
    name = paths.quote(remote)
    fact = f"no default branch of the remote {name} is known here"
    return fact, f"`git fetch {name}`, then `git remote set-head {name} --auto`"


def _signed(name: str, author: CommitSignature, committer: CommitSignature, message: str) -> Commit:
    return Commit(name, author.name, author.address, committer.address, message)
