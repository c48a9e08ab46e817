"""In its quick size, each case has the properties of its name."""

from __future__ import annotations

import math

import corpus
import numpy as np
import pytest
from corpus import CORPUS, Case, chosen
from scipy import sparse

from rowsolve.race.problem import least_squares

QUICK = [name for name, case in CORPUS.items() if not case.why_not(quick=True)]


def make(name, folder):
    return CORPUS[name].make(folder, quick=True)


def condition_of(A):
    """Return the condition of A, if it is at most 1e7, by its Gram matrix, which is smaller."""
    gram = A.T @ A
    values = np.linalg.eigvalsh(gram.toarray() if sparse.issparse(gram) else gram)
    return math.sqrt(values[-1] / max(values[0], 1e-14 * values[-1]))


def frobenius(A):
    return sparse.linalg.norm(A) if sparse.issparse(A) else np.linalg.norm(A)


def stretch(A):
    """Return a bound on the condition number of a Gaussian matrix of this shape, with a small margin."""
    ratio = math.sqrt(A.shape[1] / A.shape[0])
    return 1.1 * (1.0 + ratio) / (1.0 - ratio)


@pytest.mark.parametrize("name", QUICK)
def test_every_case__is_tall_of_full_rank_and_solved_by_its_reference(name, tmp_path):
    A, b, x = make(name, tmp_path)
    assert A.shape[0] > A.shape[1]
    assert b.shape == (A.shape[0],)
    if CORPUS[name].family != "corrupted" and x is not None:
        assert np.linalg.norm(A @ x - b) <= 1e-12 * np.linalg.norm(b)
        assert condition_of(A) < 1e5
    if x is None:
        x = least_squares(A, b).x
        assert np.linalg.norm(A.T @ (b - A @ x)) <= 1e-12 * frobenius(A) * np.linalg.norm(b)


@pytest.mark.parametrize("name", QUICK)
def test_every_case__is_the_same_every_time(name, tmp_path):
    one, other = make(name, tmp_path), make(name, tmp_path)
    assert (one.A != other.A).sum() == 0
    np.testing.assert_array_equal(one.b, other.b)


@pytest.mark.parametrize(
    ("name", "condition"),
    [("decaying-100", 1e2), ("decaying-10000", 1e4), ("noisy-decaying-1e8", 1e8), ("outliers", 1e2)],
)
def test_spectra__have_the_promised_condition(name, condition, tmp_path):
    A, _, _ = make(name, tmp_path)
    assert condition / stretch(A) < np.linalg.cond(A) < condition * stretch(A)


def test_decaying__falls_smoothly(tmp_path):
    A, _, _ = make("decaying-10000", tmp_path)
    steps = -np.diff(np.log10(np.linalg.svd(A, compute_uv=False)))
    assert steps.max() < 3 * 4 / (A.shape[1] - 1)


def test_outliers__are_some_singular_values_far_above_the_rest(tmp_path):
    A, _, _ = make("outliers", tmp_path)
    values = np.linalg.svd(A, compute_uv=False)
    n_outliers = A.shape[1] // 10
    assert values[n_outliers - 1] > 100 / stretch(A) * values[n_outliers]
    assert values[0] < stretch(A) * values[n_outliers - 1]


@pytest.mark.parametrize("noise", [0.01, 0.1])
@pytest.mark.parametrize("kind", ["gaussian", "clustered-tight", "clustered-loose", "decaying-100", "decaying-10000"])
def test_noise__is_as_strong_as_promised(kind, noise, tmp_path):
    A, b, _ = make(f"noisy-{kind}-{100 * noise:g}%", tmp_path)
    residual = b - A @ least_squares(A, b).x
    spread = np.linalg.norm(residual) / math.sqrt(A.shape[0] - A.shape[1]) / np.std(b)
    assert spread == pytest.approx(noise, rel=0.1)


@pytest.mark.parametrize(("separation", "norm"), [("tight", math.sqrt(60.0)), ("loose", 1.0)])
@pytest.mark.parametrize("spread", [0.1, 0.2])
def test_clusters__are_four_as_far_apart_as_promised(separation, norm, spread, tmp_path):
    A, _, _ = make(f"clustered-{separation}-{spread:g}", tmp_path)
    values = np.linalg.svd(A / math.sqrt(A.shape[0]), compute_uv=False)
    assert np.linalg.norm(values[:4]) == pytest.approx(norm, rel=0.15)
    assert values[4] < 1.4 * spread


def test_corrupted__has_two_wrong_rows_in_a_hundred(tmp_path):
    A, b, x = make("corrupted-2%", tmp_path)
    wrong = np.abs(A @ x - b) > 1e-9
    assert wrong.mean() == 0.02
    assert np.std(b[wrong]) > 5 * np.std(b[~wrong])


@pytest.mark.parametrize(("name", "share"), [("sparse-1%", 0.01), ("sparse-0.1%", 0.001)])
def test_sparse__has_the_promised_share_of_entries_and_no_empty_row(name, share, tmp_path):
    A, _, _ = make(name, tmp_path)
    assert A.format == "csr"
    assert A.has_canonical_format
    assert A.nnz / math.prod(A.shape) == pytest.approx(share, rel=0.02)
    assert np.diff(A.indptr).min() > 0


def test_tomography__counts_every_pixel_once_at_every_angle(tmp_path):
    A, _, x = make("sparse-ct", tmp_path)
    np.testing.assert_allclose(A.sum(axis=0), 24)  # angles
    assert np.diff(A.indptr).min() > 0
    assert set(np.unique(x)) == {0.0, 1.0, 2.0}


def test_file__is_a_map_of_a_consistent_system(tmp_path):
    A, b, x = corpus.npy_file((5000, 7), np.random.default_rng(0), tmp_path)
    assert isinstance(A, np.memmap)
    np.testing.assert_allclose(A @ x, b)
    assert CORPUS["file-npy"].why_not(quick=True) == "has no quick size"
    assert math.prod(CORPUS["file-npy"].full) * 8 == 2e9


def test_cases_with_files__are_skipped_if_the_file_does_not_exist(tmp_path):
    case = Case("x", "sparse", corpus.from_file, (1, 1), (1, 1), needs=tmp_path / "x.mtx")
    assert case.why_not(quick=False) == "the file x.mtx does not exist"
    (tmp_path / "x.mtx").touch()
    assert case.why_not(quick=False) == ""


def test_targets__are_those_to_reach():
    targets = {name: case.target for name, case in CORPUS.items()}
    assert targets["gaussian-50000x1000"] == 12.0
    assert targets["gaussian-200000x200"] == 40.0
    assert {targets[name] for name in targets if name.startswith("clustered")} == {2.5}
    assert targets["noisy-gaussian-1%"] == targets["noisy-clustered-loose-10%"] == 1.3
    assert targets["noisy-decaying-100-1%"] == targets["noisy-decaying-1e8"] == 1.5
    assert targets["corrupted-2%"] == 0.9
    assert min(targets.values()) == 0.9


def test_chosen__by_name_and_family():
    assert chosen([]) == list(CORPUS.values())
    assert [case.name for case in chosen(["outliers", "decaying"])] == ["outliers", "decaying-100", "decaying-10000"]
    with pytest.raises(ValueError, match="unknown case 'gauss': expected a name of `--list` or one of clustered, "):
        chosen(["gauss"])
