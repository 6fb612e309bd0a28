"""How git is asked to go around its hooks, and what to do instead."""

from vibe_gate.faces.claude_hook import git_settings
from vibe_gate.faces.claude_hook.git_call import LONG_WITH_VALUE, MAKING, WHOLE, Call, values
from vibe_gate.faces.claude_hook.git_settings import NO_VERIFY, OTHERS, REMOTE, refused_variable
from vibe_gate.faces.claude_hook.shell import UNKNOWN

__all__ = [
    "changed_paths",
    "lines",
    "refused",
    "refused_copy",
    "refused_variable",
    "written",
]

RECEIPTS = "vibe-gate: {0} holds receipts that only vibe-gate writes; run `vibe-gate verify` to read them."
AROUND = "vibe-gate: `git {0}` makes commits that no hook sees; use `git add` and `git commit`."
COPY = "vibe-gate: `git {0}` into a copy of the repository runs none of its hooks; commit in the repository itself."
BASE = "vibe-gate: {0} decides what the gate compares with; let `git fetch` set it, or ask the user."
CLEAN = "vibe-gate: `git clean {0}` would remove the evidence of reviews; add `-e .vibe-artifacts`."

HOOKED = frozenset({"commit", "merge", "rebase", "am", "push", "pull", "cherry-pick", "revert"})
"""Subcommands that run hooks, or make commits that are judged."""

USUAL = HOOKED | {
    *(
        "add",
        "blame",
        "branch",
        "checkout",
        "clean",
        "clone",
        "config",
        "diff",
        "fetch",
        "grep",
        "init",
        "log",
        "ls-files",
    ),
    *("mv", "remote", "reset", "restore", "rev-parse", "rm", "show", "stash", "status", "switch", "tag", "worktree"),
}
"""What is mostly called. Git has more: an alias of such a name is none for it."""

_NO_VERIFY_IN = frozenset({"commit", "merge", "rebase", "push", "pull"})
_SHORT_N_IN = frozenset({"commit"})  # of `am` it skips hooks that the gate does not use
_DRY = ("--dry-run", "--porcelain", "--short")
_NOT_DRY = ("--no-dry-run", "--no-porcelain", "--no-short")
_SHORT_WITH_VALUE = {"commit": "mFCct", "merge": "msXF", "rebase": "xsXC", "push": "o", "pull": "sXoj"}
_SHORT_OPTIONAL = {"commit": "uS", "merge": "S", "rebase": "S", "push": "", "pull": "S"}
_COMMANDS = ("core.editor", "sequence.editor", "core.pager", "core.sshcommand", "diff.external", "core.fsmonitor")
"""Settings whose values git runs."""

_ITSELF = (".", "./", ".git")
_DEFAULT = ("main", "master", "trunk", "develop", "HEAD")
"""Branches that a remote may have as its default."""

_RECEIPT_REFS = ("refs/vibe-gate", "refs/notes/vibe-gate")


def lines(call: Call) -> list[str]:
    """Lines of shell that the call runs, or sets up to be run."""
    words, found = call.arguments, []
    for alias in call.aliases:
        found.append(alias_line(alias, words))
    found += [value for name, value in call.settings if name in _COMMANDS]
    if call.subcommand == "config":
        name, value = (*git_settings.config_words(words), "", "")[:2]
        if name.lower().startswith("alias."):
            found.append(_as_line(value))
        elif name.lower() in _COMMANDS:
            found.append(value)
    elif call.subcommand == "rebase":
        found += values(words, "-x", "--exec")
    elif call.subcommand in ("submodule", "bisect"):
        found += [" ".join(words[at + 1 :]) for at, word in enumerate(words) if word in ("foreach", "run")]
    elif call.subcommand == "difftool":
        found += values(words, "-x", "--extcmd")
    elif call.subcommand == "filter-branch":
        found += [words[at + 1] for at, word in enumerate(words[:-1]) if word.endswith("-filter")]
    return [line for line in found if line.strip()]


def refused(call: Call, changed: dict[str, str | None], elsewhere: bool) -> str | None:
    """Why this call is refused, if it is. `elsewhere`: in another repository than the guarded one."""
    name, arguments = call.subcommand, call.arguments
    if name == "config":
        return git_settings.refused_config(arguments, elsewhere)
    if elsewhere:
        return None
    for setting, _ in call.settings:
        if refusal := git_settings.refused_setting(setting, f"`git -c {setting}`"):
            return refusal
    if name in HOOKED:
        if call.programs:
            return OTHERS.format("`git --exec-path`").replace("settings", "programs")
        if refusal := git_settings.refused_surroundings(changed):
            return refusal
    if name in _NO_VERIFY_IN and (option := _no_verify(name, [word.replace(UNKNOWN, "") for word in arguments])):
        return NO_VERIFY.format(f"git {name} {option}")
    if name in ("commit-tree", "fast-import") or (name == "hash-object" and _writes_commit(arguments)):
        return AROUND.format(name)
    if name == "notes" and any(to == "core.notesref" and "vibe-gate" in value for to, value in call.settings):
        return RECEIPTS.format("refs/notes/vibe-gate")
    judge = _REFS.get(name)
    return judge(arguments, changed) if judge else None


