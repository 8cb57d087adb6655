"""Studies as they are declared: names, axes, objectives, and who attacks whom."""

from __future__ import annotations

import math
from functools import cache

import pytest
import torch
from small_studies import attack_of, decisions, find
from torch import Tensor

from multiway.attacks import PGD, Attack, AutoAttack
from multiway.encoding import Encoding
from multiway.errors import MultiwayError
from multiway.results import CHARTS, METRICS
from multiway.schedule import order
from multiway.studies import STUDIES, Study, declare, paper, scale_of, turns
from multiway.studies.artifacts import Crafted, Decided
from multiway.studies.cell_builders import coded_model
from multiway.studies.claims import Claim, Side, claims
from multiway.studies.images import Images
from multiway.studies.measures import Accuracy, Correlated
from multiway.studies.models import Model
from multiway.studies.robustness import BENCHMARK
from multiway.studies.scale import SUBSTITUTE
from multiway.studies.watermark_artifacts import Detected, Owned, Thief
from multiway.threat import Linf
from multiway.training import load_recipe

SMOKE = scale_of("smoke")
DATA = pytest.mark.real_data("mnist", "cifar10", "cifar100", "svhn")
LARGE = [pytest.param(name, marks=DATA) for name in ("cpu", "paper")]
SCALES = ["smoke", *LARGE]

# Studies that read several figures from one artifact: layers, marks, quantities, kinds.
SEVERAL = ("correlation", "watermark", "landscape", "corruption")
LINES = ("length", "iterations", "confidence", "epsilon")
# Studies whose columns are themselves the attacker's choice, or whose attack has no other.
AUTOATTACK = {"autoattack-mnist", "autoattack-cifar-10"}
ONE_OBJECTIVE = {*AUTOATTACK, "confidence", "objectives"}


@cache
def declared(name: str, scale: str = "smoke") -> Study:
    return declare(name, scale_of(scale))


def test_every_table_of_the_paper_has_a_study() -> None:
    assert set(paper.studies()) == set(STUDIES)


@pytest.mark.parametrize("scale", SCALES)
def test_names_words_and_axes(scale: str) -> None:
    for name in STUDIES:
        study = declared(name, scale)
        assert study.name == name
        assert study.chart in CHARTS
        assert (study.chart == "lines") == (name in LINES)
        assert study.title.endswith("?")
        assert study.question.endswith(("?", "."))
        assert bool(study.paper) == (name not in {*AUTOATTACK, "controls", "objectives"})
        assert len(study.seeds) >= (0 if name == "intro" else 2 if scale == "smoke" else 3)
        assert study.row_name
        assert study.column_name
        for cell in study.cells:
            # The middle rate of a grid is not named in a row, the others are.
            paper.check_known(name, cell.row.partition(", lr ")[0], cell.column)
            assert cell.metric in METRICS
        places = [(c.row, c.column, c.metric, c.objective) for c in study.cells]
        assert len(places) == len(set(places))


@pytest.mark.parametrize("scale", SCALES)
def test_every_cell_of_a_line_chart_has_a_place_of_its_own(scale: str) -> None:
    for name in LINES:
        study = declared(name, scale)
        assert study.x_name
        places = [(c.panel, c.series, c.x, c.objective) for c in study.cells]
        assert len(places) == len(set(places))
        assert all(cell.series and cell.x is not None for cell in study.cells)
        # A line has at least two points.
        for series in {(c.panel, c.series) for c in study.cells}:
            assert len({c.x for c in study.cells if (c.panel, c.series) == series}) > 1


