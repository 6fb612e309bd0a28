"""GitHub's published description of its REST API: what a request and a response may look like.

`Description.flaws_of_request` and `flaws_of_response` say what is wrong, in sentences;
`filled` makes a value with every field that a schema requires. Fields, query
parameters and bodies that the description does not know are flaws too.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from openapi_core import Config, OpenAPI
from openapi_core.testing import MockRequest, MockResponse
from openapi_core.validation.request import (
    V30RequestBodyValidator,
    V30RequestParametersValidator,
)

Json = Any

HOST = "https://api.github.com"

_FILE = Path(__file__).parent / "github-rest-trimmed.openapi.json"

_SENT_AS_NULL = {
    "pull-request-review-comment": (
        "user",
        "line",
        "position",
        "original_position",
        "original_line",
    ),
    "pull-request": ("user",),
}
"""What GitHub sends as null (accounts that are gone, outdated comments) though its description does
not say so.
"""

_ONLY_IN_FULL = ("additions", "deletions", "changed_files", "commits", "comments", "review_comments", "mergeable",
                 "mergeable_state", "merged", "merged_by", "rebaseable", "maintainer_can_modify")  # fmt: skip
"""What a pull request has only where it is asked for alone."""


def _parameter(name: str, kind: str = "string") -> Json:
    return {"name": name, "in": "path", "required": True, "schema": {"type": kind}}


def _answers(schema: Json) -> Json:
    return {"description": "200", "content": {"application/json": {"schema": schema}}}


_REPOSITORY = [{"$ref": "#/components/parameters/owner"}, {"$ref": "#/components/parameters/repo"}]
_PAGES = [{"$ref": "#/components/parameters/per-page"}, {"$ref": "#/components/parameters/page"}]
_RUN = [*_REPOSITORY, _parameter("run_id", "integer")]
_BODY = {"type": "object", "required": ["body"], "properties": {"body": {"type": "string"}}}
_CONTENT = {
    "type": "string",
    "enum": ["+1", "-1", "laugh", "confused", "heart", "hooray", "rocket", "eyes"],
}
_REACT = {"type": "object", "required": ["content"], "properties": {"content": _CONTENT}}
_NOT_FOUND = {"$ref": "#/components/responses/not_found"}

ADDED: Json = {
    "/repos/{owner}/{repo}/pulls/comments/{comment_id}": {
        "patch": {
            "parameters": [*_REPOSITORY, _parameter("comment_id", "integer")],
            "requestBody": {"required": True, "content": {"application/json": {"schema": _BODY}}},
            "responses": {
                "200": _answers({"$ref": "#/components/schemas/pull-request-review-comment"})
            },
        }
    },
    "/repos/{owner}/{repo}/pulls/comments/{comment_id}/reactions": {
        "get": {
            "parameters": [
                *_REPOSITORY,
                _parameter("comment_id", "integer"),
                {"name": "content", "in": "query", "schema": _CONTENT},
                *_PAGES,
            ],
            "responses": {
                "200": _answers(
                    {"type": "array", "items": {"$ref": "#/components/schemas/reaction"}}
                ),
                "404": _NOT_FOUND,
            },
        }
    },
    "/repos/{owner}/{repo}/issues/comments/{comment_id}/reactions": {
        "post": {
            "parameters": [*_REPOSITORY, _parameter("comment_id", "integer")],
            "requestBody": {"required": True, "content": {"application/json": {"schema": _REACT}}},
            "responses": {
                code: _answers({"$ref": "#/components/schemas/reaction"}) for code in ("200", "201")
            },
        }
    },
    "/repos/{owner}/{repo}/collaborators/{username}/permission": {
        "get": {
            "parameters": [*_REPOSITORY, _parameter("username")],
            "responses": {
                "200": _answers(
                    {"$ref": "#/components/schemas/repository-collaborator-permission"}
                ),
                "404": _NOT_FOUND,
            },
        }
    },
    "/repos/{owner}/{repo}/actions/runs/{run_id}": {
        "get": {
            "parameters": _RUN,
            "responses": {"200": _answers({"$ref": "#/components/schemas/workflow-run"})},
        }
    },
    "/repos/{owner}/{repo}/actions/runs/{run_id}/rerun": {
        "post": {
            "parameters": _RUN,
            "responses": {"201": _answers({"$ref": "#/components/schemas/empty-object"})},
        }
    },
    "/repos/{owner}/{repo}/commits/{commit_sha}/pulls": {
        "get": {
            "parameters": [*_REPOSITORY, _parameter("commit_sha"), *_PAGES],
            "responses": {
                "200": _answers(
                    {"type": "array", "items": {"$ref": "#/components/schemas/pull-request-simple"}}
                )
            },
        }
    },
}
"""Operations that the trimmed description leaves out, after GitHub's public reference."""


@dataclass(frozen=True)
class Operation:
    """One operation of the description, and what the path's parameters are in one request."""

    method: str
    path: str
    values: Mapping[str, str]
    described: Json