def refused_copy(call: Call) -> str | None:
    """Why a call may not use another git folder for the guarded working tree, if it may not."""
    return COPY.format(call.subcommand) if call.subcommand in HOOKED else None


def changed_paths(call: Call, guarded) -> list[str]:  # type: ignore[no-untyped-def]  # noqa: ANN001
    """The paths that a call changes other than by bringing back what was committed last.

    `guarded` tells whether a path is protected, which makes it one even where a revision could stand.
    """
    words = call.arguments
    if call.subcommand in ("rm", "mv"):
        return words
    if call.subcommand == "update-index":
        return [part for word in words for part in (word.split(",") if "," in word else [word])]
    if call.subcommand not in ("checkout", "restore", "reset"):
        return []
    cut = words.index("--") if "--" in words else len(words)
    before = [word for word in words[:cut] if not word.startswith("-")]
    if call.subcommand == "restore":
        source = values(words[:cut], "-s", "--source")
        source += [word[2:] for word in words[:cut] if word.startswith("-s") and len(word) > 2]
        paths = [*before, *words[cut + 1 :]]
    else:
        named = bool(before) and not guarded(before[0]) and (cut < len(words) or len(before) > 1)
        source, paths = before[:1] if named else [], [*(before[1:] if named else before), *words[cut + 1 :]]
    if not source or source[0] in ("HEAD", "@"):
        return []
    return [_pathspec(path) for path in paths]


def _pathspec(path: str) -> str:
    if path.startswith(":("):
        return path.partition(")")[2]
    return path[2:] if path.startswith(":/") else path


def _as_line(alias: str) -> str:
    return alias[1:] if alias.startswith("!") else "git " + alias


def alias_line(alias: str, arguments: list[str]) -> str:
    """The line that an alias runs with these arguments."""
    return _as_line(alias) + " " + _quoted(arguments)


def _quoted(words: list[str]) -> str:
    return " ".join("'" + word.replace("'", "'\\''") + "'" for word in words)


def _no_verify(subcommand: str, arguments: list[str]) -> str | None:
    """The option that skips hooks, as it was written."""
    at, skipping, dry = 0, None, False
    while at < len(arguments) and arguments[at] != "--":
        word = arguments[at]
        if word.startswith("--"):
            name, equals, _ = word.partition("=")
            silent = subcommand == "commit" and len(name) >= len("--no-po") and "--no-post-rewrite".startswith(name)
            if silent or (len(name) >= len("--no-v") and "--no-verify".startswith(name)):
                skipping = skipping or word
            elif name == "--verify":
                skipping = None
            dry = (dry or (subcommand == "commit" and name in _DRY)) and name not in _NOT_DRY
            takes = any(long.startswith(name) for long in LONG_WITH_VALUE[subcommand])
            at += 1 if takes and not equals and len(name) > 3 else 0
        elif word.startswith("-") and len(word) > 1:
            found, skip = _short_n(subcommand, word)
            skipping = skipping or (word if found else None)
            at += skip
        at += 1
    return None if dry else skipping


def _short_n(subcommand: str, word: str) -> tuple[bool, int]:
    """Whether -n is among the letters, and how many words after this one belong to it."""
    found = False
    for at, letter in enumerate(word[1:], 1):
        if letter == "n" and subcommand in _SHORT_N_IN:
            found = True
        if letter in _SHORT_WITH_VALUE[subcommand]:
            return found, 0 if word[at + 1 :] else 1
        if letter in _SHORT_OPTIONAL[subcommand]:
            break
    return found, 0


def _update_ref(arguments: list[str], changed: dict[str, str | None]) -> str | None:
    if "--stdin" in arguments:
        return AROUND.format("update-ref --stdin")
    named = _named(arguments, ("-m",))
    if refusal := _refused_ref(named[:1]):
        return refusal
    if "-d" in arguments or "--delete" in arguments:
        return None
    if any(word == "HEAD" or word.startswith("refs/heads/") for word in named[:2]):
        return AROUND.format("update-ref")
    return None


def _symbolic_ref(arguments: list[str], changed: dict[str, str | None]) -> str | None:
    named = _named(arguments, ("-m",))
    changes = len(named) > 1 or "-d" in arguments or "--delete" in arguments
    return _refused_ref(named[:2]) if changes else None


