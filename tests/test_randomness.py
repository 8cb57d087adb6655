"""Random streams depend on seed and purpose alone."""

from __future__ import annotations

import torch

from multiway.randomness import derive, generator, isolated, seeded


def test_streams_are_repeatable_and_apart() -> None:
    seeds = {derive(seed, name, i) for seed in range(20) for name in ("a", "b") for i in range(20)}
    assert len(seeds) == 800
    assert all(0 <= seed < 2**63 for seed in seeds)
    one, again = (torch.rand(5, generator=generator(3, "x")) for _ in range(2))
    assert torch.equal(one, again)


def test_parts_of_a_purpose_do_not_run_together() -> None:
    assert derive(1, "a", 23) != derive(1, "a", 2, 3)


def test_isolated_restores_the_global_stream() -> None:
    torch.manual_seed(0)
    expected = torch.rand(2)
    torch.manual_seed(0)
    with isolated():
        seeded(9, "anything")
        torch.rand(100)
    assert torch.equal(torch.rand(2), expected)
