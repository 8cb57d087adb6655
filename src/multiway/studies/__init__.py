"""The paper's tables and figures, declared as studies over the library."""

from multiway.studies.collect import collect_result
from multiway.studies.registry import STUDIES, declare
from multiway.studies.result import SCALES, StudyResult, load_results, write_result
from multiway.studies.scales import Scale, scale_of
from multiway.studies.study import CellSpec, Study

__all__ = [
    "SCALES",
    "STUDIES",
    "CellSpec",
    "Scale",
    "Study",
    "StudyResult",
    "collect_result",
    "declare",
    "load_results",
    "scale_of",
    "write_result",
]
