"""The documents: what the code says of itself stands there as it is now, and what they tell people
to type works.

Each block of code is run or read by what it is for, or a comment above it says why not:

    <!-- not run: REASON -->                  a block that this test cannot run
    <!-- run: in PLACE, exit N -->            commands or Python for a folder of PLACES, whose last one ends with N

Commands of a page run in the order of the page, in one repository for each place. Python runs by
itself, below the imports of the blocks before it, and so does each coroutine that it defines; tests
are the files of the place "suite". NOT_RUN is how many blocks cannot be run.
"""

from __future__ import annotations

import importlib.util
import json
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import forked
import pytest
import signing
import yaml
from command import hook_script
from repos import GOOD, RUBRIC, Repo
from scripted_messages_api import MessagesRequest, Text, ToolUse, Turn
from text_tree import text_tree
from wire import answering

from vibe_gate.faces.cli import dispatch
from vibe_gate.faces.cli.command import parser as parser_of
from vibe_gate.faces.cli.help import COMMANDS
from vibe_gate.gate.loading import find_mistakes

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted(
    [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "examples").glob("*/README.md"),
    ]
)
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]

_FENCE = re.compile(
    r"^(?:<!-- (?P<word>run|not run): (?P<about>[^\n]*) -->\n+)?"
    r"(?P<indent> *)```(?P<language>\w*)\n(?P<text>.*?)^(?P=indent)```$",
    re.M | re.S,
)
_WRITTEN = re.compile(r"<!-- reference: .*?<!-- /reference -->", re.S)
_SPAN = re.compile(r"`vibe-gate ([^`]+)`")


class Block(NamedTuple):
    """A fence: its language, its text, and the comment above it."""

    language: str
    text: str
    word: str
    about: str

    @property
    def place(self) -> str:
        match = re.search(r"in ([\w-]+)", self.about) if self.word == "run" else None
        return match[1] if match else "project"

    @property
    def exit_code(self) -> int:
        match = re.search(r"exit (\d+)", self.about)
        return int(match[1]) if match else 0


def blocks(page: str) -> list[Block]:
    fences = _FENCE.finditer(_WRITTEN.sub("", (ROOT / page).read_text()))
    return [
        Block(fence["language"], fence["text"], fence["word"] or "", fence["about"] or "")
        for fence in fences
    ]


def test_the_reference_in_the_pages_is_what_the_code_says(capsys):
    """Every argument, key, check, exit code and document. `python docs/site/reference.py --write`
    writes it anew.
    """
    spec = importlib.util.spec_from_file_location(
        "reference", ROOT / "docs" / "site" / "reference.py"
    )
    reference = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(reference)
    assert reference.main([]) == 0, capsys.readouterr().out


# Where the commands of the pages run.


def make_project(path: Path, environ: Mapping[str, str]) -> Repo:
    """Two commits, a branch and a staged file, without a gate."""
    repo = Repo(path, environ)
    repo.commit("First", **{"src/load.py": GOOD, "tests/test_load.py": "def test_load(): ...\n"})
    repo.commit("Second", **{"src/load.py": GOOD + "\n\nlimit = 3\n"})
    repo.git("branch", "feature")
    repo.write("out/README", "Where formats are written.\n")
    repo.git("add", ".")
    return repo


def agents(path: Path, environ: Mapping[str, str]) -> Repo:
    """The example with agents, a workflow and a rubric more; an uncommitted change."""
    shutil.copytree(ROOT / "examples" / "agents", path)
    repo = Repo(path, environ)
    flow = (
        (path / ".vibe-gate/workflows/loop-toml.toml")
        .read_text()
        .replace("loop-toml", "review-and-fix")
    )
    definitions = {
        ".vibe-gate/workflows/review-and-fix.toml": flow,
        ".vibe-gate/rubrics/quality.toml": RUBRIC,
    }
    repo.commit("First", **definitions, **{"src/load.py": GOOD})
    repo.write("src/load.py", GOOD + "\n\nlimit = 3\n")
    return repo


