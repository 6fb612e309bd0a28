"""The guard: what it refuses of a command line, what it lets through, and that it looks closely where it must."""

from __future__ import annotations

import contextlib
import json
import shlex
import subprocess
import sys

import pytest
from growth import assert_linear
from hypothesis import given, settings
from hypothesis import strategies as st

from vibe_gate.faces.claude_hook import guard
from vibe_gate.faces.claude_hook.rules import refused_command, refused_edit
from vibe_gate.faces.claude_hook.shell import UNKNOWN, Unreadable, commands

BARE = [sys.executable, "-I", "-S", guard.__file__]

REFUSED = [
    "git commit --no-verify -m x",
    "git commit -n -m x",
    "git commit -nm x",
    "git commit -anm x",
    "git commit -am x -n",
    "git commit --no-v",
    "git commit --no-verif -m x",
    "git commit --amend --no-edit --no-verify",
    "git push --no-verify",
    "git merge --no-verify topic",
    "git rebase --no-verify main",
    "git pull --no-verify",
    "/usr/bin/git commit -n -m x",
    "command git commit -n -m x",
    "env A=b git commit -n",
    "env -u A -i git commit -n",
    "FOO=1 BAR=2 git commit -n",
    "sudo -u me git commit -n",
    "nice -n 5 timeout 10 git commit -n",
    "uv run git commit -n",
    "exec git commit -n",
    "git -C sub commit -n",
    "git --git-dir .git --work-tree=. commit -n",
    "git --no-pager -c user.name=x commit -n",
    "true && git commit -n",
    "false || git commit -n",
    "true; git commit -n",
    "true & git commit -n",
    "echo x | xargs git commit -n -m",
    "echo x | xargs -I {} -n 1 git commit -n -m {}",
    "true\ngit commit -n",
    "git add -A && \\\n  git commit -n",
    "(git commit -n)",
    "{ git commit -n; }",
    "if true; then git commit -n; fi",
    "for i in 1 2; do git commit -n; done",
    "case x in x) git commit -n;; esac",
    "! git commit -n",
    "time git commit -n",
    "echo $(git commit -n)",
    'echo "$(git commit -n)"',
    "echo `git commit -n`",
    'echo "`git commit -n`"',
    "x=$(git commit -n)",
    "diff <(git commit -n) b",
    "x=$(case $a in b) echo c;; esac); git commit -n",
    "sh -c 'git commit -n'",
    'bash -lc "git commit -n"',
    "bash -c \"bash -c 'git commit -n'\"",
    "eval 'git commit -n'",
    "bash <<EOF\ngit commit -n\nEOF",
    "bash <<< 'git commit -n'",
    "cat <<EOF\n$(git commit -n)\nEOF",
    "cat > notes <<'EOF'\nit's fine\nEOF\ngit commit -n",
    "git commit --no-verify -m \"$(cat <<'EOF'\nDon't stop (now\nEOF\n)\"",
    "g''it com\\mit -n",
    "gi\\\nt commit -n",
    '"git" "commit" "-n"',
    "git commit $'\\x2dn'",
    "F=--no-verify; git commit $F",
    "F='commit -n'; git $F",
    "git commit ${F:--n}",
    "git -c alias.x='commit -n' x",
    "git -c alias.x='!git commit -n' x",
    "git -c alias.x=commit x -n",
    "git config alias.ci 'commit --no-verify'",
    "git config --global alias.ci '!git commit -n'",
    "git -c core.hooksPath=/dev/null commit -m x",
    "git -ccore.hookspath= commit -m x",
    "git --config-env=core.hooksPath=HOME commit",
    "git -c include.path=/tmp/x commit",
    "git config core.hooksPath /dev/null",
    "git config --global core.hookspath ''",
    "git config set core.hooksPath x",
    "git config --unset core.hooksPath",
    "git config --file .git/config core.hooksPath x",
    "git config --remove-section core",
    "git config vibe-gate.trust HEAD",
    "GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=core.hooksPath GIT_CONFIG_VALUE_0=/dev/null git commit",
    "env GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=core.hooksPath GIT_CONFIG_VALUE_0=x git commit",
    "export GIT_CONFIG_KEY_0=core.hooksPath",
    "GIT_CONFIG_PARAMETERS=\"'core.hooksPath=/dev/null'\" git commit",
    "SKIP=vibe-gate git commit -m x",
    "SKIP=ruff,vibe-gate-msg git commit -m x",
    "PREK_SKIP=vibe-gate git commit -m x",
    "HUSKY=0 git commit -m x",
    "git commit-tree abc -p def",
    "git fast-import < stream",
    "git update-ref refs/heads/main abc",
    "git update-ref HEAD abc",
    "git update-ref -d refs/vibe-gate/receipts",
    "printf 'x' | git update-ref --stdin",
    "git rebase -x 'git commit --amend -n' main",
    "git submodule foreach 'git commit -n'",
    "git rm -r .vibe-gate",
    "git mv .vibe-gate/gate.toml x",
    "rm .git/hooks/pre-commit",
    "rm -rf .git/hooks",
    "rm -rf .git",
    "chmod -x .git/hooks/*",
    "chmod a-x .git/hook*/pre-commit",
    "mv .git/hooks/pre-commit /tmp",
    "ln -sf /bin/true .git/hooks/pre-commit",
    "cp /bin/true .git/hooks/pre-commit",
    "echo > .git/hooks/pre-commit",
    "cd .git/hooks && rm pre-commit",
    'rm "$(git rev-parse --git-dir)/hooks/pre-commit"',
    "rm $(git rev-parse --git-path hooks)/pre-commit",
    "echo '[core]' >> .git/config",
    "echo schema > .vibe-gate/gate.toml",
    "echo schema >> /r/.vibe-gate/gate.toml",
    "echo x | tee -a .vibe-gate/gate.toml",
    "sed -i s/a/b/ .vibe-gate/gate.toml",
    "sed -ni.bak s/a/b/ .vibe-gate/rubrics/quality.toml",
    "perl -pi -e s/a/b/ .vibe-gate/gate.toml",
    "cp /tmp/x .vibe-gate/gate.toml",
    "cp -t .vibe-gate /tmp/x",
    "dd if=/dev/null of=.vibe-gate/gate.toml",
    "truncate -s 0 .vibe-gate/gate.toml",
    "rm -rf .vibe*",
    "rm -rf ./sub/../.vibe-artifacts/",
    "touch .vibe-artifacts/x/y/summary.json",
    "rm -rf .git/vibe-gate/sessions",
    "find .vibe-gate -delete",
    "find . -path '.vibe-gate/*' -delete",
    "find .vibe-gate -name '*.toml' -exec sed -i s/a/b/ {} +",
    "alias g=git; g commit -n",
    "alias gc='git commit -n'\ngc -m x",
    "echo 'git commit -n' | sh",
    "printf 'git commit -n\\n' | bash -s",
    "cat <<EOF | sh\ngit commit -n\nEOF",
    "env -S 'git commit -n'",
    "su me -c 'git commit -n'",
    "script -qc 'git commit -n' /dev/null",
    "function f { git commit -n; }; f",
    "f() { git commit -n; }",
    "tar xf a.tar -C .vibe-gate",
    "[[ -f x ]] && git commit -n",
    "git commit -n 2>&1 | tail -3",
    'python gen.py > "$PWD/.vibe-gate/gate.toml"',
    "cmd=git; $cmd commit -n",
    "pre-commit uninstall",
    "vibe-gate uninstall git",
    "vibe-gate override abc --reason because",
]

