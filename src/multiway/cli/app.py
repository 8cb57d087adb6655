"""The commands, put together."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Annotated, Any

import typer

from multiway import __version__
from multiway.cli import App, data, watermark
from multiway.cli.correlate import correlate
from multiway.cli.corrupt import corrupt
from multiway.cli.curves import curves
from multiway.cli.demo import demo
from multiway.cli.diagnose import diagnose
from multiway.cli.evaluate import evaluate
from multiway.cli.explore import explore
from multiway.cli.landscape import landscape
from multiway.cli.report import report
from multiway.cli.reproduce import reproduce
from multiway.cli.saliency import saliency
from multiway.cli.train import train
from multiway.cli.transfer import transfer

__all__ = ["app", "command_tree"]

app = App(
    help="Output encodings for classifiers: swap the labels, attack, measure what it changed.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

# Every command with an example of its use, in the order of the help.
COMMANDS: dict[Callable[..., None], str] = {
    demo: "multiway demo --out multiway-demo",
    explore: "multiway explore multiway-demo/1ofk-0 multiway-demo/ro-2",
    train: "multiway train --data mnist --backbone a --encoding ro --out runs/a-ro",
    transfer: "multiway transfer runs/a-1ofk runs/a-ro --attack fgsm --eps 0.2",
    correlate: "multiway correlate runs/a-1ofk runs/a-ro --limit 1000 --out pics",
    corrupt: "multiway corrupt runs/a-1ofk runs/a-ro --limit 1000 --out pics",
    evaluate: "multiway evaluate runs/a-ro --attack fgsm --eps 0.2 --limit 1000",
    saliency: "multiway saliency runs/a-1ofk runs/a-ro --samples 0,3,7 --out pics",
    landscape: "multiway landscape runs/a-1ofk runs/a-ro --samples 0,1 --eps 0.3 --out pics",
    curves: "multiway curves runs/a-1ofk runs/a-ro --against eps --limit 200",
    reproduce: "multiway reproduce transfer --scale smoke --store multiway-store",
    report: "multiway report --store multiway-store --out report.html",
    diagnose: "multiway diagnose runs/a-ro --eps 0.2 --substitute runs/a-1ofk",
}


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"multiway {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", help="Say the version.", callback=_version, is_eager=True)
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Before a command: an error with its traceback.")
    ] = False,
) -> None:
    """Output encodings for classifiers: swap the labels, attack, measure what it changed."""


for command, example in COMMANDS.items():
    app.command(command.__name__, epilog=f"Example: {example}")(command)
app.add_typer(data.app, name="data", help="List, download and check data sets.")
app.add_typer(watermark.app, name="watermark", help="Mark a network, steal it, look for the mark.")


@cache
def command_tree() -> Any:
    """All commands with their options, as typer makes them of the functions."""
    return typer.main.get_command(app)
