"""The command line. Commands import what they need when they run, so that ``--help`` is quick."""

from rowsolve.cli.app import app, main

__all__ = ["app", "main"]