ALLOWED = [
    "git commit -m x",
    "git commit -m -n",
    "git commit -m --no-verify",
    "git commit -mn",
    "git commit -F -n",
    "git commit --message --no-verify",
    "git commit -uno -m x",
    "git commit -Sn -m x",
    "git commit -m 'never use --no-verify'",
    "git commit -m x -- -n",
    "git commit -m \"$(cat <<'EOF'\nDon't use git commit -n\n\nEOF\n)\"",
    "git commit --verify -m x",
    "git commit --no-edit --amend",
    "git log -n 3",
    "git push -n",
    "git merge -n topic",
    "git cherry-pick -n abc",
    "git grep -n -- --no-verify",
    "git log --grep=--no-verify",
    "git config core.hooksPath",
    "git config --get core.hooksPath",
    "git config get core.hooksPath",
    "git config --list",
    "git config user.name x",
    "git config alias.st status",
    "git -c user.name=x commit -m y",
    "git update-ref -d refs/heads/old",
    "git update-ref refs/notes/ai abc",
    "git hash-object -w a.txt",
    "git rm a.txt",
    "git add .vibe-gate",
    "git restore .vibe-gate/gate.toml",
    "echo 'git commit -n'",
    'echo "rm .git/hooks/pre-commit"',
    "# git commit -n",
    "ls # git commit -n",
    "cat <<EOF\ngit commit -n\nEOF",
    "cat <<'EOF'\n$(git commit -n)\nEOF",
    "grep -rn -- --no-verify .",
    "cat .vibe-gate/gate.toml",
    "sed -n 1,5p .vibe-gate/gate.toml",
    "sed s/a/b/ .vibe-gate/gate.toml",
    "cp .vibe-gate/gate.toml /tmp",
    "grep x < .vibe-gate/gate.toml > out",
    "ls .git/hooks",
    "cat .git/config 2>/dev/null",
    "diff .vibe-gate/gate.toml a",
    "find .vibe-gate -name '*.toml'",
    "rm -rf build dist *.pyc",
    "rm .gitignore",
    "echo x >> .gitignore",
    "mkdir -p src/hooks && touch src/hooks/use_git.ts",
    "rm hooks/pre-commit.md",
    "vibe-gate review --staged",
    "vibe-gate bundles list",
    "pre-commit run --all-files",
    "SKIP=ruff git commit -m x",
    "cd sub && git status",
    "cd",
    "for f in *.git; do echo $f; done",
    "echo $((1 + 2)) && git status",
    "x=1; echo ${x}; git diff",
    "git diff | head -n 5",
    "python - <<'EOF'\nprint('git commit -n')\nEOF",
    "echo 'git commit -n' | cat",
    "echo 'git commit -n' | sh filter.sh",
    "echo { a }",
    "tar cf a.tar -C src .",
    "alias g=git; g status",
    "function f { git status; }; f",
    "test -f a && [ -n \"$x\" ] && git commit -m 'ok'",
    "",
]


