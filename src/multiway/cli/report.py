"""`multiway report`: everything that studies found, as one page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from multiway.cli.console import print_json, print_table, say
from multiway.cli.options import Json, StoreDir, default_store
from multiway.errors import MultiwayError, choose

if TYPE_CHECKING:
    from multiway.studies.result import StudyResult

__all__ = ["report"]


def report(
    store: StoreDir = None,
    out: Annotated[Path, typer.Option("--out", help="The page to write.")] = Path("report.html"),
    markdown: Annotated[
        Path | None, typer.Option("--markdown", help="A folder for the tables as Markdown, too.")
    ] = None,
    study: Annotated[
        list[str] | None, typer.Option("--study", help="Only this study. [default: all]")
    ] = None,
    scale: Annotated[
        list[str] | None,
        typer.Option("--scale", help="Only this scale: smoke, cpu or paper. [default: all]"),
    ] = None,
    json: Json = False,
) -> None:
    """Render what studies found: verdicts, tables (ours, the paper, the difference) and figures.

    One self-contained HTML page that opens offline, with filters; and Markdown for a repository.
    """
    from multiway.files import check_writable

    if out.is_dir() or out.suffix.lower() not in (".html", ".htm"):
        raise MultiwayError(f"--out {out}: the page is a file that ends in .html")
    check_writable(out.parent)
    if markdown is not None:
        check_writable(markdown)
    place = default_store(store)
    chosen = _choose(_results(place), study, scale)

    from multiway.report.studies import write_markdown, write_study_page

    written = [write_study_page(out, chosen, place)]
    if markdown is not None:
        written += write_markdown(chosen, markdown)
    _tell(chosen, written, json)


def _results(place: Path) -> list[StudyResult]:
    """All results in the store; an empty one is told how to be filled."""
    from multiway.store import Store
    from multiway.studies.result import load_results

    Store(place)  # which refuses other folders, and stores of another format
    results = load_results(place)
    if not results:
        there = "there is no store" if not place.exists() else "no study has been finished"
        raise MultiwayError(
            f"{there} in {place}: fill it with multiway reproduce --scale smoke --store {place} "
            "(minutes), or name another with --store"
        )
    return results


def _choose(
    results: list[StudyResult], studies: list[str] | None, scales: list[str] | None
) -> list[StudyResult]:
    from multiway.studies.result import SCALES

    for name in studies or []:
        choose("study in this store", name, dict.fromkeys(each.study for each in results))
    for name in scales or []:
        choose("scale", name, SCALES)
    chosen = [
        each
        for each in results
        if (not studies or each.study in studies) and (not scales or each.scale in scales)
    ]
    if not chosen:
        there = ", ".join(f"{each.study} ({each.scale})" for each in results)
        raise MultiwayError(f"the store has no such study at that scale; it has {there}")
    return chosen


def _tell(results: list[StudyResult], written: list[Path], json: bool) -> None:
    from multiway.report.studies.labels import in_order, verdict_counts

    counts = verdict_counts(results)
    judged = [(each, verdict) for each in in_order(results) for verdict in each.verdicts]
    if json:
        print_json(
            {
                "written": [str(path) for path in written],
                "studies": [
                    {"study": each.study, "scale": each.scale, "figures": len(each.cells)}
                    for each in in_order(results)
                ],
                "counts": counts,
                "verdicts": [
                    {
                        "study": each.study,
                        "scale": each.scale,
                        "claim": verdict.claim,
                        "verdict": verdict.verdict,
                        "why": verdict.why,
                    }
                    for each, verdict in judged
                ],
            }
        )
        return
    if judged:
        told = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
        rows = [[v.claim, each.study, each.scale, v.verdict, v.why] for each, v in judged]
        print_table(
            f"Verdicts: {told}", ["claim", "study", "scale", "verdict", "why"], rows
        )  # fmt: skip
    say(f"written: {', '.join(str(path) for path in written)}")
