"""vibe-gate: a git-native gate for agent-written code.

The map of the house, from the top floor down (docs/architecture.md has the doors):

    faces/      thin: argv, environment and clock come in here and nowhere else
                cli (commands), progress (stderr)
    review.py   THE WALK: read this first
    judge.py    brief -> votes -> evidence -> verdict
    post.py     a report to the forge: what is new since the last round, in one comment
    report/     pure: Summary -> terminal
    adapters/   one door per outside thing: git, definitions, agent, gateway, bundles, ...
    domain/     pure words: change, gate, rubric, checks, evidence, verdict, summary
    errors.py   one tree of errors; each class carries its exit code

What scripts may rely on, loaded on first use so that `import vibe_gate` costs nothing:

    review                          the module of the walk; `review.review(ReviewRequest(...), ...)` returns a `Review`
    ReviewRequest, Review, Progress what is asked, what comes back, who is told on the way
    Selection                       which change: working tree, index, commit, range
    Summary                         the document that `--json` prints and a bundle keeps
    read_bundle, RunResult          what a recorded run or turn did, read lazily from its bundle (docs/api.md)
    FileChange, Attachment          one changed file of a bundle; what `RunResult.annotate` attaches
    find_bundles, clean_bundles     recorded runs by commit, tree, patch-id, outcome ...; what is too old deleted
    GateError and its subclasses    everything raised on purpose (`vibe_gate.errors`)
    __version__
"""

# No import here: every start of the program passes through this file.

__version__ = "0.1.0"

__all__ = [
    "AgentError",
    "Attachment",
    "DefinitionError",
    "FileChange",
    "ForgeError",
    "GateError",
    "GatewayError",
    "InfrastructureError",
    "IntegrityError",
    "Progress",
    "Review",
    "ReviewRequest",
    "RevisionError",
    "RunResult",
    "Selection",
    "StorageError",
    "Summary",
    "UnsupportedRepository",
    "UsageError",
    "__version__",
    "clean_bundles",
    "find_bundles",
    "read_bundle",
    "review",
]  # fmt: skip

TYPE_CHECKING = False  # typing's own constant would cost the import of typing
if TYPE_CHECKING:
    from vibe_gate import review as review
    from vibe_gate.domain.change import Selection as Selection
    from vibe_gate.domain.summary import Summary as Summary
    from vibe_gate.errors import AgentError as AgentError
    from vibe_gate.errors import DefinitionError as DefinitionError
    from vibe_gate.errors import ForgeError as ForgeError
    from vibe_gate.errors import GateError as GateError
    from vibe_gate.errors import GatewayError as GatewayError
    from vibe_gate.errors import InfrastructureError as InfrastructureError
    from vibe_gate.errors import IntegrityError as IntegrityError
    from vibe_gate.errors import RevisionError as RevisionError
    from vibe_gate.errors import StorageError as StorageError
    from vibe_gate.errors import UnsupportedRepository as UnsupportedRepository
    from vibe_gate.errors import UsageError as UsageError
    from vibe_gate.review import Progress as Progress
    from vibe_gate.review import Review as Review
    from vibe_gate.review import ReviewRequest as ReviewRequest
    from vibe_gate.store import Attachment as Attachment
    from vibe_gate.store import FileChange as FileChange
    from vibe_gate.store import RunResult as RunResult
    from vibe_gate.store import clean_bundles as clean_bundles
    from vibe_gate.store import find_bundles as find_bundles
    from vibe_gate.store import read_bundle as read_bundle


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'vibe_gate' has no attribute {name!r}")
    module = _module_of(name)
    if name == "review":  # the module and not its function: `import vibe_gate.review` would overwrite the function
        return module
    value = globals()[name] = getattr(module, name)
    return value


def _module_of(name: str) -> object:
    match name:
        case "ReviewRequest" | "Review" | "Progress" | "review":
            import vibe_gate.review as review

            return review
        case "Selection":
            import vibe_gate.domain.change as change

            return change
        case "Summary":
            import vibe_gate.domain.summary as summary

            return summary
        case "read_bundle" | "RunResult" | "FileChange" | "Attachment" | "find_bundles" | "clean_bundles":
            import vibe_gate.store as store

            return store
        case _:
            import vibe_gate.errors as errors

            return errors


def __dir__() -> list[str]:
    return sorted(__all__)
