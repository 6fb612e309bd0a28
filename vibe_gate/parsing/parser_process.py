"""The parser, in a process of its own: what a file defines, imports and names, by line.

A grammar can need time and memory that grow with the square of a hostile text's length, and nothing
in the same process can stop it: 100 KB of `a<` in Java take tens of gigabytes. So this runs apart,
under limits, without the environment, by its path; it imports nothing of vibe_gate.
Argument: the seconds of processor after which no other file is begun. Standard input: a JSON array
of objects with `language` and `text`. Standard output: for each, an object with `seconds` of
processor used until then and the `outline`.
"""

from __future__ import annotations

import json
import re
import resource
import sys
import time
from typing import Any, NamedTuple

from ast_grep_py import SgNode, SgRoot

MAX_MEMORY = 1 << 30
"""Bytes of the process: a file of 400 KB needs 100 MB."""

MAX_FILE_S = 3
"""Seconds of processor for one file: one of 400 KB needs half of one."""

MAX_NODES = 400_000
"""Nodes of one file that are looked at; one with more has no outline."""

MAX_IMPORT_TEXT = 160
"""Characters of an import that are kept."""

MAX_STRING = 40
"""Characters of a string that may be a key or an option."""

FUNCTION, TYPE, VALUE = "function", "type", "value"

ROLES = {
    # Python
    "function_definition": FUNCTION,  # C, C++, PHP, Scala and bash, too
    "class_definition": TYPE,  # Scala, too
    # JavaScript and TypeScript
    "function_declaration": FUNCTION,  # Go, Kotlin, Swift and Lua, too
    "generator_function_declaration": FUNCTION,
    "method_definition": FUNCTION,
    "function_signature": FUNCTION,
    "class_declaration": TYPE,  # Java, C#, PHP, Kotlin and Swift, too
    "abstract_class_declaration": TYPE,
    "interface_declaration": TYPE,
    "enum_declaration": TYPE,
    "type_alias_declaration": TYPE,
    "internal_module": TYPE,
    # Go
    "method_declaration": FUNCTION,  # Java, C# and PHP, too
    "type_spec": TYPE,
    "const_spec": VALUE,
    "var_spec": VALUE,
    # Rust
    "function_item": FUNCTION,
    "function_signature_item": FUNCTION,
    "macro_definition": FUNCTION,
    "struct_item": TYPE,
    "enum_item": TYPE,
    "union_item": TYPE,
    "trait_item": TYPE,
    "impl_item": TYPE,
    "mod_item": TYPE,
    "const_item": VALUE,
    "static_item": VALUE,
    # Java and C#
    "constructor_declaration": FUNCTION,
    "compact_constructor_declaration": FUNCTION,
    "local_function_statement": FUNCTION,
    "record_declaration": TYPE,
    "annotation_type_declaration": TYPE,
    "struct_declaration": TYPE,
    "namespace_declaration": TYPE,
    # C and C++
    "struct_specifier": TYPE,
    "class_specifier": TYPE,
    "union_specifier": TYPE,
    "enum_specifier": TYPE,
    "namespace_definition": TYPE,
    "preproc_def": VALUE,
    "preproc_function_def": FUNCTION,
    # Ruby
    "method": FUNCTION,
    "singleton_method": FUNCTION,
    "class": TYPE,
    "module": TYPE,
    # PHP, Kotlin, Scala, Swift
    "trait_declaration": TYPE,
    "object_declaration": TYPE,
    "object_definition": TYPE,
    "trait_definition": TYPE,
    "protocol_declaration": TYPE,
    "init_declaration": FUNCTION,
    "secondary_constructor": FUNCTION,
    # What has a value, and is a function if the value is: see `_OutlineWriter._role`
    "assignment": VALUE,
    "assignment_expression": VALUE,
    "variable_declarator": VALUE,
    "pair": VALUE,
    "field_definition": VALUE,
    "public_field_definition": VALUE,
}
"""What a node defines, by its kind in the grammars of all languages."""

FUNCTION_VALUES = frozenset(
    {"arrow_function", "function_expression", "function", "generator_function", "lambda"}
)
ANONYMOUS = frozenset({"arrow_function", "function_expression", "func_literal", "do_block"})
"""Functions that are arguments: a test of JavaScript is one. They have a range and no name."""

STATEMENTS = frozenset(
    {
        "decorated_definition",
        "export_statement",
        "lexical_declaration",
        "variable_declaration",
        "expression_statement",
        "template_declaration",
        "type_declaration",
    }
)
"""What stands around a definition and belongs to it."""

