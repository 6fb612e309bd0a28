"""What a repository demands: gate.toml, its rubrics and suppressions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import date
from typing import TYPE_CHECKING, Annotated, Literal, Protocol

from msgspec import Meta, Struct
from msgspec.structs import replace

from vibe_gate.domain import paths
from vibe_gate.domain.calibration import Baseline
from vibe_gate.domain.change import Change
from vibe_gate.domain.environment import Environment
from vibe_gate.domain.rubric import Glob, Identifier, ModelName, Rubric, Schema
from vibe_gate.domain.summary import GateAbsence
from vibe_gate.domain.verdict import Finding
from vibe_gate.domain.waiver import Waiver

if TYPE_CHECKING:
    from vibe_gate.domain.agent import Agent
    from vibe_gate.domain.workflow import WorkflowDefinition

FINGERPRINT = r"^[0-9a-f]{16}(?!\n)$"
Reason = Annotated[
    str,
    Meta(min_length=1, max_length=2000, pattern=r"\S", extra={"means": "more than white space"}),
]
"""Why; never blank."""


CRITERIA_WITHOUT_RUBRIC = ("policy", "addressed")
"""What findings may be of though no rubric asks it: a file that steers agents, diffs or test runs,
and text that speaks to the reviewer.
"""


class Waivable(Protocol):
    """What may be let pass: a finding, before or after it is decided what follows from it."""

    @property
    def fingerprint(self) -> str:
        """Tells it apart from all others."""
        ...

    @property
    def criterion(self) -> str:
        """The id of its criterion."""
        ...

    @property
    def paths(self) -> tuple[str, ...]:
        """The files of all its places, as shown; "" for the change as a whole."""
        ...


class Suppression(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One entry of suppressions.toml: a finding by fingerprint, or what a criterion finds at some
    paths.
    """

    finding: Annotated[
        Annotated[
            str,
            Meta(
                pattern=FINGERPRINT,
                extra={"means": "a whole fingerprint, 16 digits of 0 to 9 and a to f"},
            ),
        ]
        | None,
        Meta(description="The fingerprint of one finding."),
    ] = None
    criterion: Annotated[
        Identifier | None, Meta(description="What this criterion finds (default: any).")
    ] = None
    paths: Annotated[
        tuple[Glob, ...], Meta(description="Globs: what is found in these files.")
    ] = ()
    reason: Annotated[Reason, Meta(description="Why.")]
    by: Annotated[str, Meta(description="Who decided.")] = ""
    expires: Annotated[
        date | None, Meta(description="The last day on which it holds (default: for ever).")
    ] = None

    def __post_init__(self) -> None:
        """Refuse one about nothing, with ValueError."""
        if self.finding is None and self.criterion is None and not self.paths:
            raise ValueError("a suppression needs a finding, a criterion or paths")

    @property
    def name(self) -> str:
        """What it is about, for people."""
        if self.finding is not None:
            return self.finding
        criterion = self.criterion or "*"
        if not self.paths:
            return criterion
        return f"{criterion}:{','.join(self.paths)}"

    def covers(self, finding: Waivable) -> bool:
        """Whether it is about this finding; one with globs only if all places are in such files."""
        if self.finding is not None:
            return self.finding == finding.fingerprint
        if self.criterion is not None and self.criterion != finding.criterion:
            return False
        if not self.paths:
            return True
        return all(self._covers_file(path) for path in finding.paths)

    def _covers_file(self, path: str) -> bool:
        return path != "" and paths.matches_any_glob(paths.unquote(path), self.paths)


