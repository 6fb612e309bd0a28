"""What `init` proposes in projects of other languages: commands that their own files name, and
nothing else of them.
"""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest

from vibe_gate.domain.rubric import Criterion
from vibe_gate.domain.tables import read_table
from vibe_gate.faces.cli.scripts import propose_commands
from vibe_gate.faces.cli.tools import proposals


def package(*names: str, **fields: object) -> str:
    return json.dumps({"scripts": dict.fromkeys(names, "x"), **fields})


def put_files(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


NPM, MAKE = "npm ci --silent && npm run", "lint:\n\tx\ncheck : lint\ntest := 1\n.PHONY: lint\n"


@pytest.mark.parametrize(
    ("files", "commands"),
    [
        ({"package.json": package("lint", "test", "dev")}, [f"{NPM} lint", f"{NPM} test"]),
        ({"package.json": package("type-check", "format:check")}, [f"{NPM} type-check", f"{NPM} format:check"]),
        (
            {"package.json": package("lint"), "pnpm-lock.yaml": ""},
            ["pnpm install --frozen-lockfile --silent && pnpm run lint"],
        ),
        (
            {"package.json": package("lint"), "yarn.lock": ""},
            ["yarn install --frozen-lockfile --silent && yarn run lint"],
        ),
        (
            {"package.json": package("lint"), "yarn.lock": "", ".yarnrc.yml": ""},
            ["yarn install --immutable && yarn run lint"],
        ),
        (
            {"package.json": package("lint"), "bun.lock": ""},
            ["bun install --frozen-lockfile --silent && bun run lint"],
        ),
        (
            {"package.json": package("lint", packageManager="pnpm@9.1.0")},
            ["pnpm install --frozen-lockfile --silent && pnpm run lint"],
        ),
        ({"package.json": '{"scripts": {"test": "echo \\"Error: no test specified\\" && exit 1"}}'}, []),
        ({"package.json": "[" * 90_000}, []),
        ({"package.json": '{"scripts": ["lint"]}'}, []),
        ({"Makefile": MAKE}, ["make lint", "make check"]),
        ({"Makefile": MAKE, "package.json": package("lint")}, [f"{NPM} lint", "make check"]),
        ({"Cargo.toml": ""}, ["cargo clippy -- -D warnings", "cargo fmt --check", "cargo test --quiet"]),
        ({"go.mod": ""}, ["go vet ./...", "go test ./..."]),
        ({"go.mod": "", ".golangci.yml": ""}, ["go vet ./...", "go test ./...", "golangci-lint run"]),
        # Monorepos: a workspace's root runs what its members have; other projects run in their
        # folders.
        (
            {"package.json": package("lint", workspaces=["packages/*"]), "packages/a/package.json": package("test")},
            [f"{NPM} lint", "npm ci --silent && npm run test --workspaces --if-present"],
        ),
        (
            {"package.json": package(), "pnpm-workspace.yaml": "", "pnpm-lock.yaml": "",
             "apps/web/package.json": package("lint")},
            ["pnpm install --frozen-lockfile --silent && pnpm -r --if-present run lint"],
        ),
        (
            {"web/package.json": package("lint"), "web/pnpm-lock.yaml": "", "services/api/go.mod": ""},
            ["cd web && pnpm install --frozen-lockfile --silent && pnpm run lint",
             "cd services/api && go vet ./...", "cd services/api && go test ./..."],
        ),
        ({"node_modules/x/package.json": package("lint"), "vendor/y/go.mod": "", ".c/package.json": "{}"}, []),
    ],
)  # fmt: skip
def test_the_commands_are_those_that_the_projects_files_name(
    tmp_path: Path, files, commands: list[str]
) -> None:
    put_files(tmp_path, files)
    texts = [proposal.criterion() for proposal in propose_commands(tmp_path)]
    criteria = [criterion_of(text) for text in texts]
    words = [criterion.command or () for criterion in criteria]
    assert [argv[2] if argv[0] == "sh" else " ".join(argv) for argv in words] == commands
    assert len({criterion.id for criterion in criteria}) == len(criteria)


def criterion_of(text: str) -> Criterion:
    """The criterion, as it is when its comment marks are removed."""
    assert all(line.startswith("# ") for line in text.splitlines())
    [table] = tomllib.loads(re.sub("^# ", "", text, flags=re.M))["criterion"]
    wrong: list[object] = []
    criterion = read_table(Criterion, table, wrong)
    assert (wrong, criterion is not None) == ([], True)
    return criterion


def test_a_project_in_a_folder_is_checked_when_its_files_change(tmp_path: Path) -> None:
    put_files(tmp_path, {"web/package.json": package("lint")})
    [proposal] = propose_commands(tmp_path)
    criterion = criterion_of(proposal.criterion())
    assert (criterion.id, criterion.paths) == ("lint-web", ("web/**",))


@pytest.mark.parametrize(
    "name", ["a b", "a;rm", "$(x)", "a\n[[criterion]]", "-rf", 'a"b', "\u202ea"]
)
def test_no_name_that_is_more_than_a_word_goes_into_a_proposal(tmp_path: Path, name: str) -> None:
    put_files(
        tmp_path,
        {f"{name}/package.json": package("lint"), "package.json": package(name, f"lint\n{name}")},
    )
    assert propose_commands(tmp_path) == []


def test_no_link_is_followed(tmp_path: Path) -> None:
    put_files(
        tmp_path / "elsewhere", {"package.json": package("lint"), "go.mod": "", "Makefile": MAKE}
    )
    root = tmp_path / "r"
    root.mkdir()
    for name in ("package.json", "go.mod", "Makefile"):
        (root / name).symlink_to(tmp_path / "elsewhere" / name)
    (root / "web").symlink_to(tmp_path / "elsewhere")
    assert propose_commands(root) == []


def test_a_lint_script_stands_for_eslint_and_the_example_has_a_name_of_its_own(
    tmp_path: Path,
) -> None:
    put_files(tmp_path, {"package.json": package("lint"), "eslint.config.js": ""})
    names, text = proposals(tmp_path)
    assert names == ["npm run lint"]
    assert re.findall('id = "(.*)"', text) == ["lint", "my-lint"]