class Description:
    """The description, and the checks against it."""

    def __init__(self) -> None:
        spec = json.loads(_FILE.read_text())
        _allow_null_in_enums(spec)
        _complete(spec)
        self._schemas = spec["components"]["schemas"]
        self._spec = spec
        self._right: set[tuple[object, ...]] = set()
        """Requests and responses without a flaw: the same come again and again, and a look at one
        takes long.
        """
        self._api = OpenAPI.from_dict(spec, config=Config(spec_validator_cls=None))
        self._parameters = V30RequestParametersValidator(self._api.spec)
        self._bodies = V30RequestBodyValidator(self._api.spec)
        self._paths = [
            (_expression(path), path, methods) for path, methods in spec["paths"].items()
        ]

    def operation(self, method: str, path: str) -> Operation | None:
        """The operation that a request means, the most literal path first."""
        candidates = [
            Operation(method, template, match.groupdict(), methods[method.lower()])
            for expression, template, methods in self._paths
            if method.lower() in methods and (match := expression.fullmatch(path))
        ]
        return min(candidates, key=lambda operation: operation.path.count("{"), default=None)

    def flaws_of_request(
        self, operation: Operation, path: str, query: Mapping[str, str], body: bytes
    ) -> list[str]:
        """What is wrong with a request, in sentences."""
        flaws = self._flaws_of_parameters(operation, path, query)
        looked_at = (operation.method, operation.path, body)
        if looked_at in self._right:
            return flaws
        request = self._request(operation, path, query, body)
        flaws_of_body = [_reason(error) for error in self._bodies.iter_errors(request)]
        described = operation.described.get("requestBody")
        if body and described is None:
            flaws_of_body.append("a body where none is described")
        elif body and not flaws_of_body:
            schema = self._resolved(described)["content"]["application/json"]["schema"]
            flaws_of_body += [
                f"unknown field {place}" for place in self._unknown(json.loads(body), [schema], "")
            ]
        if not flaws_of_body:
            self._right.add(looked_at)
        return flaws + flaws_of_body

    def _flaws_of_parameters(
        self, operation: Operation, path: str, query: Mapping[str, str]
    ) -> list[str]:
        looked_at = (operation.method, path, *sorted(query.items()))
        if looked_at in self._right:
            return []
        request = self._request(operation, path, query, b"")
        flaws = [_reason(error) for error in self._parameters.iter_errors(request)]
        parameter_names = {
            self._resolved(parameter)["name"]
            for parameter in operation.described.get("parameters", [])
        }
        flaws += [
            f"unknown query parameter {name}" for name in query if name not in parameter_names
        ]
        if not flaws:
            self._right.add(looked_at)
        return flaws

    def flaws_of_response(
        self, operation: Operation, path: str, status: int, body: Json
    ) -> list[str]:
        """What is wrong with a response, in sentences. Refusals not described must look like
        GitHub's others.
        """
        described = operation.described["responses"].get(str(status))
        if described is None:
            schema = self._schemas["validation-error" if status == 422 else "basic-error"]
            return [f"unknown field {place}" for place in self._unknown(body, [schema], "")]
        content = self._resolved(described).get("content")
        if content is None:
            return [] if body is None else ["a body where none is described"]
        raw = json.dumps(body).encode()
        looked_at = (operation.method, operation.path, status, raw)
        if looked_at in self._right:
            return []
        response = MockResponse(raw, status_code=status, content_type="application/json")
        request = self._request(operation, path, {}, b"")
        flaws = [_reason(error) for error in self._api.iter_response_errors(request, response)]
        schema = content["application/json"]["schema"]
        flaws += [f"unknown field {place}" for place in self._unknown(body, [schema], "")]
        if not flaws:
            self._right.add(looked_at)
        return flaws

    def filled(self, name: str, values: Mapping[str, Json]) -> Json:
        """An object with every field that a schema requires, and the values given. KeyError for a
        field it lacks.
        """
        schema = self._schemas[name]
        for field in values:
            if field not in schema["properties"]:
                raise KeyError(f"{name} has no field {field}")
        missing = [field for field in schema.get("required", []) if field not in values]
        return {field: self._example(schema["properties"][field]) for field in missing} | dict(
            values
        )

    def _example(self, schema: Json) -> Json:
        schema = self._resolved(schema)
        if schema.get("nullable"):
            return None
        if "enum" in schema:
            return schema["enum"][0]
        if "oneOf" in schema:
            return self._example(schema["oneOf"][0])
        kind = schema.get("type", "string")
        if kind == "object":
            return {
                name: self._example(schema["properties"][name])
                for name in schema.get("required", [])
            }
        by_format = {"uri": "https://github.example/", "date-time": "2026-01-02T03:04:05Z"}
        text = by_format.get(schema.get("format"), "")
        return {"integer": 1, "number": 1.0, "boolean": False, "array": []}.get(kind, text)

    def _request(
        self, operation: Operation, path: str, query: Mapping[str, str], body: bytes
    ) -> MockRequest:
        return MockRequest(
            HOST,
            operation.method.lower(),
            path,
            path_pattern=operation.path,
            args=dict(query),
            view_args=dict(operation.values),
            data=body or None,
            content_type="application/json",
        )

    def _resolved(self, schema: Json) -> Json:
        while "$ref" in schema:
            target: Json = self._spec
            for part in schema["$ref"].removeprefix("#/").split("/"):
                target = target[part]
            schema = target
        return schema

    def _unknown(self, value: Json, schemas: Iterable[Json], place: str) -> list[str]:
        """The places of fields that none of the schemas has."""
        flat = [alternative for schema in schemas for alternative in self._alternatives(schema)]
        if isinstance(value, list):
            items = [schema["items"] for schema in flat if "items" in schema]
            return [
                unknown_place
                for index, item in enumerate(value)
                for unknown_place in self._unknown(item, items, f"{place}[{index}]")
            ]
        if not isinstance(value, dict) or any(
            schema.get("additionalProperties") for schema in flat
        ):
            return []
        fields: dict[str, list[Json]] = {}
        for schema in flat:
            for name, described in schema.get("properties", {}).items():
                fields.setdefault(name, []).append(described)
        if not fields:
            return []
        places = [f"{place}.{name}" for name in value if name not in fields]
        for name in value.keys() & fields.keys():
            places += self._unknown(value[name], fields[name], f"{place}.{name}")
        return places

    def _alternatives(self, schema: Json) -> Iterator[Json]:
        schema = self._resolved(schema)
        branches = [branch for key in ("allOf", "anyOf", "oneOf") for branch in schema.get(key, [])]
        yield schema
        for branch in branches:
            for alternative in self._alternatives(branch):
                # A branch that only adds a condition is open on paper; what it conditions is not.
                closed = "properties" in schema and "additionalProperties" in alternative
                yield {
                    key: value
                    for key, value in alternative.items()
                    if not (closed and key == "additionalProperties")
                }


