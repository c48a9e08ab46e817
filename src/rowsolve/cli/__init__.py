"""The command line.

Commands import what they need when they run, so that ``--help`` is quick.

May import: `experiments`, `export.output`, `inspection`, `methods`, `parallel`, `policy.thresholds`, `race`,
`sources`, and the public names.
"""

from rowsolve.cli.app import app, main

__all__ = ["app", "main"]
