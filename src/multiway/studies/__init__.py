"""The paper's tables and figures, declared as studies over the library."""

from multiway.studies.catalogue import STUDIES, declare, headings, in_order, studies_at
from multiway.studies.collect import collect_result
from multiway.studies.models import Model
from multiway.studies.outcomes import load_outcomes, measured_elsewhere, save_outcomes
from multiway.studies.plan import EFFECT, plan_study, turns
from multiway.studies.published import publish, read_folder
from multiway.studies.result import (
    KINDS,
    SCALES,
    StudyResult,
    load_results,
    verdict_counts,
    write_study_result,
)
from multiway.studies.scale import Scale
from multiway.studies.scales import scale_of
from multiway.studies.study import CellSpec, Study

__all__ = [
    "EFFECT",
    "KINDS",
    "SCALES",
    "STUDIES",
    "CellSpec",
    "Model",
    "Scale",
    "Study",
    "StudyResult",
    "collect_result",
    "declare",
    "headings",
    "in_order",
    "load_outcomes",
    "load_results",
    "measured_elsewhere",
    "plan_study",
    "publish",
    "read_folder",
    "save_outcomes",
    "scale_of",
    "studies_at",
    "turns",
    "verdict_counts",
    "write_study_result",
]
