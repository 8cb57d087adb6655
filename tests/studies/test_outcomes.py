"""Outcomes without the networks: all figures follow from them, on another machine and in parts."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from small_studies import Small, make, shared_store
from torch import Tensor

from conftest import Command
from multiway.artifact import Artifact, BuildContext
from multiway.attacks import PGD
from multiway.errors import UnusableFile
from multiway.schedule import order, unmade
from multiway.store import Store
from multiway.studies import (
    CellSpec,
    Study,
    collect_result,
    load_outcomes,
    measured_elsewhere,
    plan_study,
    save_outcomes,
    scale_of,
)  # fmt: skip
from multiway.studies.artifacts import Crafted, Decided, Measurement
from multiway.studies.measures import Accuracy, Measure
from multiway.studies.outcomes import BEFORE, _packed, _unpacked
from multiway.threat import Linf
from multiway.training import measure as watching
from multiway.weights import read_metadata, read_tensors, write_tensors
from warm import warm

SMOKE = scale_of("smoke")


@dataclass(frozen=True)
class Network(Artifact):
    """What is expensive and stays behind."""

    seed: int

    def title(self) -> str:
        return f"network {self.seed}"

    def seconds(self) -> float:
        return 100.0

    def make(self, context: BuildContext) -> dict[str, Any]:
        return {"seconds": 20.0}


@dataclass(frozen=True)
class Shown(Measurement):
    """Which of 11 images a network gets right, and a number for each."""

    network: Network

    def title(self) -> str:
        return "show images"

    def seconds(self) -> float:
        return 1.0

    def make(self, context: BuildContext) -> dict[str, Any]:
        draw = torch.Generator().manual_seed(self.network.seed)
        right = torch.rand(11, generator=draw) < 0.6
        bend = torch.rand(11, generator=draw, dtype=torch.float64)
        self.save(context, {"right": right, "bend": bend})
        return {"n": 11, "seconds": 7.0, "warnings": {"odd": "an odd image"}}


@dataclass(frozen=True)
class Right(Measure):
    shown: tuple[Shown, ...]

    def values(self, store: Store) -> Tensor:
        return torch.stack([each.tensors(store)["right"].double() for each in self.shown])


def study_of(*seeds: int) -> Study:
    measure = Right(tuple(Shown(Network(seed)) for seed in seeds))
    return Study(
        name="signs", title="?", question="?", paper="", chart="dots", column_name="?",
        cells=(CellSpec("RO", "fixed by the class", measure, metric="share"),),
        data="none", models="none", n=11, seeds=seeds,
    )  # fmt: skip


def measured(folder: Path, *seeds: int) -> tuple[Study, Store]:
    study, store = study_of(*seeds), Store(folder).create()
    make(study.artifacts(), store)
    return study, store


@pytest.mark.parametrize("collapsed", [True, False])
def test_a_collapsed_training_is_named_here_and_elsewhere(
    collapsed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Two steps of a training overfit to nothing; so the watch is told what it saw.
    monkeypatch.setattr(watching.Watch, "collapsed", collapsed)
    monkeypatch.setattr(watching, "STEPS", 2)
    trial = scale_of("smoke", trial=True)
    model = trial.robust_model("MNIST", "ro", 0)
    decided = Decided(model, trial.test_images(trial.robust["MNIST"]))
    study = replace(study_of(0), cells=(CellSpec("RO", "clean", Accuracy(((decided,),))),))
    here, there = (Store(tmp_path / name).create() for name in ("here", "there"))
    make([decided], here)
    save_outcomes(study, "smoke", here, tmp_path / "outcomes")
    load_outcomes([study], there, tmp_path / "outcomes")
    assert model not in there
    for store in (here, there):
        said = collect_result(study, SMOKE, store).provenance.warnings
        named = [each for each in said if each.startswith(f"collapsed: {model.name} has ")]
        assert len(named) == collapsed


def test_what_attacks_warned_of_is_said_wherever_their_outcomes_go(tmp_path: Path) -> None:
    trial = scale_of("smoke", trial=True)
    model, images = trial.clean_model("A", "ro", 0), trial.test_images(trial.clean["A"])
    shorts = [PGD(Linf(0.2), steps=2, step_size=0.01, objective=each) for each in ("own", "margin")]
    decided = tuple(Decided(model, Crafted(model, short, images)) for short in shorts)
    study = replace(study_of(0), cells=(CellSpec("RO", "PGD", Accuracy((decided,))),))
    stores = [Store(tmp_path / str(number)).create() for number in range(3)]
    make(order(study.artifacts()), stores[0])
    for number, (one, other) in enumerate(itertools.pairwise(stores)):
        save_outcomes(study, "smoke", one, tmp_path / f"outcomes-{number}")
        load_outcomes([study], other, tmp_path / f"outcomes-{number}")
    said = {collect_result(study, SMOKE, store).provenance.warnings for store in stores}
    ((text,),) = said
    assert text.startswith("short-steps, 2 of 2 attacks; in the first (")


@given(st.lists(st.booleans(), max_size=70))
def test_bits_come_back(values: list[bool]) -> None:
    tensor = torch.tensor(values, dtype=torch.bool)
    packed, count = _packed(tensor)
    assert packed.numel() == -(-len(values) // 8)
    assert torch.equal(_unpacked(Path("x"), "right", packed, count), tensor)


def test_all_figures_follow_from_the_outcomes_without_the_networks(tmp_path: Path) -> None:
    study, store = measured(tmp_path / "here", 0, 1, 2)
    path = save_outcomes(study, "smoke", store, tmp_path / "outcomes")
    assert path == tmp_path / "outcomes" / "signs-smoke.safetensors"
    other = Store(tmp_path / "there").create()
    assert load_outcomes([study], other, tmp_path / "outcomes") == 3
    assert load_outcomes([study], other, tmp_path / "outcomes") == 0  # they are there now
    assert not any(Network(seed) in other for seed in study.seeds)
    here, there = (collect_result(study, SMOKE, each) for each in (store, other))
    assert there.cells == here.cells
    assert there.provenance.versions["torch"] == here.provenance.versions["torch"]
    # Seven seconds for each measurement and twenty for each network, which is not there.
    assert there.provenance.minutes == here.provenance.minutes == pytest.approx(27 * 3 / 60)
    again = save_outcomes(study, "smoke", other, tmp_path / "again")
    assert again is not None
    third = Store(tmp_path / "third").create()
    load_outcomes([study], third, again.parent)
    assert collect_result(study, SMOKE, third).provenance.minutes == here.provenance.minutes
    assert there.provenance.warnings == here.provenance.warnings != ()
    kept = Shown(Network(1)).tensors(other)["bend"]
    torch.testing.assert_close(kept.double(), Shown(Network(1)).tensors(store)["bend"])


def test_seeds_of_several_machines_come_together(tmp_path: Path) -> None:
    outcomes = tmp_path / "outcomes"
    for seeds in ((0, 1), (2,), (0,)):  # the last one must not lose what the first two brought
        study, store = measured(tmp_path / f"store-{seeds}", *seeds)
        save_outcomes(study, "smoke", store, outcomes)
    whole, store = study_of(0, 1, 2), Store(tmp_path / "whole").create()
    elsewhere = measured_elsewhere([whole], store, outcomes)
    assert elsewhere == {each.key for each in whole.artifacts()}
    assert plan_study(whole, store, elsewhere).left == 0
    assert plan_study(whole, store, set()).left == 6
    assert load_outcomes([whole], store, outcomes) == 3
    assert (
        unmade(whole.artifacts(), {each.key for each in whole.artifacts() if each in store}) == []
    )


def test_two_that_save_at_once_keep_what_both_bring(tmp_path: Path) -> None:
    """Real processes: one holds the file while it reads and writes, and the others wait."""
    begun, outcomes = time.monotonic(), tmp_path / "outcomes"
    program = (
        "import sys; from pathlib import Path; from test_outcomes import measured, save_outcomes; "
        "root, seed = Path(sys.argv[1]), int(sys.argv[2]); "
        "save_outcomes(*(lambda study, store: (study, 'smoke', store))"
        "(*measured(root / str(seed), seed)), root / 'outcomes')"
    )
    processes = [warm("-c", program, tmp_path, seed, cwd=tmp_path) for seed in range(6)]
    for process in processes:
        _, errors = process.communicate()
        assert process.returncode == 0, errors
    study, store = study_of(*range(6)), Store(tmp_path / "whole").create()
    assert len(measured_elsewhere([study], store, outcomes)) == 6
    assert time.monotonic() - begun < 60


def test_what_another_study_needs_is_not_taken(tmp_path: Path) -> None:
    study, store = measured(tmp_path / "here", 0)
    save_outcomes(study, "smoke", store, tmp_path / "outcomes")
    other = Store(tmp_path / "there").create()
    assert load_outcomes([study_of(5)], other, tmp_path / "outcomes") == 0
    assert load_outcomes([study], other, tmp_path / "nowhere") == 0
    assert save_outcomes(study_of(7), "smoke", other, tmp_path / "empty") is None


@dataclass(frozen=True)
class Attacked(Shown):
    """The same images of one network, once for each attack."""

    attack: str = "weak"

    @property
    def subject(self) -> Any:
        return self.network


def attacked(*attacks: str) -> Study:
    measure = Right(tuple(Attacked(Network(seed), attack) for seed in (0, 1) for attack in attacks))
    return replace(study_of(0, 1), cells=(replace(study_of(0).cells[0], measure=measure),))


def test_a_network_that_is_trained_again_is_measured_again_as_a_whole(tmp_path: Path) -> None:
    """A training elsewhere is another network: no worst case is taken over attacks on both."""
    outcomes = tmp_path / "outcomes"
    here = Store(tmp_path / "here").create()
    make([*attacked("weak").artifacts(), Attacked(Network(1), "strong")], here)
    save_outcomes(attacked("weak", "strong"), "smoke", here, outcomes)
    there, both = Store(tmp_path / "there").create(), attacked("weak", "strong")
    # Of network 0 the strong attack is missing, so that it is trained there.
    whole = {Attacked(Network(1), attack).key for attack in ("weak", "strong")}
    assert measured_elsewhere([both], there, outcomes) == whole
    # One study alone has all that it asks for; the other asks for more of the same networks.
    assert len(measured_elsewhere([attacked("weak")], there, outcomes)) == 2
    assert measured_elsewhere([attacked("weak"), both], there, outcomes) == whole
    assert load_outcomes([both], there, outcomes) == 2
    assert measured_elsewhere([both], there, outcomes) == set()
    # What was taken before does not stand in the way of the rest of it, and goes with the rest.
    third = Store(tmp_path / "third").create()
    assert load_outcomes([attacked("weak")], third, outcomes) == 2
    assert load_outcomes([both], third, outcomes) == 1
    assert Attacked(Network(0), "weak") not in third
    assert {each.key for each in both.artifacts() if each in third} == whole
    assert load_outcomes([both], third, None) == 0
    assert {each.key for each in both.artifacts() if each in third} == whole
    # What was measured in the store does.
    fourth = Store(tmp_path / "fourth").create()
    make([Attacked(Network(1), "weak")], fourth)
    assert measured_elsewhere([both], fourth, outcomes) == set()


def test_two_trainings_of_a_network_in_two_files_are_not_mixed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each file has one attack of another training; only together they would have both."""
    outcomes, both = tmp_path / "outcomes", attacked("weak", "strong")
    stores = {}
    for seconds, attacks in ((20.0, ["weak"]), (30.0, ["strong"])):
        monkeypatch.setattr(Network, "make", lambda *_, took=seconds: {"seconds": took})
        stores[seconds] = Store(tmp_path / str(seconds)).create()
        make(attacked(*attacks).artifacts(), stores[seconds])
        study = replace(attacked(*attacks), name=f"took-{seconds:.0f}")
        save_outcomes(study, "smoke", stores[seconds], outcomes)
    assert measured_elsewhere([both], Store(tmp_path / "there").create(), outcomes) == set()
    assert len(measured_elsewhere([attacked("weak")], Store(tmp_path / "there"), outcomes)) == 2
    # What the store took of the first training goes, when the second one is there as a whole.
    here = Store(tmp_path / "here").create()
    assert load_outcomes([attacked("weak")], here, outcomes) == 2
    make(attacked("weak").artifacts(), stores[30.0])
    save_outcomes(replace(both, name="took-30"), "smoke", stores[30.0], outcomes)
    assert load_outcomes([both], here, outcomes) == 4
    notes = [here.read(each).notes[BEFORE] for each in both.artifacts()]
    assert {seconds for each in notes for seconds in each.values()} == {30.0}
    # It stays when a whole first one comes, too.
    make(attacked("strong").artifacts(), stores[20.0])
    save_outcomes(replace(both, name="took-20"), "smoke", stores[20.0], outcomes)
    assert load_outcomes([both], here, outcomes) == 0
    assert all(each in here for each in both.artifacts())


