"""Is this robustness real? A checklist with a verdict, for any classifier."""

from multiway.analysis.diagnosis.attack_log import BUDGETS, Budget, Trial
from multiway.analysis.diagnosis.checklist import Item
from multiway.analysis.diagnosis.protocol import Diagnosis, diagnose

__all__ = ["BUDGETS", "Budget", "Diagnosis", "Item", "Trial", "diagnose"]
