"""Built-in checks: deterministic criteria that run first, offline, and always bind."""

from __future__ import annotations

from vibe_gate.checks.contract import Check, CheckInput, CheckResult

CHECKS: dict[str, Check] = {
    "no-secrets": Check("No secret is added", "text:SecretOptions", "text:no_secrets"),
    "no-conflict-markers": Check("No conflict marker is left behind", "answer:Excluding", "text:no_conflict_markers"),
    "no-deleted-files": Check("No file is deleted", "answer:Excluding", "files:no_deleted_files"),
    "no-deleted-tests": Check("No test is deleted", "tests_kept:TestOptions", "tests_kept:no_deleted_tests"),
    "no-skipped-tests": Check("No test is switched off", "tests_kept:SkipOptions", "tests_kept:no_skipped_tests"),
    "only-paths": Check("Nothing but these paths changes", "files:OnlyPathsOptions", "files:only_paths"),
    "forbidden-paths": Check("These paths do not change", "files:ForbiddenPathsOptions", "files:forbidden_paths"),
    "forbidden-pattern": Check("No added line matches", "text:PatternOptions", "text:forbidden_pattern"),
    "required-companion": Check("What belongs together changes together", "files:CompanionOptions",
                                "files:required_companion"),
    "max-changed-lines": Check("The change is small enough to review", "files:MaxLinesOptions",
                               "files:max_changed_lines"),
    "no-binary": Check("No binary content is added", "answer:Excluding", "files:no_binary"),
    "no-large-files": Check("No large file is added", "files:LargeFileOptions", "files:no_large_files"),
    "no-invisible-unicode": Check("No character hides or reorders text", "answer:Excluding",
                                  "text:no_invisible_unicode"),
    "no-escaping-symlinks": Check("No symbolic link leaves the tree", "answer:Excluding", "files:no_escaping_symlinks"),
    "no-policy-change": Check("The gate's own policy does not change", "contract:NoOptions", "files:no_policy_change"),
    "tools-only": Check("The agent used only these tools", "conduct:ToolsOnlyOptions", "conduct:tools_only"),
    "tool-used": Check("The agent used this tool", "conduct:ToolUsedOptions", "conduct:tool_used"),
    "cost-under": Check("The agent's run cost no more", "conduct:CostOptions", "conduct:cost_under"),
    "todos-completed": Check("The agent completed its todos", "contract:NoOptions", "conduct:todos_completed"),
    "no-errors-in-logs": Check("The run's log has no errors", "conduct:LogOptions", "conduct:no_errors_in_logs"),
    "command": Check("A command succeeds in an export of the head tree", "command:CommandOptions", "command:command"),
}  # fmt: skip
"""Each check's name, what passing says, and the homes of its options and its function here: a plain dict, so adding
one is adding an entry. A home is loaded when a gate names one of its checks."""


def run_check(input: CheckInput) -> CheckResult:
    """The answer of the check that the criterion names; its name and options were validated with the definitions."""
    check = CHECKS[input.criterion.check_name]
    return check.function(input, check.options.model_validate(input.criterion.options))
