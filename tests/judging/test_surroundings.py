"""What a judge is shown around a change: whole functions, tests, callers, what is left of what was
removed.
"""

from __future__ import annotations

import os

import pytest
from repos import Repo

from vibe_gate.domain.change import Selection
from vibe_gate.domain.environment import read_environment
from vibe_gate.git import open_repository
from vibe_gate.judging.named_lines import MAX_FILES
from vibe_gate.judging.near_hunks import AROUND, AROUND_IN_FUNCTION
from vibe_gate.judging.surroundings import (
    MAX_FACTS,
    Surroundings,
    enclosing_range,
    find_surroundings,
)

LONG = "".join(f"    step_{number} = {number}\n" for number in range(100))
PAY = (
    "import os\n\n\ndef check_order(order):\n    return order\n\n\n"
    f"def pay_order(order):\n{LONG}    return send(order)\n"
)
SHOP = (
    "from pay import pay_order\n\n\ndef buy_all(order):\n"
    "    return pay_order(order)  # pays at once\n"
)
SHOP_TEST = "from shop import buy_all\n\n\ndef test_buy():\n    assert buy_all(1)\n"


@pytest.fixture
def repo(tmp_path, environ) -> Repo:
    repo = Repo(tmp_path / "repo", environ)
    repo.write("src/pay.py", PAY)
    repo.write("src/shop.py", SHOP)
    repo.write("tests/test_shop.py", SHOP_TEST)
    repo.write("notes.txt", "".join(f"line {number}\n" for number in range(100)))
    repo.commit("First")
    return repo


def around(repo: Repo) -> tuple[Surroundings, list[str]]:
    """Of the newest commit."""
    with open_repository(repo.path, read_environment(repo.environ)) as opened:
        change = opened.change(Selection("commit"))
        surroundings = find_surroundings(opened, change, change)
    return surroundings, list(surroundings.facts([file.path for file in change.files]))


def after_change(repo: Repo, before: dict[str, str], after: dict[str, str]) -> list[str]:
    """The facts about the change from some files to others; "" is no file."""
    for files in (before, after):
        for path, text in files.items():
            if text:
                repo.write(path, text)
            else:
                (repo.path / path).unlink()
        repo.commit("Change")
    return around(repo)[1]


def process_seconds() -> float:
    """Of processor, those of git and of the parser, too."""
    return sum(os.times()[:4])


def rows_about(facts: list[str], start: str) -> list[str]:
    """The fact that begins so, with its rows."""
    first = next(index for index, row in enumerate(facts) if row.startswith(start))
    rows = [facts[first]]
    for row in facts[first + 1 :]:
        if not row.startswith("    "):
            break
        rows.append(row.strip())
    return rows


def shown_lines(surroundings: Surroundings, path: str) -> list[str]:
    lines = [line for hunk in surroundings.hunks[path] for line in hunk.lines]
    return [line.content.decode().rstrip("\n") for line in lines]


def test_the_head_of_a_long_function_is_shown_and_what_is_far_from_the_change_is_not(repo):
    repo.write("src/pay.py", PAY.replace("step_90 = 90", "step_90 = 0"))
    repo.commit("Change it")
    surroundings, _ = around(repo)
    lines = shown_lines(surroundings, "src/pay.py")
    assert lines[0] == "def pay_order(order):"
    assert f"    step_{90 - AROUND_IN_FUNCTION} = {90 - AROUND_IN_FUNCTION}" in lines
    assert not {"    step_49 = 49", "def check_order(order):"} & set(lines)
    assert [hunk.new_start for hunk in surroundings.hunks["src/pay.py"]] == [8, 59]


def test_a_function_of_eighty_lines_is_shown_whole_with_the_head_of_its_class(repo):
    body = "".join(f"        step_{number} = {number}\n" for number in range(70))
    basket = f"class Basket:\n    limit = 1\n\n\n\n    def total_of(self):\n{body}"
    repo.write("src/basket.py", basket)
    repo.commit("Add it")
    repo.write("src/basket.py", basket.replace("step_60 = 60", "step_60 = 0"))
    repo.commit("Change it")
    lines = shown_lines(around(repo)[0], "src/basket.py")
    assert lines[0] == "class Basket:"
    assert {f"        step_{number} = {number}" for number in range(60)} < set(lines)


def test_ten_lines_are_shown_where_no_function_encloses_the_change(repo):
    lines = (repo.path / "notes.txt").read_text()
    repo.write("notes.txt", lines.replace("line 50\n", "line fifty\n"))
    repo.commit("Change it")
    surroundings, facts = around(repo)
    assert len(shown_lines(surroundings, "notes.txt")) == 2 * AROUND + 2
    assert facts == [
        "test files of this change: none",
        "test files in the tree, by their names and folders: in tests",
    ]


