"""Is this robustness real? A checklist with a verdict, for any classifier."""

from multiway.analysis.diagnosis.budget import BUDGETS, Budget
from multiway.analysis.diagnosis.checklist import Item, Measurement
from multiway.analysis.diagnosis.protocol import Diagnosis, diagnose
from multiway.analysis.diagnosis.radius import Radius
from multiway.analysis.diagnosis.trials import Trial

__all__ = [
    "BUDGETS",
    "Budget",
    "Diagnosis",
    "Item",
    "Measurement",
    "Radius",
    "Trial",
    "diagnose",
]
