"""The set-ups of a run's agents: the project's own Claude Code at the trusted revision."""

from __future__ import annotations

from pathlib import Path

from vibe_gate.context.facts import Facts
from vibe_gate.context.review_request import ReviewRequest
from vibe_gate.domain import paths
from vibe_gate.domain.agent import Agent
from vibe_gate.domain.escape import list_names, show_text
from vibe_gate.domain.project_setup import ProjectSetup, command_name
from vibe_gate.errors import UsageError
from vibe_gate.gate.setup_files import find_differing_setup, read_setup
from vibe_gate.gate.trusted import WORKTREE, trusted_revision
from vibe_gate.git import Tree
from vibe_gate.run.agent_turns import isolation_of
from vibe_gate.run.repeated_run import RepeatedRun
from vibe_gate.run.run_tree import RunTree
from vibe_gate.store.run_recorder import RunRecorder

_SHOWN = 5
_SHOWN_DIGITS = 7

_NOTHING = (
    'Nothing was loaded for setup = "project": there is neither CLAUDE.md nor .claude/ in '
    "{place}. Does git ignore them?"
)


class AgentSetups:
    """Reads set-ups, each before its agent begins, and writes down what was loaded."""

    def __init__(
        self,
        facts: Facts,
        review: ReviewRequest,
        record: RunRecorder,
        root: Path,
        repeated: RepeatedRun | None,
    ) -> None:
        """`root`: of the run's own repository. `repeated`: the run that this one is a repeat of."""
        self._gate = facts.gate
        self._review = review
        self._record = record
        self._root = root
        self._repeated = repeated
        self._trees: dict[Path, Tree] = {}
        """By the root of a repository, its tree at the trusted revision."""
        self._places: dict[Path, str] = {}
        """By the root of a repository, what that tree is, in words."""
        self._notes: dict[str, None] = {}

    @property
    def notes(self) -> list[str]:
        """Sentences for people, each once."""
        return list(self._notes)

    def setup_of(self, agent: Agent, prompt: str, tree: RunTree) -> ProjectSetup | None:
        """What is loaded for the agent, which works in `tree`; None: nothing. UsageError: it cannot
        be, or the prompt begins with a command that is not there.
        """
        key, problem = agent.setup_problem
        if problem:
            raise UsageError(f"The agent {agent.id}: {key}: {problem}.")
        if agent.setup == "none":
            self._note_text(agent, prompt)
            return None
        trusted = self._trusted_tree(tree)
        place = self._places[tree.repository.root]
        setup = read_setup(trusted, agent, place)
        _require_command(setup, prompt, place)
        self._note_differing_files(tree)
        self._note_other_run(setup)
        self._record.add_to_run_document(setup=setup.digests)
        if not setup.digests:
            self._notes[_NOTHING.format(place=place)] = None
        if setup.left_out:
            names = list_names(setup.left_out, _SHOWN)
            self._notes[f"Not loaded of the project's Claude Code set-up: {names}."] = None
        return setup

    def require_trusted_files(self, agent: Agent, setup: ProjectSetup, tree: RunTree) -> None:
        """UsageError: hooks or servers would run beside files that are not the trusted revision's,
        and without a wall. Which of these they run, nobody can tell from their commands.
        """
        if not setup.programs or isolation_of(agent, self._gate) == "sandbox":
            return
        trusted_id = self._trusted_tree(tree).id
        if tree.now == trusted_id and not tree.was_worked_in:
            return
        names = list_names(map(show_text, setup.programs), _SHOWN)
        files = "an agent has worked on the files before it"
        if tree.now != trusted_id:
            files = "the files that it works on are not those of the trusted revision"
        raise UsageError(
            f"The agent {agent.id} is not started: {names} would run programs without a wall, and "
            f'{files}. Set isolation = "sandbox", or leave setup_hooks and setup_mcp_servers out '
            "here and use them on the trusted revision's files alone (for files of your own: "
            "--definitions worktree)."
        )

    def _trusted_tree(self, tree: RunTree) -> Tree:
        """The repository's files where the change under review cannot reach them."""
        repository = tree.repository
        if repository.root not in self._trees:
            revision = self._trusted_revision(tree)
            place = f"the trusted revision {revision[:_SHOWN_DIGITS]}"
            if revision == WORKTREE:
                revision = repository.snapshot()
                place = "the working tree"
            elif not revision:
                revision = tree.change.before
                place = "what was there before the change"
            self._trees[repository.root] = repository.tree(revision)
            self._places[repository.root] = place
        return self._trees[repository.root]

    def _trusted_revision(self, tree: RunTree) -> str:
        """The revision at which the repository's set-up is read, "worktree", or "" if there is
        none. What the user names is of the run's own repository, unless it is the working tree.
        """
        base = self._review.base
        definitions = self._review.definitions
        if WORKTREE in (definitions, self._gate.revision):
            return WORKTREE
        if tree.repository.root != self._root:
            base = definitions = None
        commit = tree.change.base_commit
        return trusted_revision(tree.repository, commit, base=base, definitions=definitions)

    def _note_differing_files(self, tree: RunTree) -> None:
        trusted = self._trusted_tree(tree)
        if trusted.id == tree.now:
            return
        differing_paths = find_differing_setup(trusted, tree.repository.tree(tree.now))
        if differing_paths:
            names = list_names(map(paths.quote, differing_paths), _SHOWN)
            note = (
                f"The set-up that was loaded is the trusted revision's; the files differ: {names}."
            )
            self._notes[note] = None

    def _note_other_run(self, setup: ProjectSetup) -> None:
        """Note that the run which is repeated had another set-up."""
        if self._repeated is None or not self._repeated.setup:
            return
        recorded_digests = self._repeated.setup
        names = set()
        for name in setup.digests.keys() | recorded_digests.keys():
            # The hooks and servers of other agents are recorded beside this one's.
            is_of_other_agent = "#" in name and name not in setup.digests
            if setup.digests.get(name) != recorded_digests.get(name) and not is_of_other_agent:
                names.add(name)
        if names:
            shown_names = list_names(map(show_text, sorted(names)), _SHOWN)
            note = f"The set-up is not that of run {self._repeated.run_id}: {shown_names}."
            self._notes[note] = None

    def _note_text(self, agent: Agent, prompt: str) -> None:
        name = show_text(command_name(prompt))
        if name:
            note = (
                f"The prompt of {agent.id} begins with /{name}, which is sent as text: "
                'setup = "project" in the agent\'s definition has commands of .claude/ expanded.'
            )
            self._notes[note] = None


def _require_command(setup: ProjectSetup, prompt: str, place: str) -> None:
    """UsageError: the prompt begins with a command that is not in the set-up, which is of
    `place`.
    """
    name = command_name(prompt)
    if not name or name in setup.commands:
        return
    near = setup.nearest_command(name)
    if near:
        advice = f"did you mean /{near}?"
    elif setup.commands:
        advice = f"there are {list_names([f'/{command}' for command in setup.commands], _SHOWN)}."
    else:
        advice = "there is none at all. Does git ignore .claude?"
    raise UsageError(
        f"There is no command /{show_text(name)} in .claude/commands or .claude/skills of "
        f"{place}; {show_text(advice)}"
    )
