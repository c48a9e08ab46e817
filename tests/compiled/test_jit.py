"""The kernel cache, and what `import rowsolve` loads."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import rowsolve

pytestmark = pytest.mark.compiled

# A kernel that calls others and is compiled in a moment.
RUN = (
    "import numpy as np; from rowsolve.kernels.rows import DenseRows, frozen, norms_of; "
    "norms_of(DenseRows(frozen(np.eye(8, 3))), frozen(np.ones(8)), 0, 8, np.empty(8), np.full(3, -1))"
)


def python(code, **env):
    return subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **env}, capture_output=True, text=True, check=True
    ).stdout.strip()


def test_import__compiles_nothing_and_imports_nothing_heavy():
    heavy = ["numpy", "numba", "scipy", "matplotlib", "rich", "typer", "filelock", "platformdirs", "psutil"]
    code = f"import sys, rowsolve; print([name for name in {heavy} if name in sys.modules])"
    assert python(code) == "[]"


def test_cache__is_filled_by_a_solve_and_used_by_the_next(tmp_path):
    python(RUN, ROWSOLVE_CACHE_DIR=str(tmp_path))
    (folder,) = tmp_path.iterdir()
    kept = sorted(folder.rglob("*.nbc"))
    assert folder.name.startswith("kernels-")
    assert kept
    before = [path.stat().st_mtime_ns for path in kept]
    code = RUN + "; print(sum(norms_of.stats.cache_hits.values()))"
    assert int(python(code, ROWSOLVE_CACHE_DIR=str(tmp_path))) == 1
    assert [path.stat().st_mtime_ns for path in sorted(folder.rglob("*.nbc"))] == before


def test_cache__can_be_switched_off(tmp_path):
    python(RUN, ROWSOLVE_CACHE_DIR=str(tmp_path), ROWSOLVE_CACHE="off")
    assert not list(tmp_path.iterdir())


def test_cache__that_cannot_be_written_does_not_stop_a_solve(tmp_path):
    (tmp_path / "file").write_text("in the way")
    python(RUN, ROWSOLVE_CACHE_DIR=str(tmp_path / "file"))


def test_cache__that_is_damaged_is_made_anew(tmp_path):
    python(RUN, ROWSOLVE_CACHE_DIR=str(tmp_path))
    for path in [*tmp_path.rglob("*.nbi"), *list(tmp_path.rglob("*.nbc"))[::2]]:
        path.write_bytes(b"junk")
    python(RUN, ROWSOLVE_CACHE_DIR=str(tmp_path))
    python(RUN, ROWSOLVE_CACHE_DIR=str(tmp_path))


def test_cache__is_done_without_if_the_disk_is_full(tmp_path):
    full = (
        "import errno; from numba.core.caching import IndexDataCacheFile; "
        "IndexDataCacheFile.save = lambda *_: (_ for _ in ()).throw(OSError(errno.ENOSPC, 'no space')); "
    )
    python(full + RUN, ROWSOLVE_CACHE_DIR=str(tmp_path))
    assert not list(tmp_path.rglob("*.nbc"))


def test_cache__is_done_without_where_there_is_no_home(monkeypatch):
    from rowsolve.compiled import jit

    monkeypatch.delenv("ROWSOLVE_CACHE_DIR", raising=False)
    monkeypatch.setattr(jit, "user_cache_dir", lambda *_, **__: "~/.cache/rowsolve")  # as platformdirs has it then
    assert jit.kernel_cache_folder() is None


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have other folders")
def test_cache__is_where_linux_keeps_those_of_users(tmp_path, monkeypatch):
    from rowsolve.compiled import jit

    monkeypatch.delenv("ROWSOLVE_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert jit.kernel_cache_folder().parent == tmp_path / "rowsolve"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert jit.kernel_cache_folder().parent == tmp_path / ".cache" / "rowsolve"
    monkeypatch.setenv("ROWSOLVE_CACHE_DIR", str(tmp_path / "mine"))
    assert jit.kernel_cache_folder().parent == tmp_path / "mine"


def test_cache__may_be_filled_by_several_at_once(tmp_path):
    code = RUN.replace("np.eye(8, 3)", "np.eye(8, 3, dtype=np.{})")
    env = {**os.environ, "ROWSOLVE_CACHE_DIR": str(tmp_path)}
    running = [
        subprocess.Popen([sys.executable, "-c", code.format(kind)], env=env) for kind in ("float32", "float64") * 2
    ]
    assert [process.wait() for process in running] == [0, 0, 0, 0]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this lock is another one on Windows")
def test_cache__is_filled_where_the_file_system_has_no_locks(tmp_path):
    patch = "import errno, fcntl; fcntl.flock = lambda *_: (_ for _ in ()).throw(OSError(errno.{}, 'no locks')); "
    for number in ("ENOSYS", "ENOLCK"):
        folder = tmp_path / number
        python(f"{patch.format(number)}{RUN}", ROWSOLVE_CACHE_DIR=str(folder), PYTHONWARNINGS="error")
        assert list(folder.rglob("*.nbc"))


def test_lock_of_the_cache__ends_with_its_process_and_may_be_taken_again_by_its_thread(tmp_path):
    env = {"ROWSOLVE_CACHE_DIR": str(tmp_path)}
    take = "from rowsolve.compiled import jit; jit._lock().acquire(timeout=0)"
    python(f"{take}; jit._lock().acquire(timeout=0); import os; os._exit(0)", **env)
    with subprocess.Popen(
        [sys.executable, "-c", f"{take}; print(flush=True); input()"],
        env={**os.environ, **env}, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as holder:  # fmt: skip
        holder.stdout.readline()
        with pytest.raises(subprocess.CalledProcessError) as refused:
            python(take, **env)
        assert "filelock._error.Timeout" in refused.value.stderr
        holder.kill()
        holder.wait()
        python(take, **env)


def test_cache__notices_a_change_in_any_kernel_file(monkeypatch):
    from rowsolve.compiled import jit

    before = jit.kernel_cache_folder()
    read = Path.read_bytes
    changed = Path(rowsolve.__file__).parent / "kernels" / "rows.py"
    monkeypatch.setattr(Path, "read_bytes", lambda self: read(self) + (b"#" if self == changed else b""))
    assert jit.kernel_cache_folder() != before


def test_other_users_of_numba__keep_their_own_cache():
    code = "import numba; print(repr(numba.config.CACHE_DIR)); import rowsolve.kernels.sweep; "
    before, after = python(code + "print(repr(numba.config.CACHE_DIR))").splitlines()
    assert before == after
