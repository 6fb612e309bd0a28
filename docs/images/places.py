"""Makes the picture of the four places: `python docs/images/places.py`.

An agent's session, a commit, a push and a pull request's job about one change, each for real (hooks,
git, the Action's command, a loopback GitHub); the model's answer is scripted. What each place says of
the same finding is drawn, and how many requests it made.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from rich.text import Text

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "faces"))
sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

from answers import HANDLER, answer_to, answers, fails
from clean_environ import clean_environ
from contract.github import LoopbackGitHub, loopback_github
from faces.jobs import Project
from make import drawing
from repos import RUBRIC, SWALLOWS, Repo, allow_store
from stopping import TEAM_GATE, HookedAgentSession, start_session_in_clone
from wire import Model, answering

WIDTH = 110
FILE = "src/load.py"
STORE_KEY = {"VIBE_GATE_STORE_KEY": "a key of a team in a picture"}


@dataclass(frozen=True)
class Place:
    """One of the four, and what it came to."""

    title: str
    requests: int
    """That the model had from there."""

    text: str


def run_git(session: HookedAgentSession, *words: str) -> str:
    """Run git as the person does; what it and its hooks print."""
    process = subprocess.run(
        ["git", *words], cwd=session.root, env=session.environ, capture_output=True, text=True
    )
    return process.stdout + process.stderr


def begin_project(place: Path, github: LoopbackGitHub) -> Project:
    """What GitHub has: a gate that judges at each place and names the team's store."""
    environ = clean_environ(place / "home")
    store = place / "store"
    store.mkdir()
    allow_store(store.as_uri(), environ)
    origin = Repo(place / "origin", environ)
    origin.git("checkout", "-q", "-B", "main")
    origin.write(".vibe-gate/gate.toml", TEAM_GATE.format(store=store.as_uri(), review="judge"))
    origin.write(".vibe-gate/rubrics/quality.toml", RUBRIC)
    origin.commit("The gate")
    return Project(place, environ | STORE_KEY, github, origin)


def visit_places(project: Project, model: Model) -> list[Place]:
    """The story: the agent does not repair, a person commits and pushes past the hooks."""
    environ = project.environ | model.environ
    session = start_session_in_clone(project.origin.path, project.place / "clone", environ, "load")
    counts = [0]
    texts = []

    def note(text: str) -> None:
        texts.append(text)
        counts.append(len(model.script.requests))

    session.write(FILE, SWALLOWS)
    note(session.stop().reason)
    run_git(session, "add", "-A")
    note(run_git(session, "commit", "-m", "Load robustly"))
    run_git(session, "commit", "--no-verify", "-m", "Load robustly")
    note(run_git(session, "push", "origin", "HEAD:load"))
    run_git(session, "push", "--no-verify", "origin", "HEAD:load")
    head = project.origin.git("rev-parse", "load")
    project.pull(head)
    inputs = {"VIBE_GATE_INPUT_ANTHROPIC_API_KEY": model.environ["ANTHROPIC_API_KEY"]}
    job = project.review_pull(head, ANTHROPIC_BASE_URL=model.base_url, **inputs)
    note(project.ours[0] if project.ours else job.out + job.err)
    titles = (
        "The agent says that it is done",
        "git commit",
        "git push, after a commit --no-verify",
        "The pull request's comment",
    )
    return [
        Place(title, counts[number + 1] - counts[number], texts[number])
        for number, title in enumerate(titles)
    ]


def select_lines(text: str) -> list[str]:
    """The verdict, the finding and the cost: the lines that all four places have in common."""
    plain_text = _LINK.sub(r"\1", text).replace("**", "").replace("`", "").replace("### ", "")
    lines = plain_text.splitlines()
    return [line for line in lines if _COMMON.search(line) and not _OTHER.match(line)]


def draw_places(places: list[Place]) -> Text:
    """The places one below the other, each with its requests."""
    text = Text()
    for number, place in enumerate(places, start=1):
        request_words = "1 request" if place.requests == 1 else f"{place.requests} requests"
        title = f"{number}  {place.title}"
        text.append(title, style="bold cyan")
        text.append(f"{request_words} to the model\n".rjust(WIDTH - len(title) + 1), style="bold")
        for line in select_lines(place.text):
            style = "red" if "FAIL" in line else ""
            text.append(f"   {line.rstrip()}\n", style=style)
        text.append("\n")
    return text


_LINK = re.compile(r"\[([^\]]*)\]\(https?:[^)]*\)")
_COMMON = re.compile(r"FAIL|ca14299c|The error is dropped|no model was asked")
_OTHER = re.compile(r"\s*next\b|Cost|\||.*vibe-gate:state")
"""Lines that name the finding once more."""


def main() -> None:
    """Visit the places and write the picture."""
    judged = answers(fails(HANDLER), answer_to("names-are-clear"))
    with (
        tempfile.TemporaryDirectory() as folder,
        loopback_github() as github,
        answering(judged) as model,
    ):
        (Path(folder) / "home").mkdir()
        places = visit_places(begin_project(Path(folder), github), model)
    picture = drawing("", draw_places(places), WIDTH, "places")
    (Path(__file__).parent / "four-places.svg").write_text(picture, encoding="utf-8")


if __name__ == "__main__":
    main()
