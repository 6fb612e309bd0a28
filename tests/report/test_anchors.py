"""Where a comment may stand: at lines of the patch's hunks, and nowhere where that is not
certain.
"""

from __future__ import annotations

import subprocess

import pytest

from vibe_gate.domain import paths
from vibe_gate.report.anchors import read_anchors

PATCH = b"""\
diff --git a/src/a.py b/src/a.py
index 1..2 100644
--- a/src/a.py
+++ b/src/a.py
@@ -1,4 +1,5 @@
 one
-two
+2
+2b
 three
 four
@@ -20,3 +21,2 @@ def f():
 x
-y
 z
diff --git a/gone.py b/gone.py
deleted file mode 100644
--- a/gone.py
+++ /dev/null
@@ -1,2 +0,0 @@
-a
-b
diff --git a/old name.py b/new name.py
similarity index 90%
rename from old name.py
rename to new name.py
--- a/old name.py\t
+++ b/new name.py\t
@@ -1 +1 @@
-a
+b
\\ No newline at end of file
"""


@pytest.mark.parametrize(
    ("path", "start", "end", "side", "holds"),
    [
        ("src/a.py", 1, 1, "RIGHT", True),
        ("src/a.py", 6, 6, "RIGHT", False),
        ("src/a.py", 1, 5, "RIGHT", True),
        ("src/a.py", 5, 21, "RIGHT", False),  # two hunks
        ("src/a.py", 4, 3, "RIGHT", False),
        ("src/a.py", 2, 2, "LEFT", True),
        ("src/a.py", 23, 23, "LEFT", False),
        ("gone.py", 1, 2, "LEFT", True),
        ("new name.py", 1, 1, "RIGHT", True),
        ("new name.py", 1, 1, "LEFT", True),
        ("old name.py", 1, 1, "LEFT", False),
        ("src/a.py", 1, 10**9, "RIGHT", False),
    ],
)
def test_a_comment_may_stand_at_the_lines_of_one_hunk(path, start, end, side, holds):
    assert read_anchors(PATCH).holds(path, start, end, side) is holds


def test_added_lines_are_known():
    anchors = read_anchors(PATCH)
    assert [anchors.touches("src/a.py", line, line) for line in (1, 2, 3, 4)] == [
        False,
        True,
        True,
        False,
    ]
    assert anchors.touches("src/a.py", 1, 2)
    assert anchors.touches("src/a.py", 1, 10**9)
    assert anchors.names("gone.py")
    assert not anchors.names("other.py")


@pytest.mark.parametrize(
    "hunk",
    [
        b"@@ -1,4 +1,5 @@\n one\n+2\n",  # lines are missing: redaction made one of several
        b"@@ -1 +1,2 @@\n-a\n+b\n+c\n+d\n",
        b"@@ -1,99999999999 +1 @@\n-a\n+b\n",
    ],
)
def test_a_hunk_that_does_not_add_up_has_no_anchors(hunk):
    anchors = read_anchors(b"diff --git a/f b/f\n--- a/f\n+++ b/f\n" + hunk)
    assert not any(
        anchors.holds("f", line, line, side) for line in range(6) for side in ("LEFT", "RIGHT")
    )


def test_lines_that_look_like_headers_are_lines():
    body = b"--- a/other\n+++ b/other\n@@ -1 +1 @@\ndiff --git a/x b/x".split(b"\n")
    hunk = b"@@ -0,0 +1,4 @@\n" + b"".join(b"+" + line + b"\n" for line in body)
    anchors = read_anchors(b"diff --git a/f b/f\n--- /dev/null\n+++ b/f\n" + hunk)
    assert anchors.holds("f", 1, 4)
    assert anchors.touches("f", 1, 1)
    assert not anchors.names("other")


@pytest.mark.parametrize(
    "name", ["a b.py", 'quo"te.py', "é.py", "tab\there", "new\nline", "b/b", "back\\slash"]
)
def test_names_are_read_as_git_writes_them(tmp_path, name):
    def git(*words):
        return subprocess.run(
            ["git", "-C", str(tmp_path), *words], check=True, capture_output=True
        ).stdout

    git("init", "-q")
    file = tmp_path / name
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(b"one\ntwo\n")
    git("add", ".")
    anchors = read_anchors(git("diff", "--cached"))
    assert anchors.holds(paths.quote(name), 1, 2)
    assert anchors.touches(paths.quote(name), 2, 2)
