"""What scripts call: `vibe_gate.review` and its kind, the names and signatures that they may rely
on.
"""

from __future__ import annotations

import asyncio
import inspect
import subprocess
import sys
from pathlib import Path

import pytest
from answers import answer_to, answers, fails
from command import vibe_gate as command
from repos import Repo, swallowing
from wire import answering

import vibe_gate
from vibe_gate import (
    Criterion,
    RevisionError,
    Rubric,
    UsageError,
    Workflow,
    WorkflowContext,
    WorkflowRun,
)
from vibe_gate.gate.loading import FolderFiles, load_gate

ROOT = Path(__file__).resolve().parents[2]

CHANGE = "revision=None, *, staged=False, commit=None, repository=None, rubrics=(), judge=True, "
LIMITS = (
    "base=None, definitions=None, max_cost_usd=None, deadline_s=None, progress=None, environ=None"
)
SIGNATURES = {
    "review": f"{CHANGE}{LIMITS}",
    "review_sync": f"{CHANGE}{LIMITS}",
    "run_workflow": f"workflow, revision=None, *, staged=False, repository=None, model=None, apply=False, {LIMITS}",
    "run_agent": (
        "agent, prompt, *, context=(), workspace=None, resume=None, schema=None, model=None, timeout_s=None, "
        "max_cost_usd=None"
    ),
    "judge": (
        "result, rubric=None, instructions=None, *, answer=None, workspace=None, max_cost_usd=None, timeout_s=None"
    ),
    "read_bundle": "directory, *, redact=None, clock",
    "find_bundles": "root='.', provenance=None, index=None, limit=None, *, replays=False, **conditions",
    "clean_bundles": "root='.', *, now=None, max_age_days=30, min_free_disk_mb=1000, dry_run=False, provenance=None",
    "expect": "result",
    "workflow": "id, *, timeout=None, model=None, workspace=None",
}
MEMBERS = {
    "Review": "bundle exit_code findings gate headline notes outcome passed repairs root store_root summary unrecorded "
    "unshared",
    "WorkflowRun": (
        "applied bundle change left_alone made names outcome passed patch problem repair_words results review said "
        "staged steers unapplied unmatched unrun"
    ),
    "AgentExecution": "abort has_ended watch",
    "RunResult": (
        "annotate annotations bundle_dir chain change_patch complete content error files git graph hook_capture_status is_run "
        "log made_patch messages metrics raise_for_status run_document session_record state status summary timeline todos tools "
        "turns"
    ),
}


@pytest.fixture
def repo(tmp_path: Path, environ: dict[str, str]) -> Repo:
    return swallowing(tmp_path / "repo", environ)


def render_parameters(parameters: inspect.Signature) -> str:
    """The parameters without their types; of a default that is an object only that there is one."""
    texts, star = [], False
    for parameter in parameters.parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and not star:
            texts.append("*")
            star = True
        plain = parameter.default is not parameter.empty and isinstance(
            parameter.default, (str, int, float, tuple, type(None))
        )
        texts.append(
            ("**" if parameter.kind is parameter.VAR_KEYWORD else "")
            + parameter.name
            + (f"={parameter.default!r}" if plain else "")
        )
    return ", ".join(texts)


@pytest.mark.parametrize("name", SIGNATURES)
def test_a_function_takes_these_words(name):
    assert render_parameters(inspect.signature(getattr(vibe_gate, name))) == SIGNATURES[name]


@pytest.mark.parametrize("name", MEMBERS)
def test_what_comes_back_has_these_members(name):
    assert [
        member for member in dir(getattr(vibe_gate, name)) if not member.startswith("_")
    ] == MEMBERS[name].split()


def test_a_review_is_awaited_and_says_how_it_came_out(repo):
    stages: list[str] = []

    async def main() -> vibe_gate.Review:
        return await vibe_gate.review(
            "HEAD~1", repository=repo.path, judge=False, environ=repo.environ,
            progress=lambda stage, text: stages.append(stage),
        )  # fmt: skip

    review = asyncio.run(main())
    assert (review.passed, review.outcome, review.exit_code, review.findings) == (
        True,
        "pass",
        0,
        (),
    )
    assert (review.summary.workflow, stages) == ("review", ["change", "checks", "seal"])
    assert review.bundle is not None
    assert review.bundle.bundle_dir == repo.path / review.summary.bundle
    assert [file.path for file in review.bundle.files.changed()] == ["src/load.py"]


@pytest.mark.slow
def test_a_failed_judge_is_a_finding_and_no_pass(repo):
    with answering(answers(fails(), answer_to("names-are-clear"))) as model:
        review = vibe_gate.review_sync(
            commit="HEAD",
            repository=str(repo.path),
            environ=repo.environ | model.environ,
            max_cost_usd=1,
        )
    assert (review.passed, review.outcome, review.exit_code) == (False, "fail", 1)
    assert [(finding.path, finding.line, finding.criterion) for finding in review.findings] == [
        ("src/load.py", 4, "errors-not-swallowed")
    ]