def cases(path: Path, environ: Mapping[str, str]) -> Repo:
    """The example with labelled cases."""
    shutil.copytree(ROOT / "examples" / "cases", path)
    repo = Repo(path, environ)
    repo.commit("First")
    return repo


def make_reviewed_project(path: Path, environ: Mapping[str, str]) -> Repo:
    """A review of HEAD with a signed receipt, and the list that names its signer."""
    repo = make_project(path, environ)
    key = signing.key(path.parent / "keys")
    signing.sign_with(repo, key)
    repo.commit(
        "Third", **{".vibe-gate/allowed_signers": f"bob@example.org {signing.public(key)}\n"}
    )
    subprocess.run(
        [forked.programs() / "vibe-gate", "review", "HEAD~1..HEAD"],
        cwd=path,
        env=environ,
        check=True,
    )
    (receipt,) = path.glob(".vibe-artifacts/*/*/receipt.json")
    shutil.copy(receipt, path)
    return repo


def suite(path: Path, environ: Mapping[str, str]) -> Repo:
    """The example with agents, and the tests that the guide to pytest shows."""
    repo = agents(path, environ)
    tests = [block.text for block in blocks("docs/guides/pytest.md") if block.place == "suite"]
    python_texts = [text for text in tests if "def test_" in text]
    repo.write("tests/test_page.py", "\n\n".join(python_texts))
    return repo


def edit_ledger(request: MessagesRequest) -> Turn:
    """An agent that repairs what the guide's first test shows."""
    answers = sum(message["role"] == "assistant" for message in request.body["messages"])
    if answers == 0:
        return Turn(ToolUse("Read", {"file_path": "src/ledger.py"}))
    if answers == 1:
        texts = {"old_string": "return open(path).read()", "new_string": "return ''"}
        return Turn(ToolUse("Edit", {"file_path": "src/ledger.py", **texts}))
    return Turn(Text("Done."))


PLACES: dict[str, Callable[[Path, Mapping[str, str]], Repo]] = {
    "project": make_project, "agents": agents, "cases": cases, "reviewed": make_reviewed_project,
    "suite": suite,
}  # fmt: skip


def typed_blocks(page: str) -> list[Block]:
    """The commands of a page that are run."""
    return [block for block in blocks(page) if block.language == "sh" and block.word != "not run"]


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("page", "place"),
    sorted({(page, block.place) for page in NAMES for block in typed_blocks(page)}),
)
def test_what_a_page_says_to_type_works(page, place, tmp_path, environ, quick_agents):
    """Without a key; agents have a model that says it is done."""
    commands = [block for block in typed_blocks(page) if block.place == place]
    if any("jq " in block.text for block in commands) and not shutil.which("jq"):
        pytest.skip("jq is not installed here")
    repo = PLACES[place](tmp_path / "place", environ)
    path = f"{forked.programs()}:{Path(sys.executable).parent}:{environ['PATH']}"
    step = edit_ledger if place == "suite" else Turn(Text("Done."))
    with answering(step, repeat_last=True) as model:
        variables = {
            **environ,
            "PATH": path,
            "BROWSER": "true",
            "PYTEST_ADDOPTS": "-p no:hypothesispytest",  # a fifth of a start
            **(model.environ if place in ("agents", "suite") else {}),
        }
        for block in commands:
            argv = ["bash", "-ec", block.text]
            result = subprocess.run(
                argv, cwd=repo.path, env=variables, capture_output=True, text=True
            )
            transcript = f"{block.text}\n{result.stdout}\n{result.stderr}"
            assert result.returncode == block.exit_code, transcript
            assert "this is a bug" not in transcript


DRIVER = """
import asyncio, inspect
for value in list(globals().values()):
    if inspect.iscoroutinefunction(value) and value.__module__ == "__main__":
        asyncio.run(value())
"""


