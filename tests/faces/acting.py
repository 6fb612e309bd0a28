"""Workflows executed by act (the real nektos/act) without Docker, with this project's own
action.yml.

act clones the actions that a workflow uses, which needs a network; it reads folders in their place
where it is told to. So GitHub's own actions are stand-ins here, a few lines each, and record what
they were given. Ours is the real one, copied from the working tree: its steps, its scripts, its
lock, the real CLI. What the stand-ins replace:

  actions/checkout            act itself: it copies the checkout that the test made (its own rule for this action)
  actions/cache/restore       brings the newest that was saved; if that is no file, and none was, the environment that
                              `environment()` built, as if an earlier step of the job had
  actions/cache/save          keeps a file, or a folder
  actions/upload-artifact     copies the folder to `Job.artifacts`/<name>, hidden files only if it was told to
  actions/download-artifact   copies the artifacts that match `pattern` back
  actions/setup-python        records; must not be needed
  codeql-action/upload-sarif  records
"""

from __future__ import annotations

import atexit
import compileall
import fcntl
import functools
import json
import py_compile
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sdk_alone
from repos import Repo

ROOT = Path(__file__).resolve().parents[2]
INSTALL = ROOT / "vibe_gate" / "faces" / "action" / "install"
REPOSITORY = "vibe-gate/vibe-gate"
EXAMPLES = ROOT / "examples" / "workflows"
PINNED = re.compile(r"uses: ([\w.-]+/[\w.-]+)((?:/[\w.-]+)*)@([0-9a-f]{40}) # v\d+\.\d+\.\d+")
OURS = "@".join(
    next(
        pin for pin in PINNED.findall((EXAMPLES / "simple.yml").read_text()) if pin[0] == REPOSITORY
    )[::2]
)
"""This project's own action, as the examples name it."""

SAY = """\
name: stand-in
inputs: {{{inputs}}}
outputs: {{cache-hit: {{value: ""}}, python-path: {{value: ""}}, artifact-url: {{value: ""}}}}
runs:
  using: composite
  steps:
    - shell: bash
      env:
        GIVEN: ${{{{ toJSON(inputs) }}}}
      run: |
        printf '%s\\n' "$GIVEN" | tr -d '\\n' >>"$STAND_INS/{name}.ndjson"; echo >>"$STAND_INS/{name}.ndjson"
        "{python}" -I "{this}" {name}
"""

STAND_INS = {
    "actions/setup-python": ("", "python-version", "update-environment"),
    "actions/cache": ("restore", "path", "key", "restore-keys"),
    "actions/cache/save": ("save", "path", "key"),
    "actions/upload-artifact": (
        "",
        "name",
        "path",
        "include-hidden-files",
        "if-no-files-found",
        "overwrite",
    ),
    "actions/download-artifact": ("", "run-id", "github-token", "pattern", "path"),
    "github/codeql-action": ("upload-sarif", "sarif_file", "category"),
}
"""Of each action: its folder below the repository, and the inputs that we give it."""


@dataclass(frozen=True)
class Job:
    """How a workflow ended: act's exit code, its log, what the stand-ins were given, the
    artifacts.
    """

    code: int
    log: str
    records: Path

    @property
    def artifacts(self) -> Path:
        return self.records / "artifacts"

    def inputs_of(self, action: str) -> list[dict[str, Any]]:
        """The inputs of each use of this stand-in."""
        path = self.records / f"{action}.ndjson"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    @property
    def outputs(self) -> dict[str, str]:
        """Our action's outputs as act prints them, those with text in them."""
        return dict(re.findall(r"::set-output:: ([a-z-]+)=(.+)", self.log))


KEYED = {"VIBE_GATE_HAS_KEY": "true"}
"""What action.yml tells its first step if a key was given."""


