"""The signs by which agents are known: what each sets in its commands, and how it signs commits,
with the source.

A row says where it was read and when, because agents change what they do. Without a source there is
no row: a sign that people's work bears too makes their commits an agent's.
"""

from __future__ import annotations

from msgspec import Struct


class AgentSign(Struct, frozen=True):
    """One sign. `source` names what was read, with its version or path; `read` is the day (ISO).

    `text`: a variable's name, an address as an expression, a trailer's name, or the words behind
    "Generated with".
    `value`: the variable counts only with this value, in any case, a version behind "@" aside.
    `shared`: it may stand in a person's terminal, too: a sign, but no reason to stop git or an
    uninstall.
    """

    text: str
    agent: str
    source: str
    read: str
    value: str = ""
    shared: bool = False


_DAY = "2026-11-27"
_CLAUDE = "the program of Claude Code 2.1.332"
_CODEX = "a command run by Codex 0.171.0"
_AMP = "the program of Amp 0.0.1790142911, which starts each command with it"
_CRUSH = "charmbracelet/crush 37f36e938, internal/shell/shell.go"
_CRUSH_README = "README of @charmland/crush 0.96.1, Attribution Settings"
_GOOSE = "Goose, Environment Variables: Variables Controlled by goose (block/goose 0026328d)"
_AIDER = "Aider-AI/aider 5dc9490bb, aider/repo.py"

VARIABLES = (
    AgentSign("CLAUDECODE", "Claude Code", _CLAUDE, _DAY),
    AgentSign("CLAUDE_CODE_ENTRYPOINT", "Claude Code", _CLAUDE, _DAY),
    AgentSign("CURSOR_AGENT", "Cursor", "cursor.com/docs/agent/terminal", _DAY),
    AgentSign(
        "CURSOR_TRACE_ID",
        "Cursor",
        "@vercel/detect-agent 1.2.7 (not Cursor's own)",
        _DAY,
        shared=True,
    ),
    AgentSign("CODEX_SANDBOX", "Codex", "the program of Codex 0.171.0", _DAY),
    AgentSign("CODEX_THREAD_ID", "Codex", _CODEX, _DAY),
    AgentSign("CODEX_CI", "Codex", _CODEX, _DAY),
    AgentSign(
        "GEMINI_CLI",
        "Gemini CLI",
        "Shell tool page of Gemini CLI 0.61.0, and a command that it ran",
        _DAY,
    ),
    AgentSign("OPENCODE", "opencode", "the program of opencode 1.18.34", _DAY),
    AgentSign(
        "AIDER_MODEL",
        "Aider",
        "aider.chat/docs/config/options.html: a person's setting",
        _DAY,
        shared=True,
    ),
    AgentSign(
        "COPILOT_AGENT_SESSION_ID", "Copilot", "ai_env 0.1.3 on docs.rs (not GitHub's own)", _DAY
    ),
    AgentSign("AMP_CURRENT_THREAD_ID", "Amp", _AMP, _DAY),
    AgentSign("GOOSE_TERMINAL", "Goose", _GOOSE, _DAY),
    AgentSign("QWEN_CODE", "Qwen Code", "the program of @qwen-code/qwen-code 0.15.10", _DAY),
    AgentSign("AUGMENT_AGENT", "Auggie", "the program of @augmentcode/auggie 0.36.0", _DAY),
    AgentSign("PI_CODING_AGENT", "pi", "CHANGELOG of @mariozechner/pi-coding-agent 0.73.1", _DAY),
    # The terminal in which Cline runs commands is a tab of the editor, in which people type, too.
    AgentSign(
        "CLINE_ACTIVE",
        "Cline",
        "cline/cline 21cb8d25, VscodeTerminalRegistry.ts",
        _DAY,
        shared=True,
    ),
    AgentSign("CRUSH", "Crush", _CRUSH, _DAY, shared=True),  # a name that something else may have
    AgentSign("AGENT", "Amp", _AMP, _DAY, value="amp", shared=True),
    AgentSign("AGENT", "Crush", _CRUSH, _DAY, value="crush", shared=True),
    AgentSign("AGENT", "Goose", _GOOSE, _DAY, value="goose", shared=True),
    AgentSign("AI_AGENT", "Amp", _AMP, _DAY, value="amp", shared=True),
    AgentSign("AI_AGENT", "Crush", _CRUSH, _DAY, value="crush", shared=True),
)
"""What agents set for the commands that they run. `AGENT` is also what people call a build machine,
and opencode sets it to 1: only an agent's name is a sign.
"""

