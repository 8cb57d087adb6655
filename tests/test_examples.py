"""The examples run from end to end, at small size, and draw the pictures that their pages show."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

import pytest
from matplotlib import pyplot
from PIL import Image

EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("*.py"))


def run(name: str) -> dict[str, Any]:
    """What an example leaves behind, by name."""
    (script,) = (path for path in EXAMPLES if path.stem == name)
    return runpy.run_path(str(script))


@pytest.fixture(autouse=True)
def _small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MULTIWAY_SMALL", "1")
    monkeypatch.chdir(tmp_path)
    pyplot.switch_backend("agg")


def check_pictures(name: str) -> None:
    """The example drew what its page shows, and the committed picture has the same size."""
    (script,) = (path for path in EXAMPLES if path.stem == name)
    shown = re.findall(r"\]\((\.\./docs/figures/[\w-]+\.png)\)", script.read_text())
    assert sorted(path.name for path in Path().iterdir()) == sorted(Path(one).name for one in shown)
    for one in shown:
        committed = script.parent / one
        assert committed.stat().st_size < 150_000
        with Image.open(Path(one).name) as drawn, Image.open(committed) as kept:
            assert drawn.size == kept.size


def test_every_example_is_tested() -> None:
    assert {path.stem for path in EXAMPLES} == {"foreign_model", "swap_the_head", "watermark"}


def test_swap_the_head() -> None:
    left = run("swap_the_head")
    measured = left["measured"]
    assert len(measured) == 12
    for encoding in ("1ofk", "ro", "padded"):
        assert measured[encoding, "clean"].value >= measured[encoding, "FGSM on margin"].value
        few, model = left["FEW"], left["models"][encoding][0]
        alone = left["standing"](model, [left["one_step"]["margin"]], few)
        worst = measured[encoding, "worst case"]
        assert worst.n == few
        assert worst.value <= sum(alone) / few
    check_pictures("swap_the_head")


def test_a_foreign_model() -> None:
    left = run("foreign_model")
    assert left["said"]["rounded"] == ["zero-gradients"]
    assert not left["said"]["undefended"]
    diagnoses = left["diagnoses"]
    # Rounding changes few decisions and hides every gradient.
    assert left["claims"]["rounded"].value == diagnoses["rounded"].clean.value
    assert "zero-gradients" in [item.key for item in diagnoses["rounded"].failed]
    assert "zero-gradients" not in [item.key for item in diagnoses["undefended"].failed]
    for name, claim in left["claims"].items():
        assert diagnoses[name].robust.value <= diagnoses[name].clean.value
        assert claim.n == left["TESTED"]
    check_pictures("foreign_model")


def test_watermark() -> None:
    left = run("watermark")
    assert len(left["found"]) == 7
    detections = [detection for _, detection in left["found"].values()]
    assert {detection.mark.n for detection in detections} == {len(left["key"].held_out)}
    assert len({detection.needed for detection in detections}) == 1
    # All are compared with the same networks: who shows more of the mark is less likely innocent.
    shares = sorted((detection.mark.value, detection.p_value) for detection in detections)
    assert [p for _, p in shares] == sorted((p for _, p in shares), reverse=True)
    check_pictures("watermark")
