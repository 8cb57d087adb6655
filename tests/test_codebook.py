"""Codebooks: the algebra that everything else rests on."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from multiway.codebook import Codebook, default_beta
from multiway.errors import MultiwayError
from multiway.gram_schmidt import gram_schmidt

BOOKS = {
    "ro": lambda: Codebook.random_orthogonal(10, 200, seed=3),
    "one-hot": lambda: Codebook.one_hot(10, beta=3.0),
    "padded": lambda: Codebook.padded_one_hot(10, 200),
    "hadamard": lambda: Codebook.hadamard(10, 256, seed=3),
    "simplex": lambda: Codebook.simplex(10, 200, seed=3),
    "gaussian": lambda: Codebook.gaussian(10, 200, seed=3),
}
ORTHOGONAL = ("ro", "one-hot", "padded", "hadamard")


def textbook(rows: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Eq. 3 of the paper, letter by letter."""
    basis: list[npt.NDArray[np.float64]] = []
    for a in rows:
        u = a.copy()
        for e in basis:
            u = u - (a @ e) * e
        basis.append(u / np.sqrt(u @ u))
    return np.array(basis)


@pytest.mark.parametrize(("classes", "length"), [(2, 2), (3, 7), (10, 10), (10, 2000), (64, 100)])
def test_gram_schmidt_is_the_textbook_recursion(classes: int, length: int) -> None:
    rows = np.random.RandomState(classes).standard_normal((classes, length))
    np.testing.assert_allclose(gram_schmidt(rows), textbook(rows), atol=1e-10)


@given(
    st.integers(1, 12).flatmap(lambda k: st.tuples(st.just(k), st.integers(k, 40))),
    st.integers(0, 2**32 - 1),
    st.floats(-12, 12),
)
@settings(max_examples=60, deadline=None)
def test_gram_schmidt_is_orthonormal_and_free_of_scale(
    shape: tuple[int, int], seed: int, exponent: float
) -> None:
    rows = np.random.RandomState(seed).standard_normal(shape)
    basis = gram_schmidt(rows)
    np.testing.assert_allclose(basis @ basis.T, np.eye(shape[0]), atol=1e-8)
    np.testing.assert_allclose(gram_schmidt(rows * 10.0**exponent), basis, atol=1e-8)


def test_gram_schmidt_refuses_dependent_rows() -> None:
    rows = np.array([[1.0, 2.0, 3.0], [0.0, 1.0, 0.0], [2.0, 5.0, 6.0]])
    with pytest.raises(MultiwayError, match="not independent"):
        gram_schmidt(rows)
    with pytest.raises(MultiwayError, match="zero or not finite"):
        gram_schmidt(np.zeros((2, 3)))


def test_large_book_is_orthonormal_to_a_millionth() -> None:
    book = Codebook.random_orthogonal(1000, 2000)
    unit = book.vectors.double() / default_beta(2000)
    assert float((unit @ unit.T - torch.eye(1000)).abs().max()) < 1e-6


HASH = """
import hashlib
from multiway.codebook import Codebook
vectors = Codebook.random_orthogonal(50, 300, seed=7).vectors
print(hashlib.sha256(vectors.numpy().tobytes()).hexdigest())
"""


