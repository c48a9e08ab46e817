"""Every threshold of a decision and every tolerance that is not a price: its unit, and why it has this value.

The sections are ordered from what all packages share to what one of them uses. A new threshold goes into the section of
the package that decides by it; before that, look for one with the same meaning: it has one name and one value. A module
imports what it needs by name. Prices are in `rowsolve.policy.prices`. Constants of compiled loops are in
`rowsolve.kernels`, since the cache of machine code depends on the sources there.
"""

from __future__ import annotations

import math

import numpy as np

# --- Rounding and range ---------------------------------------------------------------------------------------------
EPS = float(np.finfo(float).eps)  # one unit of rounding
AS_GIVEN = 0.3  # units: the rounding error of the numbers of a row
SUM = 4.0  # units: the rounding error of a product of some terms, or of a sum whose terms have one sign
ROUNDED = 64.0  # units of rounding of b, or of A z, that are taken for zero
LONG_SUM = 8.0  # units: the rounding error of a gradient, or of any sum over all rows; a row so close is satisfied
IN_RANGE = 1e100  # lengths up to this, and down to its reciprocal, have squares whose sums do not overflow or vanish

# --- How much more: ratios that several decisions share ---------------------------------------------------------------
# Of lengths, steps, residuals, times and prices; their squares are used where squares are compared.
HARDLY_MORE = 1.5  # times: an even spectrum, a well-conditioned A, as good a choice, or little work in vain
CLEARLY_MORE = 2.0  # times: uneven columns, a direction that slows down convergence, growth, or a better price
MUCH_MORE = 3.0  # times: heavy tails (normal noise: 1.5), an inconsistent system, another cluster, a price, rounding
ORDER_OF_MAGNITUDE = 10.0  # times what explains an error, or is known of it: anything larger has another cause
SURE = 1.0 / ORDER_OF_MAGNITUDE  # of the error allowed: a smaller estimate needs no further pass to be certain
NEGLIGIBLE = 0.01  # of a length, of a probe, or of the smallest singular value that counts for the rank
SMALLEST = math.sqrt(float(np.finfo(float).tiny)) / NEGLIGIBLE  # of b: squares of entries that still count vanish
ALMOST_ALL = 0.9  # of a possible gain; of a norm some steps before; the cosine of rows that slow down convergence

# --- Safety: factors and tries that several decisions share -----------------------------------------------------------
SHRINKS = 0.5  # of the last one: an error, or a correction, that shrinks by less is not due to slow convergence alone
UNLUCKY = 1e3  # 1 / p is the mean squared component of a random unit vector; with probability 1 / 40 it is 1000 smaller
SAFE_CONDITION = 1e6  # up to which columns are independent and errors are corrected by the squares of A
TRIES = 3  # of a timing, of which the shortest counts; steps that show a trend; runs or tries in vain, at most
FEWEST_IN_MEAN = 8  # values, of steps, bursts or batches: the mean, or a rate, of fewer scatters too much
POWER_STEPS = 12  # of the power method, for a condition number within some percent
FEW_POWER_STEPS = 2  # of the same, for the size of the largest singular values
STEPS = 4  # of iterative refinement, at most

# --- Sizes that several decisions share -------------------------------------------------------------------------------
FEW_COLUMNS = 64  # with fewer, neither a dense factor nor a call of a kernel with as many rows is any cheaper
MOST_COLUMNS = 10_000  # of a dense factor: 800 MB
NUMBERS_IN_CACHE = 1_000_000  # that stay in the cache until they are used again: for fewer, threads do not pay
FEW_NUMBERS = 200_000  # in A: it is converted to dense, or solved on one thread, in less time than a choice takes
SPOTS = 64  # rows that stand for all in norms, times, quantiles, and the fingerprint of A; places that a sample is from
ROWS_TO_COMPARE = 1024  # whose residuals are compared to find outliers, or whose b to find equal ones
SAMPLE_ROWS_EACH = 16  # per column, or per centroid: from more rows hardly anything is known more accurately
FAR_OUT = 12.0  # times the median distance makes an outlier: normal noise reaches 5 in some thousand rows

