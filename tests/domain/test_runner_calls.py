"""Calls of test runners in command lines, and what a line's status says of them."""

from __future__ import annotations

import pytest

from vibe_gate.domain.runner_calls import find_runner_call

PIPED = "set -o pipefail; pytest 2>&1 | tail -5"


@pytest.mark.parametrize(
    ("line", "call"),
    [
        *(
            (line, line)
            for line in ("pytest", "pytest -q tests/a.py", "tox", "nox", "nox -s tests")
        ),
        *((line, line) for line in ("npm test", "npm run test:unit", "yarn test", "make test")),
        *((line, line) for line in ("go test ./...", "cargo test", "cargo nextest run", "jest")),
        *((line, line) for line in ("mvn -q verify", "dotnet test", "node --test", "make check")),
        ("cd sub && pytest -q", "pytest -q"),
        ("cd sub; FOO=1 timeout 60 pytest -x", "pytest -x"),
        ("python3.12 -X dev -m pytest tests", "pytest tests"),
        ("uv run --with hypothesis python -m pytest", "pytest"),
        ("uv run pytest", "pytest"),
        (".venv/bin/pytest -q", "pytest -q"),
        ("./gradlew test", "gradlew test"),
        ("coverage run -m pytest", "pytest"),
        ("bundle exec rspec", "rspec"),
        ("pytest -q > out.txt 2>&1", "pytest -q"),
        ("pytest \\\n  -q # don't stop", "pytest -q"),
        ("cat > a.py <<'EOF'\nit's || \nEOF\npytest -q", "pytest -q"),
        ("pytest 'a b'", "pytest a b"),
        ("pytest --collect-in-virtualenv", "pytest --collect-in-virtualenv"),
        ("pytest -khello -rh", "pytest -khello -rh"),
        ("python -mpytest", "pytest"),
        ("python -m coverage run --branch -m pytest", "pytest"),
        ("uv run --frozen --group=dev pytest", "pytest"),
        ("make -j4 -C sub test", "make -j4 -C sub test"),
    ],
)
def test_a_call_that_is_the_last_command_has_the_line_s_status(line, call):
    for status, end in ((0, "passed"), (1, "failed"), (None, "unknown")):
        runner_call = find_runner_call(line, status)
        assert runner_call is not None
        assert (runner_call.command, runner_call.end) == (call, end)


@pytest.mark.parametrize(
    "line",
    [
        *("pytest | tail", "pytest || true", "pytest; echo $?", "pytest & wait", "pytest &"),
        *("true || pytest", "! pytest", "(cd a && pytest)", "$(echo pytest)", "`which pytest`"),
        *(
            "if pytest; then echo; fi",
            "for i in 1 2; do pytest; done",
            "eval pytest",
            "exec pytest",
        ),
        *("pytest() { true; }; pytest", "alias pytest=true\npytest", "bash -c 'pytest -q'"),
        *(
            "docker exec box pytest",
            "ssh host pytest",
            "PYTEST_ADDOPTS=--co pytest",
            "exit 0; pytest",
        ),
        *("pytest -k '<<E'\ntrue\nE", "trap 'exit 0' EXIT; pytest"),
        *("set -e; pytest && echo passed; echo finished", "set -e; pytest", "set -n; pytest"),
        *("set -o pipefail; set +o pipefail; pytest | tail", "set -- -e; pytest; true"),
        *("false && set -o pipefail; pytest | tail", "set -o pipefail | pytest | tail"),
        *(
            "set -o pipefail; command set +o pipefail; pytest | tail",
            "set -o pipefail; $x; pytest | tail",
        ),
        *("command -v pytest", "npx -c 'jest'", "sudo -l pytest", "timeout -x 5 pytest"),
        *("uv run --unknown pytest", "env -S 'x' pytest", "python -cpass -m pytest"),
        *("pytest $X", 'pytest "$X"', "pytest {-q,-h}", "hash -p /bin/true pytest; pytest"),
        *("python -mthis pytest", "python -m time pytest"),
    ],
)
def test_a_call_whose_status_the_line_does_not_have_is_unknown(line):
    for status in (0, 1, None):
        runner_call = find_runner_call(line, status)
        assert runner_call is not None
        assert runner_call.end == "unknown"


@pytest.mark.parametrize(
    "line",
    [
        *("", "true # pytest", "echo pytest", "echo '&&' pytest", 'echo "a\n" pytest', "ls tests"),
        *("pytest --version", "pytest --collect-only -q", "pytest --co", "cargo test --no-run"),
        *("pytest -VV", "pytest -qh", "pytest --funcargs", "env --help pytest", "make -v test"),
        *("python --version -m pytest", "tox list", "cargo test -- --list", "make -kn test"),
        *("mvn -DskipTests verify", "mvn test -Dmaven.test.skip=true", "just --show test"),
        *("npx jest --listTests", "nox -l", "nox -s lint", "tox -e lint", "make -n test", "make"),
        *(
            "pip install pytest",
            "grep -rn pytest .",
            "git commit -m 'pytest passes'",
            "cat pytest.ini",
        ),
        *("npm run lint", "gradle build", "make checkout", "go build ./...", "test -f pytest.ini"),
        "cat > test_a.py <<'EOF'\nimport pytest\nEOF",
    ],
)
def test_a_line_that_runs_no_test_has_no_call(line):
    assert find_runner_call(line, 0) is None


@pytest.mark.parametrize(
    ("line", "status", "end"),
    [
        ("pytest && ruff check .", 0, "passed"),
        ("pytest && ruff check .", 1, "unknown"),
        ("ruff check . && pytest", 1, "unknown"),
        (PIPED, 0, "passed"),
        (PIPED, 1, "unknown"),
        ("set -e\npytest\necho ok", 0, "unknown"),
        ("set -eo pipefail && pytest | tail", 0, "passed"),
        ("pytest a; pytest b", 1, "failed"),
        ("pytest", 124, "failed"),
    ],
)
def test_of_several_commands_the_line_s_status_may_still_say_it(line, status, end):
    runner_call = find_runner_call(line, status)
    assert runner_call is not None
    assert runner_call.end == end


@pytest.mark.parametrize(
    ("line", "end"),
    [
        ("./run-tests.sh -q", "passed"),
        ("cd a && run-tests.sh", "passed"),
        ("run-tests.sh | tee log", "unknown"),
        ("pytest", None),
        ("echo run-tests.sh", None),
        ("bazel test //a:unit", "passed"),
        ("bazel test //b:unit", None),
    ],
)
def test_words_of_one_s_own_take_the_place_of_the_known_runners(line, end):
    runner_call = find_runner_call(line, 0, ("run-tests.sh", "bazel test //a:*"))
    assert (runner_call.end if runner_call else None) == end


def test_a_call_is_shown_on_one_line_and_bounded():
    runner_call = find_runner_call(f"pytest 'a\nb' {'x' * 500}", 0)
    assert runner_call is not None
    assert runner_call.command.startswith("pytest a b xxx")
    assert len(runner_call.command) == 80
