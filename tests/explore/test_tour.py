"""The tour says what is so, whatever the models at hand do."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pytest
import torch
from scipy.stats import binomtest
from torch import Tensor, nn

import multiway as mw
from multiway.encoding import ENCODINGS
from multiway.explore import Explorer
from multiway.explore.compute import look
from multiway.explore.settings import ATTACKS
from multiway.explore.tour import Stop, make_tour
from multiway.explore.tour_texts import sign_test
from multiway.explore.words import ATTACK_WORDS, OBJECTIVE_WORDS, how_trained, margin_words
from multiway.objectives import OBJECTIVES

EPS, LARGEST = 0.2, 0.5


def percent(right: Tensor) -> str:
    """A share with Wilson's interval, as the stops write it."""
    found = binomtest(int(right.sum()), len(right)).proportion_ci(method="wilson")
    share, low, high = (100 * end for end in (float(right.double().mean()), found.low, found.high))
    return f"{share:.0f} % [{low:.0f}, {high:.0f}]"


def clearly_more(first: Tensor, second: Tensor) -> int:
    """McNemar's exact test by its definition, at 5 %."""
    more, fewer = int((first & ~second).sum()), int((~first & second).sum())
    if more + fewer == 0 or binomtest(more, more + fewer).pvalue > 0.05:
        return 0
    return 1 if more > fewer else -1


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

    own = share("ro", "own", "ro")
    assert f"1ofk is right on {share('1ofk', 'own', '1ofk')}, and on" in stops[1].text
    assert f"ro is right on {own}." in stops[2].text
    assert f"ro is right on {share('ro', 'margin', 'ro')}, after {own}" in stops[3].text
    assert f"made on 1ofk, ro is right on {share('1ofk', 'own', 'ro')}, and 1ofk" in stops[4].text
    assert f"1ofk on {share('ro', 'margin', '1ofk')} of those made on" in stops[4].text
    both = {
        name: right_under(explorer, models, name, "own", name)
        & right_under(explorer, models, name, "margin", name)
        for name in ("1ofk", "ro")
    }
    assert f"ro keeps {percent(both['ro'])}" in stops[3].text
    assert f"the {percent(both['1ofk'])} of 1ofk" in stops[3].text


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
        assert f"its margin goes from {margin_words(before)} to {margin_words(after)}" in stop.text
        still = attacked.decision[0] == attacked.decision[1]
        said = f"{attacked.name} {'still' if still else 'now'} says {classes[attacked.decision[1]]}"
        assert said in stop.text
    assert [stop.settings.objective for stop in stops[1:4]] == ["own", "own", "margin"]
    assert [stop.settings.on for stop in stops[1:4]] == ["1ofk", "ro", "ro"]


def test_claims_follow_the_figures_and_not_the_names(explorer: Explorer) -> None:
    """A conclusion is drawn only where chance does not explain the difference."""
    models = explorer.models
    stops = tour(explorer, models)

    def right(on: str, objective: str, shown_to: str) -> Tensor:
        return right_under(explorer, models, on, objective, shown_to)

    own, margin = right("ro", "own", "ro"), right("ro", "margin", "ro")
    claim = clearly_more(own, right("1ofk", "own", "1ofk"))
    assert ("look robust, as the paper claims" in stops[2].text) == (claim > 0)
    assert ("does not show" in stops[2].text) == (claim <= 0)
    misled = clearly_more(own, margin)
    assert ("misled the attacker" in stops[3].text) == (misled > 0)
    assert ("did not mislead" in stops[3].text) == (misled <= 0)
    assert ("the flaw" in stops[3].title) == (misled > 0)
    direct = clearly_more(right("1ofk", "own", "ro"), margin)
    assert ("says little about it" in stops[4].text) == (direct > 0)

    # A network that is wrong everywhere claims nothing.
    broken = mw.load_run(explorer.sources["ro"].run or "")[0]
    head = broken.head_layer()
    head.weight.data.zero_()
    assert head.bias is not None
    head.bias.data.zero_()
    stops = tour(explorer, {"1ofk": explorer.models["1ofk"], "ro": broken})
    assert "can be seen in 0 of the first" in stops[0].text
    assert "did not mislead" in stops[3].text
    assert "the flaw" not in stops[3].title
    assert "look robust" not in stops[2].text


def test_a_difference_that_chance_explains_is_none() -> None:
    def right(count: int) -> Tensor:
        return torch.arange(20) < count

    for more in range(21):
        expected = 0 if more == 0 else int(2 * 0.5**more <= 0.05)  # the test's closed form
        assert sign_test(right(more), right(0)) == expected
        assert sign_test(right(0), right(more)) == -expected
    assert sign_test(right(10), ~right(10)) == 0


def test_who_the_networks_are_is_said(stops: tuple[Stop, ...]) -> None:
    assert "1ofk (trained to one-hot labels by cross-entropy)" in stops[0].text
    assert "ro (trained to random orthogonal codewords of length" in stops[0].text


def test_every_choice_has_words() -> None:
    assert set(ATTACK_WORDS) == set(ATTACKS)
    assert set(OBJECTIVE_WORDS) == set(OBJECTIVES)
    for name in ENCODINGS:
        encoding = mw.Encoding.make(name, 4)
        model = mw.EncodedClassifier(nn.Linear(3, encoding.codebook.length), encoding)
        assert how_trained(model).startswith("trained to ")
    assert how_trained(nn.Linear(3, 4)) == "comes from elsewhere"


def test_where_each_breaks_is_said_of_both(stops: tuple[Stop, ...]) -> None:
    text = stops[5].text
    for name in ("1ofk", "ro"):
        assert re.search(rf"{name} breaks on `own` at (0\.\d+|none up to 0\.5)", text)
    assert re.search(r"breaks first|same eps|alone breaks|Neither breaks", text)


def test_a_tour_needs_both_kinds(explorer: Explorer) -> None:
    for name, missing in (("1ofk", "the second"), ("ro", "the first")):
        with pytest.raises(mw.MultiwayError, match=f"{missing} is not there"):
            tour(explorer, {name: explorer.models[name]})