# --- Error estimate and engine ----------------------------------------------------------------------------------------
# With probability 0.8% the component of a random unit vector in a given direction is below 1/100 of what is expected,
# hence the square; and a factor of 10 allows for a solution up to 3 times as far away as x has moved.
CONTRADICTION = ORDER_OF_MAGNITUDE / NEGLIGIBLE**2  # times p: an excess that shows that the equations are inconsistent
EXCESS_LEAP = 30.0  # growth of the excess in two bursts: in a consistent system it levels out
STILL_ROWS = 8  # times p rows without a move of the probe, after which it has settled
PATIENCE = 3 * STILL_ROWS  # times p rows before a prediction may end a run
CLEAN = 1e-4  # relative residual below which outliers are not looked for

# --- Least squares ----------------------------------------------------------------------------------------------------
OFTEN = 0.05  # of all rows have the same b
SLOWEST_SETTLED = 1e-4  # times the error allowed: that of the slowest direction, as estimated from the gradient
SPENT_PROBE = 1e-6  # norm of a probe below which it is dominated by rounding
CHANCES = 5  # steps, or exchanges of many entries, without progress, before another way is taken
WORK_OF_A_FACTOR = 3.0  # times p**3: from 700 columns on it is worth the threads of BLAS, which then spin for a while
SHORTEST_PROBE = 1e-13  # norm below which a probe hardly shrinks any further
BY_ROUNDING = 1e-10  # relative to its terms: a sum of terms that cancel, of which rounding may leave as much
N_VECTORS = 4  # random vectors that show the size of an inverse, within a factor of 2 or so
MOST_DROPPED = 8  # dependent columns of a band: each takes another factorization
SPARE_ROWS = 16  # beyond p: they show whether a sample is consistent, and the noise
SPARE_SHARE = 0.2  # of p: with so many more rows a random sample is well conditioned
WORK_PER_THREAD = 2e7  # multiplications for which it pays to wake another thread: 0.2 ms
GATHERED = 2e8  # bytes of rows that are copied at a time, or of the factors of blocks that are kept, at most
LOOK_ROWS = 512  # that show the largest singular values
SAME_DIRECTIONS = 0.5  # cosine of the angle between the outlying directions of a sample and of all rows
ROWS_TO_CHECK = 256  # one by one: if x satisfies all of them, at most 3 / 256 of all rows are off, with 95% confidence

# --- Arguments of a solve ---------------------------------------------------------------------------------------------
# Looking at so many numbers for NaN takes 3% of the time of the fastest solve: 0.4 ms, and more with many columns.
NUMBERS_TO_CHECK, NUMBERS_BY_COLUMNS = FEW_NUMBERS // 2, 4  # the second times p**2
MOSTLY_NONZERO = 0.4  # of the entries: so dense a sparse matrix takes less memory and much less time as an array
DEFAULT_PASSES, DEFAULT_NUMBERS = 1000, 1e9  # the larger is read without a limit from the user: some seconds

# --- Choice of a method -----------------------------------------------------------------------------------------------
# Measured on two cores; only the ratios matter, which vary little between machines.
TALL = 2  # times p rows: with fewer, no sample is taken, and squares of A take as long as QR; `direct` factors as many
HARDLY_TALL = 6  # times p rows: with 2,500 x 1,000, passes take 0.05 s; random rows 0.08 s, if b is noisy in vain
MANY_ROWS = 200  # times p: a sample in vain costs little beside so many, and a decrease of the error shows over them
ROWS_TO_LEAVE_OUT = 10 * MANY_ROWS  # times p, to look for an x without outliers
ROWS_TO_CONVERGE = 30  # times p, for well-conditioned rows and six digits
SLOW_ROWS = 4 * ROWS_TO_CONVERGE  # times p rows still needed: anything else is faster
SLOW_RATE = ROWS_TO_CONVERGE / SLOW_ROWS  # of that of well-conditioned rows, a factor of e per p rows
FIND_A_ROW = 250  # numbers that are read in the time of access to a random sparse row in memory
SAMPLE_COLUMNS = 500  # up to which a sample is factored in the time that random rows take to converge
FEW_COLUMNS_EACH, FEW_SIDES = 75, 32  # for k right-hand sides that holds up to 75 * (32 + k) columns
LOOK_SHARE = 8  # of all rows, at most one in so many is looked at
LOOK_BLOCK = 12  # vectors in the search for large singular values

