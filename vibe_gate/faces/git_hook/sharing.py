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


class _Leaving(Struct, frozen=True):
    """What would leave: by commit what was asked for; `mode` says how much of it."""

    by_commit: Mapping[str, tuple[SharedSession, ...]]
    mode: SharedPrompts
    url: str
    person: str

    @property
    def sessions(self) -> list[SharedSession]:
        """Each session once, as far as the latest commit goes."""
        every = sorted(
            chain.from_iterable(self.by_commit.values()), key=lambda session: session.turns
        )
        return list({(session.agent, session.session): session for session in every}.values())

    @property
    def count(self) -> str:
        """How many prompts of how many sessions."""
        sessions = self.sessions
        return f"{counted(sum(session.turns for session in sessions), 'prompt')} of {counted(len(sessions), 'session')}"

    @property
    def lines(self) -> dict[str, list[bytes]]:
        """By commit, the lines of its note."""
        is_digest = self.mode == "digest"
        return {
            commit: [(session.digest if is_digest else session).to_line() for session in sessions]
            for commit, sessions in self.by_commit.items()
        }


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
    if not (writes := hook.state(repository.common_dir).captured_blobs.last_writes()):
        return
    modes = {selection: _mode(repository, selection) for selection in pushed}
    commits = [
        commit
        for selection in pushed
        if modes[selection] != "never"
        for commit in pushed[selection]
    ]
    by_commit = _asked_for(hook, repository, commits[-MAX_COMMITS:], writes) if commits else {}
    if not by_commit:
        return
    mode: SharedPrompts = "digest" if "digest" in modes.values() else "redacted"
    person = f"{repository.config('user.name') or '?'} <{repository.config('user.email') or '?'}>"
    leaving = _Leaving(by_commit, mode, without_password(url), person)
    if reason := unknown_branch(repository) or _refusal(hook, repository, leaving):
        hook.say(f"vibe-gate: {leaving.count} stay here: {safe(reason)}")
        return
    if reason := repository.add_remote_notes(url, PROMPTS, leaving.lines):
        hook.say(f"vibe-gate: {leaving.count} are not shared: {safe(reason)}")
        return
    shared = f"{leaving.count} shared ({mode}) with {safe(leaving.url)}"
    hook.say(f"vibe-gate: {shared}: git notes --ref {PROMPTS} show {list(by_commit)[-1][:12]}")


def _mode(repository: Repository, selection: Selection) -> SharedPrompts:
    return gate_for(
        repository, repository.change(selection), base=None, definitions=None
    ).shared_prompts


def _asked_for(
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
    names = {
        commit: [revision for revision in earlier(commit) if repository.has(revision)]
        for commit in commits
    }
    changes = repository.changes_of(list(dict.fromkeys(chain.from_iterable(names.values()))))
    sessions_by_commit = {
        commit: sessions_behind(
            chain.from_iterable(changes[revision].files for revision in every), writes, roots
        )
        for commit, every in names.items()
    }
    return {commit: sessions for commit, sessions in sessions_by_commit.items() if sessions}


def _refusal(hook: Hook, repository: Repository, leaving: _Leaving) -> str:
    """Why nothing leaves, or "": this clone has agreed before, or whoever pushes does now."""
    setting = SETTING.format(leaving.url)
    if repository.config(setting) in ("redacted", leaving.mode):
        return ""
    if hook.hints or hook.environment.in_ci:
        return "a person has to agree, and an agent or a job pushes. Push from a terminal of your own to be asked."
    with hook.terminal() as terminal:
        if terminal is None:
            return f'nobody can be asked without a terminal. `git config "{setting}" {leaving.mode}` agrees beforehand.'
        answer = _answer(terminal, leaving)
    if answer == "a":
        repository.set_config(setting, leaving.mode)
    return (
        ""
        if answer in ("y", "a")
        else f"you did not agree. `git config {NEVER} never` ends the question."
    )


def _answer(terminal: Terminal, leaving: _Leaving) -> str:
    """The first letter of what is answered: y, a, or another for no."""
    terminal.say(screen(leaving))
    while (answer := terminal.ask(QUESTION).lower()[:1]) == "s":
        terminal.say("\n".join((*_whole(leaving), "")))
    return answer


def screen(leaving: _Leaving) -> str:
    """What leaves: who, how many, how each prompt begins, and where it goes."""
    every = list(_beginnings(leaving))
    overflow = [f"  ... and {len(every) - MAX_LISTED} more"] if len(every) > MAX_LISTED else []
    limits = (
        "Only these digests leave. The digest of a short prompt can be guessed."
        if leaving.mode == "digest"
        else "Secrets that vibe-gate knows are replaced; the rest stands as it was typed."
    )
    return SCREEN.format(
        mode=leaving.mode,
        url=safe(leaving.url),
        ref=f"refs/notes/{PROMPTS}",
        person=safe(leaving.person),
        count=leaving.count,
        commits=counted(len(leaving.by_commit), "commit"),
        listed="\n".join((*every[:MAX_LISTED], *overflow)),
        limits=limits,
    )


def _beginnings(leaving: _Leaving) -> Iterator[str]:
    for session in leaving.sessions:
        title = captures.session_title(session.session)
        if leaving.mode == "digest":
            yield f"  {title}: {counted(session.turns, 'prompt')}\n    SHA-256 {session.sha256}"
            continue
        yield f"  {title}"
        for prompt in session.prompts:
            line = show_text(" ".join(prompt.text.split()))
            beginning = (
                f"{line[:BEGINNING]}... ({counted(len(prompt.text), 'character')})"
                if len(line) > BEGINNING
                else line
            )
            yield f"    {prompt.turn}: {beginning}"


def _whole(leaving: _Leaving) -> Iterator[str]:
    for session in leaving.sessions:
        if leaving.mode == "digest":
            yield safe(session.digest.to_line().decode())
        for prompt in session.prompts if leaving.mode == "redacted" else ():
            title = captures.session_title(session.session)
            yield f"\n---- {title}, prompt {prompt.turn}, {prompt.at:%Y-%m-%d %H:%M} UTC\n\n{show_block(prompt.text)}"


def without_password(url: str) -> str:
    """The URL as it may be shown and kept."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return url
    if not parts.netloc or "@" not in parts.netloc or parts.scheme == "ssh":
        return url
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
