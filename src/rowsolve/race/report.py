"""Results of a race as text and as a Markdown table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from rowsolve.policy.thresholds import BUSY_CORES
from rowsolve.race.results import NEVER, REACHED, SKIPPED, Outcome, Result

__all__ = [
    "busy_in_words",
    "machine_in_words",
    "outcome_in_words",
    "ratio_in_words",
    "results_as_markdown",
    "seconds_in_words",
    "verdict",
]


def ratio_in_words(ratio: float) -> str:
    """Return a ratio to three digits; ``only rowsolve`` for infinity, ``never`` for 0, ``none`` for NaN."""
    if math.isnan(ratio):
        return "none"
    if math.isinf(ratio):
        return "only rowsolve"
    return f"{_three_figures(ratio)}" if ratio else "never"


def seconds_in_words(seconds: float) -> str:
    """Return seconds to three digits; ``never`` for infinity."""
    return f"{_three_figures(seconds)} s" if math.isfinite(seconds) else "never"


def _three_figures(value: float) -> str:
    """Return `value` to three significant digits, without an exponent."""
    digits = 2 if value == 0.0 else max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:,.{min(digits, 5)}f}"


def outcome_in_words(outcome: Outcome) -> str:
    """Return the outcome of a contestant that did not reach the error, as text; empty if it did."""
    if outcome.verdict == SKIPPED:
        return f"skipped: {outcome.why}"
    if outcome.verdict == NEVER:
        best = "" if outcome.error is None else f"best error {outcome.error:.1e}; "
        return f"never: {best}{outcome.why}"
    return ""


def busy_in_words(busy: float) -> str:
    """Return a warning that other programs used `busy` cores."""
    return f"Other programs used {busy:.1f} cores. Run again on an idle machine for reliable times."


def verdict(result: Result) -> str:
    """Return the winner and its factor, as text."""
    ours, peer = result.ours, result.best_peer
    wanted = f"a true relative error of {result.error:g}"
    if ours.verdict != REACHED:
        lost = f"{ours.name} did not reach {wanted} ({outcome_in_words(ours)})."
        return f"{lost} {f'{peer.name} did, in {seconds_in_words(peer.best)}.' if peer else 'No other solver did.'}"
    if peer is None:
        return f"Only {ours.name} reached {wanted}, in {seconds_in_words(ours.best)}."
    ratio = result.ratio(peer)
    if ratio >= 1.0:
        return f"{ours.name} was {ratio_in_words(ratio)} times as fast as the best peer, {peer.name}, to {wanted}."
    return f"{peer.name} was {ratio_in_words(1.0 / ratio)} times as fast as {ours.name}, to {wanted}."


def machine_in_words(machine: dict[str, Any]) -> str:
    """Return the most important properties of a machine, in one line."""
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    memory = f", {machine['memory_gb']:.0f} GB" if machine.get("memory_gb") else ""
    cores = f"{machine['cores']} core{'s' if machine['cores'] != 1 else ''}"
    blas = " and ".join(machine["blas"])
    return f"{machine['cpu']}, {cores}{memory}; Python {machine['python']}, {versions}; {blas}"


def results_as_markdown(results: Sequence[Result]) -> str:
    """Return the table of the README: each case with the best peer, and the machine."""
    lines = ["| case | size | rowsolve | best peer | its time | ratio | target |", "|---|---|---|---|---|---|---|"]
    lines += [f"| {' | '.join(_cells(result))} |" for result in results]
    setups = dict.fromkeys((one.conditions.threads, machine_in_words(one.conditions.machine)) for one in results)
    lines.append("")
    lines += [f"Made with {threads} thread{'s' if threads != 1 else ''} on {words}." for threads, words in setups]
    disturbed = [busy for one in results if (busy := one.conditions.busy) is not None and busy > BUSY_CORES]
    if disturbed:
        lines.append(
            f"In {len(disturbed)} of the {len(results)} cases other programs kept up to {max(disturbed):.1f} cores "
            "busy; measure these times again on an idle machine."
        )
    return "\n".join(lines) + "\n"


def _cells(result: Result) -> list[str]:
    peer = result.best_peer
    size = f"{result.n_rows:,} x {result.n_columns:,}"
    return [
        result.case,
        size if result.kind == "dense" else f"{size}, {result.kind}",
        seconds_in_words(result.ours.best),
        peer.name if peer else "none",
        seconds_in_words(peer.best) if peer else "never",
        ratio_in_words(result.best_ratio),
        target_in_words(result),
    ]


def target_in_words(result: Result) -> str:
    """Return the target ratio and whether it was met, as text."""
    if result.target is None:
        return ""
    passes = ""
    if result.target_passes is not None:
        found = "?" if result.passes_ratio is None else _three_figures(result.passes_ratio)
        passes = f"; {result.target_passes:g} times fewer passes than lsqr ({found})"
    return f"{result.target:g}{passes}: {'met' if result.on_target else 'short'}"
