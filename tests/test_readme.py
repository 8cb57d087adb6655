"""The README keeps its promises: its example runs, and its picture is what the code draws."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


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
    robust = names["found"].robust
    assert robust.n == 64
    assert robust.low < robust.high


def test_make_targets_in_the_readme_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = re.findall(r"^make (\w+)", README, re.MULTILINE)
    assert "demo" in targets
    for target in targets:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_the_picture_is_what_the_code_draws(tmp_path: Path) -> None:
    from multiway.report.intro import draw_intro

    drawn = draw_intro(tmp_path / "intro.svg").read_text()
    committed = (ROOT / "docs/figures/intro.svg").read_text()
    # Matplotlib versions may lay out a letter otherwise; the number of drawn paths tells more.
    assert drawn.count("<path") == committed.count("<path")
