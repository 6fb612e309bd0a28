"""vibe-gate: a git-native gate for agent-written code.

docs/explanation/architecture.md has the map of the house, from the top floor down: faces (argv, environment and clock
come in there and nowhere else), review.py (THE WALK: read this first), rooms, doors to outside things, the domain's
words.

What scripts may rely on, loaded on first use so that `import vibe_gate` costs nothing:

    review                          the module of the walk; `review.review(ReviewRequest(...), ...)` returns a `Review`
    ReviewRequest, Review, Progress what is asked, what comes back, who is told on the way
    Selection                       which change: working tree, index, commit, range
    Summary                         the document that `--json` prints and a bundle keeps
    read_bundle, RunResult          what a recorded run or turn did, read lazily from its bundle (docs/reference/api.md)
    FileChange, Attachment          one changed file of a bundle; what `RunResult.annotate` attaches
    find_bundles, clean_bundles     recorded runs by commit, tree, patch-id, outcome ...; what is too old deleted
    expect                          matchers about what a RunResult says an agent did
    Vibe, VibeRepo                  what pytest's fixtures `vibe` and `vibe_repo` give a test, for its annotations
    Agent, run_agent, workflow      an agent's definition; one at work; `@workflow` of `.vibe-gate/workflows/*.py`
    GateError and its subclasses    everything raised on purpose (`vibe_gate.errors`)
    __version__
"""

# No import here: every start of the program passes through this file.

__version__ = "0.1.0"

__all__ = [
    "Agent", "AgentError", "ApprovalNeeded", "Attachment", "DefinitionError", "FileChange", "ForgeError", "GateError",
    "GatewayError", "InfrastructureError", "IntegrityError", "Progress", "Review", "ReviewRequest",
    "RevisionError", "RunResult", "Selection", "StorageError", "Summary", "UnsupportedRepository", "UsageError",
    "Vibe", "VibeRepo", "__version__", "clean_bundles", "expect", "find_bundles", "read_bundle", "review", "run_agent",
    "workflow",
]  # fmt: skip

TYPE_CHECKING = False  # typing's own constant would cost the import of typing
if TYPE_CHECKING:
    from vibe_gate.domain.agent import Agent
    from vibe_gate.domain.change import Selection
    from vibe_gate.domain.context import Progress, ReviewRequest
    from vibe_gate.domain.summary import Summary
    from vibe_gate.errors import (
        AgentError,
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
    from vibe_gate.faces.api import run_agent, workflow
    from vibe_gate.faces.expect import expect
    from vibe_gate.faces.pytest_plugin.repo import VibeRepo
    from vibe_gate.faces.pytest_plugin.vibe import Vibe
    from vibe_gate.run import review
    from vibe_gate.run.review import Review
    from vibe_gate.store import Attachment, FileChange, RunResult, clean_bundles, find_bundles, read_bundle


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'vibe_gate' has no attribute {name!r}")
    module = _module_of(name)
    if name == "review":  # the module and not its function: `import vibe_gate.run.review` would overwrite the function
        return module
    value = globals()[name] = getattr(module, name)
    return value


def _module_of(name: str) -> object:
    if name in ("ReviewRequest", "Progress"):
        from vibe_gate.domain import context

        return context
    if name in ("Review", "review"):
        import vibe_gate.run.review as review

        return review
    if name in ("Agent", "Selection", "Summary"):
        from vibe_gate.domain import agent, change, summary

        return {"Agent": agent, "Selection": change, "Summary": summary}[name]
    if name in ("run_agent", "workflow"):
        import vibe_gate.faces.api as api

        return api
    if name == "expect":
        import vibe_gate.faces.expect as matchers

        return matchers
    if name in ("Vibe", "VibeRepo"):
        from vibe_gate.faces.pytest_plugin import repo, vibe

        return {"Vibe": vibe, "VibeRepo": repo}[name]
    if name.endswith(("_bundle", "_bundles")) or name in ("RunResult", "FileChange", "Attachment"):
        import vibe_gate.store as store

        return store
    import vibe_gate.errors as errors

    return errors


def __dir__() -> list[str]:
    return sorted(__all__)