def _reason(error: Exception) -> str:
    inner = getattr(error.__cause__, "schema_errors", None)
    return (
        "; ".join(f"{cause.json_path}: {cause.message[:200]}" for cause in inner)
        if inner
        else f"{error}: {error.__cause__}"
    )


def _expression(path: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[^/]+)", re.escape(path)))


def _allow_null_in_enums(schema: Json) -> None:
    # OpenAPI 3.0.3 wants null in the list of a nullable enum; GitHub leaves it out.
    if isinstance(schema, list):
        for child in schema:
            _allow_null_in_enums(child)
    if isinstance(schema, dict):
        if (
            schema.get("nullable")
            and isinstance(schema.get("enum"), list)
            and None not in schema["enum"]
        ):
            schema["enum"].append(None)
        for child in schema.values():
            _allow_null_in_enums(child)


def _complete(spec: Json) -> None:
    schemas = spec["components"]["schemas"]
    for name, fields in _SENT_AS_NULL.items():
        for field in fields:
            described = schemas[name]["properties"][field]
            if described.get("$ref") == "#/components/schemas/simple-user":
                schemas[name]["properties"][field] = {
                    "$ref": "#/components/schemas/nullable-simple-user"
                }
            else:
                described["nullable"] = True
    simple = copy.deepcopy(schemas["pull-request"])
    simple["properties"] = {
        name: described_property
        for name, described_property in simple["properties"].items()
        if name not in _ONLY_IN_FULL
    }
    simple["required"] = [name for name in simple["required"] if name not in _ONLY_IN_FULL]
    schemas["pull-request-simple"] = simple
    schemas["repository-collaborator-permission"] = {
        "type": "object",
        "required": ["permission", "role_name", "user"],
        "properties": {
            "permission": {"type": "string"},
            "role_name": {"type": "string"},
            "user": {"$ref": "#/components/schemas/nullable-collaborator"},
        },
    }
    run = {"id": "integer", "event": "string", "head_sha": "string", "status": "string", "html_url": "string",
           "conclusion": "string", "path": "string"}  # fmt: skip
    schemas["workflow-run"] = {
        "type": "object",
        "required": list(run),
        "properties": {
            name: {"type": kind, "nullable": name == "conclusion"} for name, kind in run.items()
        },
    }
    schemas["reaction"] = {
        "type": "object",
        "required": ["id", "node_id", "user", "content", "created_at"],
        "properties": {
            "id": {"type": "integer"},
            "node_id": {"type": "string"},
            "user": {"$ref": "#/components/schemas/nullable-simple-user"},
            "content": _CONTENT,
            "created_at": {"type": "string", "format": "date-time"},
        },
    }
    collaborator = copy.deepcopy(schemas["simple-user"])
    collaborator["nullable"] = True
    collaborator["required"].append("role_name")
    collaborator["properties"] |= {
        "role_name": {"type": "string"},
        "permissions": {"type": "object", "additionalProperties": {"type": "boolean"}},
    }
    schemas["nullable-collaborator"] = collaborator
    spec["paths"] |= ADDED
