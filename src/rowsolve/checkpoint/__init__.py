"""The state of a solve as plain data, and the file that holds it.

Nothing that is read from such a file is ever called.

May import: `export.output`.
"""