def bits_with(threads: str) -> str:
    """The hash of a book that a new process makes with so many threads."""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    environment = {**os.environ, **dict.fromkeys(names, threads)}
    done = subprocess.run(
        [sys.executable, "-c", HASH], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_same_seed_same_bits_with_any_number_of_threads_and_on_any_machine() -> None:
    assert torch.get_num_threads() == 1
    here = Codebook.random_orthogonal(50, 300, seed=7).vectors.numpy().tobytes()
    # The constant holds other machines to the bits of the one it was computed on.
    assert (
        bits_with("2")
        == hashlib.sha256(here).hexdigest()
        == "6f891cb86de237ea0e3991dcb681f919e47c39670a7cbf7a05173b7e8bf776db"
    )


def test_seeds_give_different_books() -> None:
    one, two = (Codebook.random_orthogonal(10, 50, seed=seed).vectors for seed in (0, 1))
    assert not torch.equal(one, two)


@pytest.mark.parametrize("name", BOOKS)
def test_codewords_have_norm_beta_and_decode_to_their_class(name: str) -> None:
    book = BOOKS[name]()
    torch.testing.assert_close(
        book.vectors.norm(dim=1), torch.full((10,), book.beta), rtol=1e-5, atol=0
    )
    labels = torch.arange(10)
    assert torch.equal(book.decode(book.encode(labels)), labels)


@pytest.mark.parametrize("name", BOOKS)
def test_distances_are_mean_squared_errors(name: str) -> None:
    book = BOOKS[name]().double()
    codes = torch.randn(7, book.length, dtype=torch.float64) * book.beta
    literal = (codes[:, None] - book.vectors[None]).square().mean(dim=2)
    torch.testing.assert_close(book.distances(codes), literal)


def test_distances_never_build_a_tensor_of_all_pairs() -> None:
    # 64 x 1000 x 2000 float32 would be 512 MB; the three [N, K] tensors are below one.
    book = Codebook.padded_one_hot(1000, 2000)
    codes = torch.zeros(64, 2000)
    with torch.profiler.profile(profile_memory=True) as profile:
        book.distances(codes)
    largest = max(event.cpu_memory_usage for event in profile.events())
    assert largest < 20 * 2**20


@pytest.mark.parametrize("name", BOOKS)
def test_scores_are_linear_and_ordered_as_negative_distances(name: str) -> None:
    book = BOOKS[name]().double()
    a, b = torch.randn(2, 9, book.length, dtype=torch.float64) * book.beta
    torch.testing.assert_close(book.scores(2 * a - b), 2 * book.scores(a) - book.scores(b))
    assert torch.equal(book.scores(a).argsort(1), (-book.distances(a)).argsort(1))
    assert torch.equal(book.decode(a), book.distances(a).argmin(1))


@pytest.mark.parametrize("name", BOOKS)
def test_a_perfect_hit_leads_by_ten(name: str) -> None:
    book = BOOKS[name]().double()
    scores = book.scores(book.vectors)
    first, second = scores.topk(2, dim=1).values.T
    assert float((first - second).min()) == pytest.approx(10.0, rel=1e-4)
    if name != "gaussian":  # only its leads differ between classes
        torch.testing.assert_close(first - second, torch.full_like(first, 10.0), rtol=1e-4, atol=0)


@pytest.mark.parametrize("name", BOOKS)
def test_coherence(name: str) -> None:
    book = BOOKS[name]()
    unit = book.vectors.double() / book.vectors.double().norm(dim=1, keepdim=True)
    cosines = [abs(float(unit[i] @ unit[j])) for i in range(10) for j in range(i)]
    assert book.coherence() == pytest.approx(max(cosines))
    if name in ORTHOGONAL:
        assert book.coherence() < 1e-6
    if name == "simplex":
        assert min(cosines) == pytest.approx(1 / 9, rel=1e-4)
        assert book.coherence() == pytest.approx(1 / 9, rel=1e-4)


def test_hadamard_entries_are_plus_minus_beta_over_root_length() -> None:
    book = Codebook.hadamard(10, 64, beta=8.0, seed=1)
    torch.testing.assert_close(book.vectors.abs(), torch.ones(10, 64))


def test_margin_in_the_papers_units() -> None:
    # Facts of the paper's setting: at beta 1000 and length 2000, MSE_i - MSE_t = z_t - z_i,
    # and a perfect hit has a margin of 1000.
    book = Codebook.random_orthogonal(10, 2000, beta=1000.0).double()
    unit = book.vectors / 1000.0
    codes = 30 * torch.randn(5, 2000, dtype=torch.float64)
    z, distances = codes @ unit.T, book.distances(codes)
    torch.testing.assert_close(distances - distances[:, :1], z[:, :1] - z, rtol=1e-4, atol=1e-2)
    at_hit = book.distances(book.vectors[:1])[0]
    torch.testing.assert_close(
        at_hit[1:], torch.full((9,), 1000.0, dtype=torch.float64), rtol=1e-5, atol=0
    )


def test_padded_one_hot_is_a_rotation_of_ro() -> None:
    ro, padded = Codebook.random_orthogonal(5, 20), Codebook.padded_one_hot(5, 20)
    torch.testing.assert_close(
        ro.vectors @ ro.vectors.T, padded.vectors @ padded.vectors.T, rtol=1e-5, atol=1e-2
    )


def test_default_beta_keeps_the_papers_ratio() -> None:
    assert default_beta(2000) == pytest.approx(1000.0)
    assert Codebook.random_orthogonal(10, 10).beta ** 2 / 10 == pytest.approx(500, rel=1e-5)


def test_buffers_follow_the_module_and_its_state_dict() -> None:
    book = Codebook.random_orthogonal(4, 8, beta=2.0)
    assert book.double().vectors.dtype == torch.float64
    other = Codebook.random_orthogonal(4, 8, beta=6.0, seed=1).double()
    other.load_state_dict(book.state_dict())
    assert torch.equal(other.vectors, book.vectors)
    assert other.beta == book.beta
    assert other.score_scale == book.score_scale


def bad_vectors(*rows: list[float]) -> Tensor:
    return torch.tensor(rows)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Codebook.random_orthogonal(10, 9), "code length 9 is below the 10 classes"),
        (lambda: Codebook.padded_one_hot(10, 9), "code length 9 is below the 10 classes"),
        (lambda: Codebook.simplex(10, 5), "code length 5 is below the 10 classes"),
        (lambda: Codebook.hadamard(10, 100), "power of two as its length, not 100; take 128"),
        (lambda: Codebook.random_orthogonal(1, 9), "2 classes or more, not 1"),
        (lambda: Codebook.gaussian(10, 0), "length of 1 or more, not 0"),
        (lambda: Codebook.one_hot(10, beta=-1.0), "positive number, not -1"),
        (lambda: Codebook.one_hot(10, beta=float("nan")), "positive number, not nan"),
        (lambda: Codebook.random_orthogonal(2, 4, seed=-1), "from 0 to 2\\^32 - 1, not -1"),
        (lambda: Codebook(torch.zeros(3)), r"matrix \[classes, length\]"),
        (lambda: Codebook(bad_vectors([1, 0], [0, 0])), "zero or not finite"),
        (lambda: Codebook(bad_vectors([1, 0], [0, 2])), "norms from 1 to 2"),
        (lambda: Codebook(bad_vectors([1, 0], [1, 0])), "the same codeword"),
        (lambda: Codebook.one_hot(3).scores(torch.zeros(2, 4)), r"\[2, 4\], but .* \[N, 3\]"),
        (lambda: Codebook.one_hot(3).encode(torch.tensor([0, 3])), "run from 0 to 3"),
        (lambda: Codebook.one_hot(3).encode(torch.tensor([-1])), "run from -1 to -1"),
        (lambda: Codebook.one_hot(3).encode(torch.tensor([1.0])), "labels are float32"),
        (lambda: Codebook.one_hot(3).encode(torch.tensor([], dtype=torch.int64)), "empty"),
        (lambda: Codebook.one_hot(3).encode(torch.eye(3).long()), "one-hot"),
    ],
)
def test_bad_input(make: object, message: str) -> None:
    assert callable(make)
    with pytest.raises(MultiwayError, match=message):
        make()