@pytest.mark.parametrize("line", REFUSED)
def test_a_way_around_the_gate_is_refused(line):
    refusal = refused_command(line, "/r")
    assert refusal is not None
    assert refusal.startswith("vibe-gate: ")
    assert refusal.endswith(".")
    assert ";" in refusal  # what is wrong; what to do instead


@pytest.mark.parametrize("line", REFUSED)
def test_the_quick_look_overlooks_no_line_that_is_refused(line):
    assert guard.worth_a_look(event(command=line))


@pytest.mark.parametrize("line", ALLOWED)
def test_other_work_goes_through(line):
    assert refused_command(line, "/r") is None


@pytest.mark.parametrize(
    "line", ["git commit -m 'unclosed", 'git commit -m "unclosed', "echo $(git commit -n", "echo ${x", "cat <", "a `b"]
)
def test_a_line_that_cannot_be_read_is_said_to_be_so(line):
    with pytest.raises(Unreadable):
        refused_command(line, "/r")


def test_nesting_without_end_is_given_up():
    with pytest.raises((Unreadable, RecursionError)):
        refused_command("$(" * 5000 + ")" * 5000, "/r")
    with pytest.raises(Unreadable):
        refused_command("x" * 1_100_000, "/r")


@pytest.mark.parametrize(
    ("path", "refused"),
    [
        ("/r/.vibe-gate/gate.toml", True),
        (".vibe-gate/rubrics/a.toml", True),
        ("/r/.VIBE-GATE/gate.toml", True),
        ("src/../.vibe-gate/x", True),
        ("/r/.vibe-artifacts/a/b/summary.json", True),
        ("/r/.git/vibe-gate/verdicts/x.json", True),
        ("/r/.git/hooks/pre-commit", True),
        ("/r/.git/config", True),
        ("/r/.git/worktrees/w/config.worktree", True),
        ("/r/.git/modules/sub/hooks/pre-commit", True),
        ("/r/.git/COMMIT_EDITMSG", False),
        ("/r/src/hooks/useGit.ts", False),
        ("/r/vibe-gate/gate.toml", False),
        ("/r/.gitignore", False),
        ("/r/.github/workflows/ci.yml", False),
        ("/r/pages/[id].tsx", False),
    ],
)
def test_files_of_the_gate_are_refused_to_tools(path, refused):
    assert (refused_edit(path, "/r") is not None) is refused