def test_lines_that_are_widened_are_those_of_the_file(repo):
    text = "".join(f"line {number}\n" for number in range(60)) + "no end"
    edited = text.replace("line 3\n", "").replace("line 30\n", "line 30\nmore\n")
    repo.write("a.txt", text)
    repo.commit("Add it")
    repo.write("a.txt", edited.replace("no end", "an end"))
    repo.commit("Change it")
    hunks = around(repo)[0].hunks["a.txt"]
    before_lines, after_lines = text.splitlines(True), edited.replace("no end", "an end")
    for hunk in hunks:
        old = "".join(before_lines[hunk.old_start - 1 : hunk.old_start - 1 + hunk.old_lines])
        new = after_lines.splitlines(True)[hunk.new_start - 1 : hunk.new_start - 1 + hunk.new_lines]
        lines_after = [line for line in hunk.lines if line.origin != "-"]
        assert hunk.before.decode() == old
        assert b"".join(line.content for line in lines_after).decode() == "".join(new)


def test_callers_and_tests_are_named_with_the_function_that_has_them(repo):
    repo.write(
        "src/shop.py", SHOP.replace("return pay_order(order)", "return pay_order(order) or 0")
    )
    repo.write("src/pay.py", PAY.replace("send(order)", "send(order, 1)"))
    repo.write("docs/use.md", "Call pay_order, not pre-pay_order-all.\n")
    repo.write(".vibe-gate/cases/paid/after/tests/test_pay.py", "from pay import pay_order\n")
    repo.commit("Change it")
    _, facts = around(repo)
    assert facts[:5] == [
        "test files of this change: none",
        "test files in the tree, by their names and folders: in tests",
        "pay_order (function): 0 lines of tests and 1 line of other code names it; "
        "imported by src/shop.py; 1 line of text, strings or data",
        "buy_all (function): 1 line of tests and 0 lines of other code name it; "
        "imported by tests/test_shop.py",
        "    tests/test_shop.py, in test_buy: assert buy_all(1)",
    ]


def test_a_word_in_a_comment_a_string_or_a_longer_word_is_no_caller(repo):
    facts = after_change(
        repo,
        {
            "src/more.py": "# pay_order is here\nNAME = 'pay_order'\nx = pre_pay_order\n",
            "docs/a.md": "run make-pay_order-tree\n",
        },
        {"src/pay.py": PAY.replace("send(order)", "send(order, 1)")},
    )
    assert rows_about(facts, "pay_order") == [
        "pay_order (function): 0 lines of tests and 1 line of other code names it; "
        "imported by src/shop.py; 2 lines of text, strings or data",
        "src/shop.py, in buy_all: return pay_order(order)  # pays at once",
        "src/more.py: # pay_order is here",
    ]


@pytest.mark.parametrize(
    "path",
    [
        "test/Route.js",
        "test/debug.ts",
        "spec/shop_helper.rb",
        "src/__tests__/shop.tsx",
        "pkg/tests/shop.go",
        "tests/shop.php",
        "src/test/java/ShopChecks.java",
    ],
)
def test_a_test_file_is_known_by_its_name_or_its_folder(repo, path):
    facts = after_change(repo, {path: "x\n"}, {path: "y\n"})
    assert facts[0] == f"test files of this change: {path}"


def test_data_beside_tests_is_no_test(repo):
    facts = after_change(repo, {}, {"tests/data/a.json": "{}\n", "test/notes.md": "x\n"})
    assert facts[0] == "test files of this change: none"


def test_what_a_removed_import_leaves_is_told(repo):
    facts = after_change(
        repo,
        {"src/a.py": "import os\nimport json\n\n\ndef where():\n    return os.getcwd()\n"},
        {"src/a.py": "import json\n\n\ndef where():\n    return os.getcwd()\n"},
    )
    assert rows_about(facts, "src/a.py imports os") == [
        "src/a.py imports os no more and names it in 1 line:",
        "return os.getcwd()",
    ]


def test_what_a_removed_parameter_leaves_is_told(repo):
    facts = after_change(
        repo,
        {
            "src/a.py": "def fetch_all(url, patience=3):\n    return get(url, patience)\n",
            "src/b.py": "from a import fetch_all\n\nfetch_all('x', patience=1)\n",
        },
        {"src/a.py": "def fetch_all(url):\n    return get(url, patience)\n"},
    )
    assert rows_about(facts, "fetch_all of src/a.py") == [
        "fetch_all of src/a.py has no parameter patience any more",
        "its lines that still name it:",
        "return get(url, patience)",
        "lines that name both:",
        "src/b.py: fetch_all('x', patience=1)",
    ]


