"""Pure words: values and decisions, with no I/O, no clock and no async."""

from collections.abc import Mapping

CI_VARIABLES = ("CI", "JENKINS_URL", "TF_BUILD", "TEAMCITY_VERSION")
"""What runners set; Jenkins, Azure Pipelines and TeamCity do not set CI."""


def in_ci(environ: Mapping[str, str]) -> bool:
    """Whether a runner of CI started this: one of its variables has a value, whichever."""
    return any(environ.get(name) for name in CI_VARIABLES)
