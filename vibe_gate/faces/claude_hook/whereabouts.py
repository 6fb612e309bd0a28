"""Where each command of a line may run, and which variables it may see changed.

A `cd` need not have happened: every folder in which a command may stand is kept.
"""

import os.path

from vibe_gate.faces.claude_hook.git_settings import AGENT_VARIABLES
from vibe_gate.faces.claude_hook.guarded import Project
from vibe_gate.faces.claude_hook.shell import EARLIER, SCRATCH, UNKNOWN, Command

MAX_PLACES = 6
MAX_PATH = 4096


_DECLARING = ("export", "declare", "typeset", "local", "readonly")
_EXPORTED = (*AGENT_VARIABLES, "HOME", "PATH")
"""What every command sees anyway, whatever way it is set."""


class Whereabouts:
    """Follows the commands of one line, in their order."""

    def __init__(self, places: list[str], changed: dict[str, str | None], project: Project, earlier: list[str]) -> None:
        self._project = project
        self._scopes: dict[tuple[int, ...], _Scope] = {(): _Scope(places, changed, earlier)}

    def before(self, command: Command) -> tuple[list[str], dict[str, str | None]]:
        """Where the command may run, and the variables changed for it; what it changes counts from then on."""
        scope = self._scope(command.scope)
        scope.go_on(command.joined)
        here, changed = scope.places, scope.changed
        words = command.words
        if words[:1] in (["cd"], ["pushd"], ["popd"]) and not command.aside:
            self._go(scope, command, words)
        elif not words or words[0] in _DECLARING:
            scope.changed = changed | _declared(command)
        elif words[:1] == ["unset"]:
            scope.changed = changed | dict.fromkeys(word for word in words[1:] if not word.startswith("-"))
        else:
            self._note_made(words, here)
        return here, changed

    def earlier(self, command: Command) -> list[str]:
        """The folders that may have been left before the command: what `$OLDPWD` and `-` may mean."""
        return self._scope(command.scope).earlier

    def _scope(self, name: tuple[int, ...]) -> "_Scope":
        if name not in self._scopes:
            outer = self._scope(name[:-1])
            self._scopes[name] = _Scope(outer.places, outer.changed, outer.earlier)
        return self._scopes[name]

    def _go(self, scope: "_Scope", command: Command, words: list[str]) -> None:
        nowhere = "~" if words[0] == "cd" else "-"
        target = next((word for word in words[1:] if word == "-" or not word.startswith("-")), nowhere)
        first, _, below = target.partition("/")
        if words[0] == "popd" or _is_back(first):
            scope.places = _few([*scope.places, *(_full(below, place) for place in scope.earlier)])
            return
        reached = [_full(target, place) for place in scope.places]
        if any(len(place) > MAX_PATH for place in reached):
            return  # no such folder can be
        scope.earlier = _few([*scope.earlier, *scope.places])
        sure = all(UNKNOWN not in place.replace(SCRATCH, "") and self._there(place) for place in reached)
        if command.maybe or command.joined == "||":
            scope.places = _few([*scope.places, *reached])
        else:
            scope.doubtful = scope.doubtful or not sure or command.joined == "&&"
            scope.places = reached

    def _there(self, place: str) -> bool:
        return place in self._project.made or place.startswith(SCRATCH) or os.path.isdir(place)  # noqa: PTH112

    def _note_made(self, words: list[str], here: list[str]) -> None:
        """Folders that `mkdir`, `git init` and `git clone` make."""
        made = []
        if words[:1] == ["mkdir"]:
            made = [word for word in words[1:] if not word.startswith("-")]
        elif words[:2] in (["git", "init"], ["git", "clone"]):
            made = [word for word in words[2:] if not word.startswith("-")][-1:]
            if words[1] == "clone" and made:
                made.append(made[0].rstrip("/").rpartition("/")[2].removesuffix(".git"))
        for name in made:
            if UNKNOWN not in name:
                self._project.made.add(_full(name, here[-1]))
        if words[:1] in (["ln"], ["mv"], ["cp"], ["rmdir"]) and self._project.made:
            gone = tuple(_full(word, here[-1]) + "/" for word in words[1:])  # what lies there now is something else
            self._project.made -= {place for place in self._project.made if (place + "/").startswith(gone)}


def _is_back(name: str) -> bool:
    """Whether a shell takes the name for a folder where it was: `-`, `~-`, `$OLDPWD`, `~2`, `+1`."""
    return name in ("-", "~-", EARLIER) or (name[:1] in ("~", "+") and name.lstrip("~+-").isdecimal())


def with_earlier(command: Command, earlier: list[str]) -> list[Command]:
    """The command as it is where `$OLDPWD` and `~-` in it are each of these folders; none where it names neither."""
    texts = [*command.words, *(target for _, target in command.redirected)]
    if not any(EARLIER in text or text.startswith("~-") for text in texts):
        return []
    found = []
    for place in earlier:
        one = Command()
        one.__dict__.update(command.__dict__)
        one.words = [_put(word, place) for word in command.words]
        one.redirected = [(operator, _put(target, place)) for operator, target in command.redirected]
        found.append(one)
    return found


def _put(word: str, place: str) -> str:
    return place + word[2:] if word == "~-" or word.startswith("~-/") else word.replace(EARLIER, place)


def _full(name: str, place: str) -> str:
    return os.path.normpath(os.path.join(place, os.path.expanduser(name)))  # noqa: PTH118, PTH111


def _declared(command: Command) -> dict[str, str | None]:
    """Variables as the commands after this one see them; None for those that it keeps from them."""
    words = command.words
    if not words:
        return dict(command.assigned)
    options = [word for word in words[1:] if word[:1] in ("-", "+")]
    names = [word.partition("=")[0] for word in words[1:] if word not in options]
    if any("n" in word for word in options) if words[0] == "export" else any("x" in w for w in options if w[0] == "+"):
        return dict.fromkeys(names)
    shown = words[0] == "export" or any("x" in word for word in options)
    return {name: value for name, value in command.assigned.items() if shown or name in _EXPORTED}


class _Scope:
    """The state of one subshell."""

    def __init__(self, places: list[str], changed: dict[str, str | None], earlier: list[str]) -> None:
        self.places = places
        self.changed = changed
        self.base = places
        self.earlier = earlier
        self.doubtful = False

    def go_on(self, joined: str) -> None:
        """A command follows after `joined`: what the list before it was unsure of stays unsure."""
        if joined == "&&" or joined in ("|", "|&"):
            return
        if self.doubtful or joined == "||":
            self.places = _few([*self.base, *self.places])
            self.doubtful = False
        if joined != "||":
            self.base = self.places


def _few(places: list[str]) -> list[str]:
    found = list(dict.fromkeys(places))
    return found if len(found) <= MAX_PLACES else [*found[: MAX_PLACES // 2], *found[-MAX_PLACES // 2 :]]