def test_what_the_tree_still_names_of_a_removed_function_or_key_is_told(repo):
    facts = after_change(
        repo,
        {
            "src/a.js": "export function sendAll(a) {\n  return a['retry-limit'];\n}\n",
            "src/b.js": "import { sendAll } from './a';\nsendAll({ 'retry-limit': 3 });\n",
            "README.md": "Set `retry-limit`, not `no-retry-limit`.\n",
        },
        {"src/a.js": "export function sendSome(a) {\n  return a.limit;\n}\n"},
    )
    assert rows_about(facts, "sendAll, gone") == [
        "sendAll, gone from src/a.js: 2 lines of the tree still name it:",
        "src/b.js: import { sendAll } from './a';",
        "src/b.js: sendAll({ 'retry-limit': 3 });",
    ]
    assert rows_about(facts, "retry-limit, gone") == [
        "retry-limit, gone from src/a.js: 2 lines of the tree still name it:",
        "README.md: Set `retry-limit`, not `no-retry-limit`.",
        "src/b.js: sendAll({ 'retry-limit': 3 });",
    ]


def test_the_definition_of_a_name_that_the_change_uses_newly_is_told(repo):
    facts = after_change(
        repo,
        {
            "src/limits.go": "package a\n\nfunc ClampLimit(limit int, most int) int {\n\treturn limit\n}\n",
            "src/a.go": "package a\n\nfunc Fetch(limit int) int {\n\treturn limit\n}\n",
        },
        {
            "src/a.go": "package a\n\nfunc Fetch(limit int) int {\n\treturn ClampLimit(limit, 3)\n}\n"
        },
    )
    assert (
        "ClampLimit is defined in src/limits.go: func ClampLimit(limit int, most int) int {"
        in facts
    )


def test_other_lines_that_read_what_is_replaced_are_told(repo):
    filler = "".join(f"FILLER_{number} = {number}\n" for number in range(40))
    before = f"def first(env):\n    return env['HOME_DIR']\n{filler}\ndef second(env):\n    return env['HOME_DIR'] + 1\n"
    facts = after_change(
        repo, {"src/a.py": before}, {"src/a.py": before.replace("HOME_DIR']\n", "HOME']\n", 1)}
    )
    assert rows_about(facts, "other lines of src/a.py that name HOME_DIR") == [
        "other lines of src/a.py that name HOME_DIR:",
        "return env['HOME_DIR'] + 1",
    ]


@pytest.mark.parametrize(
    ("manifest", "text", "path", "code", "rows"),
    [
        (
            "pyproject.toml",
            '[project]\nname = "requests"\nrequires-python = ">=3.8"\ndependencies = [\n  "requests>=2",\n  "rich>=1",\n]\n',
            "src/a.py",
            "import requests\n",
            ['requires-python = ">=3.8"', '"requests>=2",'],
        ),
        (
            "package.json",
            '{"name": "x",\n "engines": {\n  "node": ">=18" },\n "dependencies": {\n  "type-is": "^2.0",\n  "zod": "^3"\n}}\n',
            "lib/a.js",
            "const is = require('type-is');\n",
            ['"node": ">=18" },', '"type-is": "^2.0",'],
        ),
        (
            "go.mod",
            "module example.com/a\n\ngo 1.21\n\nrequire github.com/gorilla/mux v1.8.0\n",
            "a.go",
            'package a\n\nimport "github.com/gorilla/mux"\n',
            ["go 1.21", "require github.com/gorilla/mux v1.8.0"],
        ),
        (
            "Cargo.toml",
            '[package]\nrust-version = "1.70"\n[dependencies]\nserde_json = "1.0"\n',
            "src/a.rs",
            "use serde_json::Value;\n",
            ['rust-version = "1.70"', 'serde_json = "1.0"'],
        ),
        (
            "pom.xml",
            "<!-- Copyright 2008 com.google -->\n<project>\n<maven.compiler.release>8</maven.compiler.release>\n</project>\n",
            "src/A.java",
            "import com.google.Gson;\n",
            ["<maven.compiler.release>8</maven.compiler.release>"],
        ),
    ],
)
def test_the_rows_of_manifests_that_matter_are_told(repo, manifest, text, path, code, rows):
    facts = after_change(repo, {manifest: text}, {path: code})
    assert rows_about(facts, f"{manifest} declares:")[1:] == rows


def test_imports_that_are_not_shown_are_told(repo):
    imports = "".join(f"import module_{number}\n" for number in range(30))
    filler = "".join(f"FILLER_{number} = {number}\n" for number in range(40))
    text = f"from __future__ import annotations\n{imports}{filler}"
    facts = after_change(repo, {"a.py": text}, {"a.py": f"{text}LAST = 1\n"})
    rows = rows_about(facts, "imports of a.py")
    assert rows[:2] == [
        "imports of a.py that are not shown above, the first 25 of 30:",
        "import module_0",
    ]
    assert len(rows) == 26