def test_a_link_to_a_definition_is_seen_through(tmp_path):
    (tmp_path / ".git").mkdir()
    (tmp_path / ".vibe-gate").mkdir()
    (tmp_path / ".vibe-gate" / "gate.toml").touch()
    (tmp_path / "innocent").symlink_to(tmp_path / ".vibe-gate")
    assert refused_edit("innocent/gate.toml", str(tmp_path))


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("a b  c", [["a", "b", "c"]]),
        ("a 'b c' \"d e\" f\\ g", [["a", "b c", "d e", "f g"]]),
        ("a '' \"\"", [["a", "", ""]]),
        ("a=1 b", [["b"]]),
        ("a 2>&1 >out <in b", [["a", "b"]]),
        ("a;b&&c||d|e&f", [["a"], ["b"], ["c"], ["d"], ["e"], ["f"]]),
        ("a $x", [["a", UNKNOWN]]),
        ("x='1 2'; a $x \"$x\"", [[], ["a", "1", "2", "1 2"]]),
        ("a $(b c) d", [["b", "c"], ["a", UNKNOWN, "d"]]),
        ("a #b\nc", [["a"], ["c"]]),
        ("a b#c", [["a", "b#c"]]),
    ],
)
def test_a_line_is_read_as_a_shell_reads_it(line, words):
    assert [command.words for command in commands(line)] == words


def event(**asked: str) -> bytes:
    """A PreToolUse event as the CLI writes it."""
    tool = "Bash" if "command" in asked else "Write"
    document = {
        "session_id": "s1",
        "cwd": "/r",
        "hook_event_name": "PreToolUse",
        "tool_name": tool,
        "tool_input": asked,
    }
    return json.dumps(document, separators=(",", ":")).encode()


def guarded(data: bytes, where) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(BARE, input=data, cwd=where, capture_output=True)


def test_a_refusal_is_a_decision_in_the_form_that_claude_code_reads(tmp_path):
    done = guarded(event(command="git commit -n"), tmp_path)
    output = json.loads(done.stdout)["hookSpecificOutput"]
    assert (done.returncode, done.stderr) == (0, b"")
    assert (output["hookEventName"], output["permissionDecision"]) == ("PreToolUse", "deny")
    assert output["permissionDecisionReason"].startswith("vibe-gate: `git commit -n` skips the gate")


