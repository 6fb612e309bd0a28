"""The sizes of the house beside their budgets: the table in docs/architecture.md.

python .ci/house.py            print the table
python .ci/house.py --write    write it into docs/architecture.md
python .ci/house.py --check    exit 1 if the document shows other figures, or a room is over its budget
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOCUMENT = ROOT / "docs" / "architecture.md"
BEGIN, END = "<!-- sizes: python .ci/house.py --write -->", "<!-- /sizes -->"

# Lines of Python a room may have; docs/architecture.md says what to do about a room that needs more.
BUDGETS = {
    "review.py, judging": 2_200,
    "run": 1_600,
    "gate": 1_900,
    "checks": 1_400,
    "receipts": 1_400,
    "report": 3_400,
    "faces/cli": 2_800,
    "faces/action": 1_600,
    "faces/claude_hook": 1_500,
    "faces/git_hook": 900,
    "faces/pytest_plugin": 900,
    "git": 2_600,
    "store": 4_700,
    "secrets": 1_300,
    "agent": 1_400,
    "sessions": 700,
    "gateway": 1_500,
    "sandbox": 650,
    "forge": 1_400,
    "domain, errors": 1_700,
}
ALL, TESTS, ENTERED = 34_700, 34_000, 70
"""Lines of the product, lines of the tests, modules that `review HEAD~1 --no-judge` loads."""

HUNDRED = 100
"""Figures are shown in hundreds of lines, rounded up: a document that every small change made stale would be noise."""


def lines(*places: str) -> int:
    """Lines of the Python files at or below `places` of the repository, without what the demo reviews."""
    files = {path for place in places for path in [ROOT / place, *(ROOT / place).rglob("*.py")] if path.suffix == ".py"}
    return sum(path.read_text().count("\n") for path in files if "demo_data" not in path.parts)


def entered() -> int:
    """Modules of vibe_gate that a review of a one-line change loads, without a judge."""
    script = (
        "import sys; from vibe_gate.faces.cli import main\n"
        "sys.argv[1:] = ['review', 'HEAD~1', '--no-judge']\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print(sum(name.split('.')[0] == 'vibe_gate' for name in sys.modules))"
    )
    environ = {"PATH": "/usr/local/bin:/usr/bin:/bin", "PYTHONPATH": str(ROOT), "GIT_CONFIG_NOSYSTEM": "1"}
    with tempfile.TemporaryDirectory() as place:
        environ["HOME"] = place

        def run(*command: str) -> str:
            return subprocess.run(command, cwd=place, env=environ, check=True, capture_output=True, text=True).stdout

        run("git", "init", "-q")
        commit = ("git", "-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-q", "-m", "x")
        for text in ("one\n", "two\n"):
            Path(place, "file.txt").write_text(text)
            run("git", "add", "file.txt")
            run(*commit)
        return int(run(sys.executable, "-c", script).split()[-1])


PAGE = 2_300
"""Lines of the report's scripts and styles: TypeScript and CSS, which no row of Python counts."""


def page_lines() -> int:
    """Lines of the sources in `report/html/app`, without its tests."""
    sources = (ROOT / "vibe_gate/report/html/app/src").iterdir()
    return sum(path.read_text().count("\n") for path in sources)


def rooms() -> dict[str, int]:
    """Lines of each room of the table."""
    present = {}
    for name in BUDGETS:
        parts = [part.removesuffix(".py") for part in name.split(", ")]
        places = [f"vibe_gate/{part}.py" for part in parts] + [f"vibe_gate/{part}" for part in parts]
        present[name] = lines(*(place for place in places if (ROOT / place).exists()))
    return present


def up(number: int) -> int:
    """`number` rounded up to hundreds."""
    return -(-number // HUNDRED) * HUNDRED


def measured() -> list[tuple[str, int, int]]:
    """What, budget, present."""
    figures = [(name, BUDGETS[name], up(present)) for name, present in rooms().items()]
    figures.append(("report/html/app (TypeScript, CSS)", PAGE, up(page_lines())))
    figures.append(("all of `vibe_gate/` (Python)", ALL, up(lines("vibe_gate"))))
    figures.append(("tests", TESTS, up(lines("tests"))))
    figures.append(("modules that `review HEAD~1 --no-judge` loads", ENTERED, entered()))
    return figures


def table(figures: list[tuple[str, int, int]]) -> str:
    """The figures as Markdown."""
    rows = [f"| {name} | {budget:,} | {present:,} | {over(budget, present)} |" for name, budget, present in figures]
    return "\n".join(["| room | budget | present | over |", "| --- | --- | --- | --- |", *rows])


def over(budget: int, present: int) -> str:
    """By how much; "" within the budget, or within what rounding up adds."""
    return f"{present - budget:,}" if present - budget >= HUNDRED or (present > budget and budget < HUNDRED) else ""


def main() -> int:
    """Print, write or check the table; the exit code."""
    figures = measured()
    shown = table(figures)
    text = DOCUMENT.read_text()
    before, rest = text.split(BEGIN, 1)
    after = rest.split(END, 1)[1]
    wanted = f"{before}{BEGIN}\n{shown}\n{END}{after}"
    if "--write" in sys.argv:
        DOCUMENT.write_text(wanted)
    elif "--check" in sys.argv:
        if text != wanted:
            print("docs/architecture.md shows other figures: run `python .ci/house.py --write`.")
        return text != wanted
    else:
        print(shown)
    return 0


if __name__ == "__main__":
    sys.exit(main())
