"""Definitions: strict, told all at once, in plain words; `tests/gates/` holds one tree a case."""

from __future__ import annotations

import datetime
import re
import tomllib
from pathlib import Path
from typing import get_args

import pytest
import tomli_w
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from text_tree import FileTree, text_tree

from vibe_gate.domain import paths
from vibe_gate.domain.agent import Agent
from vibe_gate.domain.document import read
from vibe_gate.domain.gate import CounterexampleRule, Gate, GateFile, Hooks, McpServer
from vibe_gate.domain.rubric import Rubric
from vibe_gate.domain.tables import keys_of
from vibe_gate.domain.workflow import WorkflowFile
from vibe_gate.errors import DefinitionError
from vibe_gate.faces.cli.definitions import CHECKS_PATH, STARTERS
from vibe_gate.faces.cli.tools import OWN, TOOLS
from vibe_gate.gate.advice import find_warnings
from vibe_gate.gate.effective import effective_toml
from vibe_gate.gate.loading import (
    FolderFiles,
    built_in_gate,
    definition_files,
    find_mistakes,
    load_gate,
)
from vibe_gate.gate.source import DefinitionTree
from vibe_gate.gate.toml_lines import line_of

pytestmark = pytest.mark.every_python

ROOT = Path(__file__).parents[2]
CASES = sorted(path.name for path in (ROOT / "tests/gates").iterdir())
RUBRIC = (
    'schema = 1\nid = "quality"\n[[criterion]]\nid = "a"\nkind = "judge"\nquestion = "Is it?"\n'
)
AGENT = 'schema = 1\nid = "fixer"\ntools = ["Read", "Edit"]\n'
DEEP = "arrays or tables are nested too deeply, or a number has too many digits"
JARGON = (
    "pydantic",
    "http",
    "Input",
    "input_",
    "validat",
    "Literal",
    "NoneType",
    "dict",
    "tuple",
    "str ",
    "Traceback",
)


def mistakes(tree: DefinitionTree) -> list[str]:
    return [str(mistake) for mistake in find_mistakes(tree)]


def models(model: type = GateFile) -> set[type]:
    """A model and all models that its fields hold."""
    all_models = {model}
    pending: list[object] = list(keys_of(model).values())
    while pending:
        annotation = pending.pop()
        pending += get_args(annotation)
        if hasattr(annotation, "__struct_fields__"):
            all_models |= models(annotation)
    return all_models


def keys(model: type) -> list[str]:
    return list(keys_of(model))


@pytest.mark.parametrize("case", CASES)
def test_each_tree_has_exactly_the_mistakes_written_beside_it_in_plain_words(case: str) -> None:
    lines = mistakes(FolderFiles(ROOT / "tests/gates" / case))
    assert (
        "".join(f"{line}\n" for line in lines)
        == (ROOT / "tests/gates" / case / "mistakes.txt").read_text()
    )
    for line in lines:
        assert paths.is_plain(line)
        assert re.match(r'"?\.(vibe-gate|claude)/[^:]+:[1-9]\d*: ', line)
        assert not [word for word in JARGON if word in line]


def test_load_gate_raises_every_mistake_in_one_error() -> None:
    tree = FolderFiles(ROOT / "tests/gates/one-run")
    with pytest.raises(DefinitionError) as caught:
        load_gate(tree, revision="worktree", origin="trusted")
    assert caught.value.mistakes == mistakes(tree)
    assert len(caught.value.mistakes) >= 25


def test_a_right_tree_becomes_a_gate_with_the_digest_of_each_file() -> None:
    gate = load_gate(FolderFiles(ROOT / "tests/gates/right"), revision="abc", origin="bootstrap")
    assert gate is not None
    assert (gate.origin, gate.revision) == ("bootstrap", "abc")
    assert [rubric.id for rubric in gate.rubrics] == ["payments.v2", "quality"]
    assert gate.file.scope[0].paths == ("services/pay/**", "*.sql")
    assert [path for path, digest in gate.digests if len(digest) == 64] == [
        ".vibe-gate/agents/reviewer.toml",
        ".vibe-gate/gate.toml",
        ".vibe-gate/rubrics/payments.v2.toml",
        ".vibe-gate/rubrics/quality.toml",
        ".vibe-gate/workflows/fix.py",
    ]
    assert [agent.id for agent in gate.agents] == ["reviewer"]
    assert [(workflow.id, workflow.source) for workflow in gate.workflows] == [
        ("fix", b'raise SystemExit("never run")\n')
    ]


