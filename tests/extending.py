"""The code of docs/extending.md: the methods of a user's script."""

from __future__ import annotations

import re
import sys
import types
from pathlib import Path

PAGE = (Path(__file__).parent.parent / "docs" / "extending.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def run(code):
    """Run code of the page as a module of its own."""
    module = types.ModuleType("page")
    sys.modules["page"] = module
    exec(compile(code, "extending.md", "exec", dont_inherit=True), vars(module))
    return module


page = run("\n".join(BLOCKS[:2]))
RandomRuns, CoordinateDescent = page.RandomRuns, page.CoordinateDescent
