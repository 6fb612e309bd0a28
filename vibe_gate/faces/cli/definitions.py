"""`vibe-gate init` and `vibe-gate config show|check|schema`: write starter definitions; read those
that are there.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from msgspec import Struct
from msgspec.structs import asdict

from vibe_gate.agent import sdk_version
from vibe_gate.domain import paths
from vibe_gate.domain.change import Selection
from vibe_gate.domain.escape import counted
from vibe_gate.domain.gate import Gate
from vibe_gate.domain.tables import quoted
from vibe_gate.errors import (
    PASS,
    USAGE,
    DefinitionError,
    GatewayError,
    InfrastructureError,
    UsageError,
)
from vibe_gate.faces.cli.command import JSON, Command, argument, group
from vibe_gate.faces.cli.output import complain, emit, emit_result, open_repository_here
from vibe_gate.faces.cli.tools import proposals
from vibe_gate.faces.process_environment import read_process_environment
from vibe_gate.gate import loading
from vibe_gate.gate.advice import find_warnings
from vibe_gate.gate.agents import AGENTS
from vibe_gate.gate.cases import read_cases
from vibe_gate.gate.effective import effective_toml
from vibe_gate.gate.loading import FOLDER, GATE_PATH, find_mistakes, load_gate
from vibe_gate.gate.schema import MODELS, json_schema
from vibe_gate.gate.setup_files import read_setup
from vibe_gate.gate.source import DefinitionTree, Mistake
from vibe_gate.gate.trusted import WORKTREE, gate_for
from vibe_gate.gateway import find_upstream
from vibe_gate.git import Repository, Tree
from vibe_gate.report.sentences import UNASKED_WITH_THIS_GATE

CHECKS_PATH = f"{FOLDER}/rubrics/safety.toml"
STARTERS = {GATE_PATH: Path(__file__).with_name("starters").joinpath("gate.toml").read_text()} | {
    f"{FOLDER}/rubrics/{path.name}": f"#:schema ../schema/rubric.json\n{path.read_text()}"
    for path in sorted(loading.BUILT_IN.glob("rubrics/*.toml"))
}
"""Path in the repository -> TOML: the built-in checks and questions, every key explained."""

GENERAL_PATH = f"{FOLDER}/rubrics/general.toml"
_ALL_RUBRICS = 'rubrics = ["safety", "general"] '
_CHECKS_ONLY = """\
# Only checks: no API key is needed. `vibe-gate init` adds rubrics/general.toml, a judge's questions; name it here then.
rubrics = ["safety"]            """
CHECKS_ONLY = {path: text for path, text in STARTERS.items() if path != GENERAL_PATH}
CHECKS_ONLY[GATE_PATH] = STARTERS[GATE_PATH].replace(_ALL_RUBRICS, _CHECKS_ONLY)
"""The starters of `init --checks-only`."""

SCHEMAS = {f"{FOLDER}/schema/{name}.json": name for name in ("gate", "rubric", "agent", "workflow")}
"""Path in the repository -> name of the JSON Schema to which a starter's first line points."""

_OFFERED = """
Off until you name them in `rubrics` of .vibe-gate/gate.toml, for changes of agents whose sessions are recorded
(`vibe-gate install claude`): "asked", which judges whether a change does what the agent was asked for, and "said", which
judges whether what the agent says it did, ran or checked is true."""

_NEXT = """\
Next:
  vibe-gate config check
      every mistake at once
  vibe-gate review{0} --definitions worktree
      try the gate before committing
  git add .vibe-gate && git commit
      binding once it is on the default branch; without a remote at the next commit"""

_FOR_AGENTS = """
Append these lines to AGENTS.md (or CLAUDE.md): by them any agent asks the gate before it says that it is done.

## vibe-gate
- Before you say that work is done, run `vibe-gate review --concise`; with `--no-judge` the checks alone.
- Exit code 0 passes. 1: repair each finding at its cause, review again. 3: not reviewed, which is no pass: say so.
- `vibe-gate explain FINDING` shows why a finding was reported, with the quoted lines.
- If you think a finding wrong, say why and quote what shows it; never override, suppress or label it yourself.
- Do not edit .vibe-gate/ or .vibe-artifacts/, and do not commit with --no-verify."""
_AGENTS_FILES = ("AGENTS.md", "CLAUDE.md")
_MAX_AGENTS_BYTES = 1_000_000
"""As much as an agent would read of such a file, and more."""

