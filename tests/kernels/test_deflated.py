from __future__ import annotations

import naive
import numpy as np
import pytest
from conftest import DENSE_OR_CSR

from rowsolve.kernels.blocks import block_workspace, project_blocks
from rowsolve.kernels.deflated import find_parts, lift, lower, write_unit_rows
from rowsolve.kernels.rows import PARALLEL, DeflatedRows, RowFlag, frozen, zeros_for_vectors
from rowsolve.kernels.sweep import sweep
from rowsolve.methods.drawing import ONE_BY_ONE
from rowsolve.methods.oblivious import ObliviousPlan
from rowsolve.problem.system import System
from rowsolve.sources import open_rows

N, P, R = 40, 23, 3


class Deflation:
    """Rows, known equations, and the same rows without their part in the span of these."""

    def __init__(self, keep, seed=0, zero=None):
        rng = np.random.default_rng(seed)
        A = rng.standard_normal((N, P)) * (rng.random((N, P)) < 0.8)
        if zero is not None:
            A[zero] = 0.0
        kept = keep(A)
        self.A = kept.astype(np.float64) if isinstance(kept, np.ndarray) else A
        self.x_true = rng.standard_normal(P)
        self.b = self.A @ self.x_true
        self.Q = np.linalg.qr(rng.standard_normal((P, R)))[0].T
        self.y = self.Q @ self.x_true
        self.source = open_rows(kept)
        self.basis = zeros_for_vectors(self.source.rows, R, P)
        self.basis[:] = self.Q
        self.rows = DeflatedRows(self.source.rows, np.zeros((N, R)))
        self.ratios = np.empty(N)
        find_parts(self.source.rows, np.arange(N), 0, N, self.basis, self.rows.parts, self.ratios)
        self.outside = self.A - self.A @ self.Q.T @ self.Q
        self.iterates = rng.standard_normal((2, P))

    def lifted(self):
        lifted, drops = np.empty((2, P + R)), np.empty(2)
        lift(self.basis, self.y, self.iterates, lifted, drops)
        return lifted, drops

    def lowered(self, lifted):
        lower(self.basis, lifted, self.iterates)
        return self.iterates

    def b_outside(self):
        return self.b - self.A @ self.Q.T @ self.y  # what the parts outside must add


def as_it_is(A):
    return A


def test_parts__match_numpy_and_return_the_ratio_of_norms(store):
    case = Deflation(store, zero=5)
    np.testing.assert_allclose(case.rows.parts, case.A @ case.Q.T, rtol=1e-10, atol=1e-12)
    expected = np.sum(case.A**2, axis=1)[case.ratios != 1] / np.sum(case.outside**2, axis=1)[case.ratios != 1]
    np.testing.assert_allclose(case.ratios[case.ratios != 1], expected, rtol=1e-9)
    assert np.flatnonzero(case.ratios == 1).tolist() == [5]


def test_lift__satisfies_the_known_equations_and_returns_the_drop():
    case = Deflation(as_it_is)
    before = np.sum((case.x_true - case.iterates[0]) ** 2), np.sum(case.iterates[1] ** 2)
    lifted, drops = case.lifted()
    x, z = case.lowered(lifted)
    np.testing.assert_allclose(case.Q @ x, case.y, rtol=1e-13)
    np.testing.assert_allclose(case.Q @ z, 0.0, atol=1e-14)
    after = np.sum((case.x_true - x) ** 2), np.sum(z**2)
    np.testing.assert_allclose(drops, np.subtract(before, after), rtol=1e-12)


