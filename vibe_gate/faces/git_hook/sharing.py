"""pre-push, `[share] prompts`: what people asked for leaves with the commits that came of it, if
whoever pushes agrees.

Whatever happens here, the push itself goes on; Ctrl-C at the question ends git, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from msgspec import Struct

from vibe_gate.domain.change import Selection
from vibe_gate.domain.escape import counted, safe, show_block, show_text
from vibe_gate.faces.git_hook.call import Hook
from vibe_gate.gate.authorship import RecordedHints
from vibe_gate.gate.shared_prompts import PROMPTS, SharedSession, sessions_behind
from vibe_gate.gate.trusted import gate_for, unknown_branch
from vibe_gate.git import Repository
from vibe_gate.store import captures

if TYPE_CHECKING:
    from vibe_gate.domain.gate import SharedPrompts
    from vibe_gate.faces.git_hook.terminal import Terminal

MAX_COMMITS = 200
"""Of a push, the newest, whose prompts leave: each note takes git a moment."""

MAX_LISTED = 30
"""Lines of the screen about sessions and how their prompts begin."""

BEGINNING = 48
"""Letters of each."""

SETTING = "vibe-gate.{}.sharePrompts"
"""The git setting by which a remote, by its URL, is sent `digest` or `redacted` prompts without a
question.
"""

NEVER = "vibe-gate.sharePrompts"
"""The setting that ends the questions, if it is `never`."""

SCREEN = """\

vibe-gate: this push can take along what the agents were asked for
           ([share] prompts = "{mode}" in gate.toml)

  to        {url}, {ref}
            Who can read the repository can read it, and it stays in
            that ref's history.
  from      {person}
  prompts   {count}, on {commits}

{listed}

{limits}
They leave when you agree: also at --dry-run, and if the push is refused.