def environment(shared: Path, environ: Mapping[str, str]) -> Path:
    """The Action's two environments, by the name of their folder; made once for all tests.

    The one for checks is installed for real from its lock, hashes checked: packages come from the
    registry as with `pip install '.[test]'`, and `environ` says where that is. The one for agents
    links to it, and takes the SDK, half a gigabyte with what it needs, from the environment of the
    tests.
    """
    place = shared / "vibe-gate-environment"
    checks, agent = place / "vibe-gate-checks", place / "vibe-gate-agent"
    with (shared / "vibe-gate-environment.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (agent / "venv").exists():
            outputs, keyed = (
                run_find_step(shared, environ, **variables)[2] for variables in ({}, KEYED)
            )
            installation = build(checks, environ, key=outputs["key"], python=outputs["python"])
            assert installation.returncode == 0, installation.stdout + installation.stderr
            # The jobs link to this one, and so do not compile it either.
            loaded = "import github3, pydantic, pygit2, rich.console, rich.markdown, vibe_gate.run.review"
            subprocess.run([checks / "venv" / "bin" / "python", "-c", loaded], check=True, cwd="/")
            (checks / "said").write_text(installation.stdout)
            subprocess.run(["cp", "-al", checks, agent], check=True)
            ready = agent / "venv" / "vibe-gate-ready"
            ready.unlink()
            ready.write_text(keyed["key"])
            (packages,) = (agent / "venv" / "lib").glob("python3.*/site-packages")
            (packages / "vibe-gate-sdk.pth").write_text(str(sdk_alone.REAL.parents[1]))
    return place


def run_find_step(
    place: Path, environ: Mapping[str, str], **variables: str
) -> tuple[int, str, dict[str, str]]:
    """The first step: its exit code, what it says, its outputs."""
    outputs = place / "outputs"
    outputs.unlink(missing_ok=True)
    result = run_step(
        "find", environ, RUNNER_TEMP=str(place), GITHUB_OUTPUT=str(outputs), **variables
    )
    lines = outputs.read_text().splitlines() if outputs.exists() else []
    return result.returncode, result.stdout, dict(line.split("=", 1) for line in lines)


def build(
    place: Path,
    environ: Mapping[str, str],
    script: Path = INSTALL / "step.sh",
    *,
    key: str = "key",
    python: str = sys.executable,
    kind: str = "checks",
) -> subprocess.CompletedProcess[str]:
    """The second step; what it tells the Action is in `outputs` beside the place."""
    outputs = place.with_name("outputs")
    outputs.parent.mkdir(exist_ok=True)
    variables = {"VIBE_GATE_PYTHON": python, "VIBE_GATE_PLACE": str(place), "VIBE_GATE_KEY": key}
    return run_step(
        "build", environ, script, **variables, VIBE_GATE_KIND=kind, GITHUB_OUTPUT=str(outputs)
    )


def shorten(lock: Path) -> None:
    """Leave one small package in the lock."""
    lock.write_text(
        next(
            entry
            for entry in re.split(r"\n(?=[a-z])", lock.read_text())
            if entry.startswith("tomli-w")
        )
    )


def wheel(folder: Path, built: Path, extra_bytes: bytes = b"") -> Path:
    """The wheel of the package that `shorten` leaves, in this folder, with these bytes appended."""
    folder.mkdir(parents=True, exist_ok=True)
    original = next((built / "vibe-gate-checks" / "wheels").glob("tomli_w-*.whl"))
    (folder / original.name).write_bytes(original.read_bytes() + extra_bytes)
    return folder / original.name


def run_step(
    step: str, environ: Mapping[str, str], script: Path = INSTALL / "step.sh", **variables: str
) -> subprocess.CompletedProcess[str]:
    """One step of the Action by itself."""
    return subprocess.run(
        ["bash", str(script), step],
        env={**environ, "RUNNER_OS": "Linux", "RUNNER_ARCH": "X64", **variables},
        cwd=variables.get("GITHUB_WORKSPACE", "/"),
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=280,
    )


@functools.cache
def compiled_package(action: Path) -> Path:
    """A copy of this action's package, whose bytecode is taken whatever the age of the sources is.

    act's own copy of a file is as old as the job, so each job would compile all that it imports.
    """
    folder = Path(tempfile.mkdtemp(prefix="vibe-gate-action-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    package = folder / "vibe_gate"
    without_bytecode = shutil.ignore_patterns("__pycache__")
    shutil.copytree(action / "vibe_gate", package, ignore=without_bytecode)
    compileall.compile_dir(
        package, quiet=1, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH
    )
    return package


class Runner:
    """A machine that runs workflows: act, our action, the stand-ins, and an environment that is
    already installed.
    """

    def __init__(
        self, place: Path, built: Path | None, environ: Mapping[str, str], action: Path = ROOT
    ) -> None:
        self.place, self.built, self.environ = place, built, dict(environ)
        self.records = place / "records"
        (self.records / "artifacts").mkdir(parents=True)
        self.action = place / "action"
        self.action.mkdir()
        shutil.copy(action / "action.yml", self.action)
        if built is not None:  # else its steps do not run
            shutil.copytree(compiled_package(action), self.action / "vibe_gate")

    def run(
        self, checkout: Path, event: str, payload: Mapping[str, Any], workflow: str, **environ: str
    ) -> Job:
        """Execute `workflow`, a file of the checkout. Names that end in _KEY or _TOKEN are
        secrets.
        """
        path = self.place / "event.json"
        path.write_text(json.dumps(payload))
        actor = environ.pop("GITHUB_ACTOR", "ada")
        secrets = {
            name: value for name, value in environ.items() if name.endswith(("_KEY", "_TOKEN"))
        }
        plain = {name: value for name, value in environ.items() if name not in secrets}
        argv = [
            str(Path(sys.executable).with_name("act")),
            event,
            "--eventpath",
            str(path),
            "--workflows",
            workflow,
            "--actor",
            actor,
        ]
        argv += ["--platform", "ubuntu-latest=-self-hosted", "--no-cache-server"]
        machine = self.place / "machine"  # where act copies the checkout and keeps RUNNER_TEMP
        argv += ["--action-cache-path", str(machine)]
        plain = {
            "GITHUB_REPOSITORY": payload["repository"]["full_name"]
        } | plain  # act would take the remote's address
        for name, value in (
            {"STAND_INS": str(self.records), "BUILT": str(self.built or "")} | plain
        ).items():
            argv += ["--env", f"{name}={value}"]
        for name, value in secrets.items():
            argv += ["--secret", f"{name}={value}"]
        for name, folder in self._local(checkout / workflow).items():
            argv += ["--local-repository", f"{name}={folder}"]
        process = subprocess.run(
            argv,
            cwd=checkout,
            env=self.environ,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=240,
        )
        shutil.rmtree(machine, ignore_errors=True)  # half a gigabyte of links to the environment
        return Job(process.returncode, process.stdout + process.stderr, self.records)

    def _local(self, workflow: Path) -> dict[str, Path]:
        """Every action that is used, to the folder that stands in for it."""
        folders = {OURS: self.action}
        for text in (workflow.read_text(), (self.action / "action.yml").read_text()):
            for repository, folder, commit in PINNED.findall(text):
                if repository == REPOSITORY:
                    continue
                folders[f"{repository}@{commit}"] = self._stand_in(repository, folder)
        return folders

    def _stand_in(self, repository: str, folder: str) -> Path:
        stand_in = STAND_INS.get(repository + folder) or STAND_INS.get(repository)
        root = self.place / "stand-ins" / repository
        if stand_in is not None:
            name = (folder or repository).rsplit("/", 1)[-1]
            inputs = ", ".join(f"{input_name}: {{}}" for input_name in stand_in[1:])
            target = root / folder.lstrip("/")
            target.mkdir(parents=True, exist_ok=True)
            text = SAY.format(
                name=name,
                inputs=inputs,
                python=sys.executable,
                this=Path(__file__).with_name("stand_in.py"),
            )
            (target / "action.yml").write_text(text)
        return root


def example(checkout: Repo, name: str) -> str:
    """Put an example workflow into the checkout, uncommitted; the path to run it by."""
    checkout.write(f".github/workflows/{name}", (EXAMPLES / name).read_bytes())
    return f".github/workflows/{name}"
