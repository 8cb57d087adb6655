"""Documentation pages: their code runs, their command lines are real, their tables are the code's.

Examples with a prompt (`>>>`) run as doctests: pytest collects `docs/*.md` itself.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
import shlex
import tomllib
from collections.abc import Collection
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from torch import nn
from typer.main import get_command

import multiway as mw
from conftest import Command
from multiway.analysis import Budget, diagnose
from multiway.attacks import ATTACKS
from multiway.attacks.checks import WARNINGS, AttackWarning
from multiway.backbones import BACKBONES
from multiway.cli.app import app
from multiway.data import DATASETS
from multiway.data.corruptions import KINDS, PAPER_KINDS
from multiway.encoding import ENCODINGS
from multiway.errors import MultiwayError
from multiway.objectives import OBJECTIVES
from multiway.report.findings import read_findings
from multiway.report.intro import draw_intro
from multiway.results import CHECKSUM, Cell, Result
from multiway.studies import SCALES, STUDIES
from multiway.studies.published import read_folder
from multiway.studies.result import StudyResult
from multiway.threat import Linf
from multiway.training import recipe_names
from multiway.training.adversary import Adversary
from multiway.watermark import KINDS as MARKS
from multiway.watermark import STARTS

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]

# What the value of an option may be, where it is a name.
NAMES: dict[str, Collection[str]] = {
    "--attack": ATTACKS,
    "--backbone": BACKBONES,
    "--data": DATASETS,
    "--encoding": ENCODINGS,
    "--recipe": recipe_names(),
    "--scale": SCALES,
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
    lines = [
        re.sub(r"^(\$ |\.venv/bin/)", "", line) for block in blocks for line in block.splitlines()
    ]
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
def test_links_and_pictures_lead_somewhere(page: Path) -> None:
    # Code blocks index and call, which looks like a link.
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_links_to_sections_lead_somewhere() -> None:
    for page in PAGES:
        for name, section in re.findall(r"\]\(([^)#\s:]*)#([\w-]+)\)", page.read_text()):
            there = (page.parent / name).read_text() if name else page.read_text()
            headings = re.findall(r"^#+ (.+)$", there, re.MULTILINE)
            anchors = [re.sub(r"[^\w\- ]", "", one.lower()).replace(" ", "-") for one in headings]
            anchors += re.findall(r'<a id="([\w-]+)">', there)
            assert section in anchors, f"{page.name} links to {name}#{section}"


def nav_pages(part: Any) -> list[str]:
    """The pages below a part of the site's navigation, in order."""
    if isinstance(part, str):
        return [part]
    inner = part if isinstance(part, list) else list(part.values())
    return [page for each in inner for page in nav_pages(each)]


