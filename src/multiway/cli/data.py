"""`multiway data`: what is here, fetch it, check it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer
from rich.text import Text

import multiway as mw
from multiway.cli import App
from multiway.cli.console import print_json, print_table, print_text, shown
from multiway.cli.options import DATASETS, DataDir, Json, completes

__all__ = ["app"]

app = App(no_args_is_help=True, help="List, download and check data sets.")

_COLOURS = {
    "present": "green",
    "ok": "green",
    "plausible": "green",
    "partial": "yellow",
    "subset": "yellow",
    "altered": "red",
    "missing": "dim",
}


@app.command("list")
def list_(data_dir: DataDir = None, json: Json = False) -> None:
    """Show which data sets are here.

    Example: multiway data list
    """
    rows = mw.data.status(data_dir)
    directory = mw.data.data_directory(data_dir)
    if json:
        print_json({"data_dir": str(directory), "datasets": [asdict(row) for row in rows]})
        return
    print_table(
        f"data directory: {directory}",
        ("name", "state", "train", "test", "about", "where"),
        [
            (row.name, _state(row.state), *map(_count, (row.train, row.test)), row.about, row.where)
            for row in rows
        ],
        sentences=("state", "about", "where"),
        rest=("where",),
    )
    print_text("Your own data: folder:DIR (a folder of images a class) or npz:FILE.")


@app.command()
def fetch(
    name: Annotated[
        str,
        typer.Argument(
            help="A name that `multiway data list` shows.", autocompletion=completes(DATASETS)
        ),
    ],
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """Download a data set from where its publisher or a mirror keeps it, resuming and checking it.

    Example: multiway data fetch mnist
    """
    paths = [str(path) for path in mw.data.fetch(name, data_dir)]
    if json:
        print_json(
            {"name": name, "data_dir": str(mw.data.data_directory(data_dir)), "files": paths}
        )
        return
    print_text(f"{name} is here:")
    for path in paths:
        print_text(f"  {path}")


@app.command()
def verify(
    name: Annotated[
        str | None,
        typer.Argument(help="One data set; default: all here.", autocompletion=completes(DATASETS)),
    ] = None,
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """Compare files with their published checksums; exit with 1 if one is altered.

    Example: multiway data verify cifar10
    """
    rows = mw.data.verify(name, data_dir)
    directory = mw.data.data_directory(data_dir)
    altered = any(row.state == "altered" for row in rows)
    if json:
        files = [asdict(row) for row in rows]
        print_json({"data_dir": str(directory), "altered": altered, "files": files})
    elif rows:
        print_table(
            f"data directory: {directory}",
            ("data set", "state", "file", "detail"),
            [(row.dataset, _state(row.state), row.file, row.detail) for row in rows],
            sentences=("state", "file", "detail"),
        )
    else:
        print_text(f"No data set is in {directory}: run `multiway data fetch NAME`.")
    if altered:
        raise typer.Exit(1)


def _count(number: int | None) -> str:
    return "" if number is None else f"{number:,}"


def _state(state: str) -> Text:
    """A state in its colour."""
    return shown(state, _COLOURS[state])
