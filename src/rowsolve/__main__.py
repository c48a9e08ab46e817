"""``python -m rowsolve`` is the command ``rowsolve``."""

from rowsolve.cli import main

if __name__ == "__main__":
    main()
