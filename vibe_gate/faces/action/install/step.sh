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

# Whether a judge or an agent could run: with a key, or credentials or an address in the job's environment.
agents_can_run() {
  local name
  [ "${VIBE_GATE_JUDGE:-}" != false ] || return 1
  [ "${VIBE_GATE_HAS_KEY:-}" != true ] || return 0
  for name in "${!ANTHROPIC_@}" "${!CLAUDE_@}"; do
    [ -z "${!name}" ] || return 0
  done
  return 1
}

digest() {
  local sum=sha256sum
  command -v sha256sum >/dev/null || sum="shasum -a 256"
  printf '%s\n' "$@" | $sum | cut -c 1-32
}

find_step() {
  local python version kind=checks shared=""
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
  if agents_can_run; then
    kind=agent
  else
    echo "No judge will be asked, so claude-agent-sdk and its Claude Code (365 MB) are not installed."
  fi
  [ -z "${VIBE_GATE_STORE_KEY:-}" ] || shared=-store
  {
    echo "python=$python"
    echo "kind=$kind"
    echo "key=vibe-gate-$kind$shared-${RUNNER_OS:-unknown}-${RUNNER_ARCH:-unknown}-python$version-$(digest "$(<"$here/requirements.txt")" "$(<"$here/requirements-agent.txt")" "$(<"$here/requirements-store.txt")")"
    echo "place=$RUNNER_TEMP/vibe-gate-$kind$shared"
    echo "wheels=$RUNNER_TEMP/vibe-gate-$kind$shared/wheels"
    [ $kind != agent ] || echo "answers=$RUNNER_TEMP/vibe-gate-answers"
    echo "answers-key=vibe-gate-answers-$(digest "${GITHUB_JOB:-}" "${VIBE_GATE_ASKED:-}")-"
  } >>"$GITHUB_OUTPUT"
}

# Nothing of a cache is believed: every wheel, cached or fetched, is installed only if its SHA-256 stands in the locks,
# which come with the Action itself, at the commit the workflow names.
locked() {
  "${pip[@]}" "$1" --quiet --disable-pip-version-check --no-input --require-hashes \
    --only-binary :all: --no-deps "${locks[@]}" "${@:2}" </dev/null
}

# A pip of its own in the environment costs half of the installation; the interpreter's works there from version 22.3 on.
make_environment() {
  if "$VIBE_GATE_PYTHON" -I -c 'import sys, pip; sys.exit(int(pip.__version__.split(".")[0]) < 23)' 2>/dev/null; then
    "$VIBE_GATE_PYTHON" -I -m venv --clear --without-pip "$venv"
    unset "${!PYTHON@}"  # it starts the environment's interpreter, without -I
    pip=("$VIBE_GATE_PYTHON" -I -m pip --python "$venv/bin/python")
  else
    "$VIBE_GATE_PYTHON" -I -m venv --clear "$venv"
  fi
}

# Compiling all of it takes longer than compiling what a run imports. Isolated: whatever pip's configuration adds has its
# say where packages are fetched.
install_wheels() {
  locked install --isolated --no-index --find-links "$wheels" --no-compile
}

install_cached() {
  [ -n "$(ls -A "$wheels" 2>/dev/null)" ] || return 1
  install_wheels && return
  echo "::warning title=vibe-gate::The cached packages are not what the lock names; they are fetched anew."
  return 1
}

# The environment reads the package from the Action's path: nothing to build, nothing to fetch for a build.
use_package() {
  local link
  link=$(echo "$venv"/lib/python3.*/site-packages)/vibe-gate.pth
  rm -f "$link"
  (cd -P "$here/../../../.." && pwd) >"$link"
}

build_step() {
  local venv="$VIBE_GATE_PLACE/venv" wheels="$VIBE_GATE_PLACE/wheels" whence="from the cache"
  local locks=(--requirement "$here/requirements.txt")
  [ "$VIBE_GATE_KIND" != agent ] || locks+=(--requirement "$here/requirements-agent.txt")
  [ -z "${VIBE_GATE_STORE_KEY:-}" ] || locks+=(--requirement "$here/requirements-store.txt")
  cd /  # no file of the checkout has a say in what is installed
  if [ "$(cat "$venv/vibe-gate-ready" 2>/dev/null)" = "$VIBE_GATE_KEY" ]; then
    use_package
    echo "The environment of an earlier step of this job is used again."
    return
  fi
  local pip=("$venv/bin/python" -I -m pip)
  make_environment
  if ! install_cached; then
    whence=fetched
    rm -rf "$wheels"
    if ! locked download --dest "$wheels" || ! install_wheels; then
      echo "::error title=vibe-gate::The locked packages could not be installed; the lines above say why."
      return 1
    fi
  fi
  use_package
  printf '%s' "$VIBE_GATE_KEY" >"$venv/vibe-gate-ready"
  echo "Ready after $SECONDS s: packages $whence, every hash checked."
  echo "ready=$SECONDS s ($(du -sm "$wheels" | cut -f 1) MiB of packages $whence)" >>"$GITHUB_OUTPUT"
  [ "$whence" != fetched ] || echo "fetched=true" >>"$GITHUB_OUTPUT"
}

# -I: neither the current folder nor PYTHON* variables nor the user's packages say what is imported.
gate_step() {
  local python="$VIBE_GATE_PLACE/venv/bin/python"
  export VIBE_GATE_BEGAN
  VIBE_GATE_BEGAN=$(date +%s)
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
