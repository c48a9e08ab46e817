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
    """Take random rows, and when x will not settle average it (Epperly, Goldshlager and Webber 2024).

    Row ``i`` is drawn with probability ``norm(A[i])**2 / norm(A, 'fro')**2``, so a step moves x on average by
    ``A.T @ (b - A x) / norm(A, 'fro')**2``: the mean of the iterates tends to the least-squares solution. (With rows
    drawn uniformly it would tend to one that weighs each equation by ``1 / norm(A[i])**2``.) Averaging begins when the
    probe has settled although x has not, so that nothing of the start is left, and ends when the scatter of the
    mean is as small as asked.

    The error falls by the square root of the rows read: ten times as exact takes a hundred times as many. With 10%
    noise 20,000 x 100 takes 3.5 passes to 1e-2 and 330 to 1e-3. It is for few digits under a small budget; where the
    tolerance is out of reach the status is ``INCONSISTENT`` at once, with the mean so far. Equations that agree are
    solved as by `randomized`. Reads A once beforehand.

    Parameters
    ----------
    n_directions : int
        Remember so many directions: fewer rows on hard systems (see `rowsolve.methods.oblivious.Oblivious`).
    """

    name: ClassVar[str] = "tail-average"
    summary: ClassVar[str] = "as randomized; where b is noisy, the mean of the iterates: least squares to a few digits"
    citation: ClassVar[str] = "Epperly, Goldshlager and Webber 2024"
    plan_type: ClassVar[type[ObliviousPlan]] = Randomized.plan_type
    # It would end when the first of the means is as good as asked.
    # The mean tends to the least-squares solution without bounds.
    can: ClassVar[Capabilities] = Oblivious.can._replace(many_b=False, bounds=False, averages=True)

    def prepare(self, system, rng):
        """Compute the norms of the rows (one pass)."""
        return _ROWS.prepare(system, rng)

    def draw(self, plan, n_rows, rng):
        """Draw `n_rows` rows by squared norm."""
        return _ROWS.draw(plan, n_rows, rng)