def test_x_is_what_is_varied() -> None:
    for cell in declared("length").cells:
        for decided in decisions(cell):
            assert decided.target.content()["codewords"]["length"] == cell.x
    for cell in declared("iterations").cells:
        steps = attack_of(cell).steps if cell.attack else 0  # type: ignore[attr-defined]
        assert steps == cell.x
        assert (cell.panel, cell.series.partition(", ")[2]) == tuple(cell.row.split(", "))
    for cell in declared("confidence").cells:
        attack = attack_of(cell)
        assert isinstance(attack, PGD)
        assert cell.x == (math.inf if attack.kappa is None else attack.kappa)
    for cell in declared("epsilon").cells:
        assert cell.x is not None
        if cell.objective == "both":
            continue
        assert attack_of(cell).threat.eps == pytest.approx(cell.x / 8 * 0.3)


@pytest.mark.real_data("cifar10")
def test_rows_of_epsilon_are_255ths_of_the_data_that_the_paper_has() -> None:
    for cell in declared("epsilon", "cpu").cells:
        if cell.objective == "margin":
            assert attack_of(cell).threat.eps == pytest.approx(float(cell.x or 0) / 255)


def test_a_thief_stands_in_the_series_of_its_encoding_and_start() -> None:
    names = {"1ofk": "1ofK", "1ofk-mse": "1ofK-MSE", "padded": "padded", "ro": "RO"}
    study = declared("watermark", "cpu")
    drawn: dict[Model, str] = {}
    for cell in study.cells:
        if not isinstance(cell.measure, Detected):
            continue
        suspect = cell.measure.suspects[0].suspect
        hidden = "hidden, " if cell.row.startswith("hidden") else ""
        if cell.series and isinstance(suspect, Thief):
            assert cell.series == hidden + f"{names[suspect.encoding]}, {suspect.start}"
            assert cell.x == suspect.recipe.lr
        if cell.series:
            assert drawn.setdefault(suspect, cell.row) == cell.row
    # The paper's two thieves are networks of the factorial, and not drawn again.
    twice = [c for c in study.cells if not c.series and isinstance(c.measure, Detected)]
    assert [cell.row for cell in twice] == ["fine-tuned 1ofK", "fine-tuned RO"]
    for cell in twice:
        assert isinstance(cell.measure, Detected)
        assert cell.measure.suspects[0].suspect in drawn
    for series in ("1ofK, frozen", "padded, free", "RO, frozen"):
        assert len({c.x for c in study.cells if c.series == series}) == 3  # a curve, not a point


@pytest.mark.parametrize("scale", SCALES)
def test_every_attacked_cell_has_both_objectives(scale: str) -> None:
    for name in [name for name in STUDIES if name not in ONE_OBJECTIVE]:
        places: dict[tuple[str, str, str], set[str | None]] = {}
        for cell in declared(name, scale).cells:
            places.setdefault((cell.row, cell.column, cell.metric), set()).add(cell.objective)
        for place, objectives in places.items():
            assert objectives - {"both"} in ({None}, {"own", "margin"}), (name, place)


@pytest.mark.parametrize("scale", LARGE)
def test_every_claim_and_every_figure_of_the_paper_finds_its_cells(scale: str) -> None:
    """But for baselines of other authors, which have rows of our own, and unnumbered figures."""
    for name in STUDIES:
        study = declared(name, scale)
        objectives: dict[tuple[str, str, str], set[str | None]] = {}
        for cell in study.cells:
            objectives.setdefault((cell.row, cell.column, cell.metric), set()).add(cell.objective)
        for claim in claims(name):
            for row, column in claim.cells:
                there = objectives[row, column, claim.metric]
                own = {column} if name == "objectives" else {None, study.objective}
                assert there & own, (claim.id, row, column)
        table = paper.table(name)
        for metric, grid in table.metrics.items() if table else ():
            for row in grid.rows:
                for column in grid.columns:
                    # The earlier version attacks undefended networks on other data sets, too.
                    left_out = (name == "iterations" and column != "white-box 0") or (
                        name == "undefended" and not row.startswith("MNIST")
                    )
                    itself = metric == "correlation" and row == column
                    assert left_out or itself or (row, column, metric) in objectives, (row, column)


