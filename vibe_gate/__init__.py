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

    review                          the module of the walk; await `review.review(ReviewRequest(...), ...)`: a `Review`
    ReviewRequest, Review, Progress     what is asked, what comes back, who is told on the way
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

_HOMES = {
    "review": "vibe_gate.review",
    "ReviewRequest": "vibe_gate.review",
    "Review": "vibe_gate.review",
    "Progress": "vibe_gate.review",
    "Selection": "vibe_gate.domain.change",
    "Summary": "vibe_gate.domain.summary",
    "read_bundle": "vibe_gate.store",
    "RunResult": "vibe_gate.store",
    "FileChange": "vibe_gate.store",
    "Attachment": "vibe_gate.store",
    "find_bundles": "vibe_gate.store",
    "clean_bundles": "vibe_gate.store",
    "GateError": "vibe_gate.errors",
    "UsageError": "vibe_gate.errors",
    "DefinitionError": "vibe_gate.errors",
    "RevisionError": "vibe_gate.errors",
    "UnsupportedRepository": "vibe_gate.errors",
    "InfrastructureError": "vibe_gate.errors",
    "AgentError": "vibe_gate.errors",
    "GatewayError": "vibe_gate.errors",
    "StorageError": "vibe_gate.errors",
    "ForgeError": "vibe_gate.errors",
    "IntegrityError": "vibe_gate.errors",
}

__all__ = [*_HOMES, "__version__"]

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
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'vibe_gate' has no attribute {name!r}")
    module = __import__(home, fromlist=["_"])
    if name == "review":  # the module and not its function: `import vibe_gate.review` would overwrite the function
        return module
    value = getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