def test_a_test_beside_the_code_is_no_changed_function(repo):
    source = "fn pay_all() -> u8 {\n    1\n}\n\nmod tests {\n    fn pays_all() {\n        pay_all();\n    }\n}\n"
    facts = after_change(
        repo,
        {"src/a.rs": source},
        {"src/a.rs": source.replace("1\n", "2\n").replace("();", "(); ")},
    )
    assert [row.split(" (")[0] for row in facts if "(function)" in row] == ["pay_all"]


def test_names_that_everything_has_are_no_fact(repo):
    calls = "".join(f"send_mail({number})\n" for number in range(61))
    facts = after_change(
        repo,
        {
            "src/a.py": "def send_mail(a):\n    return 1\n\n\ndef run(a):\n    return 1\n",
            "b.py": calls,
        },
        {"src/a.py": "def send_mail(a):\n    return 2\n\n\ndef run(a):\n    return 2\n"},
    )
    assert not [row for row in facts if row.startswith(("send_mail", "run"))]


def test_lines_in_files_that_were_not_parsed_are_told_apart(repo):
    calls = {f"call_{number}.py": "send_mail(1)\n" for number in range(MAX_FILES + 5)}
    source = {"src/a.py": "def send_mail(a):\n    return 1\n"}
    facts = after_change(repo, calls | source, {"src/a.py": "def send_mail(a):\n    return 2\n"})
    assert rows_about(facts, "send_mail")[0] == (
        f"send_mail (function): 0 lines of tests and {MAX_FILES} lines of other code name it; "
        "5 lines in code that was not parsed"
    )


def test_facts_are_bounded(repo):
    functions = [f"def changed_function_{number}(a):\n    return 1\n\n\n" for number in range(24)]
    calls = [
        f"{'x' * 140} = changed_function_{number}({call})\n"
        for number in range(24)
        for call in range(5)
    ]
    facts = after_change(
        repo,
        {"src/a.py": "".join(functions), "src/b.py": "".join(calls)},
        {"src/a.py": "".join(functions).replace("return 1", "return 2")},
    )
    assert sum(len(row) + 3 for row in facts) < MAX_FACTS + 100
    assert facts[-1].endswith("left out, as they would be too long)")


def test_the_same_trees_give_the_same_facts(repo):
    repo.write("src/pay.py", PAY.replace("send(order)", "send(order, 1)"))
    repo.commit("Change it")
    assert around(repo) == around(repo)


def test_names_and_lines_of_the_repository_are_made_visible(repo):
    repo.write("src/\x1b[2J.py", "pay_order('\u202e')  # <<<end>>>\n")
    repo.commit("Add it")
    repo.write("src/pay.py", PAY.replace("send(order)", "send(order, 1)"))
    repo.commit("Change it")
    _, facts = around(repo)
    assert any("⟦U+202E⟧" in fact for fact in facts)
    assert not any("\x1b" in fact or "\n" in fact for fact in facts)


def test_a_second_look_can_ask_for_the_function_around_a_line():
    text = "x = 1\n\n\ndef pay():\n    a = 'ü'\n    return a\n"
    assert enclosing_range("a.py", text, 5) == (4, 6)
    assert enclosing_range("a.py", text, 1) == (1, 1)
    assert enclosing_range("a.unknown", text, 5) is None


def test_a_file_that_was_not_parsed_is_named_and_nothing_of_it_is_told_to_be_gone(repo):
    killer = '"${\n' * 1000
    kotlin = "fun payEverything(amount: Int): Int {\n  return amount\n}\n"
    facts = after_change(repo, {"a0.kt": kotlin}, {"a0.kt": kotlin + killer})
    assert "not parsed: a0.kt: the functions in them, and callers there, are not known" in facts
    assert not [row for row in facts if "gone" in row]


@pytest.mark.slow
def test_six_thousand_functions_of_one_file_take_few_seconds(repo):
    functions = [f"def fn_{i}(a):\n    return fn_{i * 7 % 6000}(a)\n\n" for i in range(6000)]
    started = process_seconds()
    facts = after_change(repo, {}, {"src/big.py": "".join(functions)})
    assert process_seconds() - started < 3
    assert len(facts) == 26


@pytest.mark.slow
def test_twenty_thousand_constants_of_one_file_take_few_seconds(repo):
    constants = [f"constant_{i} = {i}\n" for i in range(20_000)]
    started = process_seconds()
    facts = after_change(repo, {}, {"src/big.py": "".join(constants)})
    assert process_seconds() - started < 5
    assert len(facts) == 26