@pytest.mark.parametrize("scale", SCALES)
def test_white_box_attacks_are_on_the_model_and_others_on_another_training(scale: str) -> None:
    for name in STUDIES:
        for cell in declared(name, scale).cells:
            if isinstance(cell.measure, Correlated):
                for pair in cell.measure.pairs:
                    assert pair.one.model.seed != pair.other.model.seed
            if not isinstance(cell.measure, Accuracy):
                continue
            for decided in decisions(cell):
                if not isinstance(decided.shown, Crafted):
                    assert cell.attack is None
                    continue
                source, attack = decided.shown.source, decided.shown.attack
                if cell.white_box or cell.column == "gradient-free":
                    assert source.key == decided.target.key
                else:
                    assert source.seed != decided.target.seed
                    # Images for another model are attacked to the end.
                    assert not getattr(attack, "steps", None) or not attack.early_stop


def test_the_source_has_the_encoding_that_the_column_names() -> None:
    for cell in declared("benchmark").cells:
        for name, encoding in (("1ofK", "1ofk"), ("RO", "ro")):
            if cell.column == f"black-box from {name}":
                shown = {each.shown for each in decisions(cell)}
                assert {s.source.encoding for s in shown if isinstance(s, Crafted)} == {encoding}


def test_studies_share_what_they_have_in_common() -> None:
    """The same network under the same attack is one artifact, whoever asks for it."""
    for (one, *place), (other, *there) in (
        (("length", "2000", "white-box", "own"), ("controls", "RO", "white-box", "own")),
        (("length", "2000", "black-box", "own"), ("controls", "RO", "black-box", "own")),
        (("length", "2000", "clean", None), ("length", "2000, beta 1000", "clean", None)),
        (
            ("controls", "1ofK", "black-box", "own"),
            ("controls", "1ofK", "black-box, own encoding", "own"),
        ),
        (
            ("benchmark", "MNIST, RO", "white-box 1K", "margin"),
            ("iterations", "MNIST, RO", "white-box 10", "margin"),
        ),
        (
            ("transfer", "A-RO", "C-1ofK", "own"),
            ("ablation", "A-RO", "C-1ofK", "own"),
        ),
    ):
        cells = find(declared(one), *place), find(declared(other), *there)
        keys = [[each.key for each in decisions(cell)] for cell in cells]
        assert keys[0] == keys[1], (place, there)


@pytest.mark.parametrize("scale", SCALES)
def test_the_encodings_are_matched(scale: str) -> None:
    """RO and 1ofK differ in the encoding and in nothing else."""
    size = scale_of(scale)
    for data in size.robust:
        one, ro = (size.robust_model(data, name, 0) for name in ("1ofk", "ro"))
        assert (one.recipe, one.backbone, one.images) == (ro.recipe, ro.backbone, ro.images)


def test_the_baseline_is_1ofk_without_clean_images() -> None:
    study = declared("benchmark")
    madry, same = (
        decisions(find(study, f"MNIST, {name}", "clean"))[0].target
        for name in ("Madry et al.", "1ofK")
    )
    plain = {"adversary": None, "changed": ""}
    assert madry.recipe.model_copy(update=plain) == same.recipe.model_copy(update=plain)
    one, other = madry.recipe.adversary, same.recipe.adversary
    assert one is not None
    assert other is not None
    assert (one.clean_weight, other.clean_weight) == (0, 1)
    assert one.model_copy(update={"clean_weight": 1.0}) == other
    assert (madry.encoding, madry.backbone, madry.seed) == ("1ofk", same.backbone, same.seed)


def test_the_sets_are_trained_as_the_paper_says() -> None:
    """Clean images beside adversarial ones for all sets but SVHN, whose baseline is 1ofK itself."""
    for name in ("cpu", "paper"):
        scale = scale_of(name)
        mixed = {
            data: scale.adversarial_only(data) != given for data, given in scale.robust.items()
        }
        assert mixed == {"MNIST": True, "CIFAR-10": True, "CIFAR-100": True, "SVHN": False}


