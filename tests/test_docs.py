"""Documentation pages: their command lines are real, and their links lead somewhere.

Their Python examples run as doctests: pytest collects `docs/*.md` itself.
"""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from conftest import Command
from multiway.attacks import ATTACKS
from multiway.backbones import BACKBONES
from multiway.cli.app import app
from multiway.data import DATASETS
from multiway.encoding import ENCODINGS
from multiway.studies import STUDIES
from multiway.training import recipe_names

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]

# What the value of an option may be, where it is a name.
NAMES: dict[str, Collection[str]] = {
    "--attack": ATTACKS,
    "--backbone": BACKBONES,
    "--data": DATASETS,
    "--encoding": ENCODINGS,
    "--recipe": recipe_names(),
    "--scale": ("smoke", "cpu", "paper"),
}


def commands() -> dict[str, Any]:
    """Every command of the command line, sub-commands as `data list`."""
    found: dict[str, Any] = {}
    for name, group in get_command(app).commands.items():  # type: ignore[attr-defined]
        inner = getattr(group, "commands", None)
        found |= {f"{name} {sub}": one for sub, one in inner.items()} if inner else {name: group}
    return found


COMMANDS = commands()


def find_command(words: list[str]) -> tuple[str, list[str]]:
    """The name of the command that `words` call, and the words after it."""
    for length in (2, 1):
        if (name := " ".join(words[:length])) in COMMANDS:
            return name, words[length:]
    raise AssertionError(f"`multiway {' '.join(words)}` is not a command")


def whole_lines(page: Path) -> list[list[str]]:
    """The words after `multiway` of each command line in a block of code."""
    blocks = re.findall(r"^```\w*\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)
    lines = [line.removeprefix("$ ") for block in blocks for line in block.splitlines()]
    return [shlex.split(line, comments=True)[1:] for line in lines if line.startswith("multiway ")]


def mentioned(page: Path) -> list[list[str]]:
    """The words after `multiway` of each command that a sentence names, whole or not."""
    prose = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    return [line.split() for line in re.findall(r"`multiway ([a-z][^`]*)`", prose)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_command_lines_parse(page: Path) -> None:
    for words in whole_lines(page):
        name, rest = find_command(words)
        if "..." not in rest:  # as the command line itself would read it
            COMMANDS[name].make_context(name, rest)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_options_and_names_exist(page: Path) -> None:
    for words in whole_lines(page) + mentioned(page):
        name, rest = find_command(words)
        options = {option for parameter in COMMANDS[name].params for option in parameter.opts}
        for option, value in itertools.pairwise([*rest, "..."]):
            if option.startswith("--"):
                assert option in options, f"`multiway {name}` has no {option}"
            if option in NAMES and value != "..." and ":" not in value:
                assert value in NAMES[option], f"{option} {value} in {page.name}"
        if name == "reproduce" and rest and re.fullmatch("[a-z]+", rest[0]):
            assert rest[0] in STUDIES


def test_pages_show_every_command() -> None:
    shown = {
        find_command(words)[0] for page in PAGES for words in whole_lines(page) + mentioned(page)
    }
    assert shown == set(COMMANDS)


def test_every_command_has_help_with_an_example(in_process: Command) -> None:
    for name, command in COMMANDS.items():
        done = in_process(*name.split(), "--help")
        assert done.returncode == 0, name
        (example,) = re.findall(r"Example: multiway (.*)", f"{command.help}\n{command.epilog}")
        found, rest = find_command(shlex.split(example))
        assert found == name
        command.make_context(name, rest)
        assert "Example: multiway" in " ".join(done.stdout.split()), name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    # Code blocks index and call, which looks like a link.
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