def _notes(arguments: list[str], changed: dict[str, str | None]) -> str | None:
    ref, at, words = changed.get("GIT_NOTES_REF") or "", 0, []
    while at < len(arguments):
        word = arguments[at]
        if word == "--ref":
            at, ref = at + 1, (*arguments[at + 1 :], "")[0]
        elif word.startswith("--ref="):
            ref = word[6:]
        elif not word.startswith("-"):
            words.append(word)
        at += 1
    if ref.rpartition("/")[2].startswith("vibe-gate") and words[:1] not in ([], ["list"], ["show"], ["get-ref"]):
        return RECEIPTS.format("refs/notes/vibe-gate")
    return None


def _remote(arguments: list[str], changed: dict[str, str | None]) -> str | None:
    words = [word for word in arguments if not word.startswith("-")]
    if words[:1] == ["set-head"] and "-a" not in arguments and "--auto" not in arguments:
        return BASE.format("the remote's default branch")
    if words[:1] == ["set-url"]:
        return REMOTE.format("`git remote set-url`")
    mirror = next((word for word in arguments if word in ("--mirror", "--mirror=fetch")), None)
    if words[:1] == ["add"] and mirror:
        return REMOTE.format(f"`git remote add {mirror}`")
    if words[:2] in (["remove", "origin"], ["rm", "origin"], ["rename", "origin"]):
        return REMOTE.format(f"`git remote {words[0]} origin`")
    return None


def _fetch(arguments: list[str], changed: dict[str, str | None]) -> str | None:
    """`git fetch . x:refs/remotes/origin/main`: what is not the remote's own branch of that name."""
    words = _operands("pull", arguments)  # whose options are those of fetch, and more
    for mapped in values(arguments, "--refmap"):
        source, _, target = mapped.lstrip("+").partition(":")
        own = source == "refs/heads/*" and target == f"refs/remotes/{''.join(words[:1])}/*"
        if _reaches_remotes(target) and not own:
            return BASE.format(target)
    for word in words[1:]:
        source, _, target = word.lstrip("+").partition(":")
        target = "refs/" + target if target.startswith("remotes/") else target
        if target.startswith(_RECEIPT_REFS) and source != target:
            return _refused_ref([target])
        if _reaches_remotes(target) and not target.startswith("refs/remotes/"):
            return BASE.format(target)
        if not target.startswith("refs/remotes/"):
            if words[0] in _ITSELF and (refusal := _refused_ref([target])):
                return refusal
            continue
        branch = target.removeprefix(f"refs/remotes/{words[0]}/")
        asked = "pull/" in source or "merge-requests/" in source
        if branch == target or (source.removeprefix("refs/heads/") != branch and (not asked or branch in _DEFAULT)):
            return BASE.format(target)
    return None


def _reaches_remotes(target: str) -> bool:
    """Whether a ref, or one that a pattern stands for, is what a remote is known to have."""
    before, star, _ = target.partition("*")
    return target.startswith("refs/remotes/") or (bool(star) and "refs/remotes/".startswith(before))


def _push(arguments: list[str], changed: dict[str, str | None]) -> str | None:
    named = _operands("push", arguments)
    words = named[1:]
    removes = "-d" in arguments or "--delete" in arguments
    gone = [word.partition(":")[2] for word in words if word.startswith(":")] + (words if removes else [])
    here = bool(named) and named[0] in _ITSELF
    return _refused_ref([*gone, *(word.partition(":")[2] for word in words if here)])


def _operands(subcommand: str, arguments: list[str]) -> list[str]:
    """The repository and the refs that a push, a fetch or a pull is given."""
    short = [word for word in arguments if word[:2] != "--" and _short_n(subcommand, word)[1]]
    return _named(arguments, frozenset((*short, *LONG_WITH_VALUE[subcommand])))


def _writes_commit(arguments: list[str]) -> bool:
    """`git hash-object -t commit -w`: of which `git reset` makes what `git commit-tree` would."""
    text = " ".join(arguments)
    return "-w" in arguments and ("-t commit" in text or "-tcommit" in text)


def _stash(arguments: list[str], changed: dict[str, str | None]) -> str | None:
    """`git stash --all` takes what is ignored as well."""
    pushes = not arguments or arguments[0] in ("push", "save") or arguments[0].startswith("-")
    everything = next(
        (word for word in arguments if word == "--all" or (word[:2] != "--" and word[:1] == "-" and "a" in word)), None
    )
    if not pushes or everything is None:
        return None
    return CLEAN.format(everything).replace("git clean", "git stash").replace("add `-e .vibe-artifacts`", "use `-u`")