def test_a_pass_without_a_key_says_that_questions_were_not_asked_as_the_terminal_does(
    tmp_path, environ
):
    repo = Repo(tmp_path / "plain", environ)
    repo.commit("First", **{"a.py": "A = 1\n"})
    repo.commit("Second", **{"a.py": "A = 2\n"})
    review = vibe_gate.review_sync("HEAD~1", repository=repo.path, environ=repo.environ)
    screen = command("review", "HEAD~1", cwd=repo.path, environ=repo.environ).out.splitlines()[0]
    assert review.headline.startswith("PASS (checks only) · ")
    assert review.headline.endswith(" questions not asked: no API key")
    assert screen == f"✓ {review.headline}"
    assert review.headline.endswith(review.notes[0].partition(".")[0])
    assert "Set ANTHROPIC_API_KEY" in review.notes[0]


@pytest.mark.parametrize(
    ("line", "suggestion"),
    [
        (("review", "mian"), "'main'"),
        (("review", "--commit", "mian"), "'main'"),
        (("review", "origin/mian"), "'origin/main'"),
        (("review", "HEAD~1", "--definitions", "mian"), "'main'"),
        (("review", "stagd"), "--staged"),
        (("verify", "mian..HEAD"), "'main'"),
        (("verify", "HEAD...mian"), "'main'"),
        (("run", "review-and-fix", "mian"), "'main'"),
    ],
)
def test_the_command_line_names_the_nearest_revision_as_python_does(repo, line, suggestion):
    repo.git("branch", "-M", "main")
    repo.git("update-ref", "refs/remotes/origin/main", "main")
    result = command(*line, cwd=repo.path, environ=repo.environ)
    assert result.code == 2
    assert (
        f" names no revision here. `git log --oneline --all` shows what there is. Did you mean {suggestion}?"
        in result.err
    )


def test_a_run_that_was_found_can_be_read(repo, monkeypatch):
    vibe_gate.review_sync("HEAD~1", repository=repo.path, environ=repo.environ, judge=False)
    monkeypatch.chdir(repo.path)
    (run,) = vibe_gate.find_bundles()
    assert vibe_gate.read_bundle(run).summary.run_id == run.run_id


def test_what_is_no_result_and_no_folder_is_a_usage_error(tmp_path):
    with pytest.raises(UsageError, match=r"expect takes a RunResult .*, not 3"):
        vibe_gate.expect(3)
    with pytest.raises(UsageError, match=r"There is no folder .*nope"):
        vibe_gate.find_bundles(tmp_path / "nope")


def test_all_that_is_wrong_with_an_agent_is_named():
    with pytest.raises(ValueError, match=r"id: .*; tools.*did you mean Read") as raised:
        vibe_gate.Agent(id="a b", tools=("Raed",))
    assert "\n" not in str(raised.value)


def test_nothing_to_review_is_a_pass_without_a_bundle(repo):
    review = vibe_gate.review_sync(repository=repo.path, environ=repo.environ)
    assert (review.passed, review.bundle, review.summary.run_id) == (True, None, "")
    assert repr(review) == "<Review pass, 0 findings, in no bundle>"


@pytest.mark.parametrize(
    ("arguments", "before", "after"),
    [
        ({"revision": "HEAD~1..HEAD"}, "HEAD~1", "HEAD"),
        ({"revision": "HEAD~1...HEAD"}, "HEAD~1", "HEAD"),
        ({"commit": "HEAD"}, "HEAD~1", "HEAD"),
        ({"staged": True}, "HEAD", ""),
    ],
)
def test_a_change_is_named_as_on_the_command_line(repo, arguments, before, after):
    repo.write("more.py", "MORE = 1\n")
    repo.git("add", "more.py")
    change = vibe_gate.review_sync(
        repository=repo.path, judge=False, environ=repo.environ, **arguments
    ).summary.change
    assert change.before == repo.git("rev-parse", f"{before}^{{tree}}")
    assert change.after == (
        repo.git("rev-parse", f"{after}^{{tree}}") if after else repo.git("write-tree")
    )


