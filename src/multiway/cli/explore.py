"""`multiway explore`: a page on this machine to play with models, images and attacks."""

from __future__ import annotations

import shlex
import threading
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import multiway as mw
from multiway.cli.attack_options import PAPER_EPS
from multiway.cli.console import print_json, print_text, say
from multiway.cli.examine import Examination, examines
from multiway.cli.options import Number
from multiway.errors import MultiwayError

if TYPE_CHECKING:
    from multiway.cli.models import Subject

__all__ = ["explore"]

CLEAN_EPS = {"mnist5k": 0.2, "mnist": 0.2}  # the paper's, for networks trained on clean images
ANY_EPS = 0.1


@examines(limit=1000, leave_out=("out", "seed"))
def explore(
    examination: Examination,
    eps: Annotated[
        float | None,
        Number("--eps", help="Where the page starts. [default: the paper's, else 0.1]"),
    ] = None,
    port: Annotated[
        int, typer.Option("--port", help="Of the address; 0 takes a free one.", min=0, max=65535)
    ] = 0,
    at: Annotated[
        str, typer.Option("--at", help="What to open with: the part of an address behind its ?.")
    ] = "",
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open the page, or say where it is.")
    ] = True,
) -> None:
    """Serve a page on this machine: choose an image, attack it, see what two models make of it.

    The page is for this machine alone (127.0.0.1) and asks no other. Ctrl-C ends it.
    """
    images = examination.load()
    if eps is None:
        eps = CLEAN_EPS.get(images.name, PAPER_EPS["linf"].get(images.name, ANY_EPS))
    explorer = mw.explore.Explorer(
        models=examination.models,
        sources=_sources(examination),
        data=images,
        eps=eps,
        data_python=_data_python(examination, images.name),
        data_words=_data_words(examination),
        device=examination.device,
    )
    at = at.removeprefix("?")
    if at:
        try:
            explorer.check(at)
        except MultiwayError as error:
            raise MultiwayError(f"--at {at}: {error}") from error
    server = mw.explore.Server(explorer, port)
    address = server.address + (f"?{at}" if at else "")
    if examination.json:
        print_json({"address": address})
    else:
        print_text(address)
    say("serving this page until Ctrl-C")
    if browser:
        # Some browsers return only when they are closed.
        threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        say("ended")
    finally:
        server.server_close()
        explorer.lock.acquire(timeout=10)  # what is being computed is let finish


def _sources(examination: Examination) -> dict[str, mw.explore.Source]:
    """Where the models come from, as Python and as words of the command line."""
    networks = zip(examination.networks, examination.weights, strict=True)
    named: list[Path | tuple[str, Path]] = [*examination.runs, *networks]
    sources = {}
    for subject, place in zip(examination.subjects, named, strict=True):
        if isinstance(place, Path):
            python = _folder_python(examination, subject, place)
            sources[subject.name] = mw.explore.Source(place, python, shlex.quote(str(place)))
        else:
            path, weights = place
            file = None if str(weights) == "own" else f"Path({str(weights)!r})"
            python = f"mw.models.load_network({path!r}, {file})"
            words = f"--network {shlex.quote(path)} --weights {shlex.quote(str(weights))}"
            sources[subject.name] = mw.explore.Source(None, python, words)
    return sources


def _folder_python(examination: Examination, subject: Subject, folder: Path) -> str:
    """An expression that loads a run, or what `save_pretrained` kept."""
    trusted = examination.backbone or []
    architecture = getattr(subject.model, "architecture", None)
    more = ""
    if architecture is None and trusted:
        more = f", backbone=mw.models.load_network({trusted[-1]!r}, None)"
    elif architecture is not None and architecture.get("name") in trusted:
        more = f", backbone={architecture['name']!r}"
    if subject.run is None:
        return f"mw.EncodedClassifier.from_pretrained({str(folder)!r}{more})"
    return f"mw.load_run({str(folder)!r}{more}{', best=True' if examination.best else ''})[0]"


def _data_python(examination: Examination, name: str) -> str:
    more = "" if examination.data_dir is None else f", {str(examination.data_dir)!r}"
    if examination.image_size is not None:
        more = f"{more or ', None'}, {examination.image_size}"
    return f'mw.data.load({name!r}, "test"{more})'


def _data_words(examination: Examination) -> str:
    words = [word for name in examination.backbone or () for word in ("--backbone", name)]
    if examination.data is not None:
        words += ["--data", examination.data]
    if examination.image_size is not None:
        words += ["--image-size", str(examination.image_size)]
    if examination.data_dir is not None:
        words += ["--data-dir", str(examination.data_dir)]
    if examination.best:
        words.append("--best")
    return "".join(f" {shlex.quote(word)}" for word in words)