def test_the_site_shows_every_page_and_example_once() -> None:
    shown = nav_pages(yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"])
    pages = [path.name for path in (ROOT / "docs").glob("*.md")]
    examples = [f"examples/{path.stem}.md" for path in (ROOT / "examples").glob("*.py")]
    assert sorted(shown) == sorted(pages + examples)


def test_the_reference_has_every_public_name_once() -> None:
    named = [
        name
        for page in ("reference.md", "modules.md")
        for name in re.findall(r"^::: multiway\.(\w+)$", (ROOT / "docs" / page).read_text(), re.M)
    ]
    assert sorted(named) == sorted(mw.__all__)
    # What `mw` gives itself is left out where its module stands.
    sections = (ROOT / "docs/modules.md").read_text().split("::: multiway.")[1:]
    for section in sections:
        home = import_module(f"multiway.{section.split()[0]}")
        left_out = re.findall(r"!\^\(([\w|]+)\)\$", section)
        both = {name for name in home.__all__ if getattr(home, name) is getattr(mw, name, None)}
        assert set("|".join(left_out).split("|")) - {""} == both, home.__name__


def plain_blocks(page: Path) -> list[str]:
    """The Python blocks without a prompt, which no doctest runs."""
    blocks: list[str] = re.findall(r"^```python\n(.*?)^```", page.read_text(), re.M | re.S)
    return [block for block in blocks if ">>>" not in block]


def test_the_readme_example_does_what_its_comments_say() -> None:
    (example,) = plain_blocks(ROOT / "README.md")
    names: dict[str, Any] = {}
    exec(example, names)
    model, images = names["model"], names["images"]
    assert model.codes(images).shape == (1000, 2000)
    assert names["scores"].shape == (1000, 10)
    right = float((names["scores"].argmax(dim=1) == names["labels"]).float().mean())
    assert 0.91 < right < 0.96, "the page promises about 93 %"
    assert all(parameter.grad is not None for parameter in model.parameters())
    torch.testing.assert_close(names["fast"](images), names["scores"], rtol=1e-4, atol=1e-4)
    robust = names["found"].robust
    assert robust.n == 64
    assert robust.low < robust.high


def test_a_result_is_read_as_the_page_shows(
    tiny_runs: Path, tiny_npz: Path, in_process: Command, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    runs = [tiny_runs / name for name in ("ro", "1ofk")]
    more = ("--data", f"npz:{tiny_npz}", "--eps", 0.1, "--objective", "margin", "--limit", 9,
            "--out", "pics")  # fmt: skip
    done = in_process("transfer", *runs, *more)
    assert done.returncode == 0, done.stderr
    monkeypatch.chdir(tmp_path)
    (example,) = plain_blocks(ROOT / "docs/studies.md")
    exec(example, {})
    lines = capsys.readouterr().out.splitlines()
    assert any(re.fullmatch(r"ro ro [\d.]+\* \[[\d.]+, [\d.]+\]", line) for line in lines)


def test_the_tutorial_prints_what_it_shows(capsys: pytest.CaptureFixture[str]) -> None:
    page = (ROOT / "docs/tutorial.md").read_text()
    pieces = re.findall(r"^```python\n(.*?)^```\n+```text\n(.*?)^```", page, re.M | re.S)
    assert len(pieces) == page.count("```python")
    names: dict[str, Any] = {}
    for code, shown in pieces:
        exec(code, names)
        printed = capsys.readouterr().out
        if "diagnosis" in code:  # where other machines may find another check, or the images fewer
            assert "is not evidence" in printed
            assert "is not evidence" in shown
            assert names["diagnosis"].failed
            continue
        numbers = r"\d+\.?\d*"
        assert re.sub(numbers, "#", printed) == re.sub(numbers, "#", shown)
        for here, there in zip(
            re.findall(numbers, printed), re.findall(numbers, shown), strict=True
        ):
            assert float(here) == pytest.approx(float(there), abs=5)  # points; machines differ


def test_every_other_python_block_has_a_prompt() -> None:
    with_plain = {page.name for page in PAGES if plain_blocks(page)}
    assert with_plain == {"README.md", "studies.md", "tutorial.md"}


def column(page: str, heading: str, number: int = 0) -> list[str]:
    """The code in one column of the table below that heading cell, in order."""
    lines = (ROOT / "docs" / page).read_text().splitlines()
    (start,) = (i for i, line in enumerate(lines) if line.startswith(f"| {heading} |"))
    rows = itertools.takewhile(lambda line: line.startswith("|"), lines[start + 2 :])
    return [code for row in rows for code in re.findall(r"`([^`]+)`", row.split("|")[number + 1])]


def test_tables_list_what_the_code_has() -> None:
    assert column("attacks.md", "`kind`") == list(WARNINGS)
    with pytest.raises(MultiwayError, match="unknown kind of warning 'nan-gradient'"):
        AttackWarning("nan-gradient", "one that nobody explains")
    assert sorted(column("attacks.md", "`mw.`", 1)) == sorted(ATTACKS)
    assert column("attacks.md", "name") == list(OBJECTIVES)
    assert column("corruptions.md", "kind") == list(KINDS)
    assert sorted(column("training.md", "`--encoding`")) == sorted(ENCODINGS)
    backbones = column("training.md", "`--backbone`")
    assert sorted(backbones) == sorted([*BACKBONES, "package.module:function"])
    recipes = column("training.md", "`--recipe`") + column("adversarial.md", "`--recipe`")
    assert sorted(recipes) == sorted(recipe_names())
    assert column("watermark.md", "`embed --kind`") == list(MARKS)
    assert sorted(column("watermark.md", "`steal --start`")) == sorted(STARTS)
    data = [name for name in column("data.md", "`--data`") if ":" not in name]
    assert sorted(data) == sorted(DATASETS)
    cell = {field.name for field in dataclasses.fields(Cell)}
    assert set(column("studies.md", "field of a cell")) == cell
    document = {field.name for one in (Result, StudyResult) for field in dataclasses.fields(one)}
    assert set(column("studies.md", "field")) == {*document, CHECKSUM}


def test_the_papers_corruptions_are_marked() -> None:
    page = (ROOT / "docs/corruptions.md").read_text()
    marked = re.findall(r"^\| `(\w+)` \* \|", page, re.MULTILINE)
    assert sorted(marked) == sorted(PAPER_KINDS)


def test_the_checklist_is_that_of_a_diagnosis() -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(16, 2))
    images = torch.rand(4, 1, 4, 4, generator=torch.Generator().manual_seed(0))
    budget = Budget(steps=2, more_steps=2, square_queries=10, nattack_queries=100, student_steps=1)
    found = diagnose(model, images, model(images).argmax(dim=1), Linf(0.01), budget=budget)
    assert column("diagnosis.md", "check") == [item.key for item in found.items]


def test_the_layers_are_those_that_are_enforced() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    (contract,) = settings["tool"]["importlinter"]["contracts"]
    rank = {
        module.strip().removeprefix("multiway."): height
        for height, layer in enumerate(reversed(contract["layers"]))
        for module in layer.split(":")
    }
    table = column("architecture.md", "layer")
    assert sorted(table) == sorted(rank)
    assert [rank[name] for name in table] == sorted(rank.values())


def test_the_training_options_and_recipe_fields_exist() -> None:
    options = {option for parameter in COMMANDS["train"].params for option in parameter.opts}
    shown = [code.split()[0] for code in column("adversarial.md", "option") if code[:2] == "--"]
    assert set(shown) <= options
    assert set(column("adversarial.md", "option", 1)) == set(Adversary.model_fields)


def test_make_targets_in_the_readme_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = re.findall(r"^make (\w+)", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert "demo" in targets
    for target in targets:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_the_picture_is_what_the_code_draws(tmp_path: Path) -> None:
    drawn = draw_intro(tmp_path / "intro.svg").read_text()
    committed = (ROOT / "docs/figures/intro.svg").read_text()
    # Matplotlib versions may lay out a letter otherwise; the number of drawn paths tells more.
    assert drawn.count("<path") == committed.count("<path")


def test_the_readme_says_what_was_published() -> None:
    """`make results` writes the list: its figures are those of the files, and it has ten items."""
    found = read_findings(ROOT / "results", read_folder(ROOT / "results"))
    assert len(re.findall(r"^\| .* \| n=.* trainings \|$", found.lines, re.MULTILINE)) == 10
    _, _, rest = (ROOT / "README.md").read_text().partition("<!-- in ten lines -->\n")
    assert rest.partition("\n<!-- end -->")[0] == found.lines