def python_runs() -> Iterator[tuple[str, int]]:
    """The blocks of Python that are run: the page, and the number of the block on it."""
    for page in NAMES:
        for number, block in enumerate(blocks(page)):
            if block.language == "python" and block.word == "run" and block.place != "suite":
                yield page, number


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("page", "number"), list(python_runs()))
def test_what_a_page_shows_in_python_runs(page, number, tmp_path, environ, quick_agents):
    *earlier_blocks, block = blocks(page)[: number + 1]
    imports: list[str] = []
    for earlier in earlier_blocks:
        if earlier.language == "python":
            imports += re.findall(r"^(?:from|import) .*$", earlier.text, re.MULTILINE)
    repo = PLACES[block.place](tmp_path / "place", environ)
    subprocess.run(
        [forked.programs() / "vibe-gate", "review", "--no-judge"], cwd=repo.path, env=environ
    )
    with answering(Turn(Text("Done.")), repeat_last=True) as model:
        script = tmp_path / "block.py"
        script.write_text("\n".join([*imports, block.text, DRIVER]))
        result = hook_script(str(script), cwd=repo.path, environ={**environ, **model.environ})
    assert result.code == block.exit_code, f"{block.text}\n{result.out}\n{result.err}"


# What is written down is read by what it is for.

SUPPORT = {
    "gate.toml": "schema = 1\n",
    "rubrics/quality.toml": RUBRIC,
    "rubrics/errors.toml": RUBRIC.replace("quality", "errors"),
    "agents/fixer.toml": 'schema = 1\nid = "fixer"\ntools = ["Read", "Edit"]\n',
    "agents/reviewer.toml": 'schema = 1\nid = "reviewer"\n',
}
"""What the definitions in the pages name."""


def definition(text: str) -> dict[str, str]:
    """A definition of a page as files of `.vibe-gate/`; of a part what it leaves out is added."""
    written = tomllib.loads(text)
    document = text if "schema" in written else f"schema = 1\n{text}"
    if "stage" in written:
        return {f"workflows/{written['id']}.toml": document}
    if "digest" in written:
        return {f"baseline/{written['rubric']}.toml": document}
    if "criterion" in written:
        return {
            f"rubrics/{written.get('id', 'x')}.toml": document
            if "id" in written
            else f'id = "x"\n{document}'
        }
    if "suppression" in written:
        return {"suppressions.toml": document}
    if "system_prompt" in written or "setup" in written:
        return {f"agents/{written['id']}.toml": document}
    if "expect" in written:
        return {"cases/x/case.toml": document, "cases/x/after/a.py": "a = 1\n"}
    return {"gate.toml": document}


def python(text: str) -> None:
    """Compile it, and import what it imports."""
    compile(text, "a page", "exec", flags=0x2000)  # top-level await, as in a notebook
    for line in re.findall(r"^(?:from|import) .*$", text, re.MULTILINE):
        exec(line, {})


def configuration(text: str) -> None:
    """YAML: hooks that the manifest has, steps that a job may have."""
    written = yaml.safe_load(text)
    manifest = {
        hook["id"] for hook in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    }
    if isinstance(written, dict) and "repos" in written:
        assert {hook["id"] for repo in written["repos"] for hook in repo["hooks"]} <= manifest
    for step in written if isinstance(written, list) else []:
        assert set(step) <= {"name", "id", "if", "uses", "with", "run", "env", "shell"}


def toml(text: str) -> None:
    assert find_mistakes(text_tree(SUPPORT | definition(text))) == []


READERS = {"toml": toml, "python": python, "yaml": configuration, "json": json.loads}


NOT_RUN = {"sh": 44, "text": 2, "toml": 2, "yaml": 1, "python": 6}
"""By language, the blocks with a reason why they are not run. Python is compiled all the same, and
YAML held against GitHub's rules (.ci/actions).
"""


