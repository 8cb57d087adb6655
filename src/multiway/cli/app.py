"""The commands, put together."""

from __future__ import annotations

from typing import Annotated

import typer

from multiway import __version__
from multiway.cli import (
    correlate,
    corrupt,
    curves,
    data,
    demo,
    diagnose,
    evaluate,
    landscape,
    report,
    reproduce,
    saliency,
    train,
    transfer,
    watermark,
)

__all__ = ["app"]

app = typer.Typer(
    help="Output encodings for classifiers: train on them, attack them, tell what they bought.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"multiway {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", help="Say the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Output encodings for classifiers: train on them, attack them, tell what they bought."""


app.command("demo", epilog="Example: multiway demo --out multiway-demo")(demo.demo)
app.add_typer(data.app, name="data", help="List, download and check data sets.")
app.command(
    "train",
    epilog="Example: multiway train --data mnist --backbone a --encoding ro --out runs/a-ro",
)(train.train)
app.command(
    "transfer", epilog="Example: multiway transfer runs/a-1ofk runs/a-ro --attack fgsm --eps 0.2"
)(transfer.transfer)
app.command(
    "correlate", epilog="Example: multiway correlate runs/a-1ofk runs/a-ro --limit 1000 --out pics"
)(correlate.correlate)
app.command(
    "corrupt", epilog="Example: multiway corrupt runs/a-1ofk runs/a-ro --limit 1000 --out pics"
)(corrupt.corrupt)
app.command(
    "evaluate", epilog="Example: multiway evaluate runs/a-ro --attack fgsm --eps 0.2 --limit 1000"
)(evaluate.evaluate)
app.command(
    "saliency", epilog="Example: multiway saliency runs/a-1ofk runs/a-ro --samples 0,3,7 --out pics"
)(saliency.saliency)
app.command(
    "landscape",
    epilog="Example: multiway landscape runs/a-1ofk runs/a-ro --samples 0,1 --eps 0.3 --out pics",
)(landscape.landscape)
app.command(
    "curves", epilog="Example: multiway curves runs/a-1ofk runs/a-ro --against eps --limit 200"
)(curves.curves)
app.command(
    "reproduce", epilog="Example: multiway reproduce transfer --scale smoke --store multiway-store"
)(reproduce.reproduce)
app.command("report", epilog="Example: multiway report --store multiway-store --out report.html")(
    report.report
)
app.command(
    "diagnose", epilog="Example: multiway diagnose runs/a-ro --eps 0.2 --substitute runs/a-1ofk"
)(diagnose.diagnose)
app.add_typer(watermark.app, name="watermark", help="Mark a network, steal it, look for the mark.")