@pytest.mark.parametrize(
    ("files", "rubrics"),
    [
        ({"rubrics/quality.toml": RUBRIC}, ("quality",)),
        ({"gate.toml": "schema = 1\n"}, ()),
        ({}, None),
        ({"README.md": "Notes."}, None),
        ({"agents/fixer.toml": AGENT, "workflows/w.py": ""}, None),
    ],
)
def test_a_gate_file_or_a_rubric_makes_a_gate(
    files: dict[str, str | bytes], rubrics: tuple[str, ...] | None
) -> None:
    gate = load_gate(text_tree(files), revision="", origin="trusted")
    assert (gate.file.rubrics if gate else None) == rubrics


def test_a_rubric_behind_a_symbolic_link_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "elsewhere.toml").write_text(RUBRIC)
    (tmp_path / ".vibe-gate/rubrics").mkdir(parents=True)
    (tmp_path / ".vibe-gate/gate.toml").write_text('schema = 1\nrubrics = ["quality"]\n')
    (tmp_path / ".vibe-gate/rubrics/quality.toml").symlink_to(tmp_path / "elsewhere.toml")
    assert mistakes(FolderFiles(tmp_path)) == [
        ".vibe-gate/rubrics/quality.toml:1: symbolic links (and submodules) are not followed; put the file itself here",
        '.vibe-gate/gate.toml:2: rubrics[0]: no rubric "quality": there is no file .vibe-gate/rubrics/quality.toml '
        "(symbolic links are not followed); write it, or take the name out",
    ]


@pytest.mark.parametrize("linked", [".vibe-gate", ".vibe-gate/gate.toml"])
def test_a_link_in_the_gates_place_never_counts_as_no_gate(tmp_path: Path, linked: str) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / linked).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / linked).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(DefinitionError, match="symbolic links"):
        load_gate(FolderFiles(tmp_path), revision="", origin="trusted")


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        (
            "#" * 4_000 + ("\n" + "#" * 4_000) * 250,
            "1: 1,004,250 bytes; a definition may have at most 1,000,000",
        ),
        (
            "x = 1" + " " * 5_000,
            '1: over 5,000 characters; break it up (long text fits in """ quotes)',
        ),
        ("a." * 300 + "b = 1", f"1: {DEEP}"),
        ("a = " + "[\n" * 4_000, f"1: {DEEP}"),
        ("a = " + "1" * 4_900, f"1: {DEEP}"),
        ("schema = 1\nschema = 1\n", "2: not TOML: a key is set twice in one table (column 11)"),
        ("schema = 1\n\x1b[31m = 2\n", "2: not TOML: invalid statement (column 1)"),
        (b"schema = 1\n\n\xff", "3: not UTF-8 (byte 0xff); save the file as UTF-8"),
    ],
)
def test_a_file_that_cannot_be_read_says_why_and_where(text: str | bytes, mistake: str) -> None:
    assert mistakes(text_tree({"gate.toml": text})) == [f".vibe-gate/gate.toml:{mistake}"]


def test_a_byte_order_mark_and_windows_line_ends_are_no_mistake() -> None:
    assert (
        mistakes(
            text_tree(
                {"rubrics/quality.toml": b"\xef\xbb\xbf" + RUBRIC.replace("\n", "\r\n").encode()}
            )
        )
        == []
    )


def test_hostile_file_names_are_quoted_wherever_they_show() -> None:
    name = "paym\x1b[31ments"
    files = {f"rubrics/{name}.toml": RUBRIC, "gate.toml": 'schema = 1\nrubrics = ["payments"]\n'}
    lines = mistakes(text_tree({**files, "\u202emt.toml": "", f"{name}/x.toml": ""}))
    assert len(lines) == 4
    assert all(line.isprintable() for line in lines)


