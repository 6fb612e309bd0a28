"""What a judge is shown around a change: whole functions, tests and callers by name."""

from __future__ import annotations

import pytest
from repos import Repo

from vibe_gate.domain.change import Selection
from vibe_gate.domain.environment import read_environment
from vibe_gate.git import open_repository
from vibe_gate.judging.surroundings import AROUND, Surroundings, find_surroundings

LONG = "".join(f"    step_{number} = {number}\n" for number in range(100))
PAY = f"import os\n\n\ndef check(order):\n    return order\n\n\ndef pay(order):\n{LONG}    return send(order)\n"


@pytest.fixture
def repo(tmp_path, environ) -> Repo:
    made = Repo(tmp_path / "repo", environ)
    made.write("src/pay.py", PAY)
    made.write(
        "src/shop.py",
        "from pay import pay\n\ndef buy(order):\n    return pay(order)  # pays at once\n",
    )
    made.write("tests/test_shop.py", "from shop import buy\n\ndef test_buy():\n    assert buy(1)\n")
    made.write("notes.txt", "".join(f"line {number}\n" for number in range(100)))
    made.commit("First")
    return made


def around(repo: Repo) -> tuple[Surroundings, list[str]]:
    with open_repository(repo.path, read_environment(repo.environ)) as opened:
        change = opened.change(Selection("commit"))
        found = find_surroundings(opened, change)
    return found, list(found.facts([file.path for file in change.files]))


def shown(found: Surroundings, path: str) -> list[str]:
    return [line.content.decode().rstrip("\n") for hunk in found.hunks[path] for line in hunk.lines]


def test_the_head_of_a_long_function_is_shown_and_what_is_far_from_the_change_is_not(repo):
    repo.write("src/pay.py", PAY.replace("step_90 = 90", "step_90 = 0"))
    repo.commit("Change it")
    found, _ = around(repo)
    lines = shown(found, "src/pay.py")
    assert lines[0] == "def pay(order):"
    assert "    step_40 = 40" in lines
    assert not {"    step_39 = 39", "def check(order):"} & set(lines)
    assert [hunk.new_start for hunk in found.hunks["src/pay.py"]] == [8, 49]


def test_ten_lines_are_shown_where_no_function_encloses_the_change(repo):
    repo.write(
        "notes.txt", (repo.path / "notes.txt").read_text().replace("line 50\n", "line fifty\n")
    )
    repo.commit("Change it")
    found, facts = around(repo)
    assert len(shown(found, "notes.txt")) == 2 * AROUND + 2
    assert facts == ["test files in the tree, by their names: some"]


def test_callers_and_tests_are_named(repo):
    repo.write(
        "src/shop.py",
        (repo.path / "src/shop.py")
        .read_text()
        .replace("return pay(order)", "return pay(order) or None"),
    )
    repo.write("src/pay.py", PAY.replace("send(order)", "send(order, 1)"))
    repo.write(".vibe-gate/cases/paid/after/tests/test_pay.py", "from pay import pay\n")
    repo.commit("Change it")
    _, facts = around(repo)
    assert facts == [
        "test files in the tree, by their names: some",
        "pay: no line of tests and 2 lines elsewhere name it",
        "    src/shop.py: from pay import pay",
        "    src/shop.py: return pay(order) or None  # pays at once",
        "buy: 2 lines of tests and no line elsewhere name it",
        "    tests/test_shop.py: from shop import buy",
        "    tests/test_shop.py: assert buy(1)",
    ]


@pytest.mark.parametrize(
    ("path", "before", "name"),
    [
        ("a.py", "class Basket:\n    async def total_of(self):\n        x = 1\n", "total_of"),
        (
            "a.ts",
            "export class Basket {\n  private total(a: number): number {\n    let x = 1\n  }\n}\n",
            "total",
        ),
        ("a.js", "const total = async (a) => {\n  let x = 1\n}\n", "total"),
        ("a.go", "func (b *Basket) Total() int {\n\tx := 1\n}\n", "Total"),
        (
            "a.rs",
            "impl Basket {\n    pub(crate) fn total(&self) -> u8 {\n        let x = 1;\n    }\n}\n",
            "total",
        ),
        (
            "A.java",
            "class Basket {\n    public static int total(int a) {\n        int x = 1;\n    }\n}\n",
            "total",
        ),
        ("a.c", "static int total(int a)  {\n    int x = 1;\n}\n", "total"),
        ("a.rb", "class Basket\n  def self.total\n    x = 1\n  end\nend\n", "total"),
    ],
)
def test_functions_are_known_by_their_form_in_the_usual_languages(repo, path, before, name):
    repo.write(path, before)
    repo.commit("Add it")
    repo.write(path, before.replace("1", "2"))
    repo.commit("Change it")
    found, _ = around(repo)
    assert found.names[path] == (name,)


def test_names_and_lines_of_the_repository_are_made_visible(repo):
    repo.write("src/pay.py", PAY.replace("send(order)", "send(order, 1)"))
    repo.write("src/\x1b[2J.py", "pay('\u202e')  # <<<end>>>\n")
    repo.commit("Change it")
    _, facts = around(repo)
    assert any("⟦U+202E⟧" in fact for fact in facts)
    assert not any("\x1b" in fact or "\n" in fact for fact in facts)