ADDRESSES = (
    AgentSign(r"noreply@anthropic\.com\Z", "Claude", _CLAUDE, _DAY),
    AgentSign(
        r"cursoragent@cursor\.com\Z",
        "Cursor",
        "block/aittributor pull request 15 (not Cursor's own)",
        _DAY,
    ),
    AgentSign(r"noreply@openai\.com\Z", "Codex", "the program of Codex 0.171.0", _DAY),
    AgentSign(
        r"codex@openai\.com\Z",
        "Codex",
        "rules for Codex in public repositories (not OpenAI's own)",
        _DAY,
    ),
    AgentSign(
        r"(?:\d+\+)?(?:copilot|copilot-swe-agent\[bot\])@users\.noreply\.github\.com\Z",
        "Copilot",
        "github/gh-aw pull request 24164, which Copilot wrote",
        _DAY,
    ),
    AgentSign(r"(?:\d+\+)?claude\[bot\]@", "a coding bot", "github.com/apps/claude", _DAY),
    AgentSign(
        r"(?:\d+\+)?devin-ai-integration\[bot\]@",
        "a coding bot",
        "github.com/apps/devin-ai-integration",
        _DAY,
    ),
    AgentSign(
        r"(?:\d+\+)?google-labs-jules\[bot\]@",
        "a coding bot",
        "github.com/apps/google-labs-jules",
        _DAY,
    ),
    AgentSign(
        r"(?:\d+\+)?cursor\[bot\]@",
        "a coding bot",
        "kept from earlier versions; no source found",
        _DAY,
    ),
    AgentSign(r"aider@aider\.chat\Z", "Aider", _AIDER, _DAY),
    AgentSign(
        r"noreply@aider\.chat\Z", "Aider", "Aider-AI/aider before e2d3fc459, aider/repo.py", _DAY
    ),
    AgentSign(r"\Aamp@ampcode\.com\Z", "Amp", "the program of Amp 0.0.1790142911", _DAY),
    AgentSign(r"\Acrush@charm\.land\Z", "Crush", _CRUSH_README, _DAY),
    AgentSign(
        r"\Aqwen-coder@alibabacloud\.com\Z",
        "Qwen Code",
        "the program of @qwen-code/qwen-code 0.15.10",
        _DAY,
    ),
    AgentSign(
        r"\Anoreply@opencode\.ai\Z",
        "opencode",
        "anomalyco/opencode pull request 1749, made with it",
        _DAY,
    ),
)
"""Of authors, committers and trailers, in any case."""

TRAILERS = (
    AgentSign("assisted-by", "", _CRUSH_README, _DAY),
    AgentSign("generated-by", "", "testing-farm/docs/root merge request 271", _DAY),
    AgentSign("entire-checkpoint", "", "docs.entire.io/cli/checkpoints", _DAY),
    AgentSign("claude-session", "Claude Code", _CLAUDE, _DAY),
    AgentSign("agent-session", "", "kept from earlier versions; no source found", _DAY),
    AgentSign("amp-thread-id", "Amp", "the program of Amp 0.0.1790142911", _DAY),
)
"""Trailers that only agents' commits have, whatever they say."""

LINES = (
    AgentSign("Claude Code", "Claude Code", _CLAUDE, _DAY),
    AgentSign("Codex", "Codex", "the program of Codex 0.171.0", _DAY),
    AgentSign("Cursor", "Cursor", "kept from earlier versions; no source found", _DAY),
    AgentSign("opencode", "opencode", "anomalyco/opencode pull request 1749, made with it", _DAY),
    AgentSign("Gemini CLI", "Gemini CLI", "kept from earlier versions; no source found", _DAY),
    AgentSign("Crush", "Crush", _CRUSH_README, _DAY),
)
"""What stands behind "Generated with" in a message."""

_EVERY = (*VARIABLES, *ADDRESSES, *TRAILERS, *LINES)
NAMES = tuple(
    sorted(
        {
            sign.agent
            for sign in _EVERY
            if sign.agent[:1].isupper() or sign.agent in ("opencode", "pi")
        }
    )
)
"""Names of agents, as signs tell them; a coding bot has none."""
