"""The tour tells what is so, whatever the models at hand do."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pytest
import torch
from torch import Tensor, nn

import multiway as mw
from multiway.explore import Explorer
from multiway.explore.compute import look
from multiway.explore.tour import Stop, make_tour

EPS, LARGEST = 0.2, 0.5


def percent(right: Tensor) -> str:
    return f"{100 * float(right.double().mean()):.0f} %"


@pytest.fixture
def models(explorer: Explorer) -> Mapping[str, nn.Module]:
    return explorer.models


@pytest.fixture
def stops(explorer: Explorer) -> tuple[Stop, ...]:
    return tour(explorer, explorer.models)


def tour(explorer: Explorer, models: Mapping[str, nn.Module]) -> tuple[Stop, ...]:
    classes = explorer.data.classes
    return make_tour(models, explorer.images, explorer.labels, classes, EPS, LARGEST)


def right_under(
    explorer: Explorer, models: Mapping[str, nn.Module], on: str, objective: str, shown_to: str
) -> Tensor:
    """Who is right under FGSM, computed with the library alone."""
    images, labels = explorer.images, explorer.labels
    attack = mw.FGSM(mw.Linf(EPS), objective=objective, early_stop=False)
    adversarial = attack(models[on], images, labels).adversarial
    with torch.no_grad():
        scores: Tensor = models[shown_to](adversarial)
    return scores.argmax(dim=1) == labels


def test_the_shares_are_those_of_the_attacks(
    explorer: Explorer, models: Mapping[str, nn.Module], stops: tuple[Stop, ...]
) -> None:
    def share(*words: str) -> str:
        return percent(right_under(explorer, models, *words))

    one, other = share("1ofk", "own", "1ofk"), share("ro", "own", "ro")
    assert f"1ofk is right on {one} under this attack" in stops[1].text
    assert f"ro is right on {other}." in stops[2].text
    assert f"right on {share('ro', 'margin', 'ro')}, and was on {other}" in stops[3].text
    assert f"ro is right on {share('1ofk', 'own', 'ro')} of those crafted on 1ofk" in stops[4].text
    assert f"1ofk on {share('ro', 'margin', '1ofk')} of those crafted on" in stops[4].text


def test_what_is_said_of_the_image_is_what_the_stop_shows(
    explorer: Explorer, models: Mapping[str, nn.Module], stops: tuple[Stop, ...]
) -> None:
    classes = explorer.data.classes
    assert len(stops) == 6
    for stop in stops[1:4]:
        image = explorer.images[stop.settings.image]
        view = look(models, image, int(explorer.labels[stop.settings.image]), stop.settings)
        attacked = view.models[0]
        before, after = attacked.margin
        assert f"its margin goes from {before:.1f} to {after:.1f}" in stop.text
        still = attacked.decision[0] == attacked.decision[1]
        said = f"{attacked.name} {'still' if still else 'now'} says {classes[attacked.decision[1]]}"
        assert said in stop.text
    assert [stop.settings.objective for stop in stops[1:4]] == ["own", "own", "margin"]
    assert [stop.settings.on for stop in stops[1:4]] == ["1ofk", "ro", "ro"]


def test_claims_follow_the_figures_and_not_the_names(explorer: Explorer) -> None:
    """With the networks' roles turned round, the sentences about them turn too."""
    stops = tour(explorer, explorer.models)

    def figures(text: str) -> list[int]:
        return [int(number) for number in re.findall(r"(\d+) %", text)]

    ours, theirs = figures(stops[2].text)
    assert ("the paper's claim." in stops[2].text) == (ours > theirs)
    assert ("does not show" in stops[2].text) == (ours <= theirs)
    after, before = figures(stops[3].text)
    assert ("misled the attacker: " in stops[3].text) == (after < before)

    # A network that is wrong everywhere claims nothing.
    broken = mw.load_run(explorer.sources["ro"].run or "")[0]
    head = broken.head_layer()
    head.weight.data.zero_()
    assert head.bias is not None
    head.bias.data.zero_()
    stops = tour(explorer, {"1ofk": explorer.models["1ofk"], "ro": broken})
    assert "the whole story can be seen in 0; this one shows most of it" in stops[0].text
    assert "did not mislead" in stops[3].text


def test_where_each_breaks_is_said_of_both(stops: tuple[Stop, ...]) -> None:
    text = stops[5].text
    for name in ("1ofk", "ro"):
        assert re.search(rf"{name} breaks on own at (0\.\d+|none up to 0\.5)", text)
    assert re.search(r"breaks first|same eps|alone breaks|Neither breaks", text)


def test_a_tour_needs_both_kinds(explorer: Explorer) -> None:
    for name, missing in (("1ofk", "the second"), ("ro", "the first")):
        with pytest.raises(mw.MultiwayError, match=f"{missing} is not there"):
            tour(explorer, {name: explorer.models[name]})
