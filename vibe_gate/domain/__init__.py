"""Pure words: values and decisions, with no I/O, no clock and no async."""

import difflib
from collections.abc import Iterable, Mapping

CI_VARIABLES = ("CI", "JENKINS_URL", "TF_BUILD", "TEAMCITY_VERSION")
"""What runners set; Jenkins, Azure Pipelines and TeamCity do not set CI."""


def in_ci(environ: Mapping[str, str]) -> bool:
    """Whether a runner of CI started this: one of its variables has a value, whichever."""
    return any(environ.get(name) for name in CI_VARIABLES)


def nearest(word: str, candidates: Iterable[str], *, likeness: float = 0.6) -> str:
    """The known word that is most like `word`, in whatever case; "" if none is near.

    Args:
        word: What somebody wrote.
        candidates: The known words.
        likeness: The least that is near, between 0 and 1 (the same word).
    """
    by_case = {candidate.lower(): candidate for candidate in candidates}
    matches = difflib.get_close_matches(word[:64].lower(), by_case, n=1, cutoff=likeness)
    return by_case[matches[0]] if matches else ""


REPOSITORY_VARIABLES = frozenset(
    {
        "GIT_DIR",
        "GIT_WORK_TREE",
        "GIT_INDEX_FILE",
        "GIT_OBJECT_DIRECTORY",
        "GIT_COMMON_DIR",
        "GIT_ALTERNATE_OBJECT_DIRECTORIES",
        "GIT_SHALLOW_FILE",
        "GIT_PREFIX",
    }
)
"""What ties a call of git to one repository, as in a hook; dropped when another one is opened."""

MODEL_KEYS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN")
"""Variables with a credential for the model's API: for the gateway alone, no program that is
started gets them.
"""