@pytest.mark.parametrize(
    "data",
    [
        event(command="git status"),
        event(command="ls"),
        event(file_path="/r/a.py", content="git commit --no-verify"),
        event(command="git commit -m 'unclosed"),
        b"",
        b"git",
        b'{"tool_input":"git"}',
        b'{"tool_name":"Bash","tool_input":{"git":1}}',
        b"[" * 100_000 + b"git",
        b"\xff\xfe git",
    ],
)
def test_everything_else_goes_through_in_silence(tmp_path, data):
    done = guarded(data, tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_what_cannot_be_read_is_noted_as_a_gap(tmp_path, environ):
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    guarded(event(command="git commit -m 'unclosed"), tmp_path)
    assert "guard: Unreadable: a quote is never closed" in (tmp_path / ".git/vibe-gate/sessions/gaps").read_text()


def test_an_ordinary_call_imports_nothing():
    done = subprocess.run([*BARE[:3], "-X", "importtime", BARE[3]], input=event(command="ls"), capture_output=True)
    imported = {line.rsplit("|")[-1].strip() for line in done.stderr.decode().splitlines()}
    assert not {"json", "re", "vibe_gate", "pathlib", "dataclasses"} & imported


@given(
    st.lists(
        st.text(st.characters(codec="utf-8", exclude_characters="\0\r\ufdd0\ufdd1\ufdd2\ufdd3"), max_size=12),
        min_size=1,
        max_size=6,
    )
)
def test_quoted_words_come_back_as_they_were(words):
    (command,) = commands("run " + shlex.join(words))
    assert command.words == ["run", *words]


LETTERS = "git commit -n'\"\\$(){}`;|&<>\n#= \t.vibe*/EOF,~[]!?\x00\x01\ufdd0é"
WORDS = ["git ", "commit ", "-n ", "cd ", "env -i ", "xargs ", "find . -exec ", "$(", ")", "`", "'", '"', "<<EOF\n",
         "\nEOF\n", "{a,b}", "${x:-", "}", "if ", "case ", "esac ", ";; ", "| sh", "&& ", ".vibe-gate ", "trap ",
         "sh -c ", "<(", "-C "]  # fmt: skip


@settings(max_examples=500, deadline=None)
@given(st.text(st.sampled_from(LETTERS), max_size=80))
def test_whatever_the_line_it_is_read_or_said_to_be_unreadable(line):
    with contextlib.suppress(Unreadable):
        refused_command(line, "/r")


@settings(max_examples=500, deadline=None)
@given(st.lists(st.sampled_from(WORDS), max_size=30).map("".join))
def test_whatever_the_words_they_are_read_or_said_to_be_unreadable(line):
    with contextlib.suppress(Unreadable):
        refused_command(line, "/r")


@pytest.mark.parametrize(
    "piece",
    [
        *("git ", "git '", "git ;", "git $x", "git | cat ", "git <<A\n", "a=b$a; ", "(", "$(", "${x:-", "\\g", "'g'"),
        *('"$x"', "{a,b}", "{a,b} ", "`a` ", "x=1 ", "rm .vibe* ", "cd a; ", "(cd a); ", "<(a) ", ">a ", "nice "),
        *("sh -c 'a'; ", "alias a=b; a; ", "find . -exec ", "env A=b ", "g[", "*?"),
    ],
)
def test_a_long_line_is_read_in_linear_time(piece):
    def read(line):
        with contextlib.suppress(Unreadable):
            refused_command(line, "/r")

    assert_linear(read, lambda size: piece * (size // len(piece)) + " git", 300_000)


@pytest.mark.parametrize(
    ("start", "piece", "end"),
    [
        ("cat <<'EOF' > notes\n", "git's (line\n", "EOF\n"),
        ("git commit -m '", "it is long ", "'"),
        ('git commit -m "', "it is long ", '"'),
    ],
    ids=["here-document", "quoted", "double quoted"],
)
def test_a_long_text_is_read_to_its_end_in_linear_time(start, piece, end):
    def read(line):
        assert refused_command(line, "/r") is None
        assert refused_command(line + "\ngit commit -n", "/r")

    assert_linear(read, lambda size: start + piece * (size // len(piece)) + end, 1_000_000)


def test_a_text_that_doubles_sixty_times_is_not_made():
    line = "a=xx; " + "a=$a$a; " * 60 + "git $a"
    assert refused_command(line, "/r") is None
    assert refused_command(line + "\ngit commit -n", "/r")


@pytest.mark.parametrize(
    "asked",
    [
        {"command": "ls"},
        {"command": "python -m pytest -q tests/test_a.py | tail -3"},
        {"command": "rm -rf build && make"},
        {"file_path": "/r/src/a.py", "content": "git commit --no-verify; rm -rf .vibe* `x` ${y}"},
        {"file_path": "/r/src/a.vue", "old_string": ".git/hooks", "new_string": "$(x)"},
    ],
)
def test_most_calls_are_not_worth_a_look(asked):
    assert not guard.worth_a_look(event(**asked))


def test_even_a_close_look_imports_no_more_than_it_needs():
    program = [*BARE[:3], "-X", "importtime", BARE[3]]
    done = subprocess.run(program, input=event(command="git status && rm -f a*"), capture_output=True)
    imported = {line.rsplit("|")[-1].strip() for line in done.stderr.decode().splitlines()}
    assert "vibe_gate.faces.claude_hook.rules" in imported
    assert not {"json", "re", "dataclasses", "fnmatch", "collections", "typing"} & imported