WRONG = [
    ({"revision": "stagd"}, "Did you mean staged=True?"),
    ({"revision": "comit"}, "Did you mean commit='REV'?"),
    ({"revision": "feture"}, "feture names no revision here. .* Did you mean 'feature'?"),
    ({"revision": "main..feture"}, "Did you mean 'feature'?"),
    ({"revision": "HEAD~1", "definitions": "feture"}, "Did you mean 'feature'?"),
    (
        {"revision": "HEAD~1", "rubrics": ["qualty"]},
        "There is no rubric 'qualty'; did you mean 'quality'?",
    ),
    (
        {"revision": "HEAD~1", "staged": True},
        "revision='HEAD~1' and staged=True select different changes",
    ),
    ({"commit": "HEAD", "staged": True}, "staged=True and commit='HEAD' select different changes"),
    (
        {"commit": "A..B"},
        "commit='A..B' takes one commit; for a range give it as the revision: 'A..B'.",
    ),
    ({"revision": ""}, "revision is empty; leave it out, or name one."),
    ({"rubrics": "quality"}, r"rubrics is a list of ids: rubrics=\['quality'\]."),
    ({"max_cost_usd": 0}, "max_cost_usd is a number above zero, not 0."),
    ({"deadline_s": "60"}, "deadline_s is a number above zero, not '60'."),
    ({"repository": "/nowhere"}, "There is no folder /nowhere."),
    ({"repository": "x" * 5000}, "There is no folder xxx"),
    ({"deadline_s": 10**400}, "deadline_s is a number above zero, not 1000"),
    ({"max_cost_usd": float("nan")}, "max_cost_usd is a number above zero, not nan."),
]


@pytest.mark.parametrize(("arguments", "sentence"), WRONG)
def test_a_wrong_word_is_a_usage_error_that_names_the_nearest(repo, arguments, sentence):
    repo.git("branch", "-M", "main")
    repo.git("branch", "feature")
    with pytest.raises(UsageError, match=sentence):
        vibe_gate.review_sync(**{"repository": repo.path, "environ": repo.environ} | arguments)


def test_a_word_that_a_function_does_not_take_is_pythons_own_error(repo):
    with pytest.raises(TypeError, match="unexpected keyword argument 'stagd'"):
        vibe_gate.review_sync(stagd=True)


def test_a_revision_that_is_like_none_is_an_error_as_git_says_it(repo):
    with pytest.raises(RevisionError) as raised:
        vibe_gate.review_sync("HEAD~9", repository=repo.path, environ=repo.environ)
    assert "Did you mean" not in str(raised.value)


AGENT = [
    ({"prompt": ""}, "prompt is empty."),
    ({"context": "x"}, "context is what stages or agents gave, not 'x'."),
    ({"timeout_s": float("nan")}, "timeout_s is a number above zero, not nan."),
    ({"workspace": "/nowhere"}, "There is no folder /nowhere."),
]


@pytest.mark.parametrize(("arguments", "sentence"), AGENT)
def test_what_no_agent_can_be_asked_is_a_usage_error_before_a_run_begins(repo, arguments, sentence):
    with pytest.raises(UsageError, match=sentence):
        vibe_gate.run_agent(**{"agent": "a", "prompt": "Go.", "workspace": repo.path} | arguments)
    assert not (repo.path / ".vibe-artifacts").exists()


def test_review_sync_says_inside_of_a_loop_what_to_await():
    async def main() -> None:
        vibe_gate.review_sync("HEAD~1")

    with pytest.raises(UsageError, match=r"await vibe_gate\.review there"):
        asyncio.run(main())


@pytest.mark.slow
def test_a_workflow_is_awaited(repo):
    repo.write(
        ".vibe-gate/workflows/check.toml",
        'schema = 1\nid = "check"\n[[stage]]\nid = "q"\nrubrics = ["safe"]\n',
    )
    rubric = 'schema = 1\nid = "safe"\n[[criterion]]\nid = "s"\nkind = "check"\ncheck = "no-secrets"\nmust = true\n'
    repo.commit("Workflow", **{".vibe-gate/rubrics/safe.toml": rubric})
    repo.write("src/load.py", "LOAD = 1\n")
    workflow_run = asyncio.run(
        vibe_gate.run_workflow("check", repository=repo.path, environ=repo.environ)
    )
    assert (
        workflow_run.passed,
        workflow_run.outcome,
        [result.id for result in workflow_run.results],
    ) == (True, "pass", ["q"])
    assert repr(workflow_run) == f"<WorkflowRun pass in {workflow_run.bundle}>"
    wrong = vibe_gate.run_workflow("chek", repository=repo.path, environ=repo.environ)
    with pytest.raises(UsageError, match="There is no workflow 'chek'; did you mean 'check'"):
        asyncio.run(wrong)


WRONG_RUBRICS = [
    ({"id": "Q"}, "^id: must be lower-case letters"),
    ({"votes": 0}, "^votes: must be at least 1, not 0$"),
    ({"pass_threshold": "half"}, '^pass_threshold: must be a number, not "half"$'),
    ({"criterion": "reads"}, "^criterion: must be an array"),
    (
        {"criterion": [{"id": "s", "kind": "check", "chek": "x"}]},
        r"^criterion\[0\].chek: unknown key",
    ),
    ({"model": "a", "models": ["b"]}, "^model and models exclude each other; keep one$"),
]


