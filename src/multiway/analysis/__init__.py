"""What the encoding did: to the directions of the gradient, and to the transfer of attacks."""

from multiway.analysis.correlation import (
    correlate,
    default_objectives,
    gradient_signs,
    sign_correlation,
)
from multiway.analysis.corruption import (
    CorruptionExamples,
    corruption_accuracy,
    corruption_examples,
)
from multiway.analysis.curves import (
    accuracy_against_eps,
    accuracy_against_kappa,
    accuracy_against_steps,
)
from multiway.analysis.diagnosis import BUDGETS, Budget, Diagnosis, diagnose
from multiway.analysis.directions import (
    STEP,
    Panel,
    distance_to_boundary,
    harmful_directions,
    intro_panels,
    sign_directions,
)
from multiway.analysis.input_gradients import saliency
from multiway.analysis.landscape import QUANTITIES, Landscape, bend, landscapes, nonlinearity
from multiway.analysis.transfer_matrix import transfer

__all__ = [
    "BUDGETS",
    "QUANTITIES",
    "STEP",
    "Budget",
    "CorruptionExamples",
    "Diagnosis",
    "Landscape",
    "Panel",
    "accuracy_against_eps",
    "accuracy_against_kappa",
    "accuracy_against_steps",
    "bend",
    "correlate",
    "corruption_accuracy",
    "corruption_examples",
    "default_objectives",
    "diagnose",
    "distance_to_boundary",
    "gradient_signs",
    "harmful_directions",
    "intro_panels",
    "landscapes",
    "nonlinearity",
    "saliency",
    "sign_correlation",
    "sign_directions",
    "transfer",
]