_NO_KEY = f"""
No API key: {UNASKED_WITH_THIS_GATE}. Set
ANTHROPIC_API_KEY (or ANTHROPIC_BASE_URL for a local model). To go without a judge, delete .vibe-gate/ and run
`vibe-gate init --checks-only`; or use `vibe-gate review --no-judge`, and in the hooks `judge = "never"`."""

_NOTHING_TO_WRITE = (
    "Nothing to write: this repository has definitions. Check them with `vibe-gate config check`."
)

_NO_SDK = f"""
claude-agent-sdk is not installed:
{UNASKED_WITH_THIS_GATE}.
Run `pip install vibe-gate`, which brings it. To go without a judge, delete .vibe-gate/ and run
`vibe-gate init --checks-only`."""


def _parse_init(args: argparse.Namespace) -> bool:
    """Whether only checks are wanted."""
    return bool(args.checks_only)


def _init(checks_only: bool) -> int:
    with open_repository_here() as repository:
        root = repository.root
        next_steps = _NEXT.format(_change_to_try(repository))
    present = _present(root)
    starters = CHECKS_ONLY if checks_only else STARTERS
    # Where a gate of one's own has begun, a starter more would change what it demands.
    starter_paths = [*starters, *SCHEMAS] if _are_starters(root, present) else []
    missing = [path for path in starter_paths if path not in present]
    tools, commands = proposals(root)
    schemas = {path: json_schema(name) for path, name in SCHEMAS.items()}
    texts = starters | schemas | {CHECKS_PATH: starters[CHECKS_PATH] + commands}
    for path in present:
        emit(f"kept   {paths.quote(path)} (already there)\n")
    for path in missing:
        _write_starter(root, path, texts[path])
        emit(f"wrote  {path}\n")
    if tools and CHECKS_PATH in missing:
        complain(
            f"This repository uses {', '.join(tools)}: commands for that are in {CHECKS_PATH}, commented out."
        )
    if not missing:
        complain(_NOTHING_TO_WRITE)
        return PASS
    complain(next_steps)
    if not _agents_are_told(root):
        complain(_FOR_AGENTS)
    if not checks_only:
        _tell_about_judges()
    return PASS


def _tell_about_judges() -> None:
    """Say which other rubrics there are, and what is missing to ask a judge."""
    complain(_OFFERED)
    if not sdk_version():
        complain(_NO_SDK)
    # Of settings that contradict each other `doctor` and a review say so.
    with suppress(GatewayError):
        if find_upstream(read_process_environment().variables) is None:
            complain(_NO_KEY)


def _change_to_try(repository: Repository) -> str:
    """What follows `vibe-gate review`, so that there is work of the repository to review."""
    head = repository.head()
    if not head:
        return ""
    if repository.parents(head):
        return " HEAD~1"
    return " --commit HEAD"


def _agents_are_told(root: Path) -> bool:
    """Whether a file that agents read names vibe-gate already."""
    for name in _AGENTS_FILES:
        place = root / name
        if not place.is_file():  # a pipe, say, which would be waited for
            continue
        with suppress(OSError), place.open("rb") as file:
            if b"vibe-gate" in file.read(_MAX_AGENTS_BYTES):
                return True
    return False


def _present(root: Path) -> list[str]:
    """gate.toml, rubrics and schemas that are there, from the root. UsageError if a link or file is
    in the way.
    """
    for folder in (FOLDER, f"{FOLDER}/rubrics", f"{FOLDER}/schema"):
        place = root / folder
        if place.is_symlink() or (place.exists() and not place.is_dir()):
            raise UsageError(
                f"{folder}: a symbolic link or a file stands where a folder belongs; move it away."
            )
    rubrics = sorted(
        f"{FOLDER}/rubrics/{path.name}" for path in (root / FOLDER / "rubrics").glob("*.toml")
    )
    return [path for path in (GATE_PATH, *rubrics, *SCHEMAS) if os.path.lexists(root / path)]


def _are_starters(root: Path, present: list[str]) -> bool:
    """Whether all that is there is what `init` wrote, of either form."""
    gate = root / GATE_PATH
    if GATE_PATH in present:
        starter_gates = {STARTERS[GATE_PATH].encode(), CHECKS_ONLY[GATE_PATH].encode()}
        if not gate.is_file() or gate.read_bytes() not in starter_gates:
            return False
    return set(present) <= {*STARTERS, *SCHEMAS}


