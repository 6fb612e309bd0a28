"""vibe-gate: a git-native gate for agent-written code.

docs/explanation/architecture.md has the map of the house, from the top floor down: faces (argv,
environment and clock come in there and nowhere else), run/review.py (THE WALK: read this first),
rooms, doors to outside things, the domain's words.

What scripts may rely on, loaded on first use so that `import vibe_gate` costs nothing:

    review, Review                  `await vibe_gate.review("HEAD~1")` reviews a change and gives a `Review`
    review_sync                     the same where no event loop runs
    run_workflow, WorkflowRun       a workflow of the gate, run about a change
    run_agent, AgentExecution       an agent at work, awaited, watched, stopped
    judge                           what an agent left, held against a rubric
    Agent, Rubric, Criterion        definitions made in Python, held against the same rules as files
    workflow, Workflow              `@workflow` makes a Workflow of a function that takes a WorkflowContext
    Summary                         the document that `--json` prints and a bundle keeps
    read_bundle, RunResult          what a recorded run or turn did, read lazily from its bundle (docs/reference/api.md)
    FileChange, Attachment          one changed file of a bundle; what `RunResult.annotate` attaches
    find_bundles, clean_bundles     recorded runs by commit, tree, patch-id, outcome ...; what is too old deleted
    expect                          matchers about what a RunResult says an agent did
    Vibe, VibeRepo                  what pytest's fixtures `vibe` and `vibe_repo` give a test, for its annotations
    GateError and its subclasses    everything raised on purpose (`vibe_gate.errors`)
    __version__
"""

from typing import TYPE_CHECKING

from vibe_gate.version import __version__

# No other import here: every start of the program passes through this file.

__all__ = [
    "Agent",
    "AgentError",
    "AgentExecution",
    "AgentFailed",
    "ApprovalNeeded",
    "Attachment",
    "Criterion",
    "DefinitionError",
    "FileChange",
    "ForgeError",
    "GateError",
    "GatewayError",
    "InfrastructureError",
    "IntegrityError",
    "Review",
    "RevisionError",
    "Rubric",
    "RunResult",
    "StorageError",
    "Summary",
    "UnsupportedRepository",
    "UsageError",
    "Vibe",
    "VibeRepo",
    "Workflow",
    "WorkflowContext",
    "WorkflowRun",
    "__version__",
    "clean_bundles",
    "expect",
    "find_bundles",
    "judge",
    "read_bundle",
    "review",
    "review_sync",
    "run_agent",
    "run_workflow",
    "workflow",
]

if TYPE_CHECKING:
    from vibe_gate.domain.agent import Agent
    from vibe_gate.domain.rubric import Criterion, Rubric
    from vibe_gate.domain.summary import Summary
    from vibe_gate.errors import (
        AgentError,
        AgentFailed,
        ApprovalNeeded,
        DefinitionError,
        ForgeError,
        GateError,
        GatewayError,
        InfrastructureError,
        IntegrityError,
        RevisionError,
        StorageError,
        UnsupportedRepository,
        UsageError,
    )
    from vibe_gate.faces.api import judge, review, review_sync, run_agent, run_workflow
    from vibe_gate.faces.expect import expect
    from vibe_gate.faces.pytest_plugin.repo import VibeRepo
    from vibe_gate.faces.pytest_plugin.vibe import Vibe
    from vibe_gate.run.conclusion import WorkflowRun
    from vibe_gate.run.execution import AgentExecution
    from vibe_gate.run.review_result import Review
    from vibe_gate.run.workflow_plan import Workflow, workflow
    from vibe_gate.run.workflow_steps import WorkflowContext
    from vibe_gate.store.bundle_listing import find_bundles
    from vibe_gate.store.changed_files import FileChange
    from vibe_gate.store.run_result import Attachment, RunResult, read_bundle
    from vibe_gate.store.store_cleaning import clean_bundles


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'vibe_gate' has no attribute {name!r}")
    value = globals()[name] = getattr(_module_of(name), name)
    return value


def _module_of(name: str) -> object:
    if name.lower().startswith(("review", "run_", "workflow", "judge")) or name == "AgentExecution":
        from vibe_gate.faces import api

        return api
    if name in ("Criterion", "Rubric"):
        from vibe_gate.domain import rubric

        return rubric
    if name in ("Agent", "Summary"):
        from vibe_gate.domain import agent, summary

        return agent if name == "Agent" else summary
    if name == "expect":
        import vibe_gate.faces.expect as matchers

        return matchers
    if name in ("Vibe", "VibeRepo"):
        from vibe_gate.faces.pytest_plugin import repo, vibe

        return vibe if name == "Vibe" else repo
    if name in ("RunResult", "Attachment", "read_bundle"):
        from vibe_gate.store import run_result

        return run_result
    if name in ("FileChange", "clean_bundles", "find_bundles"):
        from vibe_gate.store import bundle_listing, changed_files, store_cleaning

        modules = {
            "FileChange": changed_files,
            "clean_bundles": store_cleaning,
            "find_bundles": bundle_listing,
        }
        return modules[name]
    from vibe_gate import errors

    return errors


def __dir__() -> list[str]:
    return sorted(__all__)
