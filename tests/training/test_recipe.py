"""Recipes: validated data with helpful errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from multiway.errors import MultiwayError
from multiway.training import Recipe, Schedule, load_recipe, recipe_names


def test_every_recipe_of_the_package_is_valid_and_says_its_source() -> None:
    assert {"paper-mnist", "madry-mnist", "wong-mnist", "cifar-steps"} <= set(recipe_names())
    for name in recipe_names():
        recipe = load_recipe(name)
        assert recipe.name == name
        assert len(recipe.source) > 20


def test_the_papers_recipe() -> None:
    recipe = load_recipe("paper-mnist")
    values = (recipe.optimizer, recipe.lr, recipe.momentum, recipe.batch_size, recipe.epochs)
    assert values == ("sgd", 0.01, 0.5, 64, 6)
    assert recipe.scale == "paper"
    assert recipe.total_steps(60_000) == 6 * 938


def test_madrys_schedule_falls_at_40_000_and_60_000_of_80_000() -> None:
    recipe = load_recipe("cifar-steps")
    rates = [
        recipe.lr * recipe.schedule.factor_at(step, 80_000)
        for step in (0, 39_999, 40_000, 59_999, 60_000, 79_999)
    ]
    assert rates == pytest.approx([0.1, 0.1, 0.01, 0.01, 0.001, 0.001])


def test_wongs_schedule_is_a_triangle() -> None:
    schedule = load_recipe("wong-mnist").schedule
    assert [schedule.factor_at(step, 1000) for step in (0, 200, 400, 700, 1000)] == pytest.approx(
        [0.0, 0.5, 1.0, 0.5, 0.0]
    )


def test_overrides_are_said() -> None:
    recipe = load_recipe("paper-mnist").override(momentum=0.9, epochs=2, lr=None, batch_size=64)
    assert (recipe.momentum, recipe.epochs, recipe.batch_size) == (0.9, 2, 64)
    assert recipe.changed == "momentum 0.5 -> 0.9, epochs 6 -> 2"
    by_steps = load_recipe("madry-mnist").override(epochs=3)
    assert (by_steps.epochs, by_steps.steps) == (3, None)
    assert load_recipe("paper-mnist").override(epochs=6) == load_recipe("paper-mnist")


def test_a_recipe_survives_its_own_json() -> None:
    for name in recipe_names():
        recipe = load_recipe(name)
        assert Recipe.model_validate_json(recipe.model_dump_json()) == recipe


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lr: 0.1\nbatch_size: 8\nepochs: 1\nmomentun: 0.9", "'momentun': did you mean 'momentum'"),
        (
            "lr: 0.1\nbatch_size: 8\nepochs: 1\nschedule: {kind: ramp, peek: 0.3}",
            "unknown field 'schedule.peek': did you mean 'peak'",
        ),
        ("lr: -1\nbatch_size: 8\nepochs: 1", "lr is -1, expected greater than 0"),
        ("lr: .nan\nbatch_size: 8\nepochs: 1", "nan is not a finite number"),
        (
            "lr: 0.1\nbatch_size: 0\nepochs: 1",
            "batch_size is 0, expected greater than or equal to 1",
        ),
        ("lr: 0.1\nepochs: 1", "batch_size is missing"),
        ("lr: 0.1\nbatch_size: 8", "give either 'epochs' or 'steps'"),
        ("lr: 0.1\nbatch_size: 8\nepochs: 1\nsteps: 5", "give either 'epochs' or 'steps'"),
        (
            "lr: 0.1\nbatch_size: 8\nepochs: 1\noptimizer: adamw",
            "optimizer is \"adamw\", expected 'sgd' or 'adam'",
        ),
        (
            "lr: 0.1\nbatch_size: 8\nepochs: 1\noptimizer: adam\nmomentum: 0.9",
            "'adam' has no momentum",
        ),
        ("lr: 0.1\nbatch_size: 8\nepochs: 1\nnesterov: true", "nesterov needs a momentum"),
        (
            "lr: 0.1\nbatch_size: 8\nepochs: 1\nschedule: {kind: steps, at: [0.9, 0.5]}",
            "rising fractions between 0 and 1",
        ),
        (
            "lr: 0.1\nbatch_size: 8\nepochs: 1\nschedule: {kind: constant, peak: 0.5}",
            "a 'constant' schedule has no peak",
        ),
        ("lr: 0.1\nbatch_size: true\nepochs: 1", "batch_size is true, expected a valid integer"),
        ("lr: '0.1'\nbatch_size: 8\nepochs: 1", 'lr is "0.1", expected a valid number'),
        ("lr: 0.1\nbatch_size: 8\nepochs: 1\nlr: 0.2", "'lr' is there twice"),
        ("a: &x [1]\nb: *x", "uses an alias"),
        ("lr: 2001-99-99", "is not valid YAML: month must be in 1..12"),
        ("lr: !!timestamp x", "is not valid YAML"),
        ("1: 2", "is not a mapping"),
        ("- a list", "is not a mapping"),
        ("a: [", "is not valid YAML"),
    ],
)
def test_bad_recipes(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(MultiwayError, match=message) as caught:
        load_recipe(str(path))
    assert "\n" not in str(caught.value)


def test_missing_recipes() -> None:
    with pytest.raises(MultiwayError, match="unknown recipe 'paper-minst': did you mean 'paper-mn"):
        load_recipe("paper-minst")
    with pytest.raises(MultiwayError, match=r"cannot read no.yaml: there is no such file"):
        load_recipe("no.yaml")


def test_schedule_defaults() -> None:
    assert Schedule().factor_at(3, 10) == 1.0


def test_help_and_documentation_name_every_network_encoding_and_recipe() -> None:
    """Nothing has to be learnt from an error message."""
    from pathlib import Path

    from multiway.backbones import BACKBONES
    from multiway.cli.app import app
    from multiway.encoding import ENCODINGS

    docs = Path(__file__).parents[2] / "docs"
    pages = (docs / "training.md").read_text() + (docs / "adversarial.md").read_text()
    for name in (*BACKBONES, *ENCODINGS, *recipe_names()):
        assert f"`{name}`" in pages, name
    from typer.main import get_command

    parameters = get_command(app).commands["train"].params  # type: ignore[attr-defined]
    helps = {option: one.help for one in parameters for option in one.opts}
    assert all(name in helps["--backbone"] for name in BACKBONES)
    assert all(name in helps["--encoding"] for name in ENCODINGS)


def test_numbers_without_a_dot_are_numbers(tmp_path: Path) -> None:
    """YAML 1.1 takes 1e-3 for a text."""
    (tmp_path / "r.yaml").write_text("lr: 1e-3\nbatch_size: 8\nepochs: 1\nweight_decay: 5E-4")
    recipe = load_recipe(str(tmp_path / "r.yaml"))
    assert (recipe.lr, recipe.weight_decay) == (0.001, 0.0005)
