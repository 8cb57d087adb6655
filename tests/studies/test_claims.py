"""The paper's claims: well formed, and true of the paper's own figures but where told here."""

from __future__ import annotations

import math
import re

import pytest

from multiway.errors import MultiwayError
from multiway.studies.claims import Claim, Comparison, Side, claims, read_claims
from multiway.studies.paper import figure, studies

# What only has a picture, no figures of its own, or is told by no study.
WITHOUT_CLAIMS = {"saliency", "undefended"}

# Claims that the paper's own figures do not bear out.
CONTRADICTED = {"benchmark-cifar-10-black-box-from-ro"}

# Studies whose cells all stand in the final version, with the baseline in place of 1ofK.
TABULATED = (
    "length", "correlation", "transfer", "benchmark", "corruption", "watermark", "ablation",
    "confidence", "epsilon",
)  # fmt: skip


def reported(claim: Claim, row: str, column: str) -> float | None:
    """The paper's figure; where we match 1ofK to RO, that of its baseline."""
    if claim.study in ("benchmark", "corruption", "iterations"):
        row = re.sub(r"1ofK$", "Madry et al.", row)
    if claim.study == "iterations":
        column = column.removesuffix(" 100")
    return figure(claim.study, row, column, claim.metric)


def mean(claim: Claim, side: Side) -> float | None:
    if not isinstance(side, tuple):
        return side
    values = [reported(claim, row, column) for row, column in side]
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if len(known) == len(values) else None


def lead(claim: Claim, part: Comparison) -> float | None:
    """By how much the paper's figures exceed what the comparison asks for."""
    greater, than = mean(claim, part.greater), mean(claim, part.than)
    return None if greater is None or than is None else round(greater - than - part.by, 9)


def agrees(claim: Claim) -> bool | None:
    leads = [lead(claim, part) for part in claim.comparisons]
    if None in leads:
        return None
    return all(value is not None and value > 0 for value in leads)


def named(name: str) -> Claim:
    return next(claim for claim in claims() if claim.id == name)


def test_every_study_has_claims() -> None:
    assert {claim.study for claim in claims()} == set(studies()) - WITHOUT_CLAIMS
    for study in studies():
        assert claims(study) == tuple(claim for claim in claims() if claim.study == study)


@pytest.mark.parametrize("study", TABULATED)
def test_the_paper_bears_out_its_own_claims(study: str) -> None:
    verdicts = {
        claim.id: agrees(claim) for claim in claims(study) if not claim.where.startswith("ours")
    }
    assert None not in verdicts.values(), "all cells of these claims stand in the paper"
    assert {name for name, verdict in verdicts.items() if not verdict} == {
        name for name in CONTRADICTED if name in verdicts
    }


def test_the_earlier_version_bears_out_what_it_tells_of() -> None:
    verdicts = {claim.id: agrees(claim) for claim in claims("iterations")}
    told = {name: verdict for name, verdict in verdicts.items() if verdict is not None}
    assert told == dict.fromkeys(
        [
            "iterations-white-box-cifar-100",
            "iterations-white-box-svhn",
            "iterations-ro-cifar-100-white-box",
            "iterations-ro-cifar-100-black-box",
            "iterations-ro-svhn-white-box",
            "iterations-ro-svhn-black-box",
            "iterations-clean-cifar-100",
        ],
        True,
    )


def test_one_claim_worked_by_hand() -> None:
    claim = named("transfer-black-box")
    (part,) = claim.comparisons
    assert lead(claim, part) == pytest.approx((0.880 + 0.926) / 2 - (0.820 + 0.690) / 2)
    close = named("watermark-accuracy")
    assert lead(close, close.comparisons[0]) == pytest.approx(0.802 - 0.847 + 0.05)


def test_steps_of_a_chain_meet() -> None:
    for name in ("epsilon-falls", "confidence-transfers"):
        parts = named(name).comparisons
        assert [part.than for part in parts[:-1]] == [part.greater for part in parts[1:]]
    for column in ("black-box", "white-box", "clean"):
        parts = named(f"length-steady-{column}").comparisons
        assert [part.greater for part in parts[:-1]] == [part.than for part in parts[1:]]
        assert parts[0].than == (("10", column),)
        assert parts[-1].greater == (("2000", column),)


def test_no_claim_says_less_than_it_seems() -> None:
    for claim in claims():
        assert claim.text.endswith("."), claim.id
        assert claim.where, claim.id
        assert not re.search(r"[{}]", claim.id + claim.text + str(claim.cells)), claim.id
        assert re.fullmatch(r"[a-z0-9-]+", claim.id)
        assert claim.id.startswith(f"{claim.study}-")
        for part in claim.comparisons:
            # A comparison of a thing with itself, or with too wide a margin, decides nothing.
            assert part.greater != part.than, claim.id
            assert -0.1 <= part.by <= 0, claim.id


def test_added_studies_are_marked_as_ours() -> None:
    for claim in claims():
        ours = claim.study in ("controls", "objectives", "autoattack")
        assert (claim.where == "ours") == ours, claim.id


GOOD = """
- id: transfer-{net}
  study: transfer
  over: {net: [A, C]}
  text: Of {net}.
  where: Table 3
  greater: [["{net}-RO", AVG BB]]
  than: 0.5
"""


def test_over_makes_a_claim_of_each_value() -> None:
    assert read_claims(GOOD) == tuple(
        Claim(
            f"transfer-{net.lower()}", "transfer", f"Of {net}.", "Table 3", "accuracy",
            (Comparison(((f"{net}-RO", "AVG BB"),), 0.5),),
        )
        for net in ("A", "C")
    )  # fmt: skip


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("study: transfer", "study: tranfer", "unknown study of claim transfer-a 'tranfer'"),
        ("{net}-RO", "{net}-R0", "unknown row of transfer 'A-R0'"),
        ("AVG BB", "AVG", "unknown column of transfer 'AVG'"),
        ("than: 0.5", "metric: speed\n  than: 0.5", "unknown metric of claim transfer-a 'speed'"),
        ("than: 0.5", "", "greater and than, or else all"),
        ("than: 0.5", "than: 0.5\n  all: [{greater: 1, than: 0}]", "or else all"),
        ("than: 0.5", "then: 0.5", "claims: 0.then: Extra inputs"),
        ("than: 0.5", "than: [[A-RO, A-RO], [C-RO, C-RO]]", "as many cells on either side"),
        ('[["{net}-RO", AVG BB]]', "0.6", "as many cells on either side"),
        ('[["{net}-RO", AVG BB]]', "[]", "as many cells on either side"),
        ("transfer-{net}", "transfer-x", "claim transfer-x is there twice"),
    ],
)
def test_a_faulty_claim_is_told(before: str, after: str, message: str) -> None:
    assert before in GOOD
    with pytest.raises(MultiwayError, match=re.escape(message)):
        read_claims(GOOD.replace(before, after))


def test_an_unknown_study_has_no_claims() -> None:
    with pytest.raises(MultiwayError, match="unknown study 'lenght': did you mean 'length'"):
        claims("lenght")
