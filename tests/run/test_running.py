"""What a run goes through: prompts in every form, limits, secrets, a person at the terminal,
Ctrl-C.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from command import vibe_gate
from scripted_messages_api import Hang, Turn, Usage
from wire import answering
from working import FIXED, WorkingRepo, says, writes

pytestmark = pytest.mark.usefixtures("quick_agents")

FORMS = """\
schema = 1
id = "forms"
[[stage]]
id = "look"
agent = "reviewer"
prompt_file = ".vibe-gate/ask.md"
images = [".vibe-gate/picture.png"]
[[stage]]
id = "search"
needs = ["look"]
agent = "reviewer"
prompt_command = ["grep", "-rn", "TODO", "src"]
"""
PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c6360000002000001e221bc33"
    "0000000049454e44ae426082"
)


@pytest.fixture
def repo(tmp_path: Path, environ: dict[str, str]) -> WorkingRepo:
    repo = WorkingRepo(tmp_path / "repo", environ)
    repo.write(".vibe-gate/ask.md", "Ask: is it done?\n")
    repo.write(".vibe-gate/picture.png", PIXEL)
    repo.write(".vibe-gate/workflows/forms.toml", FORMS)
    repo.git("add", ".vibe-gate")
    repo.git("commit", "-qm", "Forms")
    return repo


@pytest.mark.slow
def test_a_prompt_is_a_file_with_a_picture_or_what_a_command_prints(repo):
    with answering(says("Seen."), says("Found.")) as model:
        run = repo.run("forms", model=model.environ)
    assert run.code == 0, run.out + run.err
    look, search = (request.all_text for request in model.script.requests)
    assert "Ask: is it done?" in look and '"media_type": "image/png"' in look
    assert "| src/load.py:2:    return open(path).read()  # TODO" in search


@pytest.mark.slow
def test_a_budget_that_is_used_up_is_inconclusive_and_the_patch_is_kept(repo):
    dear = Turn(*writes("src/load.py", FIXED)[0].blocks, usage=Usage(output_tokens=60_000))
    with answering(dear, says("More.")) as model:
        argv = ("--agent", "fixer", "--prompt", "Go.", "--max-cost-usd", "0.6007")
        run = repo.run(*argv, model=model.environ)
    assert (run.code, "changed   1 file" in run.out) == (3, True), run.out + run.err
    assert "fixer: inconclusive" in run.out


@pytest.mark.slow
@pytest.mark.usefixtures("real_cli")
def test_a_deadline_ends_the_agent_and_the_run_is_sealed(repo):
    with answering(Hang()) as model:
        run = repo.run(
            "--agent", "fixer", "--prompt", "Go.", "--deadline", "4", "--json", model=model.environ
        )
    assert (run.code, run.json["outcome"]) == (3, "inconclusive"), run.err
    assert "fixer: The deadline of 4 s was reached." in run.err


@pytest.mark.slow
def test_a_secret_that_an_agent_writes_is_not_in_the_bundle_which_verifies(repo):
    secret = "ghp_" + "A1b2C3d4E5" * 3 + "F6g7H8"
    with answering(
        *writes("src/key.py", f'TOKEN = "{secret}"\n', last_message=f"It is {secret}.")
    ) as model:
        run = repo.run("--agent", "fixer", "--prompt", "Go.", "--json", model=model.environ)
    bundle = repo.path / run.json["bundle"]
    assert run.code == 0, run.err
    leaks = [
        path
        for path in bundle.rglob("*")
        if path.is_file() and secret.encode() in path.read_bytes()
    ]
    assert leaks == []
    assert vibe_gate("bundles", "verify", cwd=repo.path, environ=repo.environ).code == 0


@pytest.mark.slow
@pytest.mark.usefixtures("real_cli")
def test_ctrl_c_leaves_no_process_and_a_run_without_a_verdict(repo):
    with answering(writes("src/load.py", FIXED)[0], Hang()) as model:
        process = subprocess.Popen(
            [sys.executable, "-m", "vibe_gate", "run", "--agent", "fixer", "--prompt", "Go."], cwd=repo.path,
            env={**repo.environ, **model.environ}, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        for _ in range(400):
            if len(model.script.requests) == 2:
                break
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=250)
    assert (process.returncode, b"interrupted" in err) == (130, True), err
    assert subprocess.run(["pgrep", "-f", str(repo.path)], capture_output=True).stdout == b""
    (bundle,) = (repo.path / ".vibe-artifacts").glob("tree-*/*")
    assert not (bundle / "summary.json").exists()
    assert (
        json.loads((bundle / "events.ndjson").read_text().splitlines()[-1])["data"]["status"]
        == "incomplete"
    )