class SuppressionsFile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`.vibe-gate/suppressions.toml`."""

    schema: Schema
    suppression: Annotated[tuple[Suppression, ...], Meta(description="What is ignored.")] = ()


DEFAULT_MODEL = "claude-sonnet-5"

POLICY_BLOCK = (".vibe-gate/**", ".github/workflows/**", "/.pre-commit-config.yaml")
"""Changes here change the gate itself: exit 4 until a human approves. Anchored at the root."""

POLICY_WARN = (
    "CLAUDE.md",
    "AGENTS.md",
    "**/.claude",
    "**/.claude/**",
    "**/.mcp.json",
    "**/.gitattributes",
    "**/.gitmodules",
    "/.gitleaks.toml",
    "conftest.py",
    "pytest.ini",
    "CODEOWNERS",
)
"""Changes here can steer agents, diffs, test runs or what no-secrets allows: a warning finding, at
any depth.

`.claude` may be a link.
"""

STEERING = (
    *POLICY_BLOCK,
    *POLICY_WARN,
    "**/.cursor/**",
    ".cursorrules",
    ".windsurfrules",
    ".clinerules",
    "GEMINI.md",
    "**/.gemini/**",
    "**/.codex/**",
    ".github/copilot-instructions.md",
    ".github/instructions/**",
    ".github/actions/**",
    "**/.vscode/**",
    "**/.devcontainer/**",
    ".husky/**",
    ".githooks/**",
    ".envrc",
)
"""Of these files no agent's change is applied or suggested, whatever the gate's lists say."""

JudgeWhen = Literal["always", "agent-authored", "never"]
HookName = Literal["pre-commit", "pre-merge-commit", "pre-push", "commit-msg"]


class Scope(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """More rubrics where paths match."""

    paths: Annotated[
        tuple[Glob, ...],
        Meta(min_length=1, description="Globs: if any changed path, old or new, matches ..."),
    ]
    rubrics: Annotated[
        tuple[Identifier, ...],
        Meta(min_length=1, description="... these rubrics apply too, each once."),
    ]


class Budget(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits. A run that reaches one has a partial verdict that lists what was not reviewed."""

    max_cost_usd: Annotated[
        float, Meta(gt=0, description="US dollars for the model, in one run.")
    ] = 0.50
    per_day_usd: Annotated[
        Annotated[float, Meta(gt=0)] | None,
        Meta(description="US dollars a day, over all runs (default: any)."),
    ] = None
    max_turns: Annotated[
        int, Meta(ge=1, le=1000, description="Requests to the model in one session.")
    ] = 20
    deadline_s: Annotated[
        float, Meta(gt=0, le=86_400, description="Seconds of wall clock for the run.")
    ] = 300.0


class HookRule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a git hook's stage does. Checks run at every stage."""

    judge: Annotated[JudgeWhen, Meta(description="Whether the judge is asked there.")] = (
        "agent-authored"
    )


StopReview = Literal["never", "checks", "judge"]


class StopRule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What happens when a coding agent ends its turn (`install claude|codex|gemini --stop`)."""

    review: Annotated[
        StopReview,
        Meta(
            description="Whether the working tree is reviewed then: not at all, by checks alone, or "
            "by the judge, too. Its answers are those that the commit finds."
        ),
    ] = "checks"
    max_rounds: Annotated[
        int,
        Meta(ge=1, le=8, description="How often one prompt's turn is given back to the agent."),
    ] = 3
    deadline_s: Annotated[
        float,
        Meta(gt=0, le=600, description="Seconds of one review; then the agent may stop."),
    ] = 120.0


class Hooks(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab"):
    """What happens at each of git's hooks, and when an agent ends its turn."""

    pre_commit: Annotated[HookRule, Meta(description="Before a commit.")] = HookRule()
    pre_merge_commit: Annotated[HookRule, Meta(description="Before a merge's commit.")] = HookRule()
    pre_push: Annotated[HookRule, Meta(description="Before a push.")] = HookRule()
    commit_msg: Annotated[
        HookRule | None, Meta(description="When the commit's message is known.")
    ] = None
    """None: `commit-msg` asks nobody whom `pre-commit` did not ask."""
    stop: Annotated[StopRule, Meta(description="When a coding agent ends its turn.")] = StopRule()

    def at_stage(self, stage: HookName) -> HookRule:
        """The rule of a git hook."""
        rules = {
            "pre-commit": self.pre_commit,
            "pre-merge-commit": self.pre_merge_commit,
            "pre-push": self.pre_push,
            "commit-msg": self.commit_msg or HookRule(),
        }
        return rules[stage]