@pytest.mark.parametrize(
    ("keys", "sentence"), WRONG_RUBRICS, ids=[sentence for _, sentence in WRONG_RUBRICS]
)
def test_a_rubric_made_in_python_is_held_against_the_rules_of_files(keys, sentence):
    criterion = Criterion(id="reads", kind="judge", question="Does load read the file?")
    with pytest.raises(ValueError, match=sentence):
        Rubric(**{"id": "q", "criterion": [criterion]} | keys)


def test_a_rubric_made_in_python_is_the_one_that_a_file_makes(repo):
    text = 'schema = 1\nid = "q"\n[[criterion]]\nid = "s"\nkind = "check"\ncheck = "no-secrets"\n'
    repo.write(".vibe-gate/rubrics/q.toml", text)
    criterion = Criterion(id="s", kind="check", check="no-secrets")
    rubric = Rubric(id="q", criterion=[criterion])
    gate = load_gate(FolderFiles(repo.path), revision="", origin="trusted")
    assert gate is not None
    assert (rubric, rubric.digest) == (gate.rubrics[0], gate.rubrics[0].digest)


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        ({"weight": "2"}, '^weight: must be a number, not "2"$'),
        ({"paths": ["../x"]}, r"^paths\[0\]: .*leaves the repository"),
        ({"question": None}, "^a judge criterion needs a question$"),
    ],
)
def test_a_criterion_made_in_python_names_the_key_that_is_wrong(keys, sentence):
    with pytest.raises(ValueError, match=sentence):
        Criterion(**{"id": "c", "kind": "judge", "question": "Does it?"} | keys)


@pytest.mark.parametrize(
    ("criterion", "sentence"),
    [
        (
            {"check": "no-secret"},
            'criterion[0].check: no check "no-secret"; did you mean "no-secrets"?',
        ),
        (
            {"check": "only-paths", "options": {"path": []}},
            "criterion[0].options.paths: is missing",
        ),
    ],
)
def test_a_workflow_of_python_is_run_and_its_rubric_names_no_check_that_is_not_there(
    repo, criterion, sentence
):
    rubric = Rubric(id="q", criterion=[Criterion(id="c", kind="check", **criterion)])

    @vibe_gate.workflow("once")
    async def once(wf: WorkflowContext) -> None:
        await wf.stage("gate", rubrics=[rubric])

    with pytest.raises(UsageError) as caught:
        asyncio.run(vibe_gate.run_workflow(once, repository=repo.path, environ=repo.environ))
    assert f'The rubric q (id "c"): {sentence}' in str(caught.value)


def test_a_workflow_made_in_python_passes_and_what_its_function_raises_is_raised(repo):
    rubric = Rubric(id="q", criterion=[Criterion(id="c", kind="check", check="no-secrets")])

    @vibe_gate.workflow("once", timeout=60)
    async def once(wf: WorkflowContext) -> None:
        gate = await wf.stage("gate", rubrics=[rubric])
        assert not gate.passed

    def run(plan: Workflow) -> WorkflowRun:
        return asyncio.run(vibe_gate.run_workflow(plan, repository=repo.path, environ=repo.environ))

    repo.write("src/load.py", "LOAD = 1\n")
    assert isinstance(once, Workflow)
    with pytest.raises(AssertionError):
        run(once)
    workflow_run = run(Workflow(id="other", steps=lambda wf: wf.stage("gate", rubrics=[rubric])))
    assert (workflow_run.passed, workflow_run.review.summary.workflow) == (True, "other")
    with pytest.raises(UsageError, match="or what @workflow made of a function, not <function"):
        run(once.steps)


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        ({"id": "Nightly"}, "^id: must be lower-case"),
        ({"timeout_s": 0}, "^timeout_s: must be more than 0"),
        ({"steps": None}, "^steps: must be an async function"),
    ],
)
def test_a_workflow_names_the_key_that_is_wrong(keys, sentence):
    async def steps(wf: WorkflowContext) -> None: ...

    with pytest.raises(ValueError, match=sentence):
        Workflow(**{"id": "a", "steps": steps} | keys)


@pytest.mark.slow
def test_the_example_runs_and_is_the_one_in_the_documentation(repo):
    script = ROOT / "examples" / "api" / "review_change.py"
    environ = repo.environ | {"PYTHONPATH": str(ROOT)}
    result = subprocess.run(
        [sys.executable, script], cwd=repo.path, env=environ, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines()[0] == "NOTHING REVIEWED · 2 questions not asked: --no-judge"
    code = script.read_text().split("\n\n", 1)[1]
    assert code in (ROOT / "docs" / "reference" / "api.md").read_text()