IMPORTS = frozenset(
    {
        "import_statement",
        "import_from_statement",
        "future_import_statement",
        "import_spec",
        "use_declaration",
        "extern_crate_declaration",
        "import_declaration",
        "preproc_include",
        "namespace_use_declaration",
        "using_directive",
        "using_declaration",
        "import_header",
        "import",
    }
)
_REQUIRE = re.compile(r"\brequire(?:_relative)?\b")
_REQUIRING = frozenset({"lexical_declaration", "variable_declaration", "call"})

NAMES = frozenset(
    {
        "constant",
        "name",
        "word",
        "variable_name",
        "instance_variable",
        "class_variable",
        "global_variable",
        "dotted_name",
    }
)
"""Kinds of names beside those that end with `identifier`."""

_NAME_FIELDS = ("name", "declarator", "left", "key", "property", "type")
_BRACKET = re.compile(r"[(<\[]")
_WORD = re.compile(r"[@$#]{0,2}[A-Za-z_]\w*[?!]?\Z")


def outline(language: str, text: str) -> dict[str, Any] | None:
    """What stands in the text, with lines from 1; None if it has too many nodes."""
    file_outline = _OutlineWriter()
    waiting = [(SgRoot(text, language).root(), _Around())]
    nodes_seen = 0
    while waiting:  # no recursion: hostile text nests deeper than Python's stack
        node, around = waiting.pop()
        nodes_seen += 1
        if nodes_seen > MAX_NODES:
            return None
        children = node.children()
        if not children:
            file_outline.add_leaf(node, around)
            continue
        inside = file_outline.add_node(node, around)
        waiting += [(child, inside) for child in reversed(children)]
    return file_outline.document()


class _Around(NamedTuple):
    """Of what a node is a part."""

    is_import: bool = False
    is_function: bool = False
    is_named: bool = False
    """Whether a function that stands here has the name of what it is assigned to."""
    statement: SgNode | None = None
    """The decorators, `export` or `const` around a definition."""


class _OutlineWriter:
    """Collects what is found in one file."""

    def __init__(self) -> None:
        self._definitions: list[dict[str, Any]] = []
        self._imports: list[dict[str, Any]] = []
        self._names: dict[str, list[int]] = {}
        self._strings: dict[str, list[int]] = {}

    def document(self) -> dict[str, Any]:
        """The row of the file."""
        return {
            "definitions": self._definitions,
            "imports": self._imports,
            "names": self._names,
            "strings": self._strings,
        }

    def add_leaf(self, node: SgNode, around: _Around) -> None:
        """Note a name or a string."""
        if not node.is_named():
            return
        kind = node.kind()
        if kind.endswith("identifier") or kind in NAMES:
            name = node.text()
            if around.is_import:
                if self._imports:
                    self._imports[-1]["names"].append(name)
                return
            lines = self._names.setdefault(name, [])
        elif "string" in kind or "symbol" in kind:
            text = node.text().strip("\"'`:")
            if around.is_import or not 1 < len(text) <= MAX_STRING or " " in text or "\n" in text:
                return
            lines = self._strings.setdefault(text, [])
        else:
            return
        line = node.range().start.line + 1
        if not lines or lines[-1] != line:
            lines.append(line)

    def add_node(self, node: SgNode, around: _Around) -> _Around:
        """Note a definition or an import; what its parts are parts of."""
        kind = node.kind()
        if kind in IMPORTS or (kind in _REQUIRING and _requires(node)):
            self._add_import(node)
            return _Around(is_import=True)
        if kind in ANONYMOUS:
            if not around.is_named:
                self._add(node, node, "", FUNCTION)
            return _Around(is_function=True)
        role = self._role(node, kind)
        if role and not (role == VALUE and (around.is_function or around.is_import)):
            self._add_definition(node, around.statement or node, role)
        statement = (around.statement or node) if kind in STATEMENTS else None
        is_function = around.is_function or role == FUNCTION
        return _Around(around.is_import, is_function, role == FUNCTION, statement)

    def _add_import(self, node: SgNode) -> None:
        if any(child.kind().startswith("import_spec") for child in node.children()):
            return  # each of Go's comes by itself
        place = node.range()
        text = " ".join(node.text().split())[:MAX_IMPORT_TEXT]
        row = {"first": place.start.line + 1, "last": _last_line(node), "text": text, "names": []}
        self._imports.append(row)

    def _role(self, node: SgNode, kind: str) -> str:
        """What the node defines, or ""."""
        role = ROLES.get(kind, "")
        if role == VALUE:
            value_node = _value_of(node)
            if value_node is not None and value_node.kind() in FUNCTION_VALUES:
                return FUNCTION
            if kind in ("pair", "assignment_expression"):
                return ""
        if kind.endswith("_specifier") and node.field("body") is None:
            return ""  # a type of C that is used, not defined
        return role

    def _add_definition(self, node: SgNode, statement: SgNode, role: str) -> None:
        name = _defined_name(node)
        if name:
            self._add(node, statement, name, role)

    def _add(self, node: SgNode, statement: SgNode, name: str, role: str) -> None:
        function = (_value_of(node) if role == FUNCTION else None) or node
        first = statement.range().start.line + 1
        last = max(_last_line(node), first)
        body = function.field("body") or node.field("body")
        body_line = body.range().start.line + 1 if body is not None else last
        parameters: list[str] = []
        if role == FUNCTION:
            parameters = _parameters(function) or _parameters(node)
        self._definitions.append(
            {
                "name": name,
                "role": role,
                "first": first,
                "last": last,
                "line": node.range().start.line + 1,
                "body": body_line,
                "parameters": parameters,
            }
        )


