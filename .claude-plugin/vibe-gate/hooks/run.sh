#!/bin/sh
# One hook of Claude Code: run.sh capture|guard|stop < event. Whatever is missing here, the agent goes on.
# Always 0, and no exec: 2, which an older vibe-gate answers to what it does not know, would hold or refuse.
script=$1

# Whether `vibe-gate install claude --user` has put the same hook into the user's settings, which then acts. The
# program itself looks at the project's settings (--user).
is_in_user_settings() {
  tr -d ' \t\r\n' 2>/dev/null <"${CLAUDE_CONFIG_DIR:-$HOME/.claude}/settings.json" |
    grep -q "\"type\":\"command\",\"command\":\"[^\"]*\",\"args\":\\[[^]]*vibe_gate/faces/agent_hook/$script[.]py\""
}

# The top of the repository in which the session is; that folder itself if there is none.
find_project() {
  start=$(cd "${CLAUDE_PROJECT_DIR:-.}" 2>/dev/null && pwd -P) || return
  project=$start
  while [ -n "$project" ] && [ ! -e "$project/.git" ]; do
    project=${project%/*}
  done
  project=${project:-$start}
}

# A program on PATH, but in no folder that the project brings along.
find_program() {
  rest=$PATH:
  while [ -n "$rest" ]; do
    folder=${rest%%:*}
    rest=${rest#*:}
    case $folder in
      /*) [ -f "$folder/$1" ] && [ -x "$folder/$1" ] || continue ;;
      *) continue ;;
    esac
    folder=$(cd "$folder" && pwd -P) || continue
    case $folder/ in
      "$project"/*) continue ;;
    esac
    program=$folder/$1
    return 0
  done
  return 1
}

if is_in_user_settings || ! find_project; then
  exit 0
fi
if find_program vibe-gate; then
  answer=$("$program" "$script" --user)
elif find_program uvx; then
  answer=$("$program" --quiet vibe-gate==0.1.0 "$script" --user)
else
  exit 0
fi
code=$?
if [ "$code" = 0 ]; then
  printf '%s' "$answer"
elif [ "$script" = stop ]; then
  printf '{"systemMessage": "vibe-gate: turn not reviewed: %s ended with exit code %s; is it as new as the plugin?"}' \
    "vibe-gate stop" "$code"
fi
exit 0
