"""What programs do with their arguments, as far as the guard cares: which run others, which write files."""

from vibe_gate.faces.claude_hook.shell import UNKNOWN, Unreadable

MAX_STAGES = 20

SHELLS = frozenset({"sh", "bash", "zsh", "dash", "ksh", "ash", "fish"})

BEFORE = {
    "command": (), "builtin": (), "exec": ("-a",), "nohup": (), "setsid": (), "time": ("-f", "-o"),
    "env": ("-u", "-C", "--unset", "--chdir", "-a", "--argv0"), "doas": ("-u", "-C"),
    "sudo": ("-u", "-g", "-C", "-h", "-p", "-D", "--user", "--group", "--host", "--prompt", "--chdir", "--close-from"),
    "nice": ("-n", "--adjustment"), "ionice": ("-c", "-n", "-p", "--class", "--classdata", "--pid"),
    "stdbuf": ("-i", "-o", "-e", "--input", "--output", "--error"),
    "timeout": ("-k", "-s", "--kill-after", "--signal"),
    "xargs": ("-I", "-n", "-P", "-L", "-s", "-d", "-a", "-E", "--max-args", "--max-procs", "--max-chars",
              "--delimiter", "--arg-file"), "chroot": (), "parallel": ("-j",), "busybox": (),
    "npm": ("-w", "--workspace"),
    "watch": ("-n", "--interval"), "flock": ("-w", "-E", "--timeout", "--wait", "--conflict-exit-code"), "unbuffer": (),
    "uvx": ("--from", "--with", "-p", "--python"),
    "uv": ("--with", "-p", "--python", "--directory", "--project", "--extra", "--group"), "pipx": ("--spec",),
    "npx": ("-p", "--package"), "poetry": ("-C",), "run": (), "caffeinate": (), "chronic": (), "strace": ("-e", "-o"),
    "taskset": (), "unshare": (), "xvfb-run": (), "dbus-run-session": (), "systemd-run": ("-p",), "fakeroot": (),
    "setarch": (), "prlimit": (), "coproc": (), "not": (), "hatch": ("-e",), "pdm": (), "rye": (), "pixi": (),
    "mise": (), "direnv": (), "nox": ("-s",), "bunx": (), "pnpm": (), "yarn": (), "bun": (), "tool": (), "x": (),
}  # fmt: skip
"""Programs that run the command in their arguments, with those of their options that take a value."""

SKIPPING = {"timeout": 1, "flock": 1, "chroot": 1, "taskset": 1, "setarch": 1}
"""Arguments of theirs that stand before that command."""

_ASIDE = {
    "uv": ("run", "tool", "x"), "pipx": ("run",), "poetry": ("run",), "hatch": ("run",), "pdm": ("run",),
    "rye": ("run",), "pixi": ("run",), "mise": ("exec", "x"), "direnv": ("exec",), "pnpm": ("exec", "dlx"),
    "yarn": ("exec", "dlx", "run"), "npm": ("exec", "x"), "bun": ("x", "run"), "nox": (),
}  # fmt: skip
"""Those that run another program only after one of these words."""

_CHANGING = frozenset({
    "rm", "rmdir", "mv", "chmod", "chown", "chgrp", "chattr", "touch", "tee", "truncate", "unlink", "shred", "setfacl",
    "mkfifo", "mkdir", "trash", "trash-put", "ed", "ex", "vi", "vim", "nano", "dos2unix", "sponge", "rename",
})  # fmt: skip
"""Every path that they are given may change."""

REMOVING = frozenset({"rm", "mv", "rmdir", "shred", "trash", "trash-put", "unlink"})

_MAKING = frozenset({"cp", "ln", "install", "rsync", "link", "scp"})
"""Only the last path that they are given changes, or the one of -t."""

_IN_PLACE = {
    "sed": ("-i", "--in-place"), "perl": ("-i",), "gawk": ("-i",), "awk": ("-i",), "yq": ("-i", "--inplace"),
    "prettier": ("--write", "-w"), "ruby": ("-i",), "gsed": ("-i", "--in-place"), "sd": ("",), "gofmt": ("-w",),
}  # fmt: skip

