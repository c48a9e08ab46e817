from __future__ import annotations

import naive
import numpy as np
from bursts import assert_taken, burst_of
from conftest import gaussian

from rowsolve import Cyclic


def test_rows__come_in_their_order_and_start_again():
    A, b, _ = gaussian(50, 6)
    burst = burst_of(Cyclic(), A, b, 70)
    assert burst.order.tolist() == [*range(50), *range(20)]
    assert_taken(burst, naive.sweep, A, b, burst.order)
    rng = np.random.default_rng(0)
    again = Cyclic().advance(burst.plan, burst.iterates, 31, rng, burst.drops)
    assert again.tolist() == [*range(20, 50), 0]
    assert burst.system.counter.rows_read == 0  # the driver counts them
