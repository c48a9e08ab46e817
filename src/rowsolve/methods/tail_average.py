"""Randomized Kaczmarz with the mean of its iterates: least squares to a moderate accuracy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rowsolve.methods.base import Capabilities
from rowsolve.methods.oblivious import Oblivious, ObliviousPlan
from rowsolve.methods.randomized import Randomized

__all__ = ["TailAverage"]

_ROWS = Randomized()


@dataclass(frozen=True)
class TailAverage(Oblivious):
    """Project on random rows; if x does not settle, average the iterates (Epperly, Goldshlager and Webber 2024).

    Row ``i`` is drawn with probability ``norm(A[i])**2 / norm(A, 'fro')**2``, so the expected step is
    ``A.T @ (b - A x) / norm(A, 'fro')**2``, and the mean of the iterates converges to the least-squares solution. (With
    rows drawn uniformly the equations would be weighted by ``1 / norm(A[i])**2``.) Averaging begins when the probe has
    settled although x has not, so that the mean is independent of the start, and ends when the scatter of the mean is
    within the tolerance.

    The error decreases with the square root of the number of rows: one more digit takes a hundred times as many rows.
    With 10% noise a system of 20,000 x 100 takes 3.5 passes to 1e-2 and 330 to 1e-3. The method is meant for a
    moderate accuracy within a few passes; if the tolerance cannot be reached within the limits, the mean so far is
    returned at once with the status ``INCONSISTENT``. A consistent system is solved as by `randomized`. A is read once
    beforehand.

    Parameters
    ----------
    n_directions : int
        Size of the memory, which saves rows on ill-conditioned systems (see `rowsolve.methods.oblivious.Oblivious`).
    """

    name: ClassVar[str] = "tail-average"
    summary: ClassVar[str] = "as randomized, with the mean of the iterates if b is noisy: least squares to a few digits"
    citation: ClassVar[str] = "Epperly, Goldshlager and Webber 2024"
    plan_type: ClassVar[type[ObliviousPlan]] = Randomized.plan_type
    # With several b it would end when the first of the means is accurate enough.
    # With bounds the mean would still tend to the least-squares solution without bounds.
    can: ClassVar[Capabilities] = Oblivious.can._replace(many_b=False, bounds=False, averages=True)

    def prepare(self, system, rng):
        """Compute the norms of the rows (one pass)."""
        return _ROWS.prepare(system, rng)