LINE_OPTION = {
    "su": ("-c", "--command"), "runuser": ("-c", "--command"), "script": ("-c", "--command"),
    "flock": ("-c", "--command"), "env": ("-S", "--split-string"), "npx": ("-c", "--call"), "npm": ("-c", "--call"),
}  # fmt: skip
"""Programs besides shells that take a line of shell, and the option before it."""

_INTO = {
    "tar": ("-C", "--directory"), "unzip": ("-d",), "curl": ("-o", "--output", "--output-dir"),
    "wget": ("-O", "-P", "--output-document"), "sort": ("-o", "--output"), "gcc": ("-o",), "jq": (),
}  # fmt: skip
"""Programs that write where an option names a place."""


def name_of(word: str) -> str:
    """The program that a first word means: without folders, and without what is not known of it."""
    return word.replace(UNKNOWN, "").rpartition("/")[2]


def stages(words: list[str]) -> list[list[str]]:
    """The command, and the command that it runs, and so on: `nice env A=b git push` gives three."""
    found: list[list[str]] = []
    while words:
        if len(found) > MAX_STAGES:
            raise Unreadable("too many programs that run programs")
        found.append(words)
        program = name_of(words[0])
        words = _inside(program, words[1:]) if program in BEFORE else []
    return found


def _inside(program: str, words: list[str]) -> list[str]:
    at, skipping = 0, SKIPPING.get(program, 0)
    while at < len(words):
        word = words[at]
        if word == "--":
            at += 1
            break
        if word.startswith("-") and (word != "-" or program == "env"):
            at += 2 if takes_next(word, BEFORE[program]) else 1
        elif program == "env" and "=" in word:
            at += 1
        elif skipping:
            skipping, at = skipping - 1, at + 1
        else:
            break
    if program in _ASIDE and words[at : at + 1] and words[at] not in _ASIDE[program]:
        return []
    return words[at:]


def folder(words: list[str]) -> str:
    """Where `env -C` and `sudo -D` go before they run what follows; "" where they stay."""
    program = name_of(words[0])
    options = {"env": ("-C", "--chdir"), "sudo": ("-D", "--chdir")}.get(program)
    if options is None:
        return ""
    inside = _inside(program, words[1:])
    return "".join(_after(words[1 : len(words) - len(inside)], options)[-1:])


def removes(program: str, arguments: list[str]) -> bool:
    """Whether what lies below the paths of a call is gone after it, or cannot be run any more."""
    if program != "chmod":
        return program in REMOVING
    deep = any(word == "--recursive" or (word[:1] == "-" and word[1:2] != "-" and "R" in word) for word in arguments)
    modes = [word for word in arguments if set(word) <= set("0123456789ugoarwxXst+-=,")]
    return deep and any(("-" in mode and "x" in mode) or "=" in mode or mode.isdigit() for mode in modes)


def takes_next(word: str, options: tuple[str, ...]) -> bool:
    """Whether the word after an option is its value: also where letters stand together, or a long one is cut short."""
    if word.startswith("--"):
        return len(word) > 3 and any(option.startswith(word) for option in options)
    for at, letter in enumerate(word[1:], 2):
        if "-" + letter in options:
            return at == len(word)
    return False


def lines_in(program: str, arguments: list[str]) -> list[str]:
    """The lines of shell that a program of LINE_OPTION is given."""
    short, long = LINE_OPTION[program]
    found = []
    for at, word in enumerate(arguments):
        name, equals, value = word.partition("=")
        if word.startswith("--"):
            if len(name) > 3 and long.startswith(name):
                found.append(value if equals else (*arguments[at + 1 :], "")[0])
        elif word.startswith("-") and short[1] in word:
            found.append(word.partition(short[1])[2] or (*arguments[at + 1 :], "")[0])
    return found


def module(arguments: list[str]) -> list[str]:
    """The program and the arguments of `python -m NAME ...`; [] for any other call of it."""
    at = 0
    while at < len(arguments) and arguments[at].startswith("-"):
        word = arguments[at]
        if word == "-m":
            rest = arguments[at + 1 :]
            return [rest[0].replace("_", "-").split(".")[0], *rest[1:]] if rest else []
        if word[:2] != "--" and "m" in word[1:] and not any(letter in word[1 : word.index("m")] for letter in "cWX"):
            name = word[word.index("m") + 1 :]
            rest = [name, *arguments[at + 1 :]] if name else arguments[at + 1 :]
            return [rest[0].replace("_", "-").split(".")[0], *rest[1:]] if rest else []
        if word[:2] != "--" and "c" in word:
            return []
        at += 2 if word in ("-W", "-X") else 1
    return []