def test_no_more_blocks_than_these_are_not_run():
    """A block more: have it run, or change the number with the reason."""
    counts = Counter()
    for page in NAMES:
        counts.update(block.language for block in blocks(page) if block.word == "not run")
    assert counts == NOT_RUN


@pytest.mark.parametrize("page", [page for page in NAMES if blocks(page)])
def test_every_block_of_code_is_run_or_read_or_says_why_not(page):
    for block in blocks(page):
        if block.language == "python":
            python(block.text)
            assert block.word, f"neither run, nor is it said why not: {block.text[:200]}"
        if block.word == "not run":
            assert block.about
            assert [
                name
                for name in re.findall(r"tests/[\w/.]+\.py", block.about)
                if not (ROOT / name).exists()
            ] == []
        elif block.language in READERS:
            READERS[block.language](block.text)
        else:
            assert block.language in ("sh", "text"), f"neither run nor read: {block.text[:200]}"
            assert block.language == "sh" or not re.search(
                r"^(\$|vibe-gate|pip|pytest) ", block.text, re.MULTILINE
            )


def test_the_table_of_the_history_example_stands_in_a_fence_on_the_page_also_when_it_fails(
    tmp_path,
):
    workflow = yaml.safe_load((ROOT / "examples" / "workflows" / "history-matrix.yml").read_text())
    script = workflow["jobs"]["table"]["steps"][-1]["run"]
    program = tmp_path / "vibe-gate"
    program.write_text('#!/bin/sh\necho "8b72ab17beb0  fail  <img src=x> ~~~"\nexit 1\n')
    program.chmod(0o755)
    page = tmp_path / "page.md"
    environ = {
        "PATH": f"{tmp_path}:/usr/bin:/bin",
        "RUNNER_TEMP": str(tmp_path),
        "GITHUB_STEP_SUMMARY": str(page),
    }
    result = subprocess.run(
        ["bash", "-e", "-c", script], env=environ, capture_output=True, text=True, check=False
    )
    assert (result.returncode, result.stderr) == (1, "")
    assert page.read_text() == "~~~text\n8b72ab17beb0  fail  <img src=x> ~~~\n~~~\n"


def commands_in_prose() -> Iterator[tuple[str, str]]:
    """Every command in a sentence of a page, and in the examples of `--help`, with where it
    stands.
    """
    for page in PAGES:
        for span in _SPAN.findall(_FENCE.sub("", _WRITTEN.sub("", page.read_text()))):
            yield page.name, span.replace("\n", " ")
    for name in COMMANDS:
        for line in re.findall(
            r"^  vibe-gate (.*?)(?:  |$)", dispatch.find_command(name).examples or "", re.MULTILINE
        ):
            yield f"{name} --help", line


def test_every_command_that_is_told_of_is_there_with_its_options():
    for place, command in commands_in_prose():
        name, *words = shlex.split(command, posix=False)
        if not name.isalpha() or not name.islower():
            continue
        parser = parser_of(name, dispatch.find_command(name))
        options = set(parser._option_string_actions)
        for action in parser._actions:
            for choice, subparser in (
                action.choices.items() if isinstance(action.choices, dict) else ()
            ):
                if not words or words[0] == choice or "|" in words[0]:
                    options |= set(subparser._option_string_actions)
        used = {
            match[0] for word in words if (match := re.match(r"--?[a-z][\w-]*", word.strip("[]")))
        }
        assert used <= options, (place, command)


def test_every_page_that_the_program_names_is_there():
    for path in [
        *(ROOT / "vibe_gate").rglob("*.py"),
        *(ROOT / "vibe_gate").rglob("*.toml"),
        ROOT / "action.yml",
    ]:
        for name in re.findall(r"docs/[\w/-]+\.md", path.read_text()):
            assert (ROOT / name).is_file(), (path, name)
