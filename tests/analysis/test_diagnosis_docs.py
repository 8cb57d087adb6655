"""The examples of docs/diagnosis.md, run; its checklist is the one in the code."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import torch
from torch import nn

from multiway.analysis import Budget, diagnose
from multiway.threat import Linf

PAGE = Path(__file__).parents[2] / "docs/diagnosis.md"


def test_the_examples_run() -> None:
    options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    failures, tries = doctest.testfile(str(PAGE), module_relative=False, optionflags=options)
    assert failures == 0
    assert tries > 5


def test_the_table_lists_every_check() -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(16, 2))
    images = torch.rand(4, 1, 4, 4, generator=torch.Generator().manual_seed(0))
    budget = Budget(steps=2, more_steps=2, square_queries=10, nattack_queries=100, student_steps=1)
    found = diagnose(model, images, model(images).argmax(dim=1), Linf(0.01), budget=budget)
    rows = re.findall(r"^\| `([\w-]+)` \| (.+?) \|", PAGE.read_text(), flags=re.MULTILINE)
    assert rows == [(item.key, item.question) for item in found.items]