def test_the_line_of_a_key_is_found_past_strings_comments_and_arrays() -> None:
    d = ("b]", "c", "d")
    text = 'a = """\n[b] = 1\n"""\n["b]".c] # [d]\n"\\u0064" = [ # ]\n "[", 2,\n\n { e = 1 }]\n[[f]]\n[[f]]\ng.h=1'
    lines_by_location = {
        ("a",): 1,
        d: 5,
        (*d, 1): 6,
        (*d, 2, "e"): 8,
        ("f",): 9,
        ("f", 1, "g", "h"): 11,
        ("f", 1, "x"): 10,
    }
    assert {
        location: line_of(text, location) for location in lines_by_location
    } == lines_by_location


@pytest.mark.slow
def test_a_flood_of_mistakes_is_cut() -> None:
    flood = "schema = 1\n" + "".join(f"key{number} = 1\n" for number in range(20_000))
    lines = mistakes(text_tree({"gate.toml": flood}))
    assert len(lines) == 51
    assert lines[-1] == ".vibe-gate/gate.toml:51: and more mistakes like these"


def option(check: str, options: str) -> list[str]:
    text = f'schema = 1\nid = "q"\n[[criterion]]\nid = "a"\nkind = "check"\ncheck = "{check}"\noptions = {options}\n'
    start = ".vibe-gate/rubrics/q.toml:7: criterion[0].options"
    lines = mistakes(text_tree({"rubrics/q.toml": text}))
    assert all(line.startswith(start) for line in lines), lines
    return [line.removeprefix(start) for line in lines]


@pytest.mark.parametrize(
    ("check", "options", "expected"),
    [
        ("max-changed-lines", "{ max = 800 }", []),
        ("max-changed-lines", "{ max = -1 }", ['.max (id "a"): must be at least 0, not -1']),
        (
            "only-paths",
            "{ path = ['a'] }",
            ['.paths (id "a"): is missing', '.path (id "a"): unknown key; did you mean "paths"?'],
        ),
        (
            "only-paths",
            "{ paths = 'src/**' }",
            ['.paths (id "a"): must be an array, not "src/**"; write ["src/**"]'],
        ),
    ],
)
def test_options_of_a_check_are_as_strict_as_the_rest(
    check: str, options: str, expected: list[str]
) -> None:
    assert option(check, options) == expected


def test_a_regular_expression_that_does_not_compile_is_a_mistake() -> None:
    (mistake,) = option("forbidden-pattern", '{ pattern = "(" }')
    assert mistake.startswith('.pattern (id "a"): ')
    assert paths.is_plain(mistake)


def test_the_built_in_gate_is_read_by_the_same_reader_and_says_what_it_is() -> None:
    gate = built_in_gate(FileTree())
    assert (gate.origin, gate.revision) == ("built-in", "")
    assert {
        criterion.check
        for rubric in gate.rubrics
        for criterion in rubric.check_criteria
        if criterion.must
    } == {
        "no-secrets",
        "no-conflict-markers",
        "no-invisible-unicode",
        "no-escaping-symlinks",
    }
    assert all(path.startswith("built-in/") for path, _ in gate.digests)
    assert set(gate.file.rubrics) == {rubric.id for rubric in gate.rubrics}


def test_built_in_questions_come_with_an_example_of_each_kind_and_say_when_they_do_not_apply() -> (
    None
):
    questions = [
        criterion
        for rubric in built_in_gate(FileTree()).rubrics
        for criterion in rubric.judge_criteria
    ]
    assert len(questions) == 6
    for criterion in questions:
        assert criterion.good
        assert criterion.bad
        assert "Not applicable" in str(criterion.question)


@pytest.mark.parametrize("gate", [built_in_gate(FileTree()), None], ids=["built-in", "own"])
def test_the_effective_gate_parses_back_to_the_same_demands(gate: Gate | None) -> None:
    gate = gate or load_gate(
        FolderFiles(ROOT / "tests/gates/right"), revision="abc", origin="trusted"
    )
    assert gate is not None
    tables = tomllib.loads(effective_toml(gate))
    rubrics = tables.pop("rubric")
    hooks, agents, _ = tables.pop("hooks"), tables.pop("agents", {}), tables.pop("workflows", {})
    assert set(agents) == {agent.id for agent in gate.agents}
    assert read(GateFile, tables) == replace(gate.file, hooks=Hooks())
    assert set(hooks) == {"pre-commit", "pre-merge-commit", "pre-push", "commit-msg", "stop"}
    for rubric in gate.rubrics:
        second_result = read(Rubric, rubrics[rubric.id])
        assert second_result.model == gate.file.model.default
        assert [replace(c, options={}) for c in second_result.criterion] == [
            replace(c, options={}) for c in rubric.criterion
        ]


