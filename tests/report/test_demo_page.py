"""The demo's page has every figure of the results that it is made of."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import torch
from playwright.sync_api import Page, expect

from multiway.report.demo import DemoFindings, demo_page
from multiway.report.tables import result_tables
from multiway.results import Cell, Result
from multiway.statistics import Interval
from study_results import accuracy, correlation, plain

NAMES = {"1ofk-0": "1ofk", "1ofk-1": "1ofk", "ro-0": "ro"}


def transfer(margin: int) -> Result:
    """Every network is broken by all others; of `ro-0` the margin leaves that many of 200."""
    cells = [accuracy(target, "clean", 190, None) for target in NAMES]
    cells += [
        accuracy(target, source, 100, objective, white_box=target == source)
        for objective in ("own", "margin")
        for target in NAMES
        for source in NAMES
        if (target, source, objective) != ("ro-0", "ro-0", "margin")
    ]
    cells.append(accuracy("ro-0", "ro-0", margin, "margin", white_box=True))
    return plain(*cells, chart="heat map")


def findings(margin: int = 20, **changes: Any) -> DemoFindings:
    pairs = [("1ofk-1", "1ofk-0", 0.4), ("ro-0", "1ofk-0", 0.1), ("ro-0", "1ofk-1", 0.1)]
    layers = [correlation(*pair, panel=layer) for pair in pairs for layer in ("input", "conv1")]
    curves = [
        accuracy(name, "white-box", right, x=x, series=f"{name}, white-box", white_box=True)
        for name in ("1ofk-0", "ro-0")
        for x, right in ((0.1, 120), (0.2, 40), (math.inf, 0))
    ]
    corrupted = [accuracy(name, kind, 150, None) for name in NAMES for kind in ("fog", "mean")]
    corrupted.append(Cell.of("ro-0", "mean", Interval(0.05, 0.01, 0.09, 200), "lead"))
    # Single severities are in the JSON alone.
    corrupted.append(accuracy("ro-0", "severity 1", 77, None, panel="fog", x=1.0))
    worst = [accuracy(name, "clean", 190, None) for name in NAMES]
    worst += [accuracy(name, "a step on own", 100, None, attack="FGSM", white_box=True)
              for name in NAMES]  # fmt: skip
    worst += [accuracy(name, "worst case", 0 if name == "ro-0" else 95, None, attack="PGD",
                       white_box=True) for name in NAMES]  # fmt: skip
    fields: dict[str, Any] = {
        "worst": plain(*worst),
        "transfer": transfer(margin),
        "correlation": plain(*layers, chart="heat map"),
        "curves": plain(*curves, chart="lines", x_name="eps"),
        "corruption": plain(*corrupted),
        "encodings": NAMES,
        "images": torch.zeros(2, 1, 4, 4),
        "labels": ["zero", "one"],
        "gradients": {"own": {name: torch.ones(2, 1, 4, 4) for name in NAMES}},
        "diagnoses": {},
        "provenance": {"data": "toys"},
    }
    return DemoFindings(**{**fields, **changes})


def test_every_figure_is_on_the_page_which_is_silent(page: Page, tmp_path: Path) -> None:
    found = findings()
    page.goto(demo_page(tmp_path / "report.html", found).as_uri())
    rows = [" ".join(text.split()) for text in page.locator("tbody tr").all_inner_texts()]
    kinds = found.corruption.only(lambda cell: cell.x is None)
    expected = [
        " ".join(" ".join(row).split())
        for result in (found.worst, found.transfer, found.correlation, found.curves, kinds)
        for table in result_tables(result)
        for row in table.rows
    ]
    assert rows == expected
    assert any("0.0* [0.0, 1.9]" in row for row in rows)
    # Most of what ro-0 seems to keep is lost under the margin.
    expect(page.locator("p.strong")).to_have_text(
        [
            "One step (a step on own) leaves ro-0 50.0 % [43.1, 56.9] (n=200); in the worst case "
            "0.0 % [0.0, 1.9] (n=200) is left.",
            "Under its own loss ro-0 seems to keep 50.0 % [43.1, 56.9] (n=200). Under the margin "
            "10.0 % [6.6, 14.9] (n=200) is left: of the two its own loss is the poorer direction.",
        ]
    )
    assert page.get_by_role("heading", level=2).count() == 6
    widths = page.eval_on_selector_all("img", "all => all.map((one) => one.naturalWidth)")
    assert len(widths) == 5
    assert min(widths) > 100
    expect(page.locator("main")).to_contain_text(
        "between the two 1ofk networks it is 0.40 [0.35, 0.45] (n=200) on own. In brackets"
    )
    expect(page.locator("main")).to_contain_text("Accuracy, mean: 1ofk-0 75.0 % [68.6, 80.5]")


def test_a_network_that_keeps_nothing_more_is_not_warned_of(page: Page, tmp_path: Path) -> None:
    page.goto(demo_page(tmp_path / "report.html", findings(margin=90)).as_uri())
    # But by the worst case of ro-0, which has its own sentence.
    expect(page.locator("p.strong")).to_have_count(1)


def test_the_document_holds_all_results() -> None:
    found = findings()
    document = json.loads(json.dumps(found.as_dict(), allow_nan=False))
    for name in ("worst", "transfer", "correlation", "curves", "corruption"):
        assert Result.from_dict(document[name]) == getattr(found, name)
    assert document["encodings"] == NAMES
