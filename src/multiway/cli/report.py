"""`multiway report`: everything that studies found, as one page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import multiway as mw
from multiway.cli.console import print_json, print_table, say
from multiway.cli.options import SCALES, Choice, Json, StoreDir, default_store
from multiway.errors import MultiwayError, choose

if TYPE_CHECKING:
    from multiway.studies.result import StudyResult

__all__ = ["report"]


def report(
    folder: Annotated[
        Path | None,
        typer.Argument(
            metavar="[FOLDER]", help="A store, or a folder of published results. [default: --store]"
        ),
    ] = None,
    store: StoreDir = None,
    out: Annotated[Path, typer.Option("--out", help="The page to write.")] = Path("report.html"),
    markdown: Annotated[
        Path | None,
        typer.Option(
            "--markdown",
            help="Markdown, too: FILE.md, with a page of each study in FILE/.",
        ),
    ] = None,
    publish: Annotated[
        Path | None,
        typer.Option("--publish", help="A folder for the results, for a repository."),
    ] = None,
    study: Annotated[
        list[str] | None, typer.Option("--study", help="Only this study. [default: all]")
    ] = None,
    scale: Annotated[
        list[str] | None,
        Choice("--scale", of=SCALES, help="Only this scale: {}. [default: all]", what="scale"),
    ] = None,
    json: Json = False,
) -> None:
    """Render what studies found: verdicts, tables (ours, the paper, the difference) and figures.

    One self-contained HTML page that opens offline, with filters; and Markdown for a repository.
    """
    if out.is_dir() or out.suffix.lower() not in (".html", ".htm"):
        raise MultiwayError(f"--out {out}: the page is a file that ends in .html")
    mw.files.check_writable(out.parent)
    if folder is not None and store is not None:
        raise MultiwayError(f"name one folder, not both {folder} and --store {store}")
    if markdown is not None and (markdown.is_dir() or markdown.suffix != ".md"):
        raise MultiwayError(f"--markdown {markdown}: the page is a file that ends in .md")
    for each in (markdown and markdown.parent, publish):
        if each is not None:
            mw.files.check_writable(each)
    folder = default_store(store) if folder is None else folder
    results = _results(folder)
    findings = mw.report.read_findings(folder, results)
    chosen = mw.studies.in_order(_choose(results, study, scale))
    written = [mw.report.write_study_page(out, chosen, folder, findings)]
    if markdown is not None:
        written += mw.report.write_markdown(markdown, chosen, folder, findings)
    if publish is not None:
        written += mw.studies.publish(chosen, publish)
    _show(chosen, written, json)


def _results(folder: Path) -> list[StudyResult]:
    """All results in the folder; where there are none, the error says how to fill it."""
    results = mw.studies.read_folder(folder)
    if not results:
        there = "there is no store" if not folder.exists() else "no study has been finished"
        raise MultiwayError(
            f"{there} in {folder}: fill it with multiway reproduce --scale smoke --store {folder} "
            "(minutes), or name another with --store"
        )
    return results


def _choose(
    results: list[StudyResult], studies: list[str] | None, scales: list[str] | None
) -> list[StudyResult]:
    for name in studies or []:
        choose("study in this store", name, dict.fromkeys(each.name for each in results))
    chosen = [
        each
        for each in results
        if (not studies or each.name in studies) and (not scales or each.scale in scales)
    ]
    if not chosen:
        there = ", ".join(f"{each.name} ({each.scale})" for each in results)
        raise MultiwayError(f"the store has no such study at that scale; it has {there}")
    return chosen


def _show(results: list[StudyResult], written: list[Path], json: bool) -> None:
    standings = mw.report.standings(results)
    verdicts = [verdict for each in standings for verdict in each.verdicts]
    counts = {kind: mw.studies.verdict_counts(verdicts, kind) for kind in mw.studies.KINDS}
    judged = [(each, verdict) for each in results for verdict in each.verdicts]
    if json:
        print_json(
            {
                "written": [str(path) for path in written],
                "studies": [
                    {"study": each.name, "scale": each.scale, "figures": len(each.cells)}
                    for each in results
                ],
                "counts": counts,
                "verdicts": [
                    {
                        "study": each.name,
                        "scale": each.scale,
                        "claim": verdict.claim,
                        "kind": verdict.kind,
                        "verdict": verdict.words,
                        "why": verdict.why,
                        "counts": any(verdict is one for one in verdicts),
                    }
                    for each, verdict in judged
                ],
            }
        )
        return
    if judged:
        said = "; ".join(
            f"{kind}: {', '.join(f'{count} {word}' for word, count in some.items() if count) or 0}"
            for kind, some in counts.items()
        )
        rows = [[v.claim, v.kind, each.name, each.scale, v.words, v.why] for each, v in judged]
        columns = ["claim", "kind", "study", "scale", "verdict", "why"]
        print_table(
            f"Verdicts, {said}", columns, rows, sentences=("claim", "why"), rest=("kind", "scale")
        )
    say(f"written: {', '.join(str(path) for path in written)}")
