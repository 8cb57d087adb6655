"""The paper's tables and figures, declared as studies over the library."""

from multiway.studies.collect import find
from multiway.studies.registry import STUDIES, declare
from multiway.studies.result import StudyResult, load_results, write_result
from multiway.studies.scales import SCALES, Scale, scale_of
from multiway.studies.study import Cell, Study

__all__ = [
    "SCALES",
    "STUDIES",
    "Cell",
    "Scale",
    "Study",
    "StudyResult",
    "declare",
    "find",
    "load_results",
    "scale_of",
    "write_result",
]
