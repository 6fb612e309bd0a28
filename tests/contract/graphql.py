"""GitHub's GraphQL, as much of it as is used: its documented types, and a reader that holds queries
to them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

Json = Any

SCHEMA = """
type Query { viewer: User!  repository(owner: String!, name: String!, followRenames: Boolean): Repository }
type User { login: String! }
type Repository { nameWithOwner: String!  pullRequest(number: Int!): PullRequest }
type PullRequest {
  reviewThreads(after: String, before: String, first: Int, last: Int): PullRequestReviewThreadConnection!
  closingIssuesReferences(after: String, before: String, first: Int, last: Int): IssueConnection
}
type IssueConnection { nodes: [Issue]  totalCount: Int! }
type Issue { number: Int!  title: String!  body: String!  repository: Repository! }
type PullRequestReviewThreadConnection { nodes: [PullRequestReviewThread]  pageInfo: PageInfo!  totalCount: Int! }
type PageInfo { endCursor: String  hasNextPage: Boolean!  hasPreviousPage: Boolean!  startCursor: String }
type PullRequestReviewThread {
  id: ID!  isResolved: Boolean!  isOutdated: Boolean!  path: String!
  comments(after: String, before: String, first: Int, last: Int): PullRequestReviewCommentConnection!
}
type PullRequestReviewCommentConnection { nodes: [PullRequestReviewComment]  pageInfo: PageInfo!  totalCount: Int! }
type PullRequestReviewComment { id: ID!  databaseId: Int  body: String! }
type Mutation {
  resolveReviewThread(input: ResolveReviewThreadInput!): ResolveReviewThreadPayload
  unresolveReviewThread(input: UnresolveReviewThreadInput!): UnresolveReviewThreadPayload
}
type ResolveReviewThreadInput { clientMutationId: String  threadId: ID! }
type ResolveReviewThreadPayload { clientMutationId: String  thread: PullRequestReviewThread }
type UnresolveReviewThreadInput { clientMutationId: String  threadId: ID! }
type UnresolveReviewThreadPayload { clientMutationId: String  thread: PullRequestReviewThread }
"""
"""After https://docs.github.com/en/graphql/reference; an input is written as a type here."""

_TOKEN = re.compile(r'\s*(?:([{}()\[\]:,!=$])|("[^"]*")|([A-Za-z_0-9]+))')


class Field(NamedTuple):
    """A field of a type: its arguments' types, and its own."""

    arguments: dict[str, str]
    type: str


def _types(text: str) -> dict[str, dict[str, Field]]:
    types = {}
    for name, body in re.findall(r"type (\w+) \{(.*?)\}", text, re.S):
        fields = re.findall(r"(\w+)(?:\(([^)]*)\))?: (\[?\w+\]?!?)", body)
        types[name] = {
            field: Field(dict(re.findall(r"(\w+): (\w+!?)", arguments)), kind)
            for field, arguments, kind in fields
        }
    return types


TYPES = _types(SCHEMA)
_SCALARS = {"String": str, "ID": str, "Int": int, "Boolean": bool}


class Unfit(Exception):
    """The query, or its variables, do not fit the schema."""


class Selection(NamedTuple):
    """A field that is asked for."""

    name: str
    arguments: Json
    selections: list[Selection]


def answer(query: str, variables: Mapping[str, Json], roots: Mapping[str, Json]) -> Json:
    """The data for a query. `roots`: what "Query" and "Mutation" resolve to; callables take
    arguments. Unfit.
    """
    kind, selections = _Reader(query, variables).operation()
    return _resolve(kind, roots[kind], selections)


def _resolve(kind: str, value: Json, selections: list[Selection]) -> Json:
    data = {}
    for name, arguments, inner in selections:
        field = TYPES[kind].get(name)
        if field is None:
            raise Unfit(f"Field '{name}' doesn't exist on type '{kind}'")
        _check(field.arguments, arguments, f"{kind}.{name}")
        of = field.type.strip("[]!")
        if (of in TYPES) != bool(inner):
            raise Unfit(f"Field '{name}' of type '{field.type}' has the wrong selection")
        result = value[name](**arguments) if callable(value[name]) else value[name]
        if of in TYPES and result is not None:
            result = (
                [_resolve(of, element, inner) for element in result]
                if isinstance(result, list)
                else _resolve(of, result, inner)
            )
        data[name] = result
    return data


def _check(types: Mapping[str, str], values: Mapping[str, Json], place: str) -> None:
    """Raise Unfit where arguments, or the fields of an input, do not fit their types."""
    missing = [
        name for name, kind in types.items() if kind.endswith("!") and values.get(name) is None
    ]
    if missing or set(values) - set(types):
        raise Unfit(f"{place} takes {types}, not {values}")
    if place.endswith(("Threads", ".comments")) and not {"first", "last"} & set(values):
        raise Unfit(f"You must provide a `first` or `last` value to properly paginate `{place}`")
    for name, value in values.items():
        kind = types[name].rstrip("!")
        if kind in TYPES:
            _check(
                {field: definition.type for field, definition in TYPES[kind].items()}, value, kind
            )
        elif value is not None and type(value) is not _SCALARS[kind]:
            raise Unfit(f"{place}: {name} is no {kind}: {value!r}")


class _Reader:
    def __init__(self, query: str, variables: Mapping[str, Json]) -> None:
        self._tokens = ["".join(groups) for groups in _TOKEN.findall(query)]
        self._variables = variables

    def operation(self) -> tuple[str, list[Selection]]:
        kind = "Query"
        if self._tokens[0] != "{":
            kind = {"query": "Query", "mutation": "Mutation"}[self._take()]
        if self._tokens[0] == "(":
            declared = dict(self._declared())
            if set(declared) != set(self._variables) | {
                n for n, t in declared.items() if not t.endswith("!")
            }:
                raise Unfit(f"declared {declared}, given {dict(self._variables)}")
        selections = self._selections()
        if self._tokens:
            raise Unfit(f"Parse error at {self._tokens[0]}")
        return kind, selections

    def _declared(self) -> Iterator[tuple[str, str]]:
        self._take("(")
        while self._tokens[0] != ")":
            self._take("$")
            name = self._take()
            self._take(":")
            kind = self._take()
            required = self._tokens[0] == "!" and self._take()
            yield name, kind + (required or "")
            _ = self._tokens[0] == "," and self._take()
        self._take(")")

    def _selections(self) -> list[Selection]:
        selections = []
        self._take("{")
        while self._tokens[0] != "}":
            name = self._take()
            arguments = self._arguments("(", ")") if self._tokens[0] == "(" else {}
            selections.append(
                Selection(name, arguments, self._selections() if self._tokens[0] == "{" else [])
            )
        self._take("}")
        return selections

    def _arguments(self, begin: str, end: str) -> dict[str, Json]:
        arguments = {}
        self._take(begin)
        while self._tokens[0] != end:
            name = self._take()
            self._take(":")
            arguments[name] = self._value()
            _ = self._tokens[0] == "," and self._take()
        self._take(end)
        return arguments

    def _value(self) -> Json:
        if self._tokens[0] == "{":
            return self._arguments("{", "}")
        token = self._take()
        if token == "$":
            return self._variables.get(self._take())
        return token.strip('"') if token.startswith('"') else int(token)

    def _take(self, expected: str = "") -> str:
        if not self._tokens or (expected and self._tokens[0] != expected):
            raise Unfit(f"Parse error: {expected or 'more'} expected at {self._tokens[:1]}")
        return self._tokens.pop(0)