def test_the_effective_gate_gives_a_rubric_whose_models_take_turns_no_other() -> None:
    gate = built_in_gate(FileTree())
    turns = replace(gate.rubrics[0], models=("a", "b"))
    (effective_rubric,) = tomllib.loads(effective_toml(replace(gate, rubrics=(turns,))))[
        "rubric"
    ].values()
    assert read(Rubric, effective_rubric).models == ("a", "b")


def test_the_effective_gate_names_every_setting() -> None:
    text = effective_toml(built_in_gate(FileTree()))
    missing = [
        key
        for model in models()
        for key in keys(model)
        if not re.search(rf"(^|[\[.]){key}\b", text, re.M)
    ]
    unset = {
        "per_day_usd",
        "counterexample",
        "store",
        *keys(McpServer),
        *keys(CounterexampleRule),
    }  # TOML has no null
    assert set(missing) == unset - {"args"}
    assert "max_kb = 500" in text


def test_the_effective_gate_shows_nothing_invisible_and_means_the_same() -> None:
    question = "Is \x1b[31mthis\u202e \u2066hidden\U000e0041\u200b?"
    text = tomli_w.dumps(
        {"schema": 1, "id": "q", "criterion": [{"id": "a", "kind": "judge", "question": question}]},
    )
    gate = load_gate(text_tree({"rubrics/q.toml": text}), revision="worktree", origin="trusted")
    assert gate is not None
    effective = effective_toml(gate)
    assert all(paths.is_plain(line) for line in effective.split("\n"))
    assert tomllib.loads(effective)["rubric"]["q"]["criterion"][0]["question"] == question


def starter_tree(texts: dict[str, str]) -> FileTree:
    return text_tree({path.removeprefix(".vibe-gate/"): text for path, text in texts.items()})


def uncommented(text: str) -> str:
    """A starter with its commented examples switched on."""
    return re.sub(r'^# (?=\[|\w+ = |  "|\])', "", text, flags=re.M)


def test_starters_hold_no_mistake_and_all_of_the_built_in_gate() -> None:
    started = load_gate(starter_tree(STARTERS), revision="", origin="trusted")
    assert started is not None
    own_built = built_in_gate(FileTree())
    assert (started.rubrics, started.file.rubrics) == (own_built.rubrics, own_built.file.rubrics)


def test_the_commented_examples_in_starters_are_right_too() -> None:
    starters = STARTERS | {CHECKS_PATH: "\n\n".join((STARTERS[CHECKS_PATH], *TOOLS, OWN))}
    texts = {path: uncommented(text) for path, text in starters.items()}
    assert all(texts[path] != text for path, text in starters.items())
    texts[".vibe-gate/rubrics/payments.toml"] = RUBRIC.replace("quality", "payments")
    assert mistakes(starter_tree(texts)) == []


def test_defaults_shown_in_the_gate_starter_are_the_defaults() -> None:
    gate = tomllib.loads(uncommented(STARTERS[".vibe-gate/gate.toml"]))
    del (
        gate["scope"],
        gate["mcp"],
        gate["counterexample"],
        gate["store"],
        gate["budget"]["per_day_usd"],
    )
    gate_file = read(GateFile, gate)
    assert gate_file == read(GateFile, {"schema": 1, "rubrics": ["safety", "general"]})


def test_a_question_that_must_be_proven_where_no_test_is_run_is_an_oddity() -> None:
    rubric_text = 'schema = 1\nid = "q"\n[[criterion]]\nid = "a"\nkind = "judge"\nquestion = "Is it?"\nproof = "required"\n'
    gate = 'schema = 1\nrubrics = ["q"]\n'
    [odd] = find_warnings(text_tree({"gate.toml": gate, "rubrics/q.toml": rubric_text}), [])
    assert (odd.key, odd.message) == ("criterion[0].proof", "blocks nothing: no test is run")
    assert (
        find_warnings(
            text_tree({"gate.toml": f"{gate}[counterexample]\n", "rubrics/q.toml": rubric_text}), []
        )
        == []
    )


