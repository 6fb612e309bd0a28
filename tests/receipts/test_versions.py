"""Versions of installed packages."""

from __future__ import annotations

from importlib import metadata

import pytest

from vibe_gate.receipts.versions import version_of


@pytest.mark.parametrize("package", ["claude-agent-sdk", "pygit2", "pydantic", "tomli-w", "github3.py"])
def test_it_says_what_the_library_of_python_says(package):
    assert version_of(package) == metadata.version(package)


def test_a_package_that_is_not_there_is_missing_in_the_same_way():
    with pytest.raises(metadata.PackageNotFoundError):
        version_of("no-such-package-anywhere")
