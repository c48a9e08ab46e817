"""Rows in Fortran order, copied into C order."""

import numpy as np
import pytest

from rowsolve.compiled.simd import LANES
from rowsolve.kernels.turned import turn


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("shape", [(1, 1), (9, 7), (20, 8), (33, 19), (100, 40)])
def test_copies_rows_and_nothing_else(shape, dtype):
    rng = np.random.default_rng(shape)
    turned = rng.standard_normal(shape[::-1]).astype(dtype)
    for given in (turned, np.repeat(turned, 2, axis=1)[:, ::2]):
        for start, stop in ((0, shape[0]), (shape[0] // 3, shape[0] - shape[0] // 4)):
            for workspace in (0, 30):
                target = np.full((shape[0], shape[1] + workspace), np.inf, dtype=dtype if workspace else float)
                turn(given, start, stop, target)
                np.testing.assert_array_equal(target[: stop - start, : shape[1]], turned.T[start:stop])
                assert np.isinf(target[stop - start :]).all()
                assert np.isinf(target[:, shape[1] + LANES :]).all()
