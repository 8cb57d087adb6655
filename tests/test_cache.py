"""What is kept in a cache is computed once, for the model that it belongs to."""

from __future__ import annotations

import multiprocessing
import warnings
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from multiway.cache import Cache, Computed
from multiway.errors import MultiwayError, MultiwayWarning

SCORES = torch.tensor([[1.0, -200.0], [3.0, 4.0]])


class Counted:
    """Computes what it is told and counts how often."""

    def __init__(self, value: float) -> None:
        self.value, self.count = value, 0

    def __call__(self) -> Computed:
        self.count += 1
        value = torch.tensor([self.value])
        return {"one": value, "twin": value}, {"said": f"number {self.count}"}


def cache(directory: Path, scores: Tensor = SCORES, **data: object) -> Cache:
    return Cache(directory, nn.Identity(), scores, **data)


def test_computed_once_and_found_by_all_that_describes_it(tmp_path: Path) -> None:
    compute = Counted(0.5)
    for _ in range(2):
        tensors, record = cache(tmp_path, data="a").get("kind", compute, place=1)
        # Tensors that share their memory are both there.
        assert (tensors["one"].item(), tensors["twin"].item()) == (0.5, 0.5)
        assert record.notes == {"said": "number 1"}
    here = cache(tmp_path, data="a")
    assert here.has("kind", place=1)
    assert not here.has("kind", place=2)
    assert not here.has("other", place=1)
    assert not cache(tmp_path, data="b").has("kind", place=1)
    assert compute.count == 1


def test_scores_tell_models_apart_that_a_fingerprint_cannot(tmp_path: Path) -> None:
    """Rounding (1e-5 of the largest score, 200) is forgiven; what is more is another model."""
    cache(tmp_path).get("kind", Counted(0.5))
    for change, same in ((1.9e-3, True), (-1.9e-3, True), (2.1e-3, False), (1.0, False)):
        other = SCORES.clone()
        other[1, 0] += change
        found, _ = cache(tmp_path, other).get("kind", Counted(change))
        assert found["one"].item() == pytest.approx(0.5 if same else change)
    # The first is found again, with all the others there.
    assert cache(tmp_path).get("kind", Counted(9.0))[0]["one"].item() == 0.5
    for other in (SCORES[:1], SCORES.double()):
        assert not cache(tmp_path, other).has("kind")


def test_damage_is_set_aside_and_computed_again(tmp_path: Path) -> None:
    compute = Counted(0.5)
    cache(tmp_path).get("kind", compute)
    (folder,) = (tmp_path / "artifacts" / "kind").iterdir()
    (folder / "artifact.json").write_text("{}")
    with pytest.warns(MultiwayWarning, match="artifact.json was cut short.*computed again"):
        cache(tmp_path).get("kind", compute)
    (folder / "tensors.safetensors").unlink()
    with pytest.warns(MultiwayWarning, match="tensors.safetensors is missing"):
        cache(tmp_path).get("kind", compute)
    assert compute.count == 3
    assert len(list((tmp_path / "damaged").iterdir())) == 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cache(tmp_path).get("kind", compute)


def test_what_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    def fail() -> Computed:
        raise MultiwayError("no gradient")

    with pytest.raises(MultiwayError, match="no gradient"):
        cache(tmp_path).get("kind", fail)
    assert not cache(tmp_path).has("kind")
    assert cache(tmp_path).get("kind", Counted(0.5))[0]["one"].item() == 0.5


def slowly(directory: Path, log: Path) -> None:
    def compute() -> Computed:
        import time

        with log.open("a") as file:
            file.write("computed\n")
        time.sleep(0.3)
        return {"one": torch.tensor([7.0])}, {}

    assert cache(directory).get("kind", compute)[0]["one"].item() == 7.0


def test_processes_wait_for_each_other(tmp_path: Path) -> None:
    log = tmp_path / "log"
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=slowly, args=(tmp_path / "store", log)) for _ in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0, 0, 0]
    assert log.read_text() == "computed\n"


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "picture.png").write_bytes(b"")
    with pytest.raises(MultiwayError, match="not empty and not a store"):
        cache(tmp_path)
