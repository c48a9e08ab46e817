"""The straightforward version of every kernel, in plain numpy, for a dense matrix."""

from __future__ import annotations

import numpy as np


def project(A, b, i, iterates, drops):
    """Project x onto <a_i, x> = b_i and each probe onto <a_i, z> = 0."""
    norm_sq = A[i] @ A[i]
    if norm_sq == 0:
        return
    for c, x in enumerate(iterates):
        gap = (b[i] if c == 0 else 0.0) - A[i] @ x
        iterates[c] = x + gap / norm_sq * A[i]
        drops[c] += gap**2 / norm_sq


def sweep(A, b, order, iterates):
    drops = np.zeros(len(iterates))
    for i in order:
        project(A, b, i, iterates, drops)
    return drops


def deflated_sweep(A, b, order, Q, y, iterates):
    """Project on Q x = y, then on one row after another without its part inside the span of Q."""
    drops = np.zeros(len(iterates))
    for c, x in enumerate(iterates):
        step = Q.T @ ((y if c == 0 else 0.0) - Q @ x)
        iterates[c] = x + step
        drops[c] += step @ step
    outside = A - A @ Q.T @ Q
    for i in order:
        norm_sq = outside[i] @ outside[i]
        for c, x in enumerate(iterates):
            if norm_sq > 0:
                gap = (b[i] if c == 0 else 0.0) - A[i] @ x
                iterates[c] = x + gap / norm_sq * outside[i]
                drops[c] += gap**2 / norm_sq
    return drops


def guarded_sweep(A, b, order, iterates, level, floor, slack_sq, up, down):
    """Sweep, but skip a row whose squared distance is above `slack_sq` times the level. Returns drops and level."""
    drops = np.zeros(len(iterates))
    for i in order:
        if A[i].any():
            distance_sq = (b[i] - A[i] @ iterates[0]) ** 2 / (A[i] @ A[i])
            near = distance_sq <= slack_sq * level
            level = max(floor, level * (up if distance_sq > level else down))
            if near:
                project(A, b, i, iterates, drops)
    return drops, level


def project_on_furthest(A, b, order, n_candidates, iterates):
    """Of each group of candidates take the one furthest from x, and for the probe the one furthest from it."""
    drops = np.zeros(len(iterates))
    for start in range(0, order.size, n_candidates):
        group = [i for i in order[start : start + n_candidates] if A[i].any()]
        for c, x in enumerate(iterates):
            gaps = [(b[i] if c == 0 else 0.0) - A[i] @ x for i in group]
            distances = [abs(gap) / np.linalg.norm(A[i]) for gap, i in zip(gaps, group, strict=True)]
            if group:
                t = int(np.argmax(distances))
                iterates[c] = x + gaps[t] / (A[group[t]] @ A[group[t]]) * A[group[t]]
                drops[c] += distances[t] ** 2
    return drops


def project_blocks(A, b, order, sizes, iterates):
    drops = np.zeros(len(iterates))
    for block in np.split(order, np.cumsum(sizes)[:-1]):
        for c, x in enumerate(iterates):
            target = b[block] if c == 0 else np.zeros(block.size)
            step = np.linalg.pinv(A[block]) @ (target - A[block] @ x)
            iterates[c] = x + step
            drops[c] += step @ step
    return drops


def ridge_blocks(A, b, blocks, ridge, iterates):
    """Project on each block of normalised rows, up to a ridge."""
    drops = np.zeros(len(iterates))
    for block in blocks:
        norms = np.linalg.norm(A[block], axis=1)
        unit = A[block] / norms[:, None]
        inverse = np.linalg.inv(unit @ unit.T + ridge * np.eye(len(block)))
        for c, x in enumerate(iterates):
            step = unit.T @ inverse @ ((b[block] / norms if c == 0 else 0.0) - unit @ x)
            iterates[c] = x + step
            drops[c] += step @ step
    return drops


def extended_sweep(A, b, order, column_order, residual, iterates):
    drops = np.zeros(len(iterates))
    for i, j in zip(order, column_order, strict=True):
        column = A[:, j]
        if column.any():
            residual -= (column @ residual) / (column @ column) * column
        project(A, b - residual, i, iterates, drops)
    return drops


def sketch(A, b, phi, centroids):
    alpha = A @ phi.T
    length = np.linalg.norm(alpha, axis=1)
    return alpha / length[:, None], length, b / length, (A**2).sum(axis=1), A @ centroids.T


def furthest_candidate(alpha, b, sketched, candidates):
    """The candidate with the largest sketched distance; the earliest on a tie."""
    scores = np.abs(b[candidates] - alpha[candidates] @ sketched) / np.linalg.norm(alpha[candidates], axis=1)
    return candidates[int(np.argmax(scores))]


