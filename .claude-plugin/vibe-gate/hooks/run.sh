#!/bin/sh
# One hook of Claude Code: run.sh capture|guard|stop < event. Whatever is missing here, the agent goes on.
# Where `vibe-gate install claude` has put the same hooks into settings, those act and this one does nothing: the
# program itself looks at the project's settings (--user), this script at the user's.
settings=${CLAUDE_CONFIG_DIR:-$HOME/.claude}/settings.json
if grep -q "vibe_gate/faces/agent_hook/$1[.]py" "$settings" 2>/dev/null; then
  exit 0
fi
if command -v vibe-gate >/dev/null 2>&1; then
  exec vibe-gate "$1" --user
fi
if command -v uvx >/dev/null 2>&1; then
  exec uvx --quiet vibe-gate "$1" --user
fi
exit 0
