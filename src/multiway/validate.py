"""The fields of a file compared with what they should be; the first that is wrong is named."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from multiway.errors import UnusableFile

__all__ = ["Fields", "problem_of", "validated"]


class Fields(BaseModel):
    """What a file should hold, as annotated fields; others are left to whoever reads them.

    Nothing is guessed at: a number in quotes is an error, and so are NaN and `true` for 1.
    """

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True, allow_inf_nan=False)


def validated(kind: Any, value: Any, path: Path, remedy: str) -> Any:
    """`value`, read from `path`, as a `kind`: a class of fields, a dataclass or any other type.

    Args:
        value: as JSON gives it: dicts, lists, texts and numbers.
        remedy: what the user can do about it.

    Raises:
        UnusableFile: "FILE: FIELD is ..., expected ...; REMEDY".

    Example:
        >>> validated(dict[str, int], {"step": -5.5}, Path("x.json"), "make it again")
        Traceback (most recent call last):
        ...
        multiway.errors.UnusableFile: x.json: step is -5.5, expected a valid integer...
    """
    try:
        # As JSON, so that lists may become tuples while all else keeps its type.
        return _adapter(kind).validate_json(json.dumps(value))
    except ValidationError as error:
        raise UnusableFile(path, f"{path}: {problem_of(error)}; {remedy}") from error


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    # Classes of fields and dataclasses bring their own configuration.
    own = hasattr(kind, "__pydantic_config__") or hasattr(kind, "model_config")
    return TypeAdapter(kind, config=None if own else Fields.model_config)


def problem_of(error: ValidationError) -> str:
    """The first thing that is wrong, in words: which field, what it is and what is expected."""
    # A misspelt field often is why another one is missing.
    unknown = ("extra_forbidden", "unexpected_keyword_argument")
    problems = sorted(error.errors(include_url=False), key=lambda one: one["type"] not in unknown)
    problem = problems[0]
    where = ".".join(str(part) for part in problem["loc"]) or "the whole"
    if problem["type"] in unknown:
        return f"{where} is no field of it; another version wrote it, or it was edited"
    if problem["type"].startswith("missing"):
        return f"{where} is missing"
    given = json.dumps(problem["input"], default=str)
    given = given if len(given) < 60 else f"{given[:57]}..."
    message = problem["msg"].removeprefix("Value error, ")
    if message.startswith("Input should "):
        return f"{where} is {given}, expected {message.removeprefix('Input should ')}".replace(
            "expected be ", "expected "
        )
    message = f"{message[:1].lower()}{message[1:]}"
    if isinstance(problem["input"], dict | list):  # too much to show
        return f"{where}: {message}" if problem["loc"] else message
    return f"{where} is {given}: {message}"