"""

QUESTION = "Share this? y: yes, a: always with this remote, s: show all of it, n: no [n] "


class _SharedPrompts(Struct, frozen=True):
    """What would leave the clone."""

    by_commit: Mapping[str, tuple[SharedSession, ...]]
    """The sessions in which each commit was asked for."""
    mode: SharedPrompts
    """How much of them leaves."""
    url: str
    """Of the remote, without a password."""
    person: str
    """Who pushes: name and address."""

    @property
    def sessions(self) -> list[SharedSession]:
        """Each session once, as far as the latest commit goes."""
        all_sessions = list(chain.from_iterable(self.by_commit.values()))
        all_sessions.sort(key=lambda session: session.turns)
        by_name = {(session.agent, session.session): session for session in all_sessions}
        return list(by_name.values())

    @property
    def count(self) -> str:
        """How many prompts of how many sessions."""
        sessions = self.sessions
        prompt_count = sum(session.turns for session in sessions)
        return f"{counted(prompt_count, 'prompt')} of {counted(len(sessions), 'session')}"

    @property
    def lines(self) -> dict[str, list[bytes]]:
        """By commit, the lines of its note."""
        lines_by_commit = {}
        for commit, sessions in self.by_commit.items():
            if self.mode == "digest":
                sessions = tuple(session.digest for session in sessions)
            lines_by_commit[commit] = [session.to_line() for session in sessions]
        return lines_by_commit


def share_prompts(hook: Hook, pushed: Mapping[Selection, Sequence[str]], url: str) -> None:
    """Share what was asked for with the remote at `url`, if the gate wants that and whoever pushes
    agrees.

    `pushed`: what is pushed, each with its commits, parents first.
    """
    try:
        with hook.open_repository() as repository:
            if url and repository.config(NEVER) != "never":
                _share(hook, repository, pushed, url)
    except Exception as error:  # noqa: BLE001  the push was reviewed, and this has nothing to do with it
        hook.say(f"vibe-gate: prompts are not shared: {safe(str(error) or type(error).__name__)}")


def _share(
    hook: Hook, repository: Repository, pushed: Mapping[Selection, Sequence[str]], url: str
) -> None:
    shared = _find_prompts(hook, repository, pushed, url)
    if shared is None:
        return
    refusal = unknown_branch(repository) or _refusal(hook, repository, shared)
    if refusal:
        hook.say(f"vibe-gate: {shared.count} stay here: {safe(refusal)}")
        return
    problem = repository.add_remote_notes(url, PROMPTS, shared.lines)
    if problem:
        hook.say(f"vibe-gate: {shared.count} are not shared: {safe(problem)}")
        return
    newest_commit = list(shared.by_commit)[-1]
    hook.say(
        f"vibe-gate: {shared.count} shared ({shared.mode}) with {safe(shared.url)}: "
        f"git notes --ref {PROMPTS} show {newest_commit[:12]}"
    )


def _find_prompts(
    hook: Hook, repository: Repository, pushed: Mapping[Selection, Sequence[str]], url: str
) -> _SharedPrompts | None:
    """What would leave with this push; None if that is nothing."""
    writes = hook.state(repository.common_dir).captured_blobs.last_writes()
    if not writes:
        return None
    modes: set[SharedPrompts] = set()
    commits: list[str] = []
    for selection, selected_commits in pushed.items():
        mode = _mode_of(repository, selection)
        modes.add(mode)
        if mode != "never":
            commits += selected_commits
    if not commits:
        return None
    by_commit = _sessions_by_commit(hook, repository, commits[-MAX_COMMITS:], writes)
    if not by_commit:
        return None
    name = repository.config("user.name") or "?"
    address = repository.config("user.email") or "?"
    return _SharedPrompts(
        by_commit=by_commit,
        mode="digest" if "digest" in modes else "redacted",
        url=without_password(url),
        person=f"{name} <{address}>",
    )


def _mode_of(repository: Repository, selection: Selection) -> SharedPrompts:
    """How much the gate of the selected change lets leave."""
    change = repository.change(selection)
    return gate_for(repository, change, base=None, definitions=None).shared_prompts


def _sessions_by_commit(
    hook: Hook,
    repository: Repository,
    commits: Iterable[str],
    writes: Mapping[str, Mapping[str, int]],
) -> dict[str, tuple[SharedSession, ...]]:
    """By commit what was asked for; also if only a commit that it was rewritten from has the blobs
    of a session.
    """
    earlier = RecordedHints(hook.state(repository.common_dir).hook_records.all()).earlier
    roots = repository.capture_roots()
    revisions_by_commit = {}
    for commit in commits:
        revisions = [revision for revision in earlier(commit) if repository.has(revision)]
        revisions_by_commit[commit] = revisions
    all_revisions = dict.fromkeys(chain.from_iterable(revisions_by_commit.values()))
    changes = repository.changes_of(list(all_revisions))
    sessions_by_commit = {}
    for commit, revisions in revisions_by_commit.items():
        files = chain.from_iterable(changes[revision].files for revision in revisions)
        sessions = sessions_behind(files, writes, roots)
        if sessions:
            sessions_by_commit[commit] = sessions
    return sessions_by_commit


def _refusal(hook: Hook, repository: Repository, shared: _SharedPrompts) -> str:
    """Why nothing leaves, or "": this clone has agreed before, or whoever pushes does now."""
    setting = SETTING.format(shared.url)
    if repository.config(setting) in ("redacted", shared.mode):
        return ""
    if hook.hints or hook.environment.in_ci:
        return (
            "a person has to agree, and an agent or a job pushes. "
            "Push from a terminal of your own to be asked."
        )
    with hook.terminal() as terminal:
        if terminal is None:
            return (
                "nobody can be asked without a terminal. "
                f'`git config "{setting}" {shared.mode}` agrees beforehand.'
            )
        answer = _ask_person(terminal, shared)
    if answer == "a":
        repository.set_config(setting, shared.mode)
    if answer not in ("y", "a"):
        return f"you did not agree. `git config {NEVER} never` ends the question."
    return ""


def _ask_person(terminal: Terminal, shared: _SharedPrompts) -> str:
    """The first letter of what is answered: y, a, or another for no."""
    terminal.say(_render_question(shared))
    while True:
        answer = terminal.ask(QUESTION).lower()[:1]
        if answer != "s":
            return answer
        terminal.say("\n".join((*_complete_lines(shared), "")))


def _render_question(shared: _SharedPrompts) -> str:
    """What leaves: who, how many, how each prompt begins, and where it goes."""
    beginnings = list(_beginnings(shared))
    lines = beginnings[:MAX_LISTED]
    if len(beginnings) > MAX_LISTED:
        lines.append(f"  ... and {len(beginnings) - MAX_LISTED} more")
    limits = "Secrets that vibe-gate knows are replaced; the rest stands as it was typed."
    if shared.mode == "digest":
        limits = "Only these digests leave. The digest of a short prompt can be guessed."
    return SCREEN.format(
        mode=shared.mode,
        url=safe(shared.url),
        ref=f"refs/notes/{PROMPTS}",
        person=safe(shared.person),
        count=shared.count,
        commits=counted(len(shared.by_commit), "commit"),
        listed="\n".join(lines),
        limits=limits,
    )


def _beginnings(shared: _SharedPrompts) -> Iterator[str]:
    for session in shared.sessions:
        title = captures.session_title(session.session)
        if shared.mode == "digest":
            yield f"  {title}: {counted(session.turns, 'prompt')}\n    SHA-256 {session.sha256}"
            continue
        yield f"  {title}"
        for prompt in session.prompts:
            line = show_text(" ".join(prompt.text.split()))
            if len(line) > BEGINNING:
                size = counted(len(prompt.text), "character")
                line = f"{line[:BEGINNING]}... ({size})"
            yield f"    {prompt.turn}: {line}"


def _complete_lines(shared: _SharedPrompts) -> Iterator[str]:
    """All that leaves, to be read."""
    for session in shared.sessions:
        if shared.mode == "digest":
            yield safe(session.digest.to_line().decode())
            continue
        title = captures.session_title(session.session)
        for prompt in session.prompts:
            head = f"{title}, prompt {prompt.turn}, {prompt.at:%Y-%m-%d %H:%M} UTC"
            yield f"\n---- {head}\n\n{show_block(prompt.text)}"


def without_password(url: str) -> str:
    """The URL as it may be shown and kept."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return url
    if not parts.netloc or "@" not in parts.netloc or parts.scheme == "ssh":
        return url
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
