#!/usr/bin/env bash
# One step of the Action: `step.sh find` looks for a Python, `step.sh build` makes the environment, `step.sh gate` runs the gate.
# Works with the bash 3.2 of macOS. Every input comes through the environment.
set -euo pipefail

here=$(cd -P "${BASH_SOURCE[0]%/*}" && pwd)
OLDEST=11    # minor version of Python 3; pyproject.toml says the same
NEWEST=14    # the newest that the lock holds wheels for
FALLBACK=13  # what actions/setup-python brings where nothing was found; action.yml says the same

# What stands in the checkout is reviewed, never run: its folders, and relative ones, leave PATH.
clean_path() {
  local workspace folder real kept=""
  workspace=$(cd -P "${GITHUB_WORKSPACE:-.}" && pwd)
  local IFS=:
  set -f
  for folder in $PATH; do
    case "$folder" in /*) ;; *) continue ;; esac
    real=$(cd -P "$folder" 2>/dev/null && pwd) || continue
    case "$real/" in "$workspace"/*) continue ;; esac
    kept="$kept${kept:+:}$folder"
  done
  set +f
  printf '%s' "$kept"
}

# Prints the path of the interpreter itself, if it suits. From / because shims choose by files of the current folder.
suits() {
  (cd / && "$1" -I -c "import ensurepip, sys, venv
sys.exit(not ((3, $OLDEST) <= sys.version_info[:2] <= (3, $NEWEST)) or print(sys.executable))") 2>/dev/null
}

find_python() {
  local minor name
  for name in python3 python; do
    suits "$name" && return
  done
  for ((minor = NEWEST; minor >= OLDEST; minor--)); do
    for name in "python3.$minor" "${RUNNER_TOOL_CACHE:-/nowhere}"/Python/3."$minor".*/*/bin/python3; do
      suits "$name" && return
    done
  done
  return 0
}

digest() {
  if command -v sha256sum >/dev/null; then sha256sum "$1"; else shasum -a 256 "$1"; fi | cut -c 1-32
}

find_step() {
  local python version
  if [ "${RUNNER_OS:-}" = Windows ]; then
    echo "::error title=vibe-gate::The Action runs on Linux and macOS; give the job runs-on: ubuntu-latest."
    exit 2
  fi
  python=$(find_python)
  version=3.$FALLBACK
  if [ -n "$python" ]; then
    version=$(cd / && "$python" -I -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    echo "Python $version: $python"
  else
    echo "No Python 3.$OLDEST to 3.$NEWEST is here; actions/setup-python brings one."
  fi
  {
    echo "python=$python"
    echo "key=vibe-gate-${RUNNER_OS:-unknown}-${RUNNER_ARCH:-unknown}-python$version-$(digest "$here/requirements.txt")"
    echo "place=$RUNNER_TEMP/vibe-gate"
    echo "wheels=$RUNNER_TEMP/vibe-gate/wheels"
  } >>"$GITHUB_OUTPUT"
}

build_step() {
  exec "$VIBE_GATE_PYTHON" -I "$here/environment.py" "$VIBE_GATE_PLACE" "$VIBE_GATE_KEY"
}

# -I: neither the current folder nor PYTHON* variables nor the user's packages say what is imported.
gate_step() {
  local python="$VIBE_GATE_PLACE/venv/bin/python"
  export TERM=dumb  # a log is no terminal, even where the runner lends it one: plain lines
  if [ -n "${VIBE_GATE_INPUT_FROM_ARTIFACT:-}" ]; then
    exec "$python" -I -m vibe_gate post --from-artifact "$VIBE_GATE_INPUT_FROM_ARTIFACT"
  fi
  exec "$python" -I -m vibe_gate action
}

PATH=$(clean_path)
export PATH
case "${1:-}" in
  find) find_step ;;
  build) build_step ;;
  gate) gate_step ;;
  *) echo "step.sh: find, build or gate, not ${1:-nothing}" >&2; exit 2 ;;
esac