def online_kmeans(A, b, order, starts, *, by_direction, rate=None):
    """One pass of online k-means; `starts` are the starting centroids. Returns labels, centroids, targets."""
    centroids = np.array(starts, dtype=float)
    targets = np.zeros(len(centroids))
    counts = np.zeros(len(centroids), int)
    labels = np.full(len(A), -1)
    for i in order:
        norm = np.linalg.norm(A[i])
        if norm == 0:
            continue
        if by_direction:
            cosines = centroids @ A[i] / norm / np.linalg.norm(centroids, axis=1)
            label = int(np.argmax(np.abs(cosines)))
            scale = (1.0 if cosines[label] >= 0 else -1.0) / norm
        else:
            label, scale = int(np.argmin(((centroids - A[i]) ** 2).sum(axis=1))), 1.0
        labels[i] = label
        counts[label] += 1
        pull = 1.0 / counts[label] if rate is None else rate
        centroids[label] += pull * (scale * A[i] - centroids[label])
        targets[label] += pull * (scale * b[i] - targets[label])
    return labels, centroids, targets


def kmeans_in_batches(A, b, batches, starts, *, by_direction):
    """The same, but the rows of a batch are all compared with the centroids as they are when it begins."""
    centroids, targets = np.array(starts, dtype=float), np.zeros(len(starts))
    counts, labels = np.zeros(len(starts), int), np.full(len(A), -1)
    for batch in batches:
        fixed = centroids.copy()
        for i in batch:
            alone, moved, _ = online_kmeans(A, b, [i], fixed, by_direction=by_direction)
            if (label := alone[i]) >= 0:  # the first row of a cluster takes its centroid along: `moved` is that row
                scale = moved[label] @ A[i] / (A[i] @ A[i])
                labels[i] = label
                counts[label] += 1
                centroids[label] += (moved[label] - centroids[label]) / counts[label]
                targets[label] += (scale * b[i] - targets[label]) / counts[label]
    return labels, centroids, targets


def pattern_distance(a, c, metric):
    """Distance between 0/1 patterns, or between a pattern and a mean of patterns."""
    if metric == "hamming":
        return np.abs(a - c).sum()
    return 1 - a @ c / (a @ a + c @ c - a @ c)


def online_kmeans_by_pattern(A, order, starts, metric):
    centroids, counts, labels = np.array(starts), np.zeros(len(starts), int), np.full(len(A), -1)
    for i in order:
        if A[i].any():
            label = int(np.argmin([pattern_distance(A[i], c, metric) for c in centroids]))
            labels[i] = label
            counts[label] += 1
            centroids[label] += (A[i] - centroids[label]) / counts[label]
    return labels, centroids


def partition_sizes(cluster_sizes):
    """The block sizes of a partition: one row of each cluster that has rows left."""
    left, sizes = list(cluster_sizes), []
    while any(left):
        sizes.append(sum(size > 0 for size in left))
        left = [max(0, size - 1) for size in left]
    return sizes


def chains(A, b, order, n_chains, per_round, iterates):
    """Each chain sweeps its part of `order`; each round ends at the best point in the span of all moves."""
    drops = np.zeros(len(iterates))
    share = -(-order.size // n_chains)
    parts = [order[c * share : (c + 1) * share] for c in range(n_chains)]
    for first in range(0, share, per_round):
        moves, products = np.zeros((2, n_chains, iterates.shape[1])), np.zeros((2, n_chains))
        for c, part in enumerate(parts):
            end = iterates.copy()
            squares = sweep(A, b, part[first : first + per_round], end)
            moves[:, c] = end - iterates
            products[:, c] = (squares + np.sum(moves[:, c] ** 2, axis=1)) / 2
        for c in range(2):
            factors = np.linalg.pinv(moves[c] @ moves[c].T, rcond=1e-14) @ products[c]
            iterates[c] += factors @ moves[c]
            drops[c] += factors @ products[c]
    return drops


def best_of_span(start, move, product, followed):
    """The point of start + span(move, followed) nearest to a solution of which only <move, error> is known.

    The error at `start` is orthogonal to the moves followed before.
    """
    moves = np.array([move, *followed])
    step = np.linalg.pinv(moves, rcond=1e-12) @ np.array([product, *np.zeros(len(followed))])
    return start + step, step @ step


def sweep_with_memory(A, b, order, n_rounds, memory, iterates):
    """After each round, continue from the best point in the span of its move and of the stored ones."""
    drops, followed = np.zeros(len(iterates)), [[] for _ in iterates]
    for part in np.array_split(order, n_rounds):
        end = iterates.copy()
        squares = sweep(A, b, part, end)
        for c, start in enumerate(iterates.copy()):
            move = end[c] - start
            best, gain = best_of_span(start, move, (squares[c] + move @ move) / 2, followed[c])
            followed[c] = [*followed[c], best - start][-memory:]
            iterates[c], drops[c] = best, drops[c] + gain
    return drops
