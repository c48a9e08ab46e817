from __future__ import annotations

import numpy as np
import pytest

from rowsolve.experiments.problems import gaussian_system


def test_gaussian_system__is_consistent_unless_noise_is_asked_for():
    A, b, x = gaussian_system(300, 8, 0)
    np.testing.assert_allclose(A @ x, b)
    A, noisy, x = gaussian_system(300, 8, 0, noise=0.1)
    assert np.std(noisy - A @ x) / np.std(A @ x) == pytest.approx(0.1, rel=0.15)