def test_the_baseline_at_the_papers_scale_is_madrys_own() -> None:
    for data, name in (("MNIST", "madry-mnist-pgd"), ("CIFAR-10", "madry-cifar10-pgd")):
        setting = scale_of("paper").adversarial_only(data)
        assert (setting.recipe, setting.changes) == (name, {})
        adversary = load_recipe(name).adversary
        assert adversary is not None
        assert adversary.clean_weight == 0


def keys_of(study: Study, claim: Claim) -> list[tuple[object, ...]]:
    """Each comparison of a claim by what it is measured from."""

    def side(places: Side) -> object:
        if not isinstance(places, tuple):
            return places
        cells = [c for c in study.cells if (c.row, c.column) in places and c.metric == claim.metric
                 and c.objective in (None, study.objective, c.column)]  # fmt: skip
        return frozenset(a.key for c in cells for a in c.measure.artifacts())

    return [(claim.metric, side(part.greater), side(part.than)) for part in claim.comparisons]


@pytest.mark.parametrize("scale", LARGE)
def test_no_comparison_is_judged_twice(scale: str) -> None:
    """By what it is measured from, whatever the study and the words.

    At smoke few steps stand for many, so there it cannot be asked.
    """
    seen: dict[tuple[object, ...], str] = {}
    for name in STUDIES:
        study = declared(name, scale)
        there = {(cell.row, cell.column, cell.metric) for cell in study.cells}
        for claim in claims(name):
            if not {(*place, claim.metric) for place in claim.cells} <= there:
                continue
            if claim.metric == "share" or claim.study in SEVERAL:
                continue
            for key in keys_of(study, claim):
                assert seen.setdefault(key, claim.id) == claim.id, (claim.id, seen[key])


@pytest.mark.parametrize("scale", SCALES)
def test_white_box_claims_are_judged_by_the_worst_case(scale: str) -> None:
    """All that compare two networks; the attacks on a row are on one network, at one eps."""
    for name in STUDIES:
        study = declared(name, scale)
        for claim in claims(name):
            for part in claim.comparisons if claim.metric == "accuracy" else ():
                cells = [c for c in study.cells if (c.row, c.column) in part.places]
                if not cells or not all(cell.white_box for cell in cells):
                    continue
                targets = {d.target.key for c in cells for d in decisions(c)}
                if len({c.row for c in cells}) < 2 or len(targets) == len(cells[0].seeds or ()):
                    continue  # one network, under two attacks
                if claim.study in AUTOATTACK:
                    continue  # each cell is the worst case already
                assert claim.worst, claim.id
                for row in {cell.row for cell in cells}:
                    white = [c for c in study.cells if c.row == row and c.white_box]
                    first = {d.target.key for d in decisions(white[0])}
                    shown = [d.shown for c in white for d in decisions(c)]
                    radii = {s.attack.threat for s in shown if isinstance(s, Crafted)}
                    assert all({d.target.key for d in decisions(c)} == first for c in white)
                    assert len(radii) == 1, (name, row)


def test_every_network_is_held_against_its_one_hot_twin() -> None:
    """A substitute against that of its target, so that none is trained for this alone."""
    for name in ("transfer", "length", "benchmark", "confidence"):
        study = declared(name)
        models = [a for a in order(study.artifacts()) if type(a) is Model]
        coded = [model for model in models if model.encoding != "1ofk"]
        assert coded
        twins = {pair.network.target.key: pair.twin.target for pair in study.learned}
        for model in coded:
            twin = twins[model.key]
            assert (twin.encoding, twin.seed) == ("1ofk", model.seed % SUBSTITUTE)
            assert (twin.backbone, twin.images) == (model.backbone, model.images)
            assert (twin.recipe.adversary is None) == (model.recipe.adversary is None)
            if model.recipe.adversary is not None and twin.recipe.adversary is not None:
                # Without clean images less of them is learned, with any labels.
                assert twin.recipe.adversary.clean_weight == model.recipe.adversary.clean_weight