def _clean(arguments: list[str], changed: dict[str, str | None]) -> str | None:
    """`git clean -fdx` takes what is ignored, and evidence ignores itself."""
    letters = "".join(word[1:] for word in arguments if word[:1] == "-" and word[:2] != "--")
    spared = any(".vibe" in word for word in arguments) or any(word[:1] != "-" for word in arguments)
    ignored = "x" in letters.lower().partition("e")[0] and ("f" in letters or "--force" in arguments)
    if not ignored or spared or "n" in letters or "--dry-run" in arguments:
        return None
    return CLEAN.format(" ".join(arguments))


def _branch(arguments: list[str], changed: dict[str, str | None]) -> str | None:
    """A remote's branch taken away, and a branch that looks like one: names are then taken from it."""
    letters = "".join(word[1:] for word in arguments if word[:1] == "-" and word[:2] != "--")
    named = [word for word in arguments if not word.startswith("-")]
    remote = "r" in letters or "--remotes" in arguments
    if remote and (set(letters) & set("dD") or "--delete" in arguments) and named:
        return BASE.format(named[0])
    if not set(letters) <= set("fcCmMtq") or any(word[:2] == "--" and word not in MAKING for word in arguments):
        return None  # it lists, deletes or describes branches
    moved = set(letters) & set("cCmM") or {"--copy", "--move"} & set(arguments)
    return _refused_ref(named[-1:] if moved else named[:1])


def _tag(arguments: list[str], changed: dict[str, str | None]) -> str | None:
    """A tag that looks like a branch: git takes the tag wherever both are meant."""
    letters = "".join(word[1:2] for word in arguments if word[:1] == "-" and word[:2] != "--")
    if not set(letters) <= set("asfmFu") or any(
        w[:2] == "--" and w.partition("=")[0] not in WHOLE["tag"] for w in arguments
    ):
        return None  # it lists, deletes or verifies tags
    named = _named(arguments, ("-m", "-F", "-u", "--message", "--file", "-am", "-sm", "-fm", "-aF", "-afm", "-fam"))
    return BASE.format(f"a tag {named[0]}") if named[:1] and named[0] in _DEFAULT else _refused_ref(named[:1])


def _started(arguments: list[str], changed: dict[str, str | None]) -> str | None:
    """`checkout -b` and `switch -c`."""
    return _refused_ref(values(arguments, "-b", "-B", "-c", "-C", "--create", "--force-create", "--orphan"))


def _replace(arguments: list[str], changed: dict[str, str | None]) -> str | None:
    named = [word for word in arguments if not word.startswith("-")]
    lists = {"-l", "--list", "-d", "--delete"} & set(arguments)
    return BASE.format("`git replace`").replace("let `git fetch` set it", "leave it") if named and not lists else None


def _named(arguments: list[str], with_value: tuple[str, ...] | frozenset[str]) -> list[str]:
    """The arguments that are neither options nor options' values."""
    return [
        word
        for at, word in enumerate(arguments)
        if not word.startswith("-") and not (at and arguments[at - 1] in with_value)
    ]


_PRINTING = ("diff", "show", "log", "format-patch", "archive", "diff-tree", "diff-index", "diff-files", "whatchanged",
             "stash", "range-diff", "reflog")  # fmt: skip


def written(call: Call) -> list[str]:
    """The files that a call writes by an option, in whichever repository it runs."""
    words = call.arguments
    if call.subcommand == "bundle":
        return words[1:] if words[:1] == ["create"] else []
    if call.subcommand not in _PRINTING:
        return []
    found = []
    for at, word in enumerate(words):
        name, equals, value = word.partition("=")
        if len(name) > 4 and ("--output".startswith(name) or "--output-directory".startswith(name)):
            found.append(value if equals else (*words[at + 1 :], "")[0])
        elif call.subcommand in ("format-patch", "archive") and word.startswith("-o"):
            found.append(word[2:] or (*words[at + 1 :], "")[0])
    return [path for path in found if path]


def _refused_ref(refs: list[str]) -> str | None:
    for ref in refs:
        if ref.startswith(_RECEIPT_REFS):
            return RECEIPTS.format("/".join(ref.split("/")[: 3 if "notes" in ref else 2]))
        if ref.startswith(("refs/remotes/", "remotes/", "origin/", "upstream/")):
            return BASE.format(ref)
    return None


_REFS = {
    "update-ref": _update_ref, "symbolic-ref": _symbolic_ref, "notes": _notes, "remote": _remote, "fetch": _fetch,
    "push": _push, "clean": _clean, "pull": _fetch, "branch": _branch, "tag": _tag, "checkout": _started,
    "switch": _started, "replace": _replace, "stash": _stash,
}  # fmt: skip
"""Subcommands that write where the gate looks."""
