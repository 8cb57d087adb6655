"""The paper's claims: well formed, and true of the paper's own figures but where told here."""

from __future__ import annotations

import re

import pytest

from multiway.errors import MultiwayError
from multiway.studies.claims import Claim, Comparison, claims, read_claims
from multiway.studies.paper import BASELINE, studies
from multiway.studies.verdict import reported_effect

# Claims that the paper's own figures do not bear out.
CONTRADICTED = {"benchmark-cifar-10-black-box-from-ro"}

# Claims of a gain by so much at least.
POSITIVE = {"iterations-clean-cifar-100", "watermark-works", "watermark-hidden-works"}

# Studies whose cells all stand in the final version, with the baseline in place of 1ofK.
TABULATED = (
    "length", "correlation", "transfer", "benchmark", "corruption", "watermark", "ablation",
    "confidence", "epsilon", "undefended",
)  # fmt: skip


def lead(claim: Claim, part: Comparison) -> float | None:
    """By how much the paper's figures exceed what the comparison asks for."""
    effect = reported_effect(claim, part)
    return None if effect is None else round(effect - part.by, 9)


def agrees(claim: Claim) -> bool | None:
    leads = [lead(claim, part) for part in claim.comparisons]
    if None in leads:
        return None
    return all(value is not None and value > 0 for value in leads)


def named(name: str) -> Claim:
    return next(claim for claim in claims() if claim.id == name)


def test_every_study_has_claims() -> None:
    assert {claim.study for claim in claims()} == set(studies())
    for study in studies():
        assert claims(study) == tuple(claim for claim in claims() if claim.study == study)


@pytest.mark.parametrize("study", TABULATED)
def test_the_paper_bears_out_its_own_claims(study: str) -> None:
    verdicts = {
        claim.id: agrees(claim)
        for claim in claims(study)
        # What it says of its worst case, of an unmarked network, of kinds of corruption that it
        # does not show, of clean images in Table 3 and of the mechanism has no figure.
        if claim.kind == "literal"
        and not claim.id.endswith(
            ("-worst", "watermark-works", "corruption-others", "transfer-clean", "-mechanism")
        )
    }
    assert None not in verdicts.values(), "all cells of these claims stand in the paper"
    assert {name for name, verdict in verdicts.items() if not verdict} == {
        name for name in CONTRADICTED if name in verdicts
    }


def test_the_earlier_version_bears_out_the_seven_points() -> None:
    assert agrees(named("iterations-clean-cifar-100"))
    assert agrees(named("iterations-matched-clean-cifar-100"))


def test_one_claim_worked_by_hand() -> None:
    claim = named("transfer-black-box")
    a, c = claim.comparisons
    assert lead(claim, a) == pytest.approx(0.880 - 0.820)
    assert lead(claim, c) == pytest.approx(0.926 - 0.690)
    close = named("watermark-accuracy")
    assert lead(close, close.comparisons[0]) == pytest.approx(0.802 - 0.847 + 0.05)


def test_steps_of_a_chain_meet() -> None:
    parts = named("epsilon-falls").comparisons
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
            assert -0.1 <= part.by <= 0 or claim.id in POSITIVE, claim.id


def test_literal_claims_compare_what_the_paper_compares() -> None:
    """The baseline without clean images, and never a control that the paper does not have."""
    for claim in claims():
        rows = {row for row, _ in claim.cells}
        if claim.kind == "literal" and claim.study in ("benchmark", "corruption", "iterations"):
            assert not any(re.search(r"1ofK$|padded|1ofK-MSE", row) for row in rows), claim.id
        if claim.study in ("controls", "objectives"):
            assert claim.kind == "matched", claim.id
        # Its recipe has no clean images: no control of RO's that has them.
        if any(r.endswith(BASELINE) for r in rows) and not any("only" in row for row in rows):
            assert claim.kind == "literal", claim.id
        elif claim.study.startswith("autoattack"):
            assert claim.kind == "matched", claim.id
        # Zero-padded labels are ours, wherever they stand.
        if any("padded" in row for row in rows):
            assert claim.kind == "matched", claim.id


GOOD = """
- id: transfer-{net}
  kind: literal
  study: transfer
  about: lead
  over: {net: [A, C]}
  text: Of {net}.
  where: Table 3
  greater: [["{net}-RO", AVG BB]]
  than: 0.5
"""


def test_comparisons_have_names_of_their_own() -> None:
    """Several of the same rows are told apart by their columns."""
    for claim in claims():
        assert list(claim.names.values()) == list(claim.comparisons), claim.id
    assert "RO over Madry et al.: snow" in named("corruption-each").names
    assert list(named("corruption-average").names) == ["RO over Madry et al."]


def test_each_makes_a_comparison_of_each_value() -> None:
    (claim,) = read_claims(GOOD.replace("over", "each").replace("transfer-{net}", "transfer-x")
                           .replace("Of {net}", "Of all"))  # fmt: skip
    assert [part.greater for part in claim.comparisons] == [
        (("A-RO", "AVG BB"),), (("C-RO", "AVG BB"),)
    ]  # fmt: skip


def test_over_makes_a_claim_of_each_value() -> None:
    assert read_claims(GOOD) == tuple(
        Claim(
            f"transfer-{net.lower()}", "literal", "transfer", "lead", f"Of {net}.", "Table 3",
            "accuracy", (Comparison(((f"{net}-RO", "AVG BB"),), 0.5),),
        )
        for net in ("A", "C")
    )  # fmt: skip


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("kind: literal", "kind: ours", "claims: 0.kind: Input should be 'literal' or 'matched'"),
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
