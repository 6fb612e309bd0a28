"""Records the cassettes of examples/cases anew: `python tests/run/record_cases.py`, after a change
of the brief.

There is no model behind them: the answers stand here, in the form a model gives them.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from answers import answers, fails, passes
from clean_environ import clean_environ
from wire import answering

EXAMPLE = Path(__file__).parents[2] / "examples/cases"
HANDLER = {
    "path": "src/settings.py",
    "line": 8,
    "quote": "    except (OSError, ValueError):",
    "side": "after",
}
PASSES = passes(
    "errors-not-swallowed",
    changes="load raises ValueError with the file's name for a file that is not JSON.",
)
FAILS = answers(
    fails(
        HANDLER,
        reason="The new handler catches both errors, logs nothing and returns an empty dict.",
        counterexample="settings.json with a missing brace -> load returns {}, and every setting is lost silently",
    ),
    changes="load returns {} for a file that is missing or is not JSON.",
)

STANDS = {
    "trace": "a missing brace -> json.loads raises ValueError -> the handler -> {}",
    "outcome": "stands",
    "reason": "Nothing before the handler reads the file, so the error ends in it.",
}
"""The second look at the fail."""


def main() -> None:
    """Run the cases with a scripted model behind the real CLI, in the order of their names."""
    with tempfile.TemporaryDirectory() as folder:
        repo, home = Path(folder) / "repo", Path(folder) / "home"
        home.mkdir()
        shutil.copytree(EXAMPLE, repo)
        with answering(PASSES, FAILS, STANDS) as model:
            environ = clean_environ(home) | model.environ
            subprocess.run(["git", "init", "-q", repo], check=True, env=environ)
            command = [sys.executable, "-m", "vibe_gate", "test", "--wire", "record"]
            code = subprocess.run(command, cwd=repo, env=environ).returncode
        shutil.rmtree(EXAMPLE)
        shutil.copytree(repo, EXAMPLE, ignore=shutil.ignore_patterns(".git"))
    sys.exit(code)


if __name__ == "__main__":
    main()
