"""What a solve may use of the machine, besides time: threads and memory."""

from __future__ import annotations

import math
from dataclasses import dataclass

from rowsolve.policy.thresholds import WORK_OF_A_THREAD

__all__ = ["Limits"]


@dataclass(frozen=True)
class Limits:
    """Threads, and memory for the workspace of a method.

    Attributes
    ----------
    threads : int
        The number of threads that may run at once.
    workspace_bytes : float
        The size of the workspace that a method may allocate, in bytes.
    reserved_bytes : float
        The memory that the rows take, or what reading them takes.
    workspace_share : float
        The share of the remaining memory that is workspace.
    """

    threads: int = 1
    workspace_bytes: float = math.inf
    reserved_bytes: float = 0.0
    workspace_share: float = 1.0

    def threads_for(self, work: float) -> int:
        """Return the number of threads that pays if `work` numbers are used."""
        return max(1, min(self.threads, int(work / WORK_OF_A_THREAD)))

    def check_memory(self, n_bytes: float, what: str) -> None:
        """Raise ValueError if `what` takes more memory than the workspace has."""
        if n_bytes > self.workspace_bytes:
            needed = self.reserved_bytes + n_bytes / self.workspace_share
            raise ValueError(
                f"{what} takes about {math.ceil(n_bytes / 1e6):,} MB, but `memory` leaves only "
                f"{self.workspace_bytes / 1e6:,.3g} MB: "
                f"allow {math.ceil(needed / 1e6):,} MB, or use another method."
            )
