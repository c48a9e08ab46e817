"""``rowsolve`` and ``python -m rowsolve``: the command line, or one sentence on what to install for it."""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line."""
    try:
        import rich  # noqa: F401
        import typer  # noqa: F401
    except ModuleNotFoundError:
        sys.exit("The rowsolve command needs typer and rich: pip install 'rowsolve[cli]'.")
    from rowsolve.cli import main as run

    run()


if __name__ == "__main__":
    main()
