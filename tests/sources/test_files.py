from __future__ import annotations

import gzip
import pickle

import numpy as np
import pytest
from conftest import gaussian, relative_error
from scipy import io, sparse

import rowsolve
from rowsolve.sources import load_matrix, load_vector

A, b, X_TRUE = gaussian(120, 5)


def write_npy(path):
    np.save(path, A)


def write_npz(path):
    np.savez(path, A=A)


def write_sparse_npz(path):
    sparse.save_npz(path, sparse.csr_array(A))


def write_mtx(path):
    io.mmwrite(path, sparse.coo_array(A))


def write_mtx_gz(path):
    with gzip.open(path, "wb") as file:
        io.mmwrite(file, A)


def write_csv(path):
    np.savetxt(path, A, delimiter=",", fmt="%.17g")


def write_csv_with_names(path):
    np.savetxt(path, A, delimiter=",", fmt="%.17g", header="a,b,c,d,e", comments="")


FORMATS = {
    "A.npy": write_npy,
    "A.npz": write_npz,
    "S.npz": write_sparse_npz,
    "A.mtx": write_mtx,
    "A.mtx.gz": write_mtx_gz,
    "A.csv": write_csv,
    "N.CSV": write_csv_with_names,
}


@pytest.mark.parametrize("name", FORMATS)
def test_files__hold_the_matrix(name, tmp_path):
    path = tmp_path / name
    FORMATS[name](path)
    found = load_matrix(path)
    np.testing.assert_allclose(found.toarray() if sparse.issparse(found) else found, A, rtol=1e-15)
    np.save(tmp_path / "b.npy", b)
    solution = rowsolve.solve(str(path), tmp_path / "b.npy", rng=0)
    assert relative_error(solution.x, X_TRUE) < 2e-6


def test_npy__is_mapped_not_read(tmp_path):
    write_npy(tmp_path / "A.npy")
    assert isinstance(load_matrix(tmp_path / "A.npy"), np.memmap)


def test_vectors__may_be_columns_or_rows(tmp_path):
    np.save(tmp_path / "column.npy", b[:, None])
    io.mmwrite(tmp_path / "b.mtx", b[:, None])
    np.savetxt(tmp_path / "b.csv", b[None, :], delimiter=",", fmt="%.17g")
    for name in ("column.npy", "b.mtx", "b.csv"):
        np.testing.assert_allclose(load_vector(tmp_path / name), b, rtol=1e-15)


@pytest.mark.parametrize("name", [name for name in FORMATS if name != "N.CSV"])
@pytest.mark.parametrize("kept", [0.0, 0.02, 0.5, 0.97])
def test_truncated_files__raise_an_error(name, kept, tmp_path):
    path = tmp_path / name
    FORMATS[name](path)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(kept * len(whole))])
    words = f"{name}: (is not a complete|the file is empty)"
    if kept and name == "A.csv":  # cut at the end of a line it is a shorter .csv: the length of b gives it away
        words = r"expected numbers separated by commas|one entry per row"
    with pytest.raises(ValueError, match=words):
        rowsolve.solve(path, b)


@pytest.mark.parametrize("name", FORMATS)
def test_files_that_are_something_else__raise_an_error(name, tmp_path):
    path = tmp_path / name
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 4)
    with pytest.raises(ValueError, match=f"{name}: is not a complete"):
        load_matrix(path)


def test_npz_under_the_name_of_npy__raises_an_error(tmp_path):
    with (tmp_path / "A.npy").open("wb") as file:
        np.savez(file, A=A)
    with pytest.raises(ValueError, match=r"does not begin like a \.npy file"):
        load_matrix(tmp_path / "A.npy")


class _Trap:
    def __reduce__(self):
        return (pytest.fail, ("a pickle was run",))


@pytest.mark.parametrize("ending", ["npy", "npz"])
def test_pickles__are_never_run(ending, tmp_path):
    trap = np.array([_Trap()], dtype=object)
    path = tmp_path / f"A.{ending}"
    if ending == "npy":
        np.save(path, trap, allow_pickle=True)
    else:
        np.savez(path, trap)
    with pytest.raises(ValueError, match="holds pickled Python objects"):
        load_matrix(path)
    path.write_bytes(pickle.dumps(_Trap()))
    with pytest.raises(ValueError, match=f"A.{ending}: (is not a complete|holds pickled)"):
        load_matrix(path)


def test_npz__with_several_arrays_raises_an_error(tmp_path):
    np.savez(tmp_path / "A.npz", one=A, two=b)
    with pytest.raises(ValueError, match="expected one array or a scipy sparse matrix, got the arrays one, two"):
        load_matrix(tmp_path / "A.npz")


@pytest.mark.parametrize(
    ("name", "error", "words"),
    [
        ("missing.npy", FileNotFoundError, "missing.npy: no such file"),
        ("A.xlsx", ValueError, "expected a file ending in .npy, .npz, .mtx, .mtx.gz, .csv"),
    ],
)
def test_names__that_cannot_be_read_are_explained(name, error, words, tmp_path):
    with pytest.raises(error, match=words):
        load_matrix(tmp_path / name)


def test_folders__raise_an_error(tmp_path):
    (tmp_path / "A.npy").mkdir()
    with pytest.raises(IsADirectoryError, match="is a folder"):
        load_matrix(tmp_path / "A.npy")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1,2\n3,four\n", r"A\.csv, line 2: expected numbers separated by commas, got 'four'"),
        ("1,,3\n4,5,6\n", r"A\.csv, line 1: column 1 has no value: fill it in"),  # no header: it has numbers
        ("a,b\n\n1,2\n3\n", r"line 4: expected numbers .*, 2 of them as in the previous lines, got 1"),
        ("1;2\n3;4\n", r"line 2: .* got '3;4'. Replace semicolons and tabs by commas"),
        ("a,b\n", "contains no numbers"),
        ("\n\n", "contains no numbers"),
    ],
)
def test_csv__that_is_not_numbers_raises_an_error_with_its_line(text, words, tmp_path):
    (tmp_path / "A.csv").write_text(text)
    with pytest.raises(ValueError, match=words):
        load_matrix(tmp_path / "A.csv")


def test_csv__of_a_spreadsheet_keeps_its_first_line(tmp_path):
    (tmp_path / "A.csv").write_text("1,2\r\n\r\n3,4\r\n", encoding="utf-8-sig")
    assert load_matrix(tmp_path / "A.csv").tolist() == [[1, 2], [3, 4]]


def test_npz__that_is_empty_or_broken_in_odd_ways_raises_an_error(tmp_path):
    np.savez(tmp_path / "none.npz")
    with pytest.raises(ValueError, match=r"none\.npz: contains no array"):
        load_matrix(tmp_path / "none.npz")
    (tmp_path / "header.npy").write_bytes(b"\x93NUMPY\x01\x00\x10\x00{'descr': '<f8', ")
    with pytest.raises(ValueError, match="is not a complete"):
        load_matrix(tmp_path / "header.npy")
