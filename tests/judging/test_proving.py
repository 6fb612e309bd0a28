"""Fails that bring a test: the whole walk with a scripted judge, real exports, real runs behind the
real wall.
"""

from __future__ import annotations

import importlib
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from answers import answers, fails
from repos import Repo
from walks import LAST, run_review
from wire import answering

from vibe_gate.domain.environment import read_environment
from vibe_gate.domain.gate import CounterexampleRule
from vibe_gate.domain.verdict import Proof
from vibe_gate.git import open_repository
from vibe_gate.judging.proving import find_proof_environment
from vibe_gate.report.comment import render_comment
from vibe_gate.report.report import Report
from vibe_gate.report.round import first_round
from vibe_gate.run.review_result import Review
from vibe_gate.sandbox import wall_lack

pytestmark = [
    pytest.mark.usefixtures("quick_agents"),
    pytest.mark.skipif(
        sys.platform != "linux" or bool(wall_lack()), reason="this system has no wall"
    ),
]

GATE = """\
schema = 1
rubrics = ["works"]
[counterexample]
environment = ".venv"
timeout_s = 10
memory_mb = 512
"""

BEFORE = '''\
def first(items, count):
    """The first `count` items."""
    return items[:count]


def is_empty(items):
    """True if there is nothing in it."""
    return not items


def greet(name="world"):
    """greet() gives "hello world"."""
    return "hello " + name
'''

AFTER = (
    BEFORE.replace("[:count]", "[:count - 1]")
    .replace("not items", "bool(items)")
    .replace('="world"', "")
)
REGRESSIONS = {
    "limits": (
        "    return items[:count - 1]",
        'The first `count` items."""',
        "first([1, 2], 2), [1, 2]",
    ),
    "conditions": (
        "    return bool(items)",
        'True if there is nothing in it."""',
        "is_empty([]), True",
    ),
    "defaults": ("def greet(name):", 'greet() gives "hello world"."""', 'greet(), "hello world"'),
}
"""By criterion: the changed line, the docstring that it breaks, what a test compares."""


SITE = f".venv/lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"


def rubric(*criteria: str, proof: str = "", must: bool = True) -> str:
    text = f'kind = "judge"\nmust = {str(must).lower()}\nquestion = "Is it right?"\n{proof}'
    criterion_tables = (f'[[criterion]]\nid = "{name}"\n{text}' for name in criteria)
    return 'schema = 1\nid = "works"\npass_threshold = 0.0\nsecond_look = "never"\n' + "".join(
        criterion_tables
    )


def comparing(pair: str) -> str:
    return (
        "import unittest\n\nfrom things import first, greet, is_empty\n\n\n"
        f"class TestThings(unittest.TestCase):\n    def test_it(self):\n        self.assertEqual({pair})\n"
    )


def failing(criterion: str, test: str = "", obligation: str = "", line: str = "") -> dict[str, Any]:
    quoted = line or REGRESSIONS[criterion][0]
    evidence = {"path": "src/things.py", "line": 1, "quote": quoted, "side": "after"}
    obliging = [{"path": "src/things.py", "quote": obligation}] if obligation else []
    return fails(evidence, criterion=criterion) | {"test": test, "obligation": obliging}


def gated(place: Path, environ: Mapping[str, str], definition: str, gate: str = GATE) -> Repo:
    repo = Repo(place, environ)
    repo.write(".vibe-gate/gate.toml", gate)
    repo.write(".vibe-gate/rubrics/works.toml", definition)
    repo.write("src/things.py", BEFORE)
    repo.write("tests/test_things.py", "import unittest\n")
    repo.write(".gitignore", ".venv\n")
    repo.commit("First")
    python = Path(
        sys.base_prefix, "bin", "python3"
    )  # in an environment without pytest, whose start is most of a run
    repo.write(
        ".venv/pyvenv.cfg", f"home = {python.parent}\ninclude-system-site-packages = false\n"
    )
    (repo.path / ".venv" / "bin").mkdir(parents=True)
    (repo.path / ".venv" / "bin" / "python").symlink_to(python)
    return repo