def _value_of(node: SgNode) -> SgNode | None:
    return node.field("value") or node.field("right")


def _requires(node: SgNode) -> bool:
    """Whether a declaration of JavaScript or a call of Ruby loads a module."""
    if node.kind() != "call":
        beginning = node.text()[:200]
        return _REQUIRE.search(beginning) is not None and "=>" not in beginning
    method = node.field("method")
    return method is not None and _REQUIRE.fullmatch(method.text()) is not None


def _last_line(node: SgNode) -> int:
    """The last line that has text of the node."""
    end = node.range().end
    if end.column:
        return end.line + 1
    return max(end.line, node.range().start.line + 1)


def _defined_name(node: SgNode) -> str:
    for field in _NAME_FIELDS:
        name_node = node.field(field)
        if name_node is None:
            continue
        while name_node.field("declarator") is not None:  # C: pointers, parameters around the name
            name_node = name_node.field("declarator") or name_node
        return _last_word(name_node)
    for child in node.named_children():
        if child.kind().endswith("identifier"):
            return _last_word(child)
    return ""


def _last_word(node: SgNode) -> str:
    """`Shop::pay`, `app.pay` and `*pay` are called pay."""
    text = _BRACKET.split(node.text()[:200], maxsplit=1)[0]
    word = re.split(r"[.:*&\s]+", text.strip())[-1].strip("\"'`")
    return word if _WORD.match(word) else ""


def _parameters(function: SgNode) -> list[str]:
    """The names of the parameters: the first name of each, and none of a default's."""
    holder = function.field("parameters")
    declarator = function.field("declarator")
    while holder is None and declarator is not None:  # C: below what it returns, a pointer, say
        holder = declarator.field("parameters")
        declarator = declarator.field("declarator")
    if holder is None:
        return []
    names = []
    for parameter in holder.named_children():
        name = _parameter_name(parameter)
        if name and name not in ("self", "cls"):
            names.append(name)
    return names


def _parameter_name(parameter: SgNode) -> str:
    if "comment" in parameter.kind():
        return ""
    for field in ("name", "pattern", "left", "declarator"):
        name_node = parameter.field(field)
        if name_node is not None:
            return _last_word(name_node)
    if not parameter.children():
        return _last_word(parameter)
    for child in parameter.named_children():
        if child.kind().endswith("identifier"):
            return _last_word(child)
    return ""


def _allow_seconds(seconds: int) -> None:
    """End this process if it uses so many more seconds of processor."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    hard_limit = resource.getrlimit(resource.RLIMIT_CPU)[1]
    soft_limit = int(usage.ru_utime + usage.ru_stime) + 1 + seconds
    if hard_limit != resource.RLIM_INFINITY:
        soft_limit = min(soft_limit, hard_limit)
    resource.setrlimit(resource.RLIMIT_CPU, (soft_limit, hard_limit))


def main() -> None:
    """Write a row for each file of standard input."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":  # other systems do not hold to it
        resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY, MAX_MEMORY))
    seconds_allowed = float(sys.argv[1])
    for source in json.loads(sys.stdin.buffer.read()):
        if time.process_time() >= seconds_allowed:
            break
        _allow_seconds(MAX_FILE_S)
        try:
            file_outline = outline(source["language"], source["text"])
        except (RuntimeError, ValueError, MemoryError):
            file_outline = None
        row = {"seconds": time.process_time(), "outline": file_outline}
        sys.stdout.buffer.write(json.dumps(row).encode() + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
