"""One solve: its stages, the loop of each method, the checks at the end, and the messages.

`job` owns a solve, `stages` decides what ``"auto"`` does next, `run` is one stage at work, `outcome` is
what it has found, and `small` solves small systems at once.

May import: `_solution`, `checkpoint`, `compiled`, `estimate`, `kernels`, `lstsq`, `methods`, `parallel`,
`policy.auto`, `policy.prices`, `policy.thresholds`, `problem`, `sources`, and the public names.
"""
