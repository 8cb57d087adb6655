"""Training: recipes, the loop, and runs that survive a kill."""

from multiway.training.distributed import PRECISIONS, Team, check_shares, launched_size
from multiway.training.jobs import (
    check_class_names,
    check_weights,
    default_backbone,
    default_recipe,
    first_weights,
    load_run,
    load_trained_on,
    make_job,
    prepare,
    train,
    trained_size,
)
from multiway.training.loop import Job, run_job
from multiway.training.measure import accuracy
from multiway.training.observers import Observer, TensorBoard
from multiway.training.recipe import Recipe, Schedule, load_recipe, recipe_names, recipe_of
from multiway.training.run import Run, open_run

__all__ = [
    "PRECISIONS",
    "Job",
    "Observer",
    "Recipe",
    "Run",
    "Schedule",
    "Team",
    "TensorBoard",
    "accuracy",
    "check_class_names",
    "check_shares",
    "check_weights",
    "default_backbone",
    "default_recipe",
    "first_weights",
    "launched_size",
    "load_recipe",
    "load_run",
    "load_trained_on",
    "make_job",
    "open_run",
    "prepare",
    "recipe_names",
    "recipe_of",
    "run_job",
    "train",
    "trained_size",
]
