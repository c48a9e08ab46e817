from __future__ import annotations

import numpy as np
import pytest
from conftest import gaussian, relative_error
from scipy import sparse

from rowsolve.race import problem as module
from rowsolve.race.problem import Problem, known, least_squares, tiny_like


def test_error__is_relative_to_the_reference():
    problem = Problem(np.eye(2), np.ones(2), known([3.0, 4.0]))
    assert problem.error_of(np.array([3.0, 4.5])) == pytest.approx(0.1)
    assert problem.error_of(np.array([np.nan, 4.0])) == np.inf
    with pytest.raises(ValueError, match="the solution is x = 0, for which the relative error is not defined"):
        Problem(np.eye(2), np.zeros(2), known([0.0, 0.0]))


def test_kind__is_described(tmp_path):
    A = np.eye(50, 4)
    np.save(tmp_path / "A.npy", A)
    mapped = np.load(tmp_path / "A.npy", mmap_mode="r")
    kinds = [Problem(one, np.ones(50), known(np.ones(4))).kind for one in (A, sparse.csr_array(A), mapped)]
    assert kinds == ["dense", "sparse, 2% stored", "memory map"]


@pytest.mark.parametrize("store", [np.asarray, np.asfortranarray, sparse.csr_array, sparse.coo_matrix])
def test_least_squares__is_that_of_lapack_in_several_pieces(store):
    A, b, _ = gaussian(5000, 12, noise=0.3)
    reference = least_squares(store(A), b)
    assert relative_error(reference.x, np.linalg.lstsq(A, b)[0]) < 1e-13
    assert reference.words == "the least-squares solution by LAPACK"
    assert 1e-16 < reference.doubt < 1e-13


def test_least_squares__doubts_itself_when_a_is_ill_conditioned():
    A, b, _ = gaussian(300, 8, noise=0.3)
    A[:, 0] = A[:, 1] + 1e-7 * A[:, 0]
    assert least_squares(A, b).doubt > 1e-9


def test_least_squares__of_dependent_columns_or_few_rows_is_the_one_of_least_norm():
    A, b, _ = gaussian(300, 8)
    A[:, 0] = A[:, 1]
    for matrix, right in ((A, b), (A[:5], b[:5])):
        reference = least_squares(matrix, right)
        assert relative_error(reference.x, np.linalg.lstsq(matrix, right)[0]) < 1e-10
    assert "the columns of A are dependent" in reference.words


def test_least_squares__names_what_is_not_finite():
    A, b, _ = gaussian(5000, 3)
    A[4000, 2] = np.inf
    with pytest.raises(ValueError, match="`A` must be finite: row 4000 has inf in column 2"):
        least_squares(A, b)


def test_least_squares__falls_back_to_lsmr_and_says_so(monkeypatch):
    A, b, _ = gaussian(300, 8, noise=0.3)
    monkeypatch.setattr(module, "seconds_for_flops", lambda _: 500.0)
    reference = least_squares(A, b, 10.0)
    assert reference.words == "LSMR with a tolerance of 1e-14, because LAPACK would take about 500 s"
    assert relative_error(reference.x, np.linalg.lstsq(A, b)[0]) < 1e-10
    with pytest.raises(ValueError, match=r"about 500 s, and LSMR took more than 1e-09 s\. Try a larger --limit"):
        least_squares(A, b, 1e-9)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("store", [np.ascontiguousarray, np.asfortranarray, sparse.csr_array, sparse.csr_matrix])
def test_tiny_like__is_of_the_same_kind(store, dtype):
    A = store(np.ones((9, 3), dtype))
    small, b = tiny_like(A)
    assert type(small) is type(A)
    assert small.dtype == dtype
    if isinstance(A, np.ndarray):
        assert small.flags.f_contiguous == A.flags.f_contiguous
    np.testing.assert_allclose(
        np.linalg.lstsq(small.toarray() if sparse.issparse(small) else small, b)[0], 1, atol=1e-5
    )
