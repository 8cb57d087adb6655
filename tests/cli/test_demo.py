"""`multiway demo` as a newcomer runs it, cut down to one epoch, and its page in a browser."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from playwright.sync_api import Page

import multiway as mw
from conftest import Shared, cell, cells, invoke
from multiway.attacks.checks import warn
from multiway.cli import demo
from multiway.data.corruptions import KINDS
from wheels import install_wheel, run_outside

NAMES = ["1ofk-0", "1ofk-1", "ro-2", "ro-3", "padded-4"]
SMALL = ("demo", "--backbone", "wong", "--limit", "8", "--out", "demo")


@pytest.fixture(scope="module")
def folder(shared: Shared, wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a newcomer has run the demonstration, from the wheel with its extra."""

    def make(folder: Path) -> None:
        programs = install_wheel(wheel, tmp_path_factory.mktemp("installed"), "demo")
        words = (*SMALL, "--epochs", "1")
        done = run_outside(programs / "multiway", *words, folder=folder)
        # It is on no PATH, so its name alone would not be found.
        assert done.stderr.endswith(f": {programs / 'multiway'} explore demo/1ofk-0 demo/ro-2\n")
        (folder / "printed.txt").write_text(done.stdout)

    return shared("demo", make)


@pytest.fixture(scope="module")
def result(folder: Path) -> dict[str, Any]:
    result: dict[str, Any] = json.loads((folder / "demo/demo.json").read_text())
    return result


def test_everything_is_measured_and_printed(folder: Path, result: dict[str, Any]) -> None:
    printed = (folder / "printed.txt").read_text()
    clean = cell(result["transfer"], column="clean", row="ro-2")
    assert f"{100 * clean['value']:.1f} [" in printed
    assert result["diagnoses"]["ro-2"]["verdict"] in printed
    assert list(result["encodings"].items()) == [
        ("1ofk-0", "1ofk"), ("1ofk-1", "1ofk"), ("ro-2", "ro"), ("ro-3", "ro"),
        ("padded-4", "padded"),
    ]  # fmt: skip
    seeds = {each["row"]: each["seeds"] for each in result["worst"]["cells"]}
    assert seeds == {name: [place] for place, name in enumerate(NAMES)}  # strangers to each other
    worst = {each["row"]: each for each in cells(result["worst"], column="worst case")}
    assert list(worst) == NAMES
    for name, each in worst.items():
        # Each image counts by the attack that is worst for it.
        others = cells(result["worst"], row=name)
        assert len(others) == 4
        assert each["value"] == min(other["value"] for other in others)
        assert "PGD-100 x 3" in each["attack"]
    transfer = result["transfer"]
    clean = {each["row"]: each["n"] for each in cells(transfer, column="clean")}
    assert clean == dict.fromkeys(NAMES, 8)
    for objective in ("own", "margin"):
        shown = cells(transfer, metric="accuracy", objective=objective)
        pairs = {(each["row"], each["column"]) for each in shown}
        assert {(target, source) for target in NAMES for source in NAMES} <= pairs
    assert {each["panel"] for each in result["correlation"]["cells"]} == {"input", "conv1", "conv2"}
    assert result["curves"]["x_name"] == "eps"
    assert set(KINDS) <= {each["column"] for each in result["corruption"]["cells"]}
    assert list(result["diagnoses"]) == ["1ofk-0", "ro-2"]


def test_the_page_opens_in_silence(folder: Path, result: dict[str, Any], page: Page) -> None:
    page.goto((folder / "demo/report.html").as_uri())
    assert page.locator("figure").count() >= 7
    broken = "[...document.images].filter((image) => !image.naturalWidth).length"
    assert page.evaluate(broken) == 0
    for heading in ("Do attacks transfer?", "Are their gradients alike?", "Diagnosis of ro-2"):
        assert page.get_by_role("heading", name=heading).is_visible()
    verdict = " ".join(result["diagnoses"]["ro-2"]["verdict"].split())
    assert verdict[:40] in " ".join(page.locator("body").inner_text().split())


@pytest.mark.parametrize("width", [390, 1280])
def test_what_is_wider_than_the_screen_says_so(folder: Path, page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 844})
    page.goto((folder / "demo/report.html").as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") == width
    size = "e => [e.scrollWidth > e.clientWidth, e.querySelector('.hint').offsetWidth > 100]"
    frames = page.eval_on_selector_all(".wide", f"all => all.map({size})")
    assert all(wider == said for wider, said in frames)
    assert any(wider for wider, _ in frames) == (width == 390)


def test_a_second_call_trains_nothing_and_prints_one_document(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder / "demo", tmp_path / "demo")
    again = invoke(tmp_path, *SMALL, "--limit", "2", "--epochs", "1", "--json")
    assert again.returncode == 0, again.stderr
    assert "training" not in again.stderr
    kept = json.loads((tmp_path / "demo/demo.json").read_text())
    assert json.loads(again.stdout) == kept
    assert cell(kept["transfer"], column="clean", row="ro-2")["n"] == 2
    for name in NAMES:
        one, other = (
            root / name / "model.safetensors" for root in (folder / "demo", tmp_path / "demo")
        )
        assert one.read_bytes() == other.read_bytes()


def test_other_epochs_in_the_same_folder_are_refused(folder: Path) -> None:
    other = invoke(folder, *SMALL, "--epochs", "2")
    assert other.returncode == 2
    assert "recipe.epochs was 1, now 2" in other.stderr


def test_what_attacks_warn_of_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Also of networks that are not diagnosed."""

    def measure(*_: object) -> SimpleNamespace:
        for _network in range(2):
            warn("nan-gradients", "{count} of {total} gradients were NaN", 1, 8)
        return SimpleNamespace(as_dict=dict)

    monkeypatch.setattr(demo, "_network", lambda *_: None)
    monkeypatch.setattr(demo, "_measure", measure)
    monkeypatch.setattr(demo, "print_json", lambda document: None)
    monkeypatch.setattr(mw.report, "demo_page", lambda path, findings: path)
    demo.demo(tmp_path, limit=8, json=True)
    assert capsys.readouterr().err.count("warning: 1 of 8 gradients were NaN\n") == 1