@DATA
def test_a_study_with_another_recipe_than_its_scale_has_trains_no_twin_beside_its_own() -> None:
    study = declared("autoattack-mnist", "cpu")
    own = {d.target.key for cell in study.cells for d in decisions(cell)}
    coded = {pair.network.target.encoding for pair in study.learned}
    assert coded == {"ro", "padded", "1ofk-mse"}
    assert {pair.twin.target.key for pair in study.learned} <= own
    recipes = {d.target.recipe for cell in study.cells for d in decisions(cell)}
    assert {recipe.adversary.steps for recipe in recipes if recipe.adversary} == {10}


def test_confidence_is_in_the_papers_units() -> None:
    """A perfect hit on a wrong codeword is 2 beta^2 / l = 1000 ahead."""
    book = Encoding.make("ro", classes=10).codebook
    assert 2 * book.beta**2 / book.length == pytest.approx(1000)


@DATA
def test_autoattack_is_whole_at_cpu_and_takes_in_the_other_studies() -> None:
    """Every white-box image of `benchmark` and, on Table 4's data, of `iterations` counts here.

    On MNIST the networks are others here, the attacks are the same.
    """
    assert scale_of("cpu").autoattack(0.3) == (AutoAttack(Linf(0.3)),)
    ours = [cell for name in AUTOATTACK for cell in declared(name, "cpu").cells]
    counted = [d for cell in ours if cell.column == "AutoAttack" for d in decisions(cell)]
    here = {decision.key for decision in counted}
    places = {_attacked(decision) for decision in counted}
    for name in ("benchmark", "iterations"):
        for cell in declared(name, "cpu").cells:
            controls = ("padded", "1ofK-MSE", "adversarial only", "Madry et al.")
            known = cell.row.startswith(tuple(f"{data}, " for data in BENCHMARK))
            if cell.white_box and known and not cell.row.endswith(controls):
                some = decisions(cell)
                assert {_attacked(decision) for decision in some} <= places, (cell.row, cell.column)
                if not cell.row.startswith("MNIST, "):
                    assert {each.key for each in some} <= here, (cell.row, cell.column)


def _attacked(decision: Decided) -> tuple[str, int, Attack, Images]:
    """An encoding, a seed, and how its network is attacked."""
    assert isinstance(decision.shown, Crafted)
    return (
        decision.target.encoding,
        decision.target.seed,
        decision.shown.attack,
        decision.images,
    )


@pytest.mark.real_data("cifar10")
def test_every_thief_is_trained_once_and_robs_the_owner_of_its_seed() -> None:
    suspects = {
        each.suspect.key: each.suspect
        for cell in declared("watermark", "cpu").cells
        if isinstance(cell.measure, Detected)
        for each in cell.measure.suspects
    }
    thieves = [each for each in suspects.values() if isinstance(each, Thief)]
    assert all(thief.stolen.seed == thief.seed for thief in thieves)
    # From scratch 2, and 4 encodings x 2 starts x 3 rates: the paper's two are among these. Of the
    # network with a hidden layer, 1 from scratch, and 4 encodings x 2 starts.
    assert len(thieves) == 3 * (2 + 4 * 2 * 3) + 9 * (1 + 4 * 2)


@pytest.mark.real_data("cifar10")
def test_a_network_is_suspected_beside_its_like() -> None:
    """Of those with a hidden layer none is one of the three that were seen before the others."""
    for cell in declared("watermark", "cpu").cells:
        if not isinstance(cell.measure, Detected):
            continue
        hidden = cell.row.startswith("hidden")
        everyone = [each.suspect for each in (*cell.measure.suspects, *cell.measure.unmarked)]
        assert {each.backbone for each in everyone} == {"wong" if hidden else "resnet-8-strided"}
        assert {each.seed for each in everyone} == set(range(3, 12) if hidden else range(3))
        assert len(cell.measure.unmarked) == (2 * 9 if hidden else 3 * 3)
        assert not any(isinstance(each, Owned) for each in cell.measure.unmarked)