@DENSE_OR_CSR
def test_sweep_of_deflated_rows__matches_naive(store):
    case = Deflation(store, seed=1, zero=7)
    expected, order, drops = case.iterates.copy(), np.random.default_rng(2).integers(0, N, 31), np.empty(2)
    expected_drops = naive.deflated_sweep(case.A, case.b, order, case.Q, case.y, expected)
    lifted, known = case.lifted()
    sweep(case.rows, frozen(case.b), order, lifted, drops, np.full(3, -1))
    np.testing.assert_allclose(case.lowered(lifted), expected, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(known + drops, expected_drops, rtol=1e-9)


@DENSE_OR_CSR
def test_blocks_of_deflated_rows__match_naive(store):
    case = Deflation(store, seed=3)
    order, sizes, drops = np.random.default_rng(4).permutation(N)[:14], np.array([4, 1, 3, 6]), np.empty(2)
    lifted, _ = case.lifted()
    expected = case.lowered(lifted.copy()).copy()
    shift = case.Q.T @ case.y
    expected[0] -= shift  # the parts outside see nothing of it
    expected_drops = naive.project_blocks(case.outside, case.b_outside(), order, sizes, expected)
    workspace = block_workspace(6, P + R)
    project_blocks(case.rows, frozen(case.b), order, sizes, lifted, drops, workspace, np.full(3, -1))
    expected[0] += shift
    np.testing.assert_allclose(case.lowered(lifted), expected, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(drops, expected_drops, rtol=1e-8)
    assert not workspace.spread.any()


@DENSE_OR_CSR
@pytest.mark.parametrize("n_chains", [2, 3])
def test_chains_of_deflated_rows__match_naive_and_return_exact_drops(store, n_chains):
    case = Deflation(store, seed=5)
    plan = ObliviousPlan(System(case.source, case.b, threads=n_chains), n_extra=R)
    plan.rows = case.rows
    plan.distribute(n_chains)
    plan.chains.units_of_a_round = 4
    order, drops = np.random.default_rng(6).permutation(N)[:31], np.empty(2)
    lifted, _ = case.lifted()
    expected = case.lowered(lifted.copy()).copy()
    before = np.sum((case.x_true - expected[0]) ** 2), np.sum(expected[1] ** 2)
    shift = case.Q.T @ case.y
    expected[0] -= shift
    naive.chains(case.outside, case.b_outside(), order, n_chains, 4, expected)
    expected[0] += shift
    plan.project(order, ONE_BY_ONE, lifted, drops)
    x, z = case.lowered(lifted)
    np.testing.assert_allclose(case.iterates, expected, rtol=1e-8, atol=1e-10)
    after = np.sum((case.x_true - x) ** 2), np.sum(z**2)
    np.testing.assert_allclose(drops, np.subtract(before, after), rtol=1e-9)


@pytest.mark.parametrize("sine", [0.0, 0.1 * PARALLEL**0.5])
def test_rows_in_the_known_span__do_not_move_x_but_count_as_a_drop(sine):
    case = Deflation(as_it_is)
    A = case.A.copy()
    A[4] = 2.0 * case.Q[1] + 2.0 * sine * case.outside[4] / np.linalg.norm(case.outside[4])
    rows = DeflatedRows(open_rows(A).rows, np.zeros((N, R)))
    find_parts(rows.rows, np.arange(N), 0, N, case.basis, rows.parts, case.ratios)
    assert case.ratios[4] == 1.0
    lifted, _ = case.lifted()
    x, flagged_rows, drops = case.lowered(lifted)[0].copy(), np.full(3, -1), np.empty(2)
    for order in ([4], [4, 4, 4]):  # alone, and in a pair
        b = case.b.copy()
        b[4] = A[4] @ x + 6.0
        sweep(rows, frozen(b), np.array(order), lifted, drops, flagged_rows)
        np.testing.assert_allclose(case.lowered(lifted)[0], x, rtol=1e-5)
        assert drops[0] == pytest.approx(9.0 * len(order), rel=1e-5)
    assert flagged_rows.tolist() == [-1, -1, -1]


def test_unit_rows__match_numpy_and_note_odd_rows(store):
    case = Deflation(store, zero=5)
    b, order, flagged_rows = case.b.copy(), np.array([3, 5, 0]), np.full(3, -1)
    b[5] = 1.0
    units, targets = np.full((3, P), np.nan), np.full(3, np.nan)
    write_unit_rows(case.source.rows, frozen(b), order, units, targets, flagged_rows)
    norms = np.array([np.linalg.norm(case.A[3]), np.inf, np.linalg.norm(case.A[0])])
    np.testing.assert_allclose(units, case.A[order] / norms[:, None], rtol=1e-12, atol=1e-300)
    np.testing.assert_allclose(targets, b[order] / norms, rtol=1e-12)
    assert flagged_rows[RowFlag.ZERO_AGAINST_B] == 5
