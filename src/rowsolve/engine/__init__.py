"""One solve: its stages, the loop of each method, the checks at the end, and the messages.

`job` owns a solve, `stages` are those of ``"auto"``, `run` is one method at work, `small` solves small systems at once.

May import: `_solution`, `checkpoint`, `compiled`, `estimate`, `kernels`, `lstsq`, `methods`, `parallel`,
`policy.auto`, `policy.prices`, `policy.thresholds`, `problem`, `sources`, and the public names.
"""