def _write_starter(root: Path, path: str, text: str) -> None:
    """Write one starter, never over a file or through a link at its place."""
    place = root / path
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with place.open("x") as file:
            file.write(text)
    except FileExistsError:
        raise UsageError(f"{path} has just appeared; it is left as it is.") from None
    except OSError as error:
        place.unlink(missing_ok=True)  # half a starter would look like one that the user cut
        raise InfrastructureError(f"{path} could not be written: {error.strerror}.") from error


def _parse_schema(args: argparse.Namespace) -> str:
    """The kind of definition file."""
    return str(args.name)


def _print_schema(kind: str) -> int:
    emit(json_schema(kind))
    return PASS


def _parse_show(args: argparse.Namespace) -> bool:
    """Whether the files of the working tree are meant, not the gate in force."""
    return bool(args.worktree)


def _show(of_worktree: bool) -> int:
    with open_repository_here() as repository:
        tree = repository.tree(repository.snapshot())
        # What is wrong with agents that nothing names does not keep the gate from being in force.
        if problems := _unrecorded(repository.root, tree):
            raise DefinitionError(problems)
        worktree_gate = load_gate(tree, revision=WORKTREE, origin="trusted")
        gate = None if of_worktree else _gate_in_force(repository)
        if gate is None:
            gate = worktree_gate or loading.built_in_gate(tree)
    emit(effective_toml(gate))
    if gate.origin == "built-in" and worktree_gate is None:
        complain(
            "No definitions in the working tree: this is the built-in gate. `vibe-gate init` writes starters."
        )
    elif worktree_gate is not None and worktree_gate.digests != gate.digests:
        complain(
            "The files in the working tree differ from this gate: `vibe-gate config show --worktree`."
        )
    return PASS


def _gate_in_force(repository: Repository) -> Gate:
    """The gate that a review of the working tree would be held to."""
    change = repository.change(Selection(kind="worktree"))
    return gate_for(repository, change, base=None, definitions=None)


class CheckArguments(Struct, frozen=True):
    """The arguments of `vibe-gate config check`."""

    absent_programs: frozenset[str]
    """Programs that this machine need not have, because only CI runs them."""
    as_json: bool


def _parse_check(args: argparse.Namespace) -> CheckArguments:
    return CheckArguments(frozenset(args.without), args.json)


def _check(arguments: CheckArguments) -> int:
    with open_repository_here() as repository:
        tree = repository.tree(repository.snapshot())
        problems = [*find_mistakes(tree), *_unrecorded(repository.root, tree)]
        if not problems:
            problems += _setup_mistakes(tree)
        oddities = find_warnings(tree, problems)
        sentence = "" if problems else _sentence(tree)
        missing_programs = list(_missing_programs(tree))
    for missing in missing_programs:
        if missing.is_demanded and missing.program not in arguments.absent_programs:
            problems.append(missing.mistake)
        else:
            oddities.append(missing.mistake)
    code = USAGE if problems else PASS
    if arguments.as_json:
        mistake_rows = [_as_json(problem) for problem in problems]
        warning_rows = [_as_json(oddity) for oddity in oddities]
        rows = {"exit_code": code, "mistakes": mistake_rows, "warnings": warning_rows}
        return emit_result(rows, (), code, as_json=True)
    for oddity in oddities:
        complain(f"warning: {oddity}")
    if problems:
        raise DefinitionError(problems)
    emit(sentence)
    return PASS


def _setup_mistakes(tree: Tree) -> Iterator[Mistake]:
    """Why agents could not be started, as what they load of the project's Claude Code is not
    there or cannot be read.
    """
    gate = load_gate(tree, revision=WORKTREE, origin="trusted") or loading.built_in_gate(tree)
    for agent in gate.agents:
        if agent.setup == "none":
            continue
        try:
            read_setup(tree, agent, "the working tree")
        except UsageError as error:
            yield Mistake(f"{AGENTS}{agent.id}.toml", 1, "setup", str(error))


class MissingProgram(Struct, frozen=True):
    """A command of a criterion whose program is neither installed here nor a file of the tree."""

    program: str
    is_demanded: bool
    """Whether the check must pass: then every review that it concerns is an error here."""
    mistake: Mistake
    """Which check it is, and what to do."""


