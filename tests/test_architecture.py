"""Which room may import which: the table of CONTRIBUTING.md, enforced."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import rowsolve

SOURCE = Path(rowsolve.__file__).parent
HEAVY = {"rich", "typer", "matplotlib", "dask", "sklearn", "h5py", "zarr", "pyarrow", "kaczmarz", "threadpoolctl"}
# room -> what it may import of rowsolve; a room may always import itself
ROOMS = {
    "kernels": {"_atomic", "_jit", "_simd"},
    "clustering": {"_threads", "kernels"},
    "pavings": {"kernels", "clustering"},
    "policy": {"_monitor", "_solution", "_system", "_vectors", "kernels.rows", "lstsq.dense", "methods"},
    "lstsq": {
        "_blas", "_threads", "_vectors", "policy.prices", "kernels.gradient", "kernels.gram", "kernels.ordering",
        "kernels.rows",
    },
    "methods": {
        "_atomic", "_blas", "_solution", "_state", "_system", "_threads", "_vectors", "kernels", "clustering", "lstsq",
        "pavings", "policy.least_squares", "policy.prices",
    },
    "sources": {"_vectors", "kernels.rows", "kernels.turned"},
    "theory": set(),
    "experiments": {"", "clustering", "sources", "_system"},
    "race": {"", "sources", "experiments"},
    "inspection": {
        "_check", "_drive", "_monitor", "_solution", "_system", "_validate", "_warmup", "clustering",
        "kernels.gradient", "kernels.rows", "methods", "policy", "sources", "",
    },
    "cli": {"", "_output", "_threads", "inspection", "methods", "sources", "experiments", "race"},
    "_archive": set(),
    "_atomic": set(),
    "_blas": set(),
    "_arrange": {"_system", "clustering", "sources"},
    "_convert": {"", "_arrange", "_output", "_validate", "methods.base", "sources"},
    "_jit": set(),
    "_output": set(),
    "_simd": set(),
    "_state": set(),
    "_tail": {"_state"},
    "_threads": set(),
    "_vectors": set(),
    "_solution": set(),
    "_monitor": {"_solution", "_state"},
    "_system": {
        "_state", "_threads", "_vectors", "kernels.gradient", "kernels.rows", "lstsq.band", "lstsq.null_space",
        "policy.prices",
    },
    "_stored": {"_system", "kernels.rows", "sources"},
    "_check": {
        "_solution", "_state", "_system", "_vectors", "kernels.many", "kernels.rows", "lstsq.state", "methods.factor",
    },
    "_drive": {
        "_check", "_monitor", "_solution", "_state", "_system", "_tail", "kernels.rows", "kernels.sweep", "methods",
    },
    "_pave": {"_system", "_validate", "pavings", "sources", ""},
    "_words": {"_drive", "_solution", "methods.base"},
    "_auto": {
        "_check", "_drive", "_monitor", "_solution", "_state", "_system", "_vectors", "_words", "methods", "policy",
    },
    "_small": {
        "_auto", "_check", "_monitor", "_solution", "_threads", "_vectors", "_words", "lstsq", "policy",
    },
    "_warmup": {"_check", "_monitor", "_system", "kernels", "methods", "sources"},
    "_validate": {"_threads", "_vectors", "kernels.rows", "methods", "sources"},
    "_checkpoint": {"_archive", "_output", "_state"},
    "_job": {
        "", "_auto", "_checkpoint", "_drive", "_jit", "_monitor", "_solution", "_state", "_system", "_warmup",
        "_words", "methods",
    },
    "_solve": {
        "_checkpoint", "_job", "_monitor", "_output", "_small", "_solution", "_stored", "_system", "_validate",
        "kernels.rows", "methods", "policy", "sources", "",
    },
}  # fmt: skip
FILES = sorted(path for path in SOURCE.rglob("*.py") if path.name not in {"__main__.py"})


def room_of(path):
    first = path.relative_to(SOURCE).parts[0]
    return first.removesuffix(".py")


def imports(path, *, only_at_import):
    """Yield the modules that a file imports, leaving out what only type checkers see."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    pending = list(tree.body)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING":
            continue
        if only_at_import and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names if node.module == "rowsolve")
        pending.extend(ast.iter_child_nodes(node))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_every_file__imports_only_what_its_room_may(path):
    room = room_of(path)
    if room == "__init__":
        assert set(imports(path, only_at_import=True)) == {"__future__", "importlib", "typing"}  # the rest is lazy
        return
    allowed = ROOMS[room] | {room}
    for module in imports(path, only_at_import=False):
        if module and module.split(".")[0] == "rowsolve":
            inner = module.removeprefix("rowsolve").removeprefix(".")
            if "" in allowed and inner.split(".")[0] in {"", "__version__", *rowsolve.__all__}:
                continue
            assert any(inner == one or inner.startswith(f"{one}.") for one in allowed if one), (
                f"{path.name} imports {module}"
            )


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_heavy_libraries__are_imported_late_outside_the_command_line(path):
    at_import = {module.split(".")[0] for module in imports(path, only_at_import=True) if module}
    if room_of(path) != "cli":
        assert not at_import & HEAVY
    if room_of(path) not in {"_atomic", "_jit", "_simd"}:
        assert "numba" not in {m.split(".")[0] for m in imports(path, only_at_import=False) if m}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_no_file__has_to_do_with_pickles(path):
    """Bytes that can call something are never read: a checkpoint is plain data (see `rowsolve._state`)."""
    modules = {module.split(".")[0] for module in imports(path, only_at_import=False) if module}
    assert not modules & {"pickle", "_pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib", "copyreg"}
    hooks = {"__reduce__", "__reduce_ex__", "__getstate__", "__setstate__", "__getnewargs__", "__getnewargs_ex__"}
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        assert getattr(node, "name", None) not in hooks
        if isinstance(node, ast.keyword) and node.arg == "allow_pickle":
            assert isinstance(node.value, ast.Constant)
            assert node.value.value is False


def test_rooms__are_all_in_the_table():
    assert {room_of(path) for path in FILES} == {*ROOMS, "__init__"}


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
