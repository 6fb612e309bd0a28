"""The ways to have hooks at a commit that benchmarks of git compare, each in a repository of its
own.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from _pairs import PROGRAMS, environment
from _peers import find_peer

ROOT = Path(__file__).resolve().parents[1]
MANIFEST = ".pre-commit-hooks.yaml"
STAGES = ("pre-commit", "pre-merge-commit", "commit-msg", "pre-push", "post-commit", "post-rewrite")
"""The hooks that README has a framework install."""

FRAMEWORKS = ("pre-commit", "prek")

LONG_AGO = 1_700_000_000
"""Time of the files, in seconds: git reads those that are as young as its index again at every
commit, hook or not.
"""

_EMPTY = """\
repos:
  - repo: local
    hooks:
      - id: empty
        name: empty
        entry: "true"
        language: {language}
        pass_filenames: false
        always_run: true
        stages: [{stages}]
"""

_HOOK = """\
      - id: {id}
        name: {id}
        entry: {entry}
        language: system
        require_serial: true
        stages: [pre-commit]
"""

OTHERS = {
    "detect-secrets-hook": "",
    "check-merge-conflict": "--assume-in-merge",
    "check-added-large-files": "",
    "check-case-conflict": "",
    "detect-private-key": "",
}
"""Programs, and their options, that look for what the built-in checks look for, as far as there are
any: invisible characters, deleted or skipped tests and links out of the tree have none.
"""


@dataclass(frozen=True)
class Program:
    """A `vibe-gate` that is measured."""

    label: str
    folder: Path
    """The folder of its environment that has the program."""
    checkout: Path
    """The checkout whose hooks a framework gets."""
    is_called_directly: bool = False
    """Whether a framework gets its hooks as `language: system`: no environment is built."""

    @property
    def path(self) -> str:
        return str(self.folder / "vibe-gate")


def programs_of(folders: Sequence[Path], *, direct: bool = False) -> list[Program]:
    """The programs of these folders, by default that of the interpreter which runs the
    benchmark, with the hooks of the benchmark's checkout; `direct` as of Program.
    """
    if direct:
        print("README's hooks as `language: system`, not as README installs them", flush=True)
    if not folders:
        return [Program("", PROGRAMS, ROOT, direct)]
    return [
        Program(f" ({folder})", folder.absolute(), find_checkout(folder.absolute()), direct)
        for folder in folders
    ]


def framework_ways(frameworks: Sequence[str], *, direct: bool) -> Iterator[str]:
    """The ways to have hooks by these frameworks, else by each, those of one together; `direct`:
    without the environment that pip builds, in seven seconds.
    """
    for framework in frameworks or FRAMEWORKS:
        yield f"{framework}, empty"
        if framework == "prek" or not direct:
            yield f"{framework}, empty python"
        yield f"{framework}, ours"


def find_checkout(folder: Path) -> Path:
    """The checkout that the program of a folder runs; ends the benchmark if there is none."""
    code = "import vibe_gate, pathlib; print(pathlib.Path(vibe_gate.__file__).parents[1])"
    python = folder / "python"
    checkout = None
    if python.exists():
        done = subprocess.run(
            [python, "-I", "-c", code], check=False, capture_output=True, text=True
        )
        checkout = Path(done.stdout.strip()) if done.returncode == 0 else None
    if checkout is None:
        raise SystemExit(
            f"{folder} is not the bin folder of an environment with vibe-gate: "
            "name one for --program"
        )
    if not (checkout / MANIFEST).exists():
        raise SystemExit(
            f"the vibe-gate of {folder} runs from {checkout}, where no {MANIFEST} is: install its "
            "checkout there with `pip install -e`"
        )
    return checkout


def hooked_environment(work: Path, program: Program) -> dict[str, str]:
    """The environment of `_pairs.environment` with one vibe-gate and the frameworks on PATH, and
    with what pip and uv are told by variables, who install README's hooks.
    """
    environ = environment(work / "home")
    for name, value in os.environ.items():
        if name.startswith(("PIP_", "UV_")):
            environ[name] = value
    folders = [str(program.folder)]
    for name in FRAMEWORKS:
        path = find_peer(name)
        if path:
            folders.append(str(Path(path).parent))
    cache = str(work / "cache")
    homes = {"PRE_COMMIT_HOME": cache, "PREK_HOME": cache}
    return environ | homes | {"PATH": os.pathsep.join([*folders, environ["PATH"]])}


def make_repository(where: Path, environ: Mapping[str, str], files: int) -> Path:
    """A repository of one commit, twenty files to a folder."""
    for number in range(files):
        file = where / f"folder{number // 20}" / f"file{number}.txt"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"content {number}\n")
        os.utime(file, (LONG_AGO, LONG_AGO))
    run(where, environ, "git", "init", "-q", "-b", "main")
    run(where, environ, "git", "config", "gc.auto", "0")
    run(where, environ, "git", "add", "-A")
    run(where, environ, "git", "commit", "-q", "-m", "start")
    return where


def install_hooks(where: Path, environ: Mapping[str, str], way: str, program: Program) -> bool:
    """Put hooks into the repository; whether what they need is installed.

    `way`: "no hooks", "install git", or a framework and words: "prek, ours" (README's four hooks),
    "prek, empty" (`true` at the same stages), "prek, empty python" (the same as a hook of
    `language: python`), "pre-commit, others" (programs with such checks).
    """
    if way == "no hooks":
        return True
    if way == "install git":
        run(where, environ, program.path, "install", "git")
        return True
    framework, _, hooks = way.partition(", ")
    config = empty_hooks("python" if hooks == "empty python" else "system")
    if hooks == "ours":
        config = readme_hooks(program, environ)
    elif hooks == "others":
        config = other_hooks()
    path = find_peer(framework)
    if not path or not config:
        return False
    (where / ".pre-commit-config.yaml").write_text(config)
    run(where, environ, "git", "add", "-A")
    run(where, environ, "git", "commit", "-q", "-m", "hooks")
    stages = [word for stage in STAGES for word in ("-t", stage)]
    if hooks == "others":
        stages = []
    run(where, environ, path, "install", *stages)
    if "language: system" not in config:
        run(where, environ, path, "install-hooks")  # else the first commit would wait for it
    return True


def empty_hooks(language: str) -> str:
    """A configuration with one hook that does nothing, at all stages."""
    return _EMPTY.format(language=language, stages=", ".join(STAGES))


def readme_hooks(program: Program, environ: Mapping[str, str]) -> str:
    """README's four hooks of the program at hand, in an environment that the framework builds of
    the last commit of its checkout.
    """
    if program.is_called_directly:
        return direct_hooks(program)
    revision = read_output(program.checkout, environ, "git", "rev-parse", "HEAD")
    text = (program.checkout / MANIFEST).read_text()
    ids = [line.removeprefix("- ") for line in text.splitlines() if line.startswith("- id: ")]
    hooks = "".join(f"      - {hook_id}\n" for hook_id in ids)
    return f"repos:\n  - repo: {program.checkout}\n    rev: {revision}\n    hooks:\n{hooks}"


def direct_hooks(program: Program) -> str:
    """README's four hooks as hooks of the system, which call the program without the framework's
    start of Python.
    """
    text = (program.checkout / MANIFEST).read_text()
    text = text[text.index("- id: ") :].replace("language: python", "language: system")
    lines = [
        f"      {line}\n"
        for line in text.splitlines()
        if line.strip() and "minimum_pre_commit_version" not in line
    ]
    return "repos:\n  - repo: local\n    hooks:\n" + "".join(lines)


def other_hooks() -> str:
    """A configuration with the programs of OTHERS; "" if one is not installed."""
    config = "repos:\n  - repo: local\n    hooks:\n"
    for name, options in OTHERS.items():
        path = find_peer(name)
        if not path:
            return ""
        config += _HOOK.format(id=name, entry=f"{path} {options}".strip())
    return config


def run(where: Path, environ: Mapping[str, str], *argv: str) -> None:
    """Run a command that must succeed."""
    read_output(where, environ, *argv)


def read_output(where: Path, environ: Mapping[str, str], *argv: str) -> str:
    """What a command prints that must succeed, without blanks around it."""
    done = subprocess.run(argv, cwd=where, env=dict(environ), capture_output=True, check=False)
    if done.returncode:
        words = os.fsdecode(done.stderr or done.stdout)[-500:]
        raise SystemExit(f"{' '.join(argv)[:200]} ended with {done.returncode}: {words}")
    return os.fsdecode(done.stdout).strip()
