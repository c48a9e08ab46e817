"""The text of a report."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator

from rowsolve._solution import LINE_WIDTH
from rowsolve.inspection.report import Directions, Noise, Norms, Prediction, Report
from rowsolve.policy.thresholds import ALMOST_ALL, FAR_OUT, HARDLY_MORE

__all__ = ["in_words", "lines", "seconds_in_words", "table", "warnings"]

_INDENT = len("orthogonality") + 2  # the longest label


def in_words(report: Report) -> str:
    """Return the report as plain text."""
    threads = f"{report.threads} thread{'s' if report.threads != 1 else ''}"
    passes = _figure(report.rows_read / report.layout.n_rows)
    closing = (
        f"{_rounded(report.rows_read):,.0f} rows were read ({passes} passes over A), timing included, in "
        f"{seconds_in_words(report.seconds)}."
    )
    if report.norms.n_rows < report.layout.n_rows:
        closing += " Rows that were not sampled may differ."
    if not report.checked:
        closing += " Only the rows that were read were checked for NaN and infinity."
    paragraphs = [
        [_wrapped(text, label) for label, text in lines(report)],
        [_wrapped(text, "warning") for text in warnings(report)],
        [f"Predicted for a relative error of {report.rtol:g} in x, with {threads}:", *_aligned(table(report))],
        [_wrapped(report.advice)],
        [_wrapped(closing)],
    ]
    return "\n\n".join("\n".join(paragraph) for paragraph in paragraphs if paragraph)


def lines(report: Report) -> Iterator[tuple[str, str]]:
    """Yield the results as pairs of a label and text."""
    layout = report.layout
    stored = f"sparse, {_percent(layout.density)} stored" if layout.order == "CSR" else f"dense, {layout.order} order"
    yield "A", f"{layout.n_rows:,} x {layout.n_columns:,} {layout.dtype}, {stored}"
    yield "rows", _norms(report.norms)
    yield "condition", _condition(report)
    yield "clusters", _clusters(report.directions)
    yield "orthogonality", _angles(report.directions)
    yield "noise in b", _noise(report.noise)


def warnings(report: Report) -> Iterator[str]:
    """Yield what to pay attention to before solving the system."""
    layout, condition, noise = report.layout, report.condition, report.noise
    if layout.order in ("Fortran", "strided"):
        yield (
            f"{layout.order} order: the entries of a row are not contiguous, so reading single rows is many times "
            "slower than in C order. Try np.ascontiguousarray(A) if the copy fits in memory."
        )
    if report.norms.contradiction is not None:
        yield f"row {report.norms.contradiction:,} is zero but its b is not: the system is inconsistent."
    if layout.n_rows < layout.n_columns:
        yield "A has fewer rows than columns, so the solution is not unique; `solve` returns the minimum-norm solution."
    elif condition is not None and condition.rank < layout.n_columns:
        rank = f"rank {condition.rank:,}, less than the {layout.n_columns:,} columns"
        if report.norms.n_rows == layout.n_rows:
            yield f"A has {rank}, so the solution is not unique; `solve` returns the minimum-norm solution."
        else:
            yield f"the sample has {rank}: A is rank-deficient, or a few other rows determine the remaining directions."
    if noise.n_wild:
        yield (
            f"{_percent(noise.n_wild / noise.n_rows)} of {noise.n_rows:,} sampled rows are outliers (residual "
            f"above {FAR_OUT:g} times the median): these entries of b may be wrong."
        )


def table(report: Report) -> list[tuple[str, ...]]:
    """Return a header row and one row of cells for each prediction."""
    head = ("method", "rows", "passes over A", "time", "")
    return [head, *(_cells(one, report.layout.n_rows) for one in report.predictions)]


def _cells(one: Prediction, n_rows: int) -> tuple[str, ...]:
    if one.rows is None or one.seconds is None:
        return one.method, *(["never" if one.reaches is False else "unknown"] * 3), one.remark
    mark = "> " if one.at_least else ""
    rows, passes = f"{mark}{_rounded(one.rows):,.0f}", f"{mark}{_figure(one.rows / n_rows)}"
    return one.method, rows, passes, mark + seconds_in_words(one.seconds), one.remark


def _aligned(rows: list[tuple[str, ...]]) -> list[str]:
    """Return the lines of a table, or of one block for each row if the table is too wide."""
    first, *figures = (max(len(row[i]) for row in rows) for i in range(4))
    aligned = [
        "  ".join(["", row[0].ljust(first), *map(str.rjust, row[1:4], figures), row[4]]).rstrip() for row in rows
    ]
    if max(map(len, aligned)) <= LINE_WIDTH:
        return aligned
    head = (*rows[0][:4], "remark")
    blocks = [[f"{name}: {cell}" for name, cell in zip(head, row, strict=True) if cell] for row in rows[1:]]
    return [f"{'    ' if i else '  '}{line}" for block in blocks for i, line in enumerate(block)]


def _wrapped(text: str, label: str = "") -> str:
    indent = " " * _INDENT if label else ""
    return textwrap.fill(text, LINE_WIDTH, initial_indent=label.ljust(len(indent)), subsequent_indent=indent)


def _norms(norms: Norms) -> str:
    if norms.least is None:
        return f"all {norms.n_rows:,} sampled rows are zero"
    zero = f"{norms.n_zero or 'none'} of {norms.n_rows:,} sampled rows {'is' if norms.n_zero == 1 else 'are'} zero"
    return f"norms from {norms.least:.3g} to {norms.most:.3g}; {zero}"


def _condition(report: Report) -> str:
    condition, slowness = report.condition, report.slowness
    if report.norms.least is None:
        return "unknown: all sampled rows are zero"
    if condition is None:
        words = "unknown: factoring a sample would take too long"
        if slowness is None:
            return words
        pace = "as fast as" if slowness < HARDLY_MORE else f"{_figure(slowness)} times slower than"
        return f"{words}; random rows converge {pace} for a well-conditioned A"
    if report.norms.n_rows == report.layout.n_rows:
        return f"about {_figure(condition.sampled)}, for all rows"
    most = " or more" if condition.most is None else f" to {_figure(condition.most)}"
    return (
        f"{_figure(condition.least)}{most}, unless a few rows alone determine a direction; about "
        f"{_figure(condition.sampled)} in a sample of {condition.n_rows:,} rows"
    )


def _clusters(found: Directions | None) -> str:
    if found is None:
        return "unknown: too few rows or columns to tell"
    if found.cosine is None:
        return f"none found among {found.n_rows:,} sampled rows"
    what = "1 (all rows have a common direction)" if found.n_clusters == 1 else f"{found.n_clusters} by direction"
    tight = "tight, which slows down convergence with random rows" if found.cosine >= ALMOST_ALL else "loose"
    return f"{what}, {tight}: typical cosine to the centroid {found.cosine:.3g}, from {found.n_rows:,} sampled rows"


def _angles(found: Directions | None) -> str:
    if found is None:
        return "unknown: too few rows or columns to tell"
    typical = f"{found.typical:.2g}"
    if found.within is not None and found.across is not None:
        typical = f"{found.within:.2g} in the same cluster, {found.across:.2g} in different ones"
    gaussian = f"{found.of_gaussian:.2g} for Gaussian rows"
    return f"|cos| of two rows: typically {typical} ({gaussian}), at most {found.largest:.2g}"


def _noise(noise: Noise) -> str:
    where = f"from {noise.n_rows - noise.n_wild:,} sampled rows{' that are not outliers' if noise.n_wild else ''}"
    if noise.relative == 0.0:
        return f"none beyond rounding, {where}"
    if noise.relative is not None:
        return f"{_percent(noise.relative)} of b, {where}: the system is inconsistent"
    if noise.at_most is None:
        return "unknown: the sample has no more rows than its rank"
    most = f"at most {_percent(noise.at_most)} of b, the residual reached with random rows"
    return f"probably some, as the iterates do not settle; {most}" if noise.suspected else f"unknown: {most}"


def seconds_in_words(seconds: float) -> str:
    """Return a time as text, with one or two digits."""
    if seconds < 1.5e-3:
        return "1 ms" if seconds > 0.5e-3 else "< 1 ms"
    if seconds < 0.995:
        return f"{_rounded(1e3 * seconds):.0f} ms"
    if seconds < 120.0:
        return f"{seconds:.2g} s" if seconds < 9.95 else f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200.0 else f"{seconds / 3600:,.0f} h"


def _figure(value: float) -> str:
    """Return a number as text, with two digits, as more are not known."""
    if value >= 1e6:
        return f"{value:.1e}"
    return f"{_rounded(value):,.0f}" if value >= 10.0 else f"{value:.2g}"


def _rounded(value: float) -> float:
    return round(value, 1 - math.floor(math.log10(value))) if value > 0.0 else 0.0


def _percent(share: float) -> str:
    return f"{100.0 * share:.2g}%" if share < 0.995 else "100%"