def reviewed(
    repo: Repo, environ: Mapping[str, str], *answer_fields: dict[str, Any], **files: str
) -> Review:
    repo.commit("Change", **(files or {"src/things.py": AFTER}))
    with answering(answers(*answer_fields)) as model:
        return run_review(repo.path, {**environ, **model.environ})


def proofs(review: Review) -> dict[str, Proof]:
    return {
        criterion.id: defect.proof
        for rubric in review.summary.rubrics
        for criterion in rubric.criteria
        for vote in criterion.votes
        for defect in vote.defects
        if isinstance(defect.proof, Proof)
    }


@pytest.mark.slow  # a dozen runs of real tests
def test_three_regressions_are_proven_and_block(tmp_path: Path, environ: dict[str, str]) -> None:
    repo = gated(tmp_path / "repo", environ, rubric(*REGRESSIONS, proof='proof = "required"\n'))
    failures = [
        failing(name, comparing(pair), docstring)
        for name, (_, docstring, pair) in REGRESSIONS.items()
    ]
    review = reviewed(repo, environ, *failures)
    proof_by_name = proofs(review)
    assert {name: proof.status for name, proof in proof_by_name.items()} == dict.fromkeys(
        REGRESSIONS, "proven"
    ), proof_by_name
    assert (review.exit_code, {(finding.level, finding.basis) for finding in review.findings}) == (
        1,
        {("failure", "executed")},
    )
    proof = proof_by_name["limits"]
    assert proof.command == f".venv/bin/python -m unittest {proof.path}"
    assert proof.test == comparing(REGRESSIONS["limits"][2])
    assert "fails after the change and passed before: AssertionError: Lists differ" in proof.reason
    assert "(obliged by src/things.py:2)" in proof.reason
    folder = repo.path / review.summary.bundle / "counterexamples"
    assert (folder / Path(proof.path).name).read_text() == proof.test
    assert "before the change: exit code 0" in (folder / f"{Path(proof.path).name}.log").read_text()
    assert review.bundle is not None
    comment = render_comment(
        Report(review.summary, (), first_round(review.findings, review.summary.change.head_commit))
    )
    assert f"<code>{proof.path}</code>" in comment
    assert "self.assertEqual(first([1, 2], 2), [1, 2])" in comment
    # What a user pastes repeats it.
    place = repo.write(proof.path, proof.test)
    second_fields = {**environ, "PYTHONPATH": "src"}
    result = subprocess.run(
        proof.command.split(), cwd=repo.path, env=second_fields, capture_output=True, text=True
    )
    assert (result.returncode, "Lists differ" in result.stderr) == (1, True), result.stderr
    place.unlink()