def line_of(arguments: list[str]) -> str | None:
    """The line of `sh -c LINE`: the first word after -c that is no option, nor an option's value."""
    at, given = 0, False
    while at < len(arguments):
        word = arguments[at]
        name, equals, value = word.partition("=")
        if name == "--command":  # fish
            return value if equals else (*arguments[at + 1 :], "")[0]
        if word == "--" and given:
            return (*arguments[at + 1 :], "")[0]
        if word[:1] not in ("-", "+") or word in ("-", "--"):
            return word if given else None
        if word[:2] != "--":
            given = given or (word[0] == "-" and "c" in word)
            at += word[-1] in "oO"
        elif word in ("--rcfile", "--init-file"):
            at += 1
        at += 1
    return None


def hides(program: str, arguments: list[str]) -> bool:
    """Whether a program runs another one without the variables of the session."""
    options = []
    for word in arguments:
        if not word.startswith("-"):
            break
        options.append(word)
    letters = "".join(word[1:] for word in options if word[:2] != "--")
    if program == "exec":
        return "c" in letters
    if program in ("sudo", "doas"):
        kept = [word.partition("=")[2] for word in options if word.startswith("--preserve-env")]
        return not ("E" in letters and program == "sudo") and not any(not it or "CLAUDECODE" in it for it in kept)
    if program in ("su", "runuser"):
        return any(word in ("-", "-l", "--login") for word in arguments)
    return program == "systemd-run"


def is_python(program: str) -> bool:
    """Whether a program is an interpreter of Python."""
    return program.rstrip("0123456789.") in ("python", "pypy", "py")


def changed_paths(program: str, arguments: list[str]) -> list[str]:
    """The paths that a call may write to or remove."""
    paths = [word for word in arguments if not word.startswith("-")]
    if program in _CHANGING:
        return paths
    if program == "flock":
        return paths[:1]  # whoever holds it keeps the gate from writing there
    if program in _MAKING:
        target = _target(program, arguments)
        linked = paths[:-1] if program in ("ln", "link") else []
        return linked + (target or paths[-1:])
    if program == "dd":
        return [word[3:] for word in arguments if word.startswith("of=")]
    if program in _INTO:
        return _after(arguments, _INTO[program])
    if program in _IN_PLACE:
        asked = any(word.startswith(_IN_PLACE[program]) or _clustered_i(program, word) for word in arguments)
        return paths if asked else []
    return []


def _after(arguments: list[str], options: tuple[str, ...]) -> list[str]:
    """The values of these options, apart, with `=` or at once."""
    found = [arguments[at + 1] for at, word in enumerate(arguments[:-1]) if word in options]
    for option in options:
        if option.startswith("--"):
            found += [word[len(option) + 1 :] for word in arguments if word.startswith(option + "=")]
            continue
        for at, word in enumerate(arguments):  # among other letters, too
            if word[:1] == "-" and word[1:2] != "-" and option[1] in word[1:] and word != option:
                found.append(word.partition(option[1])[2] or (*arguments[at + 1 :], "")[0])
    return found


def _target(program: str, arguments: list[str]) -> list[str]:
    """The folder that an option names; -t of the others means times."""
    return [] if program in ("rsync", "scp") else _after(arguments, ("-t", "--target-directory"))


def into(program: str, arguments: list[str]) -> tuple[list[str], list[str]]:
    """What a call puts into which folders, if they are folders."""
    if program not in _MAKING and program != "mv":
        return [], []
    paths = [word for word in arguments if not word.startswith("-")]
    target = _target(program, arguments)
    return (paths, target) if target else (paths[:-1], paths[-1:])


def _clustered_i(program: str, word: str) -> bool:
    """`perl -pi -e`, `sed -ni`: -i among other letters."""
    letters = word[1:].split(".")[0]
    return program in ("sed", "perl") and word[:1] == "-" and word[1:2] != "-" and "i" in letters and len(letters) < 6
