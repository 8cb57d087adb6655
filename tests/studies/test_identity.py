"""Keys: all that decides a result counts, what does not decide it does not."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from multiway.artifact import Artifact
from multiway.attacks import APGD, FGSM, PGD, AutoAttack, autoattack, pgd
from multiway.data.corruptions import KINDS
from multiway.encoding import ENCODINGS
from multiway.store import Store
from multiway.studies import models
from multiway.studies.artifacts import Agreement, Corrupted, Crafted, Decided, LastLayer, Signs
from multiway.studies.images import Images
from multiway.studies.models import Model, Untrained
from multiway.studies.picture_artifacts import Bent, Salient, Surface
from multiway.studies.watermark_artifacts import Marked, Owned, Recognised, Thief
from multiway.threat import Linf
from multiway.training import load_recipe
from multiway.watermark import Mark

TRAIN, TEST = Images("mnist5k", "train"), Images("mnist5k", "test", 10)
RECIPE = load_recipe("digits")
MARKED = Marked(TRAIN, TEST, Mark("content", source=1, target=0), 5)

MODEL = Model(TRAIN, "wong", "ro", RECIPE)
OTHER = Model(TRAIN, "wong", "ro", RECIPE, seed=1)
OWNED = Owned(TRAIN, "wong", "ro", RECIPE, marked=MARKED)
THIEF = Thief(TEST, "wong", "ro", RECIPE, stolen=OWNED, start="free")
CRAFTED = Crafted(MODEL, PGD(Linf(0.3)), TEST)

EXAMPLES: tuple[Artifact, ...] = (
    MODEL,
    OWNED,
    THIEF,
    CRAFTED,
    Decided(MODEL, CRAFTED),
    Signs(MODEL, TEST, "own"),
    Agreement(Signs(MODEL, TEST, "own"), Signs(MODEL, TEST, "margin")),
    Corrupted(MODEL, TEST, ("fog",), (1, 3)),
    LastLayer(MODEL, TEST),
    Untrained(TRAIN, "wong", "ro", RECIPE),
    Salient((("A", MODEL),), TEST, ("own",)),
    Surface((("A", MODEL),), TEST, 0.3, "own", "margin", 11),
    Bent(MODEL, TEST, 0.3, "own"),
    Recognised(OWNED, MARKED),
)

# For each field another value.
CHANGED: dict[str, Any] = {
    "images": Images("mnist5k", "test", 7),
    "backbone": "d",
    "encoding": "padded",
    "recipe": load_recipe("wong-mnist"),
    "seed": 5,
    "code_length": 64,
    "beta": 3.0,
    "code_seed": 9,
    "marked": replace(MARKED, count=6),
    "stolen": replace(OWNED, seed=1),
    "start": "frozen",
    "batch_size": 100,
    "source": OTHER,
    "attack": PGD(Linf(0.3), steps=7),
    "target": OTHER,
    "shown": TEST,
    "model": OTHER,
    "objective": "margin",
    "corruptions": ("fog", "snow"),
    "severities": (1, 4),
    "models": (("A", OTHER),),
    "objectives": ("own", "margin"),
    "eps": 0.2,
    "quantity": "paper",
    "points": 13,
    "suspect": OTHER,
    "limit": 4,
    "published": True,
    "features": True,
    "one": Signs(OTHER, TEST, "own"),
    "other": Signs(OTHER, TEST, "margin"),
}


def kinds(of: type[Artifact] = Artifact) -> Iterator[type[Artifact]]:
    """All classes of artifacts that studies can make."""
    for kind in of.__subclasses__():
        if kind.__module__.startswith("multiway.studies") and not inspect.isabstract(kind):
            yield kind
        yield from kinds(kind)


def test_every_class_has_an_example() -> None:
    assert {type(example) for example in EXAMPLES} == set(kinds())


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.kind)
def test_every_field_decides_the_key(example: Artifact) -> None:
    record: Any = example
    keys = {example.key}
    for each in fields(record):
        keys.add(replace(record, **{each.name: CHANGED[each.name]}).key)
    assert len(keys) == 1 + len(fields(record))


def test_what_an_artifact_is_made_from_decides_its_key_and_is_its_parent() -> None:
    decided = Decided(OTHER, CRAFTED)
    assert {parent.key for parent in decided.parents()} == {OTHER.key, CRAFTED.key}
    assert decided.key != Decided(OTHER, replace(CRAFTED, source=OTHER)).key
    assert {parent.key for parent in LastLayer(MODEL, TEST).parents()} == {MODEL.key}


def test_names_decide_nothing() -> None:
    renamed = RECIPE.model_copy(update={"name": "mine", "source": "me", "changed": "all"})
    assert replace(MODEL, recipe=renamed).key == MODEL.key
    whole = len(Images("mnist5k", "test"))
    assert Signs(MODEL, Images("mnist5k", "test", whole + 5), "own").key == (
        Signs(MODEL, Images("mnist5k", "test"), "own").key
    )


def test_a_default_is_the_same_as_its_value() -> None:
    assert replace(MODEL, code_length=2000, beta=1000.0).key == MODEL.key
    # One-hot labels have no seed.
    one_hot = replace(MODEL, encoding="1ofk")
    assert replace(one_hot, code_seed=9).key == one_hot.key


DEFAULTS: dict[str, tuple[Callable[[], Artifact], Callable[[pytest.MonkeyPatch], None]]] = {
    "the norm of codewords": (
        lambda: replace(MODEL),
        lambda patch: patch.setattr("multiway.codebook.default_beta", lambda length: 7.0),
    ),
    "the length of codes": (
        lambda: replace(MODEL),
        lambda patch: patch.setitem(
            ENCODINGS, "ro", replace(ENCODINGS["ro"], default_length=lambda classes: 64)
        ),
    ),
    "the codes of a thief": (
        lambda: replace(THIEF),
        lambda patch: patch.setattr("multiway.codebook.default_beta", lambda length: 7.0),
    ),
    "the length of a step": (
        lambda: replace(CRAFTED),
        lambda patch: patch.setattr(pgd, "default_share", lambda steps: 0.5),
    ),
    "the parts of AutoAttack": (
        lambda: replace(CRAFTED, attack=AutoAttack(Linf(0.3))),
        lambda patch: patch.setattr(autoattack, "APGD", partial(APGD, steps=7)),
    ),
    "the constants of a severity": (
        lambda: Corrupted(MODEL, TEST, ("fog",), (1,)),
        lambda patch: patch.setitem(
            KINDS, "fog", replace(KINDS["fog"], severities=KINDS["fog"].severities[::-1])
        ),
    ),
}


@pytest.mark.parametrize("default", DEFAULTS)
def test_a_changed_default_is_another_artifact(
    default: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It must not be served from what a store has of the old one."""
    artifact, change = DEFAULTS[default]
    models._codewords.cache_clear()
    before = artifact().key
    assert artifact().key == before
    change(monkeypatch)
    models._codewords.cache_clear()
    assert artifact().key != before
    monkeypatch.undo()
    models._codewords.cache_clear()
    assert artifact().key == before


def test_a_key_is_found_again_by_the_same_description(tmp_path: Path) -> None:
    store = Store(tmp_path / "store").create()
    tiny = replace(
        MODEL, backbone="d", recipe=RECIPE.model_copy(update={"steps": 1, "epochs": None})
    )
    shown = Decided(tiny, TEST)
    assert store.make(tiny)
    assert store.make(shown)
    again = Decided(replace(tiny, code_length=2000), Images("mnist5k", "test", 10))
    assert again in store
    assert again.right(store).shape == (10,)
    assert Decided(tiny, Crafted(tiny, FGSM(Linf(0.1)), TEST)) not in store
