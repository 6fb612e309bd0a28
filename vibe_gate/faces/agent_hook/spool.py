"""The spool: hook events of agents as they come, until vibe-gate folds them (`store.captures`).

One event becomes one line of `<common git dir>/vibe-gate/captures/<session>/events.ndjson`,
written by one call under a lock. It never speaks and never fails; an event that cannot be kept is a
line in `gaps` beside the sessions. A process at every tool call: nothing of weight is imported.
"""

import fcntl
import json
import os
import time
import zlib

MAX_EVENT_BYTES = (
    64 << 20
)  # the CLI caps its own messages at 16 MiB, and JSON may write a byte as six
MAX_SPOOL_BYTES = 256 << 20  # of one session between two runs of vibe-gate
MAX_GAPS_BYTES = 64 << 10
MAX_ID_LENGTH = 4096  # characters of a session's id
LOCK_TRIES = 100  # of 5 ms: whoever reads the spool holds its lock only while it renames the file
SAFE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_")

LAST = ("Stop", "SessionEnd")
"""After these the program may end, and take calls in the background with it that have not written
yet.
"""

PATIENCE_S = 1.0

USER = "--user"
"""Argument of hooks in a user's own settings, which agents start in every repository and outside of
any.
"""

PROJECT_SETTINGS = {
    "": (b"/.claude/settings.local.json", b"/.claude/settings.json"),
    "gemini": (b"/.gemini/settings.json",),
    "codex": (b"/.codex/hooks.json",),
}
"""By agent; "" is Claude Code, whose hooks have no argument that names it."""

SCRIPTS = "vibe_gate/faces/agent_hook/"
"""Where the scripts are, wherever vibe-gate is installed."""

PLUGIN_SCRIPT = b"/hooks/run.sh"
"""What starts them where the plugin for Claude Code is installed."""

SCRIPT_NAMES = ("capture", "guard", "stop")
"""The scripts that `install` puts into settings."""

INSTALLED_KEYS = frozenset({"type", "command", "args", "timeout", "name"})
"""Of a hook, as `install` writes it. With any other it may not run for every call."""

MAX_SETTINGS_BYTES = 1 << 20

CALLS = b"/calls.ndjson"
"""In a session's folder: a line for each prompt, and for each call that may have written files."""

PROMPTS = ("UserPromptSubmit", "BeforeAgent")

GIVEN_BACK = "vibe-gate: what this session wrote does not pass the gate"
"""How the stop hook's findings begin. Gemini CLI gives them to its agent as a prompt."""

ENDED_CALLS = ("PostToolUse", "PostToolUseFailure", "AfterTool")

READING_TOOLS = frozenset(
    {
        "Read",
        "Grep",
        "Glob",
        "LS",
        "WebFetch",
        "WebSearch",
        "TodoWrite",
        "TaskCreate",
        "TaskUpdate",
        "TaskList",
        "TaskGet",
        "TaskOutput",
        "TaskStop",
        "BashOutput",
        "KillShell",
        "Agent",  # calls of subagents have events of their own
        "Task",
        "Skill",
        "ToolSearch",
        "AskUserQuestion",
        "EnterPlanMode",
        "ExitPlanMode",
        "read_file",
        "read_many_files",
        "list_directory",
        "glob",
        "grep_search",
        "search_file_content",
        "web_fetch",
        "google_web_search",
        "write_todos",
        "update_plan",
        "view_image",
    }
)
"""Tools that write no file of a working tree. Of all others the stop hook supposes that they do."""

READING_COMMANDS = frozenset(
    [
        *("basename", "cat", "cd", "cut", "df", "dirname", "du", "echo", "grep", "head", "ls"),
        *("nl", "pwd", "realpath", "rg", "stat", "tail", "wc", "which"),
    ]
)
READING_GIT = frozenset(["status", "diff", "log", "show", "blame", "ls-files", "rev-parse", "grep"])
"""Commands that write no file, however they are called, but for the options below."""