@pytest.mark.slow  # pytest starts five times
def test_pytest_runs_it_where_the_environment_has_pytest(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    repo = gated(tmp_path / "repo", environ, rubric("limits"))
    repo.write("pytest.ini", "[pytest]\naddopts = --cov=things\n")  # a plugin that is not there
    repo.write(
        "tests/conftest.py", "import pytest\n\n@pytest.fixture\ndef two():\n    return [1, 2]\n"
    )
    repo.commit("Fixtures")
    for name in ("pytest", "_pytest", "pluggy", "iniconfig", "packaging", "pygments"):
        shutil.copytree(*importlib.import_module(name).__path__, repo.path / SITE / name)
    shutil.copy(str(importlib.import_module("py").__file__), repo.path / SITE)
    test = "from things import first\n\n\ndef test_it(two):\n    assert first(two, 2) == two\n"
    failure = failing("limits", test, REGRESSIONS["limits"][1])
    proof = proofs(reviewed(repo, environ, failure))["limits"]
    assert (proof.status, "assert [1] == [1, 2]" in proof.reason) == ("proven", True), proof
    assert proof.command.startswith(".venv/bin/python -m pytest -q ")
    assert "assert [1] == [1, 2]" in proof.output
    assert "1 failed" in proof.output


WRONG = {
    "voids": (comparing("first([], 2), []"), "void"),
    "unchanged": (comparing("first([1], 1), [2]"), "unchanged"),
    "absent": ("import unittest\nfrom things import nothing\n", "could_not_run"),
}


@pytest.mark.slow  # runs of real tests
def test_a_wrong_counterexample_voids_its_fail_and_others_leave_it(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    repo = gated(tmp_path / "repo", environ, rubric(*WRONG))
    changed = REGRESSIONS["limits"][0]
    failures = [failing(name, test, line=changed) for name, (test, _) in WRONG.items()]
    review = reviewed(repo, environ, *failures)
    proof_by_name = proofs(review)
    assert {name: proof.status for name, proof in proof_by_name.items()} == {
        name: status for name, (_, status) in WRONG.items()
    }
    with answering() as silent:  # what was run once is kept with the vote
        walk_result = run_review(repo.path, {**environ, **silent.environ})
    assert (proofs(walk_result), walk_result.summary.cache.misses) == (proof_by_name, 0)
    [result] = review.summary.rubrics
    outcomes = {
        criterion.id: (criterion.outcome, criterion.reason) for criterion in result.criteria
    }
    assert outcomes["voids"][0] == "abstain"
    assert 'answered "fail", but its own test passes after the change' in outcomes["voids"][1]
    assert (outcomes["unchanged"][0], outcomes["absent"][0]) == ("fail", "fail")
    assert {criterion.basis for criterion in review.findings} == {"inferred"}


@pytest.mark.slow  # runs of real tests
def test_what_a_test_lacked_is_there_the_next_time_and_no_model_is_asked_again(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    repo = gated(tmp_path / "repo", environ, rubric("limits"))
    test = "import helper\n" + comparing(REGRESSIONS["limits"][2])
    review = reviewed(repo, environ, failing("limits", test, REGRESSIONS["limits"][1]))
    assert (
        "the test cannot be loaded: ModuleNotFoundError: No module named 'helper'"
        in proofs(review)["limits"].reason
    )
    repo.write(f"{SITE}/helper.py", "")
    with answering() as silent:
        second_walk_result = run_review(repo.path, {**environ, **silent.environ})
    assert (
        proofs(second_walk_result)["limits"].status,
        second_walk_result.summary.cache.misses,
    ) == ("proven", 0)


HOSTILE = {
    "network": ("socket.create_connection(('127.0.0.1', 1))", "network"),
    "names": ("socket.getaddrinfo('example.org', 443)", "network"),
    "forks": ("fork_without_end()", "processes|memory"),
    "memory": ("self.assertEqual(len(bytearray(900 << 20)), 1)", "memory"),
    "disk": ("fill_the_disk()", "wrote|writes|written"),
    "loops": ("loop()", "timed out after 2 s"),
    "outside": ("print('\\x1b[2J\\u202e::error::owned'); write_outside()", ""),
}

ATTACK = """\
import os, pathlib, socket, sys, time, unittest

def fork_without_end():
    while True:
        os.fork()

def fill_the_disk():
    for number in range(10_000):
        with open(f"{number}.bin", "wb") as file:
            file.write(b"x" * (8 << 20))

def loop():
    while True:
        time.sleep(1)

def write_outside():
    for place in PLACES:
        try:
            pathlib.Path(place, "was-here").write_text("x")
        except OSError:
            continue
        os._exit(0)
    raise AssertionError("nothing could be written")

class TestIt(unittest.TestCase):
    def test_it(self):
        CALL
        self.assertEqual(1, 2)
"""


@pytest.mark.slow  # limits of time are waited for
def test_a_test_that_attacks_the_machine_could_not_run_and_leaves_nothing(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    gate = GATE.replace("timeout_s = 10", "timeout_s = 2").replace(
        "memory_mb = 512", "memory_mb = 256"
    )
    repo = gated(tmp_path / "repo", environ, rubric(*HOSTILE), gate)
    places = [
        "/tmp",
        "/dev/shm",
        environ["HOME"],
        str(repo.path),
        str(repo.path / ".venv"),
        str(tmp_path),
        "/var/tmp",
    ]
    attack = ATTACK.replace("PLACES", repr(places))
    line = REGRESSIONS["limits"][0]
    failures = [
        failing(name, attack.replace("CALL", call), line=line)
        for name, (call, _) in HOSTILE.items()
    ]
    review = reviewed(repo, environ, *failures)
    proof_by_name = proofs(review)
    wrong = [
        proof_by_name[name]
        for name, (_, reason) in HOSTILE.items()
        if reason
        and not (
            proof_by_name[name].status == "could_not_run"
            and re.search(f"{reason}|timed out", proof_by_name[name].reason)
        )
    ]
    assert wrong == []
    assert proof_by_name["loops"].timed_out is True
    logs = b"".join(
        log.read_bytes()
        for log in (repo.path / review.summary.bundle / "counterexamples").glob("*.log")
    )
    assert (
        b"\xe2\x9f\xa6U+001B\xe2\x9f\xa7[2J" in logs and b"\x1b" not in logs
    )  # who prints them is not attacked
    assert proof_by_name["outside"].status == "unchanged", proof_by_name[
        "outside"
    ]  # it could write nowhere, in either tree
    assert [place for place in places if Path(place, "was-here").exists()] == []
    assert {finding.level for finding in review.findings} == {"failure"}  # each fail stands


@pytest.mark.slow  # runs of real tests
def test_a_change_that_makes_every_test_pass_voids_nothing(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    repo = gated(tmp_path / "repo", environ, rubric("limits"))
    voiding = failing("limits", comparing("first([], 2), []"))
    review = reviewed(
        repo, environ, voiding, **{"src/things.py": AFTER, "tests/conftest.py": "import sys\n"}
    )
    assert proofs(review)["limits"].status == "could_not_run"
    assert "the change edits tests/conftest.py" in proofs(review)["limits"].reason
    forging = "unittest.TestCase.assertEqual = lambda *_: None"
    failure = failing("limits", comparing(REGRESSIONS["limits"][2]), line=forging)
    review = reviewed(
        repo, environ, failure, **{"src/things.py": f"{AFTER}\n\nimport unittest\n{forging}\n"}
    )
    assert proofs(review)["limits"].status == "could_not_run"
    assert "does not fail either, so a pass says nothing" in proofs(review)["limits"].reason
    assert review.exit_code == 1


@pytest.mark.slow  # a whole review
def test_without_an_environment_no_test_is_asked_for_and_it_is_said_once(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    repo = gated(
        tmp_path / "repo", environ, rubric("limits", "conditions"), GATE.replace(".venv", "nowhere")
    )
    failures = [failing(name, comparing(REGRESSIONS[name][2])) for name in ("limits", "conditions")]
    review = reviewed(repo, environ, *failures)
    remark = "Counterexamples are not run: there is no virtual environment at nowhere."
    assert [note for note in review.notes if "ounterexample" in note] == [remark]
    assert (proofs(review), review.exit_code, {finding.basis for finding in review.findings}) == (
        {},
        1,
        {"inferred"},
    )


def test_an_environment_that_the_change_could_have_made_is_none(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    (tmp_path / "home" / "bin").mkdir(parents=True)
    (tmp_path / "home" / "bin" / "python").touch()
    repo = Repo(tmp_path / "repo", environ)
    (repo.path / "tools").symlink_to(tmp_path)
    (repo.path / ".venv").symlink_to(tmp_path / "home")
    repo.commit("First")

    def lack(environment: str, **variables: str) -> str:
        rule = CounterexampleRule(environment=environment)
        with open_repository(repo.path, read_environment({**environ, **variables})) as repository:
            return find_proof_environment(rule, repository.change(LAST), repository).lack

    assert lack(".venv") == ".venv is part of the reviewed files"
    assert lack("tools/home") == "tools/home is part of the reviewed files"
    assert (
        lack(".venv", VIBE_GATE_TEST_ENVIRONMENT="venv")
        == "VIBE_GATE_TEST_ENVIRONMENT is not an absolute path"
    )
    assert lack(".venv", VIBE_GATE_TEST_ENVIRONMENT=str(tmp_path / "home")) == ""
    assert lack("home") == "there is no virtual environment at home"
