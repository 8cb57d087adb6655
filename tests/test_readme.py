"""The README keeps its promises: its example runs, its commands exist, its links lead somewhere."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch

from conftest import command
from multiway.cli.app import app

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def commands() -> dict[str, Any]:
    """Every command with its parameters, sub-commands as `data list`."""
    from typer.main import get_command

    found: dict[str, Any] = {}
    for name, found_one in get_command(app).commands.items():  # type: ignore[attr-defined]
        inner = getattr(found_one, "commands", None)
        found |= (
            {f"{name} {sub}": one for sub, one in inner.items()} if inner else {name: found_one}
        )
    return found


def test_the_python_example_runs_and_does_what_its_comments_say() -> None:
    (example,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert len(example.strip().splitlines()) <= 12
    names: dict[str, Any] = {}
    exec(example, names)
    model, images = names["model"], names["images"]
    assert model.codes(images).shape == (64, 2000)
    assert names["scores"].shape == (64, 10)
    assert all(parameter.grad is not None for parameter in model.parameters())
    torch.testing.assert_close(names["fast"](images), names["scores"], rtol=1e-4, atol=1e-4)


def test_every_command_and_option_in_the_readme_exists() -> None:
    known = commands()
    named = re.findall(r"`multiway ([a-z][^`]*)`", README)
    assert len(named) >= 6
    for line in named:
        words = line.split()
        name = next((k for k in (" ".join(words[:2]), words[0]) if k in known), None)
        assert name is not None, f"`multiway {line}` is not a command"
        options = {option for parameter in known[name].params for option in parameter.opts}
        for word in words:
            if word.startswith("--"):
                assert word in options, f"`multiway {name}` has no {word}"


def test_every_command_has_help_with_an_example() -> None:
    for name in commands():
        done = subprocess.run(command(*name.split(), "--help"), capture_output=True, text=True)
        assert done.returncode == 0, name
        assert "Example: multiway" in " ".join(done.stdout.split()), name


def test_make_targets_in_the_readme_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"^make (\w+)", README, re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


@pytest.mark.parametrize(
    "page",
    ["README.md", "CONTRIBUTING.md", *(f"docs/{p.name}" for p in (ROOT / "docs").glob("*.md"))],
)
def test_links_between_pages_lead_somewhere(page: str) -> None:
    path = ROOT / page
    # Code blocks index and call, which looks like a link.
    text = re.sub(r"```.*?```", "", path.read_text(), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
        if "://" not in target:
            assert (path.parent / target).exists(), f"{page} links to {target}"


def test_the_picture_is_what_the_code_draws(tmp_path: Path) -> None:
    from multiway.report.intro import draw_intro

    drawn = draw_intro(tmp_path / "intro.svg").read_text()
    committed = (ROOT / "docs/figures/intro.svg").read_text()
    # Matplotlib versions may lay out a letter otherwise; the number of drawn paths tells more.
    assert drawn.count("<path") == committed.count("<path")