WRITING_OPTIONS = ("-o", "--ou", "--op", "--pre=", "--pre-", "--host", "--ext", "--textc")
"""How options begin that write a file or start a program, however git lets them be shortened."""

SHELL_SIGNS = frozenset("><$`(){}&;\\\n\"'")
"""A line with one of them is not looked into: it may do anything."""

COMMAND_TOOLS = ("Bash", "run_shell_command")

PATHS = ("file_path", "notebook_path")
"""How the input of a tool names the file that it writes."""

PATCH_TOOL = "apply_patch"

PATCH_LINES = ("*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: ")
"""How a line of a patch names a file."""


def main(agent: str = "", *, user: bool = False) -> int:
    """Keep the event of the agent on stdin. `user`: only where the hooks of a user's own settings
    are wanted.
    """
    try:
        spool = spool_folder(os.environ) if not user or is_used(project_of(os.environ)) else None
        if spool is None or agent not in PROJECT_SETTINGS:
            drain()
            return 0
        try:
            text = read_event_bytes()
            event = parse_event(text)
            kind = text_of(event, "hook_event_name")
            if user and has_own_hook(project_of(os.environ), kind, "capture", agent):
                return 0  # which keeps it
            keep(spool, text, event, agent)
            if kind in LAST:
                wait_for_others()
        except BaseException as error:  # noqa: BLE001  the agent goes on whatever happens here
            note_gap(
                spool, type(error).__name__ + ": " + str(getattr(error, "strerror", None) or error)
            )
    except BaseException:  # noqa: BLE001, S110  where not even the gap can be noted
        pass
    return 0


def parse_event(text: bytes) -> dict[str, object]:
    """The event. ValueError: it is none."""
    try:
        event = json.loads(text)
    except (ValueError, RecursionError):
        event = None
    if not isinstance(event, dict):
        raise ValueError("not a hook event")
    return event


def text_of(event: dict[str, object], name: str) -> str:
    """A member of the event that is text; "" if there is none."""
    value = event.get(name)
    return value if isinstance(value, str) else ""


def keep(spool: bytes, text: bytes, event: dict[str, object], agent: str = "") -> None:
    """Keep the event in the folder of its session, `<agent>.<id>` or the id alone, and what the
    stop hook has to know of it. OSError.
    """
    session = session_of(event)
    if agent:
        session = agent + "." + session
    try:  # first, and whatever becomes of the event: the stop hook needs no more
        if call := call_line(event, spool):
            append(spool, session.encode(), call, CALLS)
    finally:
        keep_event(spool, text, event, session)


def keep_event(spool: bytes, text: bytes, event: dict[str, object], session: str) -> None:
    """Append the event, as it came, to the session's spool. OSError."""
    # Within a JSON string a line feed is always escaped: these stand between tokens.
    line = text.strip().replace(b"\n", b" ").replace(b"\r", b" ")
    now_ms = time.time_ns() // 1_000_000
    worktree = b""
    top = linked_top(os.fsencode(text_of(event, "cwd") or "."), spool)
    if top:
        worktree = b'"worktree":"%b",' % top
    append(spool, session.encode(), b'{"ts":%d,%b"event":%b}\n' % (now_ms, worktree, line))