@pytest.mark.parametrize("name", ["transfer", "watermark", "benchmark"])
def test_an_artifact_is_made_with_the_first_seed_that_needs_it(name: str) -> None:
    found = turns([name], SMOKE)
    for seed in reversed(range(len(SMOKE.seeds))):
        needed = order(declare(name, SMOKE.first_seeds(seed + 1)).artifacts())
        later = {each.key for each in needed if found[each.key] > (0, seed)}
        assert not later
        # With the last seed what needs it alone.
        if seed == 0:
            early = {key for key, turn in found.items() if turn == (0, 0)}
            assert early == {each.key for each in needed}


def test_the_length_study_changes_what_it_says() -> None:
    for cell in declared("length").cells:
        model = decisions(cell)[0].target
        assert model.code_length is not None
        assert model.beta is not None
        kept = cell.panel == "beta kept"
        assert kept == ("beta 1000" in cell.row)
        assert model.beta == pytest.approx(1000 if kept else math.sqrt(500 * model.code_length))
        assert model.recipe.lr * model.beta / model.code_length == pytest.approx(0.01 / 2)


def test_the_papers_length_is_the_model_of_the_other_studies() -> None:
    assert coded_model(SMOKE, "ro", 1, 2000).key == SMOKE.clean_model("A", "ro", 1).key


def test_at_one_beta_nothing_but_the_length_changes() -> None:
    """Zero-padded codes of length 4 and 40 train alike, with a rate in proportion to the length."""
    images = torch.rand(8, 5, generator=torch.Generator().manual_seed(0)).double()
    labels = torch.tensor([0, 1, 2, 3] * 2)

    def outputs(length: int, steps: int) -> Tensor:
        generator = torch.Generator().manual_seed(1)
        first = torch.rand(5, 6, generator=generator).double() - 0.5
        last = torch.zeros(6, length).double()
        last[:, :4] = torch.rand(6, 4, generator=generator).double() - 0.5
        encoding = Encoding.make("padded", 4, length, beta=3.0, scale="paper").double()
        for _ in range(steps):
            weights = first.requires_grad_(), last.requires_grad_()
            loss = encoding.loss((images @ first).tanh() @ last, labels)
            slopes = torch.autograd.grad(loss, weights)
            # A rate of 0.02 for each output.
            first, last = (
                (weight - 0.02 * length * slope).detach()
                for weight, slope in zip(weights, slopes, strict=True)
            )
        return (images @ first).tanh() @ last

    short, long = outputs(4, 600), outputs(40, 600)
    assert torch.allclose(long[:, :4], short, atol=1e-9)
    assert long[:, 4:].abs().max() < 1e-12
    codes = Encoding.make("padded", 4, 4, beta=3.0, scale="paper").double()
    assert codes.loss(short, labels) < codes.loss(outputs(4, 0), labels) / 2  # it did learn


def test_an_unknown_study_or_scale_is_named() -> None:
    with pytest.raises(MultiwayError, match="unknown study 'tranfser': did you mean 'transfer'?"):
        declare("tranfser", SMOKE)
    with pytest.raises(MultiwayError, match="unknown scale 'smok': did you mean 'smoke'?"):
        scale_of("smok")


def test_a_study_says_at_which_scale_its_codes_are_trained() -> None:
    def said(name: str) -> list[str]:
        return [words for words in declared(name).differs if "codes are trained" in words]

    assert len(said("transfer")) == len(said("watermark")) == len(said("autoattack-mnist")) == 1
    assert "at the paper's scale" in said("transfer")[0]
    assert "at the matched scale" in said("watermark")[0]
    assert said("intro") == []
