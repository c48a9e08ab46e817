"""Imports between packages: the table of CONTRIBUTING.md, enforced."""

from __future__ import annotations

import ast
import re
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import rowsolve

SOURCE = Path(rowsolve.__file__).parent
HEAVY = {
    "rich", "typer", "matplotlib", "dask", "sklearn", "h5py", "zarr", "pyarrow", "kaczmarz", "threadpoolctl", "psutil",
}  # fmt: skip
# What a package may import is in the docstring of its `__init__`; these are the modules beside them.
ROOT = {
    "_solution": set(),
    "_validate": {"kernels", "methods", "parallel", "policy.thresholds", "sources"},
    "_solve": {
        "_solution", "_validate", "checkpoint", "engine", "estimate", "export.output", "methods", "policy", "problem",
        "sources",
    },
}  # fmt: skip
FILES = sorted(path for path in SOURCE.rglob("*.py") if path.name != "__main__.py")
PACKAGES = sorted(path.parent.name for path in SOURCE.glob("*/__init__.py"))
NUMBA = {"compiled"}


def allowed_in(room):
    """Return what a package may import, as its docstring says."""
    if room in ROOT:
        return ROOT[room]
    doc = ast.get_docstring(ast.parse((SOURCE / room / "__init__.py").read_text(encoding="utf-8")))
    words = " ".join(doc[doc.rindex("May import: ") :].split())
    return set(re.findall(r"`([\w.]+)`", words)) | ({""} if "the public names" in words else set())


def room_of(path):
    first = path.relative_to(SOURCE).parts[0]
    return first.removesuffix(".py")


def imports(path, *, only_at_import, types=True):
    """Yield the modules that a file imports: in functions too, or only at the top; with or without those for types."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    pending = list(tree.body)
    while pending:
        node = pending.pop()
        if only_at_import and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if not types and isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from [node.module] * (node.module != "rowsolve")
            yield from (f"{node.module}.{alias.name}" for alias in node.names if node.module.startswith("rowsolve"))
        pending.extend(ast.iter_child_nodes(node))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_every_file__imports_only_what_its_package_may(path):
    room = room_of(path)
    if room == "__init__":
        assert {module.split(".")[0] for module in imports(path, only_at_import=True, types=False)} == {
            "__future__",
            "importlib",
            "typing",
        }  # the rest is lazy
        return
    allowed = allowed_in(room) | {room}
    for module in imports(path, only_at_import=False):
        if module and module.split(".")[0] == "rowsolve":
            inner = module.removeprefix("rowsolve").removeprefix(".")
            if "" in allowed and inner.split(".")[0] in {"", "__version__", *rowsolve.__all__}:
                continue
            fits = any(
                inner == one or inner.startswith(f"{one}.") or one.startswith(f"{inner}.") for one in allowed if one
            )
            assert fits, f"{path.name} imports {module}"


def test_modules__import_each_other_in_one_direction():
    names = {".".join(path.relative_to(SOURCE.parent).with_suffix("").parts) for path in FILES}
    names = {name.removesuffix(".__init__") for name in names} - {"rowsolve"}
    graph = {}
    for path in FILES:
        name = ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts).removesuffix(".__init__")
        if name != "rowsolve":
            graph[name] = {module for module in imports(path, only_at_import=True) if module in names} - {name}
    packages = {f"rowsolve.{package}" for package in PACKAGES}
    graph = {name: {other for other in others if other not in packages} for name, others in graph.items()}
    TopologicalSorter(graph).prepare()  # raises CycleError


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_heavy_libraries__are_imported_late_outside_the_command_line(path):
    at_import = {module.split(".")[0] for module in imports(path, only_at_import=True, types=False) if module}
    if room_of(path) != "cli":
        assert not at_import & HEAVY
    if room_of(path) not in NUMBA:
        assert "numba" not in {m.split(".")[0] for m in imports(path, only_at_import=False) if m}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_no_file__uses_pickle(path):
    """Pickles are never read: a checkpoint is plain data (see `rowsolve.checkpoint.state`)."""
    modules = {module.split(".")[0] for module in imports(path, only_at_import=False) if module}
    assert not modules & {"pickle", "_pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib", "copyreg"}
    hooks = {"__reduce__", "__reduce_ex__", "__getstate__", "__setstate__", "__getnewargs__", "__getnewargs_ex__"}
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        assert getattr(node, "name", None) not in hooks
        if isinstance(node, ast.keyword) and node.arg == "allow_pickle":
            assert isinstance(node.value, ast.Constant)
            assert node.value.value is False


def test_root__has_only_the_public_modules():
    assert {path.stem for path in SOURCE.glob("*.py")} == {*ROOT, "__init__", "__main__"}


def test_public_names__are_sorted_and_there():
    assert rowsolve.__all__ == sorted(rowsolve.__all__, key=lambda name: (not name.isupper(), name[0].islower(), name))
    for name in rowsolve.__all__:
        assert getattr(rowsolve, name) is not None
    assert set(rowsolve.__all__) <= set(dir(rowsolve))
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        rowsolve.nonsense  # noqa: B018


def test_every_module__has_a_test_file_or_is_tested_by_its_users():
    tested = {path.stem.removeprefix("test_") for path in Path(__file__).parent.rglob("test_*.py")}
    for path in (SOURCE / "kernels").glob("*.py"):
        assert path.stem == "__init__" or path.stem in tested


def test_every_method__is_a_public_name_of_the_package():
    assert {kind.__name__ for kind in rowsolve.METHODS.values()} <= set(rowsolve.__all__)


def test_every_method__has_a_test_file_of_its_own():
    tested = {path.stem.removeprefix("test_") for path in (Path(__file__).parent / "methods").glob("test_*.py")}
    modules = {kind.__module__.rpartition(".")[2] for kind in rowsolve.METHODS.values()}
    assert modules <= tested, f"without a test file: {sorted(modules - tested)}"
