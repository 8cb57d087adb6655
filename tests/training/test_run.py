"""Run directories: nothing that is there is ever lost or mixed up."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from multiway.errors import MultiwayError
from multiway.results import Provenance, Result
from multiway.training import Run, load_run, open_run

CONFIG: dict[str, Any] = {
    "classifier": {
        "backbone": None,
        "encoding": {
            "name": "ro",
            "loss": "mse",
            "codebook": "ro",
            "classes": 10,
            "length": 20,
            "beta": 1.0,
        },
        "gain": 1.0,
        "head": None,
    },
    "data": {"name": "toy", "sha256": "ab", "images": 3, "classes": ["a", "b"]},
    "recipe": {"lr": 0.1},
    "seed": 0,
    "validation": 0.0,
    "versions": {"torch": "1"},
}


def test_a_new_run_and_its_resumption(tmp_path: Path) -> None:
    run = open_run(tmp_path / "a" / "b", CONFIG, resume=False)
    assert run.config() == CONFIG
    assert not run.finished
    later = {**CONFIG, "versions": {"torch": "2"}}  # another version may go on
    assert open_run(tmp_path / "a" / "b", later, resume=True).config() == CONFIG


def test_resume_of_nothing_starts(tmp_path: Path) -> None:
    assert open_run(tmp_path / "new", CONFIG, resume=True).config() == CONFIG


@pytest.mark.parametrize("finished", [True, False])
def test_an_existing_run_is_not_overwritten(finished: bool, tmp_path: Path) -> None:
    run = open_run(tmp_path / "run", CONFIG, resume=False)
    (run.weights if finished else run.state).write_bytes(b"x")
    expected = "a finished run" if finished else "an unfinished run already; choose --resume"
    with pytest.raises(MultiwayError, match=expected):
        open_run(tmp_path / "run", CONFIG, resume=False)
    assert (run.weights if finished else run.state).read_bytes() == b"x"


def test_another_configuration_is_told_apart(tmp_path: Path) -> None:
    open_run(tmp_path / "run", CONFIG, resume=False)
    changed = {**CONFIG, "recipe": {"lr": 0.2}, "seed": 1}
    with pytest.raises(MultiwayError, match=r"recipe.lr was 0.1, now 0.2; seed was 0, now 1"):
        open_run(tmp_path / "run", changed, resume=True)


def test_a_folder_of_something_else(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("dear reader")
    with pytest.raises(MultiwayError, match=r"not empty and not a run \(it holds thesis.tex\)"):
        open_run(tmp_path, CONFIG, resume=True)
    with pytest.raises(MultiwayError, match="is a file; --out takes a folder"):
        open_run(tmp_path / "thesis.tex", CONFIG, resume=False)


def test_a_place_where_nothing_can_be_written() -> None:
    # /proc refuses new folders to everyone, root included.
    with pytest.raises(MultiwayError, match="cannot create the folder /proc/multiway"):
        open_run(Path("/proc/multiway"), CONFIG, resume=False)


@pytest.mark.parametrize(
    ("text", "message"),
    [('{"classifier": ', "cut short or edited"), ("[]", "does not describe a multiway run")],
)
def test_a_half_written_configuration(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(MultiwayError, match=message):
        open_run(tmp_path, CONFIG, resume=True)


def test_metrics_cut_short_by_a_kill(tmp_path: Path) -> None:
    run = open_run(tmp_path / "run", CONFIG, resume=False)
    for step in (1, 2, 3):
        run.append_metrics({"step": step, "epoch": step, "accuracy": 0.5})
    with (tmp_path / "run/metrics.jsonl").open("a") as file:
        file.write('{"step": 4, "lo')
    assert [line["step"] for line in run.metrics()] == [1, 2, 3]
    run.forget_metrics_after(2)
    assert [line["step"] for line in run.metrics()] == [1, 2]


def test_results_carry_versions(tmp_path: Path) -> None:
    run = open_run(tmp_path / "run", CONFIG, resume=False)
    made = Provenance.now("toy", ["run"], 3)
    result = Result(name="train", title="t", chart="table", cells=(), provenance=made)
    path = run.write_result("clean", result)
    assert path == tmp_path / "run/results/clean.json"
    assert "torch" in json.loads(path.read_text())["provenance"]["versions"]


def test_loading_what_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(MultiwayError, match="there is no run"):
        load_run(tmp_path / "none")
    run = open_run(tmp_path / "run", CONFIG, resume=False)
    run.state.write_bytes(b"x")
    with pytest.raises(MultiwayError, match="not finished; go on with .* --resume"):
        load_run(tmp_path / "run")
    run.state.unlink()
    run.weights.write_bytes(b"x")
    with pytest.raises(MultiwayError, match="no best weights; train with --validation"):
        load_run(tmp_path / "run", best=True)
    assert Run(tmp_path / "run").finished
