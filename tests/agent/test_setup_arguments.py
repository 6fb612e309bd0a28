"""Arguments of commands and skills, by their text alone; what Claude Code makes of them is in
tests/run/test_project_setup.py.
"""

from __future__ import annotations

import pytest

from vibe_gate.agent.setup_home import part_of_outer_path

HONEST = [
    "src/ledger.py",
    "./src/ledger.py: load fails if the file is not there (issue #41), and/or is empty...",
    "app/[id]/page.tsx src/**/*.py größe/x.py HEAD~2..HEAD 'a b/c.txt'",
    "see https://example.com/issues/41, by a.person@example.com",
    "GET /zz-no-folder/users answers 500 after ~5 s and costs $5: <b>1</zz-no-tag>",
    "",
]
REFUSED = {
    "@": ["@src/a.py", "a,@x", '"@"x', "\u200b@x", "ー@x"],
    "/": [
        *("/etc/passwd", "a /etc", "'/etc'", "x=/etc", "()/etc", "a\\/etc", "https:///etc"),
        *(
            "/ETC/passwd",
            '/e"t"c',
            "/\u200betc",
            "/./etc",
            "//etc",
            "/",
            "/etc;x",
            "/etc#L1",
            "/zz-no-folder/x /etc/passwd",
        ),
    ],
    "~": ["~", "a ~/x", '"~/x"', "x:~root/x"],
    "..": ["..", "../x", "a/../x", '"."./x', ".\\./x", ".\u200b./x", "a/\u2025", "..#L1"],
    "$": ["$HOME", "a/$X", "\uff04HOME"],
    "control": ["a\x00b", "\x1b"],
}


@pytest.mark.parametrize("arguments", HONEST)
def test_honest_arguments_pass(arguments):
    assert part_of_outer_path(arguments) == ""
    assert part_of_outer_path(arguments, with_references=True) == ""


@pytest.mark.parametrize("sign", REFUSED)
def test_what_could_lead_outside_is_named(sign):
    for arguments in REFUSED[sign]:
        assert sign in part_of_outer_path(arguments), arguments


@pytest.mark.parametrize(
    ("arguments", "is_refused"),
    [
        ("@src/a.py", False),
        ("look (at\n@src/a.py#L1-3, and @README.md)", False),
        ("@.github/workflows/ci.yml: red", False),
        ("@../a.py", True),
        ("@src/../../a.py", True),
        ("@/etc/passwd", True),
        ("@src/a.py/@/etc/passwd", True),
        ('@"src/a.py"', True),
        ("x;@src/a.py", True),
        ("@docs:file", True),
    ],
)
def test_a_reference_is_a_plain_path_below_the_clone(arguments, is_refused):
    assert bool(part_of_outer_path(arguments, with_references=True)) == is_refused