# --- Methods ----------------------------------------------------------------------------------------------------------
WORK_OF_A_LOOK = 10_000  # numbers: reading so many takes as long as the monitor takes for a burst
LONGEST_BURST = 4  # times the usual rows, while convergence is far; each burst is at most twice as long as the last
BURST_SHARE = 1 / 128  # of the rows so far: a long run of short bursts would mostly be overhead
DRAWN_AHEAD = 16  # times p rows, half of what well-conditioned rows take: rows in use displace cards from the cache
ROUND_OF_A_CHAIN = 128  # rows between two combinations of chains: more converge more slowly, fewer take longer
POLLS_PER_NUMBER = 0.1  # of a word that another thread writes, in the time in which a row method reads a number
MEMORY_WINDOW = 3.0  # times p rows: with memory x and the probe have own directions, so their drops differ more
ROWS_TOGETHER = 4  # dense rows whose products are computed together, also if they are projected on one by one
LARGEST_BLOCK = 512  # rows of a block that is factored, where no size is given; `ROWS_TOGETHER` at least
LEAST_FRICTION = 1e-4  # of momentum
KNOWN_EQUATIONS = 64  # that deflation keeps satisfied; there are four for each cluster: more than needed do no harm
ROWS_PER_EQUATION = 3  # sampled for each combination of rows; and 3 p rows for centroids that are nearly those of all
PACK_ROWS = 8  # times p: more save hardly any steps, and the inner part of a row costs as much as many steps
PACK_GROWTH = 4  # when all of its rows have been used, the pack grows by one part in so many
LEVEL_PACE = 0.05  # by which a row moves the logarithm of the level, which thus depends on about the last 20 rows
FAST_LEVEL_PACE = 2.0  # over p, for few columns: the level must follow an error that falls by a factor of e in 2 p rows

# --- Analysis, races and experiments ----------------------------------------------------------------------------------
SAMPLED_COLUMNS = 1500  # a factor of a sample, or a direct solve, then takes some tenths of a second
NUMBERS_OF_A_SAMPLE = 4 * NUMBERS_IN_CACHE  # so that reading them takes as long as for all of A
CONDITION_ERROR = 1.2  # factor up to which the condition number of a factor is estimated too low
OUTLIERS = 0.2  # of the sampled rows, at most: if there are more, the noise is heavy-tailed
BUSY_CORES = 0.3  # used by other programs: above this times are unreliable, most of all with several threads
REST = 0.15  # seconds before a timed run: OpenBLAS threads keep spinning for 0.11 s on cores that others need
CHEAP_TO_REPEAT = 1.0  # seconds: shorter runs are repeated at least once, because a single time may be disturbed
DEMO_LIMIT = 15.0  # seconds that a solver of the demo may be predicted to take

# --- Storage ----------------------------------------------------------------------------------------------------------
# Bytes, unless said otherwise. What is read is independent of the machine, so that results are reproducible.
BYTES_AT_ONCE = 4e6  # read or looked at in one call: larger calls are not faster, and other threads wait for them
BLOCK_BYTES = 1 << 20  # of a file that are read, written or transposed together, and of a page of most Parquet files
COLUMN_BYTES = 1 << 16  # of a column, or between two rows, that are read at once: to skip them takes as long
RUN_BYTES = 1 << 18  # of adjacent rows, which a disk reads as fast as a single row
COPIES = 3  # of rows while they are read: compressed, decompressed, and as the result
PIECE_BYTES = 8.0 * NUMBERS_IN_CACHE  # of a sequential pass: takes less memory than a chunk, and about the same time
CHUNK_BYTES = 64e6  # of rows that are in memory together: more are not read faster
CHUNKS_IN_MEMORY = 4  # two passes may be active at the same time, each with a chunk in use and one being read
FEWEST_ROWS = 16  # of a chunk, and of scattered rows that are read together
WORKSPACE_VECTORS = 64  # of p numbers, per thread and right-hand side, in the workspace of methods
WORK_OF_A_BURST = 10_000_000  # numbers between two checks of the clock and of Ctrl-C: about 10 ms
WORK_OF_A_THREAD = 300_000  # numbers used: about 0.3 ms, where waking a thread takes 0.1 ms
BYTES_TO_ARRANGE = 64  # of memory per row: its label, index and rank, sorted and unsorted
CHECKPOINT_SHARE = 0.05  # of the time that writing checkpoints may take, at most
CHECKPOINT_SECONDS = 5.0  # between two checkpoints; ROWSOLVE_CHECKPOINT_SECONDS changes it
LONG_BLAS_CALL = 1e9  # multiplications from which on several threads pay: about 50 ms
LONG_VECTOR = 10_000  # numbers, from which on BLAS uses several threads
