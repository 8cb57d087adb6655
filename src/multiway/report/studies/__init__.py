"""What the studies found: figures, tables, one page and Markdown."""

from __future__ import annotations

from multiway.report.studies.figures import study_pictures
from multiway.report.studies.markdown import study_markdown, write_markdown
from multiway.report.studies.page import write_study_page
from multiway.report.studies.tables import StudyTable, study_tables

__all__ = [
    "StudyTable",
    "study_markdown",
    "study_pictures",
    "study_tables",
    "write_markdown",
    "write_study_page",
]
