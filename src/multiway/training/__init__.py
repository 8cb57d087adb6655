"""Training: recipes, the loop, and runs that survive a kill."""

from multiway.training.accuracy import accuracy
from multiway.training.distributed import PRECISIONS, Team, check_shares, launched_size
from multiway.training.loop import Observer, Silent, train
from multiway.training.prepare import (
    Job,
    default_recipe,
    load_run,
    load_trained_on,
    prepare,
)
from multiway.training.recipe import Recipe, Schedule, load_recipe, recipe_names
from multiway.training.run import Run, open_run

__all__ = [
    "PRECISIONS",
    "Job",
    "Observer",
    "Recipe",
    "Run",
    "Schedule",
    "Silent",
    "Team",
    "accuracy",
    "check_shares",
    "default_recipe",
    "launched_size",
    "load_recipe",
    "load_run",
    "load_trained_on",
    "open_run",
    "prepare",
    "recipe_names",
    "train",
]
