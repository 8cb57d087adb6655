"""YAML files of plain fields, as a recipe is one; a stranger may have written them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from multiway.errors import UnusableFile
from multiway.files import check_plain, read_text

__all__ = ["read_fields"]

# A recipe has about a thousand; a parser of YAML takes seconds for a megabyte.
LARGEST = 2**16


class _PlainLoader(yaml.SafeLoader):
    """YAML without what a list of fields does not need: aliases, keys that hide each other."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            # A few aliases of aliases stand for billions of values.
            raise ValueError("it uses an alias (*); write the value out")
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        keys = [str(key.value) for key, _ in node.value]
        twice = [key for key in keys if keys.count(key) > 1]
        if twice:
            raise ValueError(f"'{twice[0][:60]}' is there twice; keep one of them")
        return super().construct_mapping(node, deep=True)


# YAML 1.1 takes 1e-3 for a text, as it lacks a dot.
_PlainLoader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"^[-+]?[0-9]+[eE][-+]?[0-9]+$"), list("-+0123456789")
)


def read_fields(path: Path) -> dict[str, Any]:
    """The fields in a YAML file: names with texts, numbers, yes or no, lists and more fields.

    Raises:
        UnusableFile: it is no YAML or holds something else; "FILE: what; what to do".
    """
    text = read_text(path, LARGEST)
    try:
        values = yaml.load(text, Loader=_PlainLoader)  # which is a SafeLoader
        check_plain(values)
    # Beside YAML's own errors: dates that do not exist, tags without a value, endless nesting.
    except Exception as error:
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise UnusableFile(
            path, f"the recipe {path} is not valid YAML: {reason}; compare it with docs/training.md"
        ) from error
    if not isinstance(values, dict) or not _is_plain(values):
        raise UnusableFile(
            path,
            f"the recipe {path} is not a mapping of fields to values; write one 'name: value' a "
            "line, with texts, numbers, true or false and lists of them",
        )
    return values


def _is_plain(value: Any) -> bool:
    """Whether JSON could hold it: no dates, no sets, no numbers as names."""
    if isinstance(value, dict):
        return all(isinstance(key, str) and _is_plain(each) for key, each in value.items())
    if isinstance(value, list):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, bool | int | float | str)