def test_what_is_left_of_a_damaged_artifact_is_moved_aside(tmp_path: Path) -> None:
    study, store = measured(tmp_path / "here", 0)
    save_outcomes(study, "smoke", store, tmp_path / "outcomes")
    record = store.read(Shown(Network(0)))
    (record.folder / "artifact.json").unlink()
    again = Store(tmp_path / "here")
    assert load_outcomes([study], again, tmp_path / "outcomes") == 1
    assert Shown(Network(0)) in again
    assert list((tmp_path / "here" / "damaged").iterdir())


def test_pictures_stay_behind(tmp_path: Path) -> None:
    """Their arrays hold images of the data sets."""
    study, store = measured(tmp_path / "here", 0, 1)
    drawn = replace(study, pictures={"map": Shown(Network(1))})
    path = save_outcomes(drawn, "smoke", store, tmp_path / "outcomes")
    assert path is not None
    other = Store(tmp_path / "there").create()
    assert measured_elsewhere([drawn], other, path.parent) == {Shown(Network(0)).key}


def edited(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    """Changes the first entry of a file of outcomes."""

    def edit(path: Path) -> None:
        entries = json.loads(read_metadata(path)["outcomes"])
        change(next(iter(entries.values())))
        write_tensors(read_tensors(path), path, {"outcomes": json.dumps(entries)})

    return edit


DAMAGES: dict[str, Callable[[Path], Any]] = {
    "is not a whole safetensors file": lambda path: path.write_bytes(path.read_bytes()[:-5]),
    "holds no outcomes of a study": lambda path: write_tensors({}, path),
    "its outcomes are no JSON": lambda path: write_tensors({}, path, {"outcomes": "[" * 9}),
    "seconds is -1": edited(lambda entry: entry.update(seconds=-1)),
    "right of [0-9a-f]+ is not 300 bits": edited(lambda entry: entry["tensors"].update(right=300)),
    "the values of [0-9a-f]+ were altered": lambda path: write_tensors(
        {
            name: values ^ 8 if values.dtype == torch.uint8 else values
            for name, values in read_tensors(path).items()
        },
        path,
        read_metadata(path),
    ),
    "the values of ([0-9a-f]+) were altered": edited(lambda entry: entry["tensors"].pop("right")),
    "the values of [0-9a-f]* were altered": edited(lambda entry: entry["tensors"].update(right=9)),
    "lacks the values left": edited(lambda entry: entry["tensors"].update(left=11)),
}


@pytest.mark.parametrize("problem", DAMAGES)
def test_damaged_outcomes_are_refused_and_nothing_of_them_is_taken(
    tmp_path: Path, problem: str
) -> None:
    study, store = measured(tmp_path / "here", 0)
    path = save_outcomes(study, "smoke", store, tmp_path / "outcomes")
    assert path is not None
    DAMAGES[problem](path)
    other = Store(tmp_path / "there").create()
    with pytest.raises(UnusableFile, match=problem) as caught:
        load_outcomes([study], other, path.parent)
    assert "\n" not in str(caught.value)
    assert not any(artifact in other for artifact in study.artifacts())


@pytest.mark.parametrize(("name", "seed"), [("signs", None), ("confidence", 0)])
def test_a_real_study_is_judged_by_its_outcomes(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, name: str, seed: int | None
) -> None:
    """The seed of its attacks, if it has any, is known without the attacked images."""
    small = Small(tmp_path, shared_store(tmp_path_factory, "small-studies"))
    study = small.study(name)
    make(study.artifacts(), small.store)
    save_outcomes(study, "smoke", small.store, tmp_path / "outcomes")
    other = Store(tmp_path / "there").create()
    load_outcomes([study], other, tmp_path / "outcomes")
    here, there = (collect_result(study, small.scale, each) for each in (small.store, other))
    assert [each.value for each in there.cells] == pytest.approx([e.value for e in here.cells])
    assert [each.verdict for each in there.verdicts] == [each.verdict for each in here.verdicts]
    assert there.provenance.attack_seed == here.provenance.attack_seed == seed


def test_some_seeds_are_shown_and_not_written(in_process: Command, tmp_path: Path) -> None:
    """Fig. 1 needs no network, and has no seeds to leave out."""
    ran = in_process("reproduce", "intro", "--seeds", 1, "--store", "s", "--outcomes", "o")
    assert ran.returncode == 0
    assert "the figures of some of the seeds" in ran.stderr
    assert "harmful share" in ran.stdout
    assert not list((tmp_path / "s" / "results").iterdir())
    plan = in_process("reproduce", "correlation", "--dry-run", "--json", "--store", "s",
                      "--seeds", 1)  # fmt: skip
    assert json.loads(plan.stdout)["studies"][0]["trainings"] == 4