def test_starters_explain_every_key() -> None:
    texts = "".join((*STARTERS.values(), OWN))
    for model in models() | models(Rubric):
        assert [key for key in keys(model) if key not in texts] == []


@pytest.mark.parametrize(
    "example", sorted(path.parent.name for path in (ROOT / "examples").glob("*/.vibe-gate"))
)
def test_examples_hold_no_mistake(example: str) -> None:
    tree = FolderFiles(ROOT / "examples" / example)
    assert mistakes(tree) == []
    assert load_gate(tree, revision="", origin="trusted") is not None
    assert (ROOT / "examples" / example / "README.md").is_file()


scalars = (
    st.text(max_size=12)
    | st.booleans()
    | st.integers(-5, 5)
    | st.floats()
    | st.just(datetime.date(2026, 1, 2))
    | st.sampled_from(
        ["quality", "judge", "check", "no-secrets", "command", "src/**", "always", "warn"]
    )
)
MODELS = models() | models(Rubric) | models(Agent) | models(WorkflowFile)
KEY_NAMES = st.sampled_from(sorted({key for model in MODELS for key in keys(model)}))
tables = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(KEY_NAMES | st.text(max_size=8), inner, max_size=5)
    ),
    max_leaves=20,
)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(
    st.dictionaries(KEY_NAMES | st.text(max_size=8), tables, max_size=8),
    st.sampled_from(["gate.toml", "rubrics/quality.toml", "agents/a.toml", "workflows/w.toml"]),
)
def test_whatever_the_tables_say_it_is_a_gate_or_visible_mistakes(
    written: dict[str, object], path: str
) -> None:
    try:
        text = tomli_w.dumps(written)
    except (TypeError, ValueError, AttributeError):
        return
    tree = text_tree({"gate.toml": "schema = 1\n", path: text.encode("utf-8", "replace")})
    lines = mistakes(tree)
    for source in definition_files(tree):
        for key in source.tables:
            assert 1 <= line_of(source.text, (key,)) <= source.text.count("\n") + 1
    assert all(paths.is_plain(line) and len(line) < 600 for line in lines)
    assert lines or load_gate(tree, revision="", origin="trusted") is not None


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=60))
def test_whatever_the_bytes_are_it_is_a_gate_or_visible_mistakes(raw: bytes) -> None:
    lines = mistakes(text_tree({"gate.toml": b"schema = 1\n" + raw}))
    assert all(paths.is_plain(line) for line in lines)


def test_the_address_of_a_shared_store_is_a_bucket_or_an_absolute_folder_and_has_no_credentials() -> (
    None
):
    def flaw_of(url: str) -> str:
        wrong = mistakes(
            text_tree(
                {
                    "gate.toml": f"schema = 1\n[store]\nurl = {url!r}\n",
                    "rubrics/quality.toml": RUBRIC,
                }
            )
        )
        return wrong[0] if wrong else ""

    sound_urls = (
        "s3://b",
        "s3://b/p/q",
        "gs://b",
        "az://c/p",
        "abfss://c@a.dfs.core.windows.net/p",
        "file:///srv/team",
    )
    assert [flaw_of(url) for url in sound_urls] == [""] * len(sound_urls)
    elsewhere = (
        "http://x/y",
        "https://s3.amazonaws.com/b",
        "s3:b",
        "s3://",
        "file://host/x",
        "file://",
        "/srv",
        "memory:///",
    )
    assert all(
        "url must begin with one of s3://, gs://, az://, abfss://, file://" in flaw_of(url)
        for url in elsewhere
    )
    loose = "s3://b?versionId=1", "s3://b/#x", "s3://b/%2e%2e/x", "s3://b/a b", "s3://b/\u202ex"
    assert all(
        "url must have no blanks, escapes, query or fragment" in flaw_of(url) for url in loose
    )
    assert all(
        "url must have no user and no .. in it" in flaw_of(url)
        for url in ("s3://id:key@b/p", "file:///srv/../etc")
    )


def test_this_project_asks_of_itself_what_the_built_in_gate_asks():
    own_text = (ROOT / ".vibe-gate" / "rubrics" / "general.toml").read_text()
    assert own_text == (ROOT / "vibe_gate/gate/built_in/rubrics/general.toml").read_text()
