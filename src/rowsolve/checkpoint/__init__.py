"""The state of a solve as plain data, and the checkpoint file that holds it.

Nothing that is read from such a file is ever executed.

May import: `export.output`, `policy.thresholds`.
"""
