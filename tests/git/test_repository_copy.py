"""A repository that travels: the same commits, refs, trust and files on another machine, and
nothing secret.
"""

from __future__ import annotations

import pytest
from repos import GOOD, Repo

from vibe_gate.domain.environment import read_environment
from vibe_gate.errors import UsageError
from vibe_gate.git import open_repository


@pytest.mark.slow
def test_a_copy_has_the_refs_the_trust_and_on_demand_the_files_of_the_repository(tmp_path, environ):
    origin = Repo(tmp_path / "origin", environ)
    first = origin.commit("First", **{"src/load.py": GOOD})
    origin.git("clone", "-q", str(origin.path), str(tmp_path / "clone"))
    repo = Repo(tmp_path / "clone", environ)
    repo.git("config", "remote.origin.url", "https://ada:s3cret-token@example.org/repo.git")
    repo.git(
        "config", "http.https://example.org/.extraheader", "Authorization: Basic s3cret-header"
    )
    repo.git("config", "vibe-gate.trust", "origin/main")
    second = repo.commit("Second", **{"src/more.py": GOOD})
    repo.git("tag", "-a", "-m", "one", "v1")
    repo.write("src/new.py", "NEW = 1\n")
    before = repo.git("for-each-ref")
    with open_repository(repo.path, read_environment(environ)) as repository:
        bare, full = repository.copy(), repository.copy(files=True)
        assert repository.snapshot() == repository.snapshot()
        tree = repository.snapshot()
    assert repo.git("for-each-ref") == before
    for name, copy in (("bare", bare), ("whole", full)):
        assert b"s3cret" not in copy.bundle
        (tmp_path / name).mkdir()
        copy.write(tmp_path / name, read_environment(environ))
        target = Repo(tmp_path / name, environ)
        assert target.git("for-each-ref") == before
        assert target.git("rev-parse", "HEAD", "origin/HEAD").split() == [second, first]
        assert "s3cret" not in (target.path / ".git/config").read_text()
        with open_repository(target.path, read_environment(environ)) as repository:
            assert repository.config("vibe-gate.trust") == "origin/main"
            assert (repository.root / "src").exists() == copy.has_files
            assert not copy.has_files or repository.snapshot() == tree


def test_a_detached_head_stays_detached_and_a_shallow_clone_says_what_it_lacks(tmp_path, environ):
    repo = Repo(tmp_path / "repo", environ)
    first = repo.commit("First", a="1")
    with (
        pytest.raises(UsageError, match="no commits"),
        open_repository(Repo(tmp_path / "none", environ).path, read_environment(environ)) as empty,
    ):
        empty.copy()
    repo.commit("Second", a="2")
    repo.git("checkout", "-q", "--detach", first)
    (tmp_path / "there").mkdir()
    with open_repository(repo.path, read_environment(environ)) as repository:
        repository.copy().write(tmp_path / "there", read_environment(environ))
    target = Repo(tmp_path / "there", environ)
    assert target.git("rev-parse", "--abbrev-ref", "HEAD") == "HEAD"
    assert target.git("rev-parse", "HEAD") == first
    repo.git("clone", "-q", "--depth=1", repo.path.as_uri(), str(tmp_path / "shallow"))
    with (
        pytest.raises(UsageError, match="--unshallow"),
        open_repository(tmp_path / "shallow", read_environment(environ)) as shallow,
    ):
        shallow.copy()