class On(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a local hook does with an outcome; CI always blocks."""

    inconclusive: Annotated[
        Literal["pass", "warn", "block"], Meta(description="If a run was not decided.")
    ] = "warn"


class Retention(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long bundles stay."""

    max_age_days: Annotated[
        float, Meta(ge=0, description="Days, by the time that the run recorded.")
    ] = 30.0
    min_free_disk_mb: Annotated[
        float, Meta(ge=0, description="Megabytes of disk to keep free.")
    ] = 1000.0


class ModelChoice(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which language model is asked."""

    default: Annotated[ModelName, Meta(description="If a rubric or agent names none.")] = (
        DEFAULT_MODEL
    )


class Policy(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Changes that need approval, or get a warning. Each list replaces its default; names match in
    any case.
    """

    block: Annotated[tuple[Glob, ...], Meta(description="Exit code 4 until a human approves.")] = (
        POLICY_BLOCK
    )
    warn: Annotated[tuple[Glob, ...], Meta(description="A warning finding.")] = POLICY_WARN


class Trust(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When the fail of a judge's question blocks, and when it only advises. Checks always block."""

    block: Annotated[
        Literal["always", "earned"],
        Meta(
            description="`earned`: a question advises until its labelled answers bound its false blocks."
        ),
    ] = "always"
    max_false_blocks: Annotated[
        float,
        Meta(
            ge=0.001,
            le=0.5,
            description="Of `earned`: the share of clean changes that it may block, at 95 %.",
        ),
    ] = 0.05
    uncalibrated: Annotated[
        Literal["block", "advise"],
        Meta(description="What a question does without a calibration of this rubric and model."),
    ] = "block"


class McpServer(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A server for agents that list its name: a program, or an address."""

    command: Annotated[
        str | None, Meta(description="This or `url`: the program, which speaks MCP on stdio.")
    ] = None
    args: Annotated[tuple[str, ...], Meta(description="The program's arguments.")] = ()
    env: Annotated[
        tuple[str, ...], Meta(description="Names of the variables that the program is given.")
    ] = ()
    url: Annotated[
        str | None, Meta(description="The address of a server, `http://` or `https://`.")
    ] = None

    def __post_init__(self) -> None:
        """Refuse neither and both of command and url, with ValueError."""
        if bool(self.command) == bool(self.url):
            raise ValueError("an MCP server needs a command or a url, and not both")
        if self.url and (self.args or self.env):
            raise ValueError("args and env belong to a command, not to a url")
        if self.url and not self.url.startswith(("http://", "https://")):
            raise ValueError("the url of an MCP server must be a web address")


STORE_SCHEMES = ("s3", "gs", "az", "abfss", "file")
"""Of a shared store's address: S3 and what speaks like it, Google Cloud, Azure (two forms), a
folder.
"""


class StoreChoice(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where a team shares runs and answers (`pip install 'vibe-gate[store]'`). Read at the trusted
    revision alone.
    """

    url: Annotated[
        str,
        Meta(
            max_length=300,
            description="`s3://BUCKET/PREFIX`, `gs://`, `az://` or `abfss://`, or `file:///FOLDER`, which exists. "
            "Credentials and endpoints come from the environment, the team's key from `VIBE_GATE_STORE_KEY`.",
        ),
    ]

    def __post_init__(self) -> None:
        """Refuse another address, with ValueError."""
        scheme, _, location = self.url.partition("://")
        if (
            scheme not in STORE_SCHEMES
            or not location.strip("/")
            or (scheme == "file") != location.startswith("/")
        ):
            schemes = ", ".join(f"{scheme_name}://" for scheme_name in STORE_SCHEMES)
            raise ValueError(
                f"url must begin with one of {schemes}, and name a bucket or an absolute folder"
            )
        if (
            any(mark in self.url for mark in "?#%\\")
            or not self.url.isprintable()
            or " " in self.url
        ):
            raise ValueError(
                "url must have no blanks, escapes, query or fragment; credentials come from the environment"
            )
        if ".." in location.split("/") or (scheme != "abfss" and "@" in location):
            raise ValueError("url must have no user and no .. in it")


SharedPrompts = Literal["never", "digest", "redacted"]


class ShareChoice(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What of captured sessions a push may take along. Read at the trusted revision alone."""

    prompts: Annotated[
        SharedPrompts,
        Meta(
            description="What people asked for in the sessions that wrote the pushed commits: nothing, a `digest` "
            "(agent, session, number of prompts, SHA-256), or the `redacted` prompts. Whoever pushes is asked first."
        ),
    ] = "never"


class AgentRule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How agents are walled in."""

    allow_unwalled: Annotated[
        bool, Meta(description='Run `isolation = "sandbox"` on a kernel without a wall.')
    ] = False


class CounterexampleRule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the test is run that a judge may write to show a fail. Without this table no test is
    asked for.
    """

    command: Annotated[
        tuple[str, ...],
        Meta(
            description="Runs one test, `{file}` (default: pytest or unittest, as the repository's files say)."
        ),
    ] = ()
    environment: Annotated[
        str | None,
        Meta(
            description="The virtual environment of the project's own tests, from the root of the checkout. "
            "`VIBE_GATE_TEST_ENVIRONMENT`, an absolute path, replaces it."
        ),
    ] = None
    file: Annotated[
        str | None,
        Meta(
            description="Where the test is put, for tests that are not Python (default: a name below `tests`)."
        ),
    ] = None
    timeout_s: Annotated[
        float, Meta(gt=0, le=3600, description="Seconds of one run; a test has at most five.")
    ] = 60.0
    memory_mb: Annotated[
        int, Meta(ge=64, le=1_000_000, description="Megabytes of memory of one run.")
    ] = 2048

    def __post_init__(self) -> None:
        """Refuse what no test can be run with, with ValueError."""
        if (
            self.command
            and not self.file
            and not any("{file}" in word for word in self.command[1:])
        ):
            raise ValueError(
                'command needs an argument with {file}, such as ["pytest", "-q", "{file}"]'
            )
        for name, path in (("environment", self.environment), ("file", self.file)):
            if path is not None and (
                not path.strip("/ ") or path[0] in "/~" or ".." in path.split("/")
            ):
                elsewhere = (
                    "; for one elsewhere, set VIBE_GATE_TEST_ENVIRONMENT"
                    if name == "environment"
                    else ""
                )
                raise ValueError(
                    f"{name} must be a path below the root of the repository{elsewhere}"
                )


class GateFile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`gate.toml` as written."""

    schema: Schema
    rubrics: Annotated[
        tuple[Identifier, ...],
        Meta(description="Rubrics for every change, in this order; `asked` is built in."),
    ] = ()
    scope: Annotated[
        tuple[Scope, ...], Meta(description="More rubrics for changes of matching paths.")
    ] = ()
    budget: Budget = Budget()
    hooks: Hooks = Hooks()
    on: On = On()
    retention: Retention = Retention()
    model: ModelChoice = ModelChoice()
    policy: Policy = Policy()
    trust: Trust = Trust()
    agent: AgentRule = AgentRule()
    counterexample: CounterexampleRule | None = None
    store: StoreChoice | None = None
    share: ShareChoice = ShareChoice()
    mcp: Annotated[
        dict[Identifier, McpServer], Meta(description="By name, servers for agents.")
    ] = {}

    @property
    def named_rubrics(self) -> frozenset[str]:
        """The rubrics that it names, for every change or for some."""
        names = set(self.rubrics)
        for scope in self.scope:
            names.update(scope.rubrics)
        return frozenset(names)


Origin = Literal["trusted", "bootstrap", "built-in"]


class Gate(Struct, frozen=True):
    """The gate in force: the file, the rubrics it names, and where both came from."""

    file: GateFile

    rubrics: tuple[Rubric, ...]

    origin: Origin
    """"bootstrap": the trusted revision has no definitions yet, and the change's own were used."""

    revision: str
    """The commit id they were read at, "worktree", or "" for the built-in gate and a tree without a
    commit.
    """

    digests: tuple[tuple[str, str], ...] = ()
    """By path, the sha-256 of each file that it was read from, what workflows name included."""

    suppressions: tuple[Suppression, ...] = ()

    branch: str = ""
    """Of a "bootstrap": the branch where definitions would bind; "" if it has no name."""

    first: bool = False
    """Of a "bootstrap": there is no `.vibe-gate/` at all where definitions would bind."""

    absence: GateAbsence = ""
    """Of a "bootstrap": why there is no gate now, if there was one."""

    agents: tuple[Agent, ...] = ()

    workflows: tuple[WorkflowDefinition, ...] = ()

    refused: tuple[tuple[str, str], ...] = ()
    """Agents of `.claude/agents` that no workflow names and that cannot be honoured, by id with the
    reason.
    """

    baselines: tuple[Baseline, ...] = ()
    """What was measured of rubrics, as the tree has it."""

    gitleaks: bytes = b""
    """The `.gitleaks.toml` of the trusted revision, never the change's own."""

    @property
    def store_url(self) -> str:
        """Of the shared store; "" if there is none, or the definitions may be those of the change
        itself.
        """
        if self.file.store and self.is_trusted:
            return self.file.store.url
        return ""

    @property
    def shared_prompts(self) -> SharedPrompts:
        """What of prompts a push may take along; "never" if the definitions may be those of the
        change itself.
        """
        if self.is_trusted:
            return self.file.share.prompts
        return "never"

    @property
    def is_trusted(self) -> bool:
        """Whether it was read at a commit that the change under review cannot have written."""
        return self.origin == "trusted" and self.revision != "worktree"

    @property
    def session_criteria(self) -> frozenset[str]:
        """The ids of the criteria that are about what a session ran or said: no change of a file
        repairs their fails.
        """
        criterion_ids: set[str] = set()
        for rubric in self.rubrics:
            for criterion in rubric.criterion:
                if criterion.is_about_session:
                    criterion_ids.add(criterion.id)
        return frozenset(criterion_ids)

    def repairable(self, findings: Iterable[Finding]) -> tuple[Finding, ...]:
        """Those that a change of files can repair."""
        session_criteria = self.session_criteria
        return tuple(finding for finding in findings if finding.criterion not in session_criteria)

    def judged_by(self, model: str) -> Gate:
        """The same gate, whose judges are all this language model."""
        rubrics = tuple(
            replace(rubric, model=model, models=(), fallback=None) for rubric in self.rubrics
        )
        return replace(self, rubrics=rubrics)

    def default_model(self, environment: Environment) -> str:
        """What is asked where a rubric or agent names none; ANTHROPIC_MODEL if there are no
        definitions at all.
        """
        if self.origin == "built-in" and environment.model:
            return environment.model
        return self.file.model.default

    def for_change(self, change: Change) -> tuple[Rubric, ...]:
        """The rubrics that this change is held against, in the order of the file."""
        rubric_ids = dict.fromkeys(self.file.rubrics)
        for scope in self.file.scope:
            if any(file.touches(scope.paths) for file in change.files):
                rubric_ids |= dict.fromkeys(scope.rubrics)
        rubric_by_id = {rubric.id: rubric for rubric in self.rubrics}
        return tuple(rubric_by_id[rubric_id] for rubric_id in rubric_ids)

    def may_ask(self, rubrics: Collection[str]) -> bool:
        """Whether one of the rubrics with these ids, or without ids any rubric, has a question for
        a model.
        """
        chosen_rubrics = [rubric for rubric in self.rubrics if not rubrics or rubric.id in rubrics]
        return any(rubric.judge_criteria for rubric in chosen_rubrics)

    def reach(self, rubric: str) -> tuple[str, ...]:
        """The globs of the scopes that bring the rubric of this id; none if it is for every
        change.
        """
        if rubric in self.file.rubrics:
            return ()
        globs: list[str] = []
        for scope in self.file.scope:
            if rubric in scope.rubrics:
                globs += scope.paths
        return tuple(globs)


POLICY = "policy-"
"""Before the fingerprint of changes of the gate itself: what an override of an exit code 4
names.
"""

Fingerprint = Annotated[str, Meta(pattern=r"^(?:policy-)?[0-9a-f]{16}(?!\n)$")]


class Override(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An override as the shared state keeps it: who let what pass, why, until when, and the run
    that showed it.
    """

    schema: Literal[1] = 1
    ts: str
    finding: Fingerprint
    reason: Reason
    by: str
    email: str
    expires: date
    run: str = ""

    @property
    def waiver(self) -> Waiver:
        """As a receipt has it."""
        return Waiver(
            finding=self.finding, reason=self.reason, by=self.by, expires=self.expires, local=True
        )


class Waivers(Struct, frozen=True):
    """All that could be waived on a day: the repository's suppressions, this place's overrides."""

    today: date
    overrides: tuple[Override, ...] = ()
    suppressions: tuple[Suppression, ...] = ()
    approval: Waiver | None = None
    """Of the changes of the gate itself that are under review, by a person who may approve them."""
    accepted: tuple[Waiver, ...] = ()
    """Findings that people who may approve let pass at the forge, for this head commit alone."""

    def of(self, finding: Waivable) -> Waiver | None:
        """What lets the finding pass today, or None."""
        override = self._override(finding.fingerprint)
        if override is not None:
            return override.waiver
        for acceptance in reversed(self.accepted):
            if acceptance.finding == finding.fingerprint:
                return acceptance
        for suppression in self.suppressions:
            if suppression.covers(finding) and not self._is_over(suppression.expires):
                return _waiver_of(suppression)
        return None

    def of_policy(self, fingerprint: str) -> Waiver | None:
        """What lets the changes of the gate itself pass today, or None."""
        override = self._override(POLICY + fingerprint) if fingerprint else None
        return override.waiver if override else self.approval

    def remarks(self, findings: Sequence[Finding]) -> list[str]:
        """Sentences about waivers that have run out.

        None about suppressions that covered nothing: most checks see added lines alone, so a change
        does not tell whether the suppressed line is still there.
        """
        fingerprints = {finding.fingerprint for finding in findings}
        remarks = []
        for override in self.overrides:
            if self._is_over(override.expires) and override.finding in fingerprints:
                if self._override(override.finding) is not None:
                    continue  # a later one still holds
                remarks.append(
                    f"The override of {override.finding} by {override.by} expired on {override.expires}."
                )
        for rule in self.suppressions:
            if self._is_over(rule.expires):
                remarks.append(
                    f"The suppression of {rule.name} expired on {rule.expires} and has no effect."
                )
        return list(dict.fromkeys(remarks))

    def _override(self, finding: str) -> Override | None:
        """The last override of the finding that has not expired."""
        for override in reversed(self.overrides):
            if override.finding == finding and not self._is_over(override.expires):
                return override
        return None

    def _is_over(self, expires: date | None) -> bool:
        return expires is not None and expires < self.today


def _waiver_of(rule: Suppression) -> Waiver:
    by = rule.by or "the repository"
    return Waiver(finding=rule.name, reason=rule.reason, by=by, expires=rule.expires)