def _missing_programs(tree: DefinitionTree) -> Iterator[MissingProgram]:
    for source in loading.definition_files(tree):
        for location, criterion in source.values("criterion", None):
            command = criterion.get("command") if isinstance(criterion, dict) else None
            program = command[0] if isinstance(command, list) and command else None
            if not isinstance(program, str) or " " in program:
                continue  # told by another warning
            is_in_tree = "/" in program and tree.read(os.path.normpath(program)) is not None
            if is_in_tree or shutil.which(program) is not None:
                continue
            is_demanded = criterion.get("must") is True
            text = f"{quoted(program)} is not installed here; the check will be an error"
            if is_demanded:
                text += f", and so every review here, as it must pass\n{_remedy(program)}"
            mistake = source.mistake((*location, "command"), text)
            yield MissingProgram(program, is_demanded, mistake)


def _remedy(program: str) -> str:
    command = f"vibe-gate config check --without {shlex.quote(program)}"
    return f"install it, or drop `must`; if only CI has it, check with `{command}`"


def _as_json(mistake: Mistake) -> dict[str, object]:
    return {
        name: value for name, value in asdict(mistake).items() if name != "owner"
    }  # `key` says enough


def _unrecorded(root: Path, tree: DefinitionTree) -> list[Mistake]:
    """The mistake of a gate.toml that is on disk but not in a snapshot: nothing else would mention
    it.
    """
    if os.path.lexists(root / GATE_PATH) and tree.read(GATE_PATH) is None:
        return [
            Mistake(
                GATE_PATH,
                1,
                "",
                "git does not record it as a file: it is ignored or a symbolic link",
            )
        ]
    return []


def _sentence(tree: DefinitionTree) -> str:
    gate = load_gate(tree, revision=WORKTREE, origin="trusted") or loading.built_in_gate(tree)
    cases, _ = read_cases(tree, gate.rubrics)
    case_count = len(cases)
    if gate.origin == "built-in" and not gate.agents and not gate.workflows:
        return "ok: no definitions in the working tree; the built-in gate applies. `vibe-gate init` writes starters.\n"
    judged = sum(len(rubric.judge_criteria) for rubric in gate.rubrics)
    checked = sum(len(rubric.check_criteria) for rubric in gate.rubrics)
    counts = [
        counted(len(gate.rubrics), "rubric"),
        counted(judged, "judge question"),
        counted(checked, "check"),
    ]
    optional_counts = {
        "agent": len(gate.agents),
        "workflow": len(gate.workflows),
        "case": case_count,
    }
    for noun, count in optional_counts.items():
        if count:
            counts.append(counted(count, noun))
    built_in = " (the rubrics are built in)" if gate.origin == "built-in" else ""
    return f"ok: {', '.join(counts)} in the working tree{built_in}.\n"


INIT = Command(
    "Write the built-in checks and questions into .vibe-gate/, every key explained, and the JSON Schemas that editors "
    "read; propose commands for the tools that the repository uses. Never overwrites.",
    (
        argument(
            "--checks-only",
            action="store_true",
            help="only checks: no questions for a judge, no API key needed",
        ),
    ),
    _parse_init,
    _init,
    examples="""\
examples:
  vibe-gate init                 checks, and questions for a judge
  vibe-gate init --checks-only   only checks

agents and workflows stand beside them, such as .vibe-gate/agents/fixer.toml:
  schema = 1
  id = "fixer"
  tools = ["Read", "Edit", "Bash"]
(docs/reference/definitions.md, examples/agents)
""",
)

CONFIG = group(
    "Show the gate in force, defaults filled in; check the files for mistakes; print their JSON Schemas.",
    """\
examples:
  vibe-gate config check                    list every mistake; exit 2 if any
  vibe-gate config schema rubric            the JSON Schema that editors read
  vibe-gate config show                     the gate in force, and its revision
  vibe-gate config show --worktree          the files of the working tree
""",
    {
        "show": Command(
            "Print the gate that a review is held to, and its revision, as TOML.",
            (
                argument(
                    "--worktree",
                    action="store_true",
                    help="print the files as they lie in the working tree",
                ),
            ),
            _parse_show,
            _show,
        ),
        "check": Command(
            "List every mistake in the definitions; exit 2 if any.",
            (
                argument(
                    "--without",
                    action="append",
                    default=[],
                    metavar="PROGRAM",
                    help="only CI has this program of a command; may be repeated",
                ),
                JSON,
            ),
            _parse_check,
            _check,
        ),
        "schema": Command(
            "Print the JSON Schema of a kind of definition file.",
            (
                argument(
                    "name",
                    nargs="?",
                    default="gate",
                    choices=tuple(MODELS),
                    metavar="FILE",
                    help=", ".join(MODELS),
                ),
            ),
            _parse_schema,
            _print_schema,
        ),
    },
)
