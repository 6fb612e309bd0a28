"""Aliases in git's settings, read from their files: to ask git would cost a process at a tool call."""

import os

from vibe_gate.faces.claude_hook.guarded import Project

_MAX_SETTINGS = 1 << 18


def of(name: str, project: Project) -> list[str]:
    """What an alias means in the settings of the repository and of the user; files that they include are not read."""
    files = [os.fsdecode(project.common) + "/config"] if project.common else []
    if project.home:
        files += [project.home + "/.gitconfig", project.home + "/.config/git/config"]
    return [value for file in files for value in _in(_text(file), name.lower())]


def _in(text: str, name: str) -> list[str]:
    """The values of an alias in the text of one file."""
    found, inside = [], False
    for line in text.replace("\\\n", "").split("\n"):
        line = line.strip()
        if line.startswith("["):
            section, _, line = line[1:].partition("]")
            inside = section.strip().lower() == "alias"
        key, equals, value = line.partition("=")
        if inside and equals and key.strip().lower() == name:
            found.append(_bare(value.strip()))
    return found


def _bare(value: str) -> str:
    """A value without the quotes around it and the backslashes before others."""
    out, at, quoted = [], 0, False
    while at < len(value):
        letter = value[at]
        if letter == "\\":
            at += 1
            out.append({"n": "\n", "t": "\t"}.get(value[at : at + 1], value[at : at + 1]))
        elif letter == '"':
            quoted = not quoted
        elif letter in "#;" and not quoted:
            break
        else:
            out.append(letter)
        at += 1
    return "".join(out)


def _text(path: str) -> str:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        return os.read(descriptor, _MAX_SETTINGS).decode("utf-8", "replace")
    except OSError:
        return ""
    finally:
        os.close(descriptor)