def call_line(event: dict[str, object], spool: bytes) -> bytes:
    """What the stop hook has to know of the event, as a line; b"" if it is nothing.

    The path of a file that the call wrote, or, of a command, when it ran; never what it said.
    """
    kind = text_of(event, "hook_event_name")
    fields: dict[str, object] = {}
    if kind in ENDED_CALLS:
        fields = fields_of_call(event, spool)
    elif kind in PROMPTS and not text_of(event, "prompt").startswith(GIVEN_BACK):
        fields = {"head": head_of(os.fsencode(text_of(event, "cwd") or "."))}
    if not fields:
        return b""
    call = {"ts": time.time_ns() // 1_000_000, **fields}
    return json.dumps(call).encode() + b"\n"


def fields_of_call(event: dict[str, object], spool: bytes) -> dict[str, object]:
    """What a call that ended may have written, and when it ran; {} if it only read."""
    tool = text_of(event, "tool_name")
    call_input = event.get("tool_input")
    if not isinstance(call_input, dict):
        call_input = {}
    is_command = tool in COMMAND_TOOLS
    if tool in READING_TOOLS or (is_command and only_reads(text_of(call_input, "command"))):
        return {}
    cwd = text_of(event, "cwd")
    if not is_path(cwd):
        cwd = ""
    paths = written_paths(tool, call_input, cwd)
    place = os.path.dirname(paths[0]) if paths else cwd or "."  # noqa: PTH120
    return {
        "paths": paths,
        "tree": os.fsdecode(own_tree(os.fsencode(place), spool)),
        "ms": event.get("duration_ms"),
        "goes_on": call_input.get("run_in_background") is True,
    }


def head_of(folder: bytes) -> str:
    """The commit at HEAD of the working tree around a folder, read without git; "" if that does not
    say.
    """
    top = root_of(folder)
    common = common_dir(top)
    pointer = first_line(top + b"/.git").removeprefix(b"gitdir:").strip()
    head = first_line(os.path.join(top, pointer or b".git") + b"/HEAD")  # noqa: PTH118
    if common is not None and head.startswith(b"ref: "):
        name = head[5:]
        head = first_line(common + b"/" + name) or packed_ref(common, name)
    return head.decode("ascii", "replace") if len(head) == 40 else ""


def packed_ref(common: bytes, name: bytes) -> bytes:
    """The commit of a ref that git keeps in its one file for many."""
    for line in beginning(common + b"/packed-refs", MAX_SETTINGS_BYTES).split(b"\n"):
        if line[41:] == name:
            return line[:40]
    return b""


def only_reads(line: str) -> bool:
    """Whether a command line obviously writes no file; most lines of which it is not known do
    not, either.
    """
    commands = f"{line} ".replace(" 2>&1 ", " ").replace("&&", "|").replace("||", "|")
    if SHELL_SIGNS & set(commands):
        return False
    return all(is_reading(words) for part in commands.split("|") if (words := part.split()))


def is_reading(words: list[str]) -> bool:
    """Whether a simple command writes no file."""
    for word in words:
        if word == "--pre" or word.startswith(WRITING_OPTIONS):
            return False
        if word[:1] == "-" and word[:2] != "--" and "O" in word:  # git grep -nOPROGRAM
            return False
    if words[0] == "git":
        return len(words) > 1 and words[1] in READING_GIT
    return words[0] in READING_COMMANDS


def written_paths(tool: str, call_input: dict[str, object], cwd: str) -> list[str]:
    """The files that a call with this input names as those that it writes, absolute.

    A command may write any, whatever it names, and so may a call with a name that is no path.
    """
    if tool in COMMAND_TOOLS:
        return []
    names = []
    for key in PATHS:
        name = call_input.get(key)
        if isinstance(name, str):
            names.append(name)
    patch = call_input.get("command")
    if tool == PATCH_TOOL and isinstance(patch, str) and "*** Begin Patch" in patch:
        lines = [line for line in patch.split("\n") if line.startswith(PATCH_LINES)]
        names += [line.partition(": ")[2].strip() for line in lines]
    if not all(map(is_path, names)):
        return []
    return [os.path.join(cwd, name) for name in names]  # noqa: PTH118


def is_path(name: str) -> bool:
    """Whether a file can have the name; a program may have written another one instead."""
    try:
        return b"\0" not in os.fsencode(name)
    except UnicodeEncodeError:  # half a character
        return False


def append(spool: bytes, session: bytes, line: bytes, file: bytes = b"/events.ndjson") -> None:
    """Append one whole line to a file of the session's folder, or nothing."""
    folder = spool + b"/" + session
    path = folder + file
    for _ in range(LOCK_TRIES):
        descriptor = open_spool(folder, path)
        try:
            lock(descriptor)
            status = os.fstat(descriptor)
            if status.st_mode & 0o170000 != 0o100000:  # S_ISREG, without the import
                raise OSError("no file lies in the place of the spool")
            if not same_file(path, status):  # a reader has taken it: begin the next one
                continue
            if status.st_size + len(line) > MAX_SPOOL_BYTES:
                raise ValueError("the session's spool is full")
            write_whole(descriptor, line, status.st_size)
            return
        finally:
            os.close(descriptor)
    raise OSError("the spool is taken away as fast as it is made")


def open_spool(folder: bytes, path: bytes) -> int:
    """The session's spool, made where it is missing; private, never through a link."""
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        return os.open(path, flags, 0o600)
    except FileNotFoundError:
        os.makedirs(folder, 0o700, exist_ok=True)  # noqa: PTH103  pathlib would cost its import
        return os.open(path, flags, 0o600)


def same_file(path: bytes, status: os.stat_result) -> bool:
    """Whether the path still names the open file."""
    try:
        return os.path.samestat(os.stat(path), status)  # noqa: PTH116
    except FileNotFoundError:
        return False


def lock(descriptor: int) -> None:
    """Take the lock; after half a second go on without: one write of a whole line is safe
    enough.
    """
    for _ in range(LOCK_TRIES):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            time.sleep(0.005)


def write_whole(descriptor: int, line: bytes, size: int) -> None:
    """One write; where the disk takes only a part of the line, that part goes again."""
    if size and os.pread(descriptor, 1, size - 1) != b"\n":
        line = b"\n" + line  # a line that was torn must not take this one with it
    written = os.write(descriptor, line)
    if written != len(line):
        os.ftruncate(descriptor, size)
        raise OSError("no space for the event")


def session_of(event: dict[str, object]) -> str:
    """The session id as a name of a folder.

    If letters of an id are no letters of a name, a checksum of all of them tells two such ids
    apart.
    """
    session_id = text_of(event, "session_id")
    name = "".join(letter if letter in SAFE else "_" for letter in session_id[:64])
    if name == session_id:
        return name or "unknown"
    checksum = zlib.crc32(session_id[:MAX_ID_LENGTH].encode("utf-8", "surrogatepass"))
    return f"{name[:55]}-{checksum:08x}"


def spool_folder(environ: "os._Environ[str]") -> bytes | None:
    """The folder of all spools, in the git folder that every worktree shares; None outside a
    repository.
    """
    for start in (environ.get("CLAUDE_PROJECT_DIR"), "."):
        common = common_dir(os.fsencode(start)) if start else None
        if common is not None:
            return common + b"/vibe-gate/captures"
    return None


def project_of(environ: "os._Environ[str]") -> bytes:
    """The folder of the session, as Claude Code names it, and Gemini CLI, which sets the variable,
    too.
    """
    return os.fsencode(environ.get("CLAUDE_PROJECT_DIR") or ".")


def is_used(project: bytes) -> bool:
    """Whether a gate, a git hook or a record of vibe-gate is in the repository around `project`."""
    common = common_dir(project)
    if common is None:
        return False
    folders = (root_of(project) + b"/.vibe-gate", common + b"/vibe-gate")
    if any(map(os.path.isdir, folders)):
        return True
    return b"vibe-gate" in beginning(common + b"/hooks/pre-commit")


def root_of(project: bytes) -> bytes:
    """The working tree around a folder; the folder itself if there is none."""
    place = os.path.abspath(project)  # noqa: PTH100
    while len(place) > 1:
        if os.path.exists(place + b"/.git"):  # noqa: PTH110
            return place
        place = os.path.dirname(place)  # noqa: PTH120
    return project


def linked_top(folder: bytes, spool: bytes) -> bytes:
    """The top of the linked worktree around a folder, of the repository that has the spool.

    b"" for any other folder, and for a path that JSON would have to escape.
    """
    top = root_of(folder)
    if b"\\" in top or b'"' in top or min(top) < 32 or not is_utf8(top):
        return b""
    pointer = first_line(top + b"/.git")
    git_dir = os.path.join(top, pointer.removeprefix(b"gitdir:").strip())  # noqa: PTH118
    if not pointer or not os.path.exists(git_dir + b"/commondir"):  # noqa: PTH110  (a submodule has none)
        return b""
    return top if own_tree(top, spool) else b""


def own_tree(folder: bytes, spool: bytes) -> bytes:
    """The top of the working tree around a folder, with links resolved; b"" if the tree is none of
    the repository that has the spool.
    """
    top = root_of(folder)
    common = common_dir(top)
    if common is None:
        return b""
    captures = os.path.realpath(common + b"/vibe-gate/captures")
    if captures != os.path.realpath(spool):
        return b""
    return os.path.realpath(top)


def is_utf8(path: bytes) -> bool:
    """Whether the bytes are text."""
    try:
        path.decode()
    except UnicodeDecodeError:
        return False
    return True


def has_own_hook(project: bytes, event: str, script: str, agent: str = "") -> bool:
    """Whether the project's settings start this script of vibe-gate for the event, as `install`
    writes it.
    """
    if agent == "codex":  # the others look for them in the folder in which they are started
        project = root_of(project)
    texts = [beginning(project + name, MAX_SETTINGS_BYTES) for name in PROJECT_SETTINGS[agent]]
    return any(starts(text, event, script) for text in texts)


def starts(settings: bytes, event: str, script: str) -> bool:
    """Whether the hooks in these settings start the script for every tool."""
    keys = INSTALLED_KEYS
    if script == "capture" and event not in LAST:
        keys |= {"async"}
    try:
        groups = json.loads(settings)["hooks"][event]
        if script != "guard":
            groups = [group for group in groups if not group.get("matcher")]
        for group in groups:
            for hook in group["hooks"]:
                if hook.get("type") != "command" or not keys.issuperset(hook):
                    continue
                if is_there(words_of(hook), script):
                    return True
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        pass  # the agent takes no hook from these
    return False


def hook_timeouts_s(project: bytes, event: str, agent: str) -> list[float]:
    """The time-outs, in seconds, that settings have for our stop hook at the event."""
    if agent == "codex":
        project = root_of(project)
    files = [project + name for name in PROJECT_SETTINGS[agent]]
    if user_file := user_settings(agent):
        files.append(user_file)
    unit = 0.001 if agent == "gemini" else 1.0
    timeouts_s = []
    for file in files:
        try:
            groups = json.loads(beginning(file, MAX_SETTINGS_BYTES))["hooks"][event]
            for group in groups:
                timeouts_s += [timeout * unit for timeout in _stop_timeouts(group)]
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            continue
    return [timeout_s for timeout_s in timeouts_s if timeout_s > 0]


def _stop_timeouts(group: dict) -> list[float]:  # type: ignore[type-arg]
    """The time-outs of our stop hooks in the group, in the agent's unit."""
    timeouts = []
    for hook in group["hooks"]:
        if runs(words_of(hook), "stop") and "timeout" in hook:
            timeouts.append(float(hook["timeout"]))
    return timeouts


def user_settings(agent: str) -> bytes:
    """The settings that are the user's own; b"" if there is no home."""
    home = os.environ.get("HOME", "")
    if agent == "gemini":
        path = (os.environ.get("GEMINI_CLI_HOME") or home) + "/.gemini/settings.json"
    elif agent == "codex":
        path = (os.environ.get("CODEX_HOME") or home + "/.codex") + "/hooks.json"
    else:
        path = (os.environ.get("CLAUDE_CONFIG_DIR") or home + "/.claude") + "/settings.json"
    return os.fsencode(path)


def words_of(hook: dict) -> list[str]:  # type: ignore[type-arg]
    """The command of a hook: in exec form, as Claude Code's are, or a line for a shell, as Gemini
    CLI's are.
    """
    if isinstance(hook.get("args"), list):
        return [str(hook.get("command")), *map(str, hook["args"])]
    import shlex

    try:
        return shlex.split(str(hook.get("command")))
    except ValueError:  # a quote that is never closed
        return []


def runs(words: list[str], script: str) -> bool:
    """Whether the command runs this script of vibe-gate, as `install` writes it."""
    by_name = words[:2] == ["vibe-gate", script] and "".join(words[2:3]) in PROJECT_SETTINGS
    return by_name or any(word.endswith(f"{SCRIPTS}{script}.py") for word in words)


def is_there(words: list[str], script: str) -> bool:
    """Whether the command is one that `install` writes into a project's settings, and its script is
    there.
    """
    if USER in words or not runs(words, script):  # in the home directory both are the same file
        return False
    if words[0] == "vibe-gate":
        return True
    is_installed = words[1:3] == ["-I", "-S"] and words[3].endswith(f"{SCRIPTS}{script}.py")
    return is_installed and os.path.isfile(words[3])  # noqa: PTH113


def common_dir(start: bytes) -> bytes | None:
    """The shared git folder of the repository around `start`, found without git."""
    place = os.path.abspath(start)  # noqa: PTH100
    while True:
        git = place + b"/.git"
        if os.path.exists(git + b"/HEAD"):  # noqa: PTH110
            return git
        pointer = first_line(git)
        if pointer.startswith(b"gitdir: "):
            git = os.path.normpath(os.path.join(place, pointer[8:]))  # noqa: PTH118
            return os.path.normpath(os.path.join(git, first_line(git + b"/commondir")))  # noqa: PTH118
        if len(place) <= 1:
            return None
        place = os.path.dirname(place)  # noqa: PTH120


def first_line(path: bytes) -> bytes:
    """The first line of a small file; b"" where there is none."""
    return beginning(path).split(b"\n", 1)[0].strip()


def beginning(path: bytes, most: int = 4096) -> bytes:
    """The first bytes of a file; b"" where there is none."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.read(descriptor, most)
    except OSError:  # a folder
        return b""
    finally:
        os.close(descriptor)


def wait_for_others() -> None:
    """Wait until no other capture of this program is at work, where the system tells (Linux)."""
    ends = time.monotonic() + PATIENCE_S
    while time.monotonic() < ends and has_other_capture():
        time.sleep(0.005)


def has_other_capture() -> bool:
    """Whether the program that started this call has started another one that still runs."""
    try:
        program = os.getppid()
        if PLUGIN_SCRIPT in first_line(b"/proc/%d/cmdline" % program):
            status = first_line(b"/proc/%d/stat" % program)
            program = int(status.rpartition(b")")[2].split()[1])
        tasks = b"/proc/%d/task/" % program
        for task in os.listdir(tasks):  # noqa: PTH208
            for child in first_line(tasks + task + b"/children").split():
                if int(child) in (os.getpid(), os.getppid()):
                    continue
                command = first_line(b"/proc/%b/cmdline" % child)
                if b"_hook/capture.py" in command or PLUGIN_SCRIPT + b"\0capture" in command:
                    return True
    except OSError:  # it is gone, or this is no Linux
        return False
    return False


def note_gap(spool: bytes, reason: str) -> None:
    """Leave a line that says when an event was not kept, and why."""
    os.makedirs(spool, 0o700, exist_ok=True)  # noqa: PTH103
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    descriptor = os.open(spool + b"/gaps", flags, 0o600)
    try:
        if os.fstat(descriptor).st_size < MAX_GAPS_BYTES:
            text = "".join(letter if " " <= letter <= "~" else "?" for letter in reason[:200])
            os.write(descriptor, b"%d %b\n" % (time.time_ns() // 1_000_000, text.encode()))
    finally:
        os.close(descriptor)


def read_event_bytes() -> bytes:
    """All of stdin. ValueError where it is larger than any event."""
    parts = []
    size = 0
    while part := os.read(0, 1 << 20):
        parts.append(part)
        size += len(part)
        if size > MAX_EVENT_BYTES:
            drain()
            raise ValueError("the event is too large to be kept")
    return b"".join(parts)


def drain() -> None:
    """Read stdin to its end, so that who writes there sees no broken pipe."""
    while os.read(0, 1 << 20):
        pass
