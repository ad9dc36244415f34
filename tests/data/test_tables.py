"""Tables of one's own: read as written, or refused in one line that says where."""

from pathlib import Path

import numpy as np
import pandas
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ebmtut.checks import InputError
from ebmtut.data import read_bits, read_histograms, read_numbers
from tests.data.wrong_files import assert_refused, damaged

ROWS = [[0.0, 1.0, 1.0], [1.0, 0.0, 0.0]]


@pytest.mark.parametrize(
    "text",
    [
        "0,1,1\n1,0,0\n",
        "0, 1, 1\r\n1, 0, 0",
        "\ufeffa,b,c\n0,1,1\n\n1,0,0\n\n",
        '"0";"1";"1"\n1;0;0\n',
        "0\t1\t1\n1\t0\t0\n",
        "0 1 1\n1  0 0\n",
        "0,1.0,1e0\n+1,-0,0.0\n",
        ",a,b,c\n0,0,1,1\n1,1,0,0\n",
        "a b c\nanna 0 1 1\nben 1 0 0\n",
        "0;1,0;1\n1;0;0,0\n",
        "Unnamed: 0,a,b,c\n0,0,1,1\n1,1,0,0\n",
        "id;a;b;c\n7;0;1;1\n8;1;0;0\n",
        '"a" "b" "c"\n"anna" 0 1 1\n"ben" 1 0 0\n',
        "0 1,0 1\n1 0 0,0\n",
        "0|1,0|1\n1|0|0,0\n",
        "# from a program\n0|1|1\n1|0|0\n",
    ],
)
def test_common_forms_are_read(tmp_path: Path, text: str) -> None:
    path = tmp_path / "data.csv"
    path.write_bytes(text.encode())
    bits = read_bits(path)
    assert bits.dtype == torch.float32
    assert bits.tolist() == ROWS


@pytest.mark.parametrize("dtype", [bool, np.uint8, np.int64, np.float16, np.float64])
def test_numpy_files_are_read(tmp_path: Path, dtype: type) -> None:
    path = tmp_path / "data.npy"
    np.save(path, np.array(ROWS, dtype=dtype))
    assert read_bits(path, dtype=torch.float64).tolist() == ROWS
    assert read_bits(path).dtype == torch.float32


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("", "must hold a row of numbers, got none"),
        ("\n \n", "must hold a row of numbers, got none"),
        ("a,b\n", "must hold a row of numbers, got none"),
        ("0,1\n0,x\n", "got 'x' in line 2, column 2"),
        ("0,1\n0,\n", "got '' in line 2, column 2"),
        ("0,b\n0,1\n", "got 'b' in line 1, column 2"),
        ("a,b\nc,d\n", "got 'c' in line 2, column 1"),
        ("0,1\n0,1,1\n", "rows of one length, 2, got 3 numbers in line 2"),
        ("0,1\n\n0\n", "rows of one length, 2, got 1 numbers in line 3"),
        ("0,1\n1,nan\n", "finite numbers, got nan in row 2, column 2"),
        ("0,1\n1,inf\n", "finite numbers, got inf in row 2, column 2"),
        ("0,1\n1,0.5\n", "only 0 and 1, got 0.5 in row 2, column 2"),
        ("0,1\n-1,1\n", "only 0 and 1, got -1 in row 2, column 1"),
        ("0,1_0\n", "got '1_0'"),
        ("NA,NA\n0,1\n", "got 'NA' in line 1, column 1"),
        ("1,2,3\n0,1,1\n", "say what line 1 is, got the numbers of the columns, 1 to"),
        ("1990,2000,2010\n0,1,1\n", "say what line 1 is, got the numbers"),
        ("0,1,2\n0,1,1\n", "say what line 1 is, got the numbers of the columns"),
        (",0,1\n0,0,1\n1,1,1\n", "say what line 1 is, got the numbers"),
        ("0;0,5\n0.5;1\n", "got '0.5' in line 2, column 1"),
    ],
)
def test_wrong_files_are_refused_in_one_line(tmp_path, text, match):
    assert_refused(read_bits, tmp_path, text, match)


def test_what_is_no_table_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"must be a file, got .*none\.csv: No such"):
        read_bits(tmp_path / "none.csv")
    with pytest.raises(InputError, match=r"must be a file, got .*Is a directory"):
        read_bits(tmp_path)
    with pytest.raises(InputError, match=r"NumPy file, got .*No such"):
        read_bits(tmp_path / "none.npy")
    path = tmp_path / "a.npy"
    objects = np.array([[None, {}]], dtype=object)
    for array in (objects, np.zeros(3), np.zeros((0, 2)), np.array([["a"]])):
        np.save(path, array, allow_pickle=True)
        with pytest.raises(InputError, match=r"a\.npy"):
            read_bits(path)
    np.save(path, objects, allow_pickle=True)
    with pytest.raises(InputError, match=r"array of numbers, got one of Python obj"):
        read_bits(path)
    path.write_bytes(path.read_bytes()[:20])
    with pytest.raises(InputError, match=r"a NumPy file, got .*a\.npy: damaged"):
        read_bits(path)
    with pytest.raises(InputError, match="dtype must be floating"):
        read_bits(path, dtype=torch.int64)


def test_too_few_rows_are_refused_by_the_name_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "few.csv"
    path.write_text("0,1\n1,0\n1,1\n0,0\n")
    assert len(read_bits(path, least=4)) == 4
    with pytest.raises(InputError, match=r"few\.csv must hold at least 10 rows, got 4"):
        read_bits(path, least=10)
    path.write_text("0,1\n1,0\n1,1\n2,0\n")
    with pytest.raises(InputError, match=r"few\.csv must hold at least 20 rows, got 4"):
        read_histograms(path, least=20)


def test_histograms_have_mass_one(tmp_path: Path) -> None:
    path = tmp_path / "counts.csv"
    path.write_text("3,1,0\n0,0,8\n")
    assert read_histograms(path).tolist() == [[0.75, 0.25, 0], [0, 0, 1]]
    bad = (
        ("1,-1,3\n", ">= 0, got -1 in row 1, column 2"),
        ("1,2\n0,0\n", "got 0 in row 2"),
    )
    for text, match in (*bad, ("1e308,1e308\n", "got inf in row 1")):
        path.write_text(text)
        with pytest.raises(InputError, match=match):
            read_histograms(path)


WHOLE = b"0,1,1\n1,0,0\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz")


@settings(deadline=None)
@given(st.binary(max_size=40) | damaged(WHOLE))
@example(b"\x00,\x00\n")
@example(b'"0,1\n')
def test_any_bytes_are_a_table_or_one_line(folder: Path, content: bytes) -> None:
    path = folder / "fuzz.csv"
    path.write_bytes(content)
    for read in (read_bits, read_histograms):
        try:
            table = read(path)
        except InputError as error:
            assert "\n" not in str(error) and "fuzz.csv" in str(error)
        else:
            assert table.numel() and bool(torch.isfinite(table).all())


@settings(deadline=None)
@given(st.data())
def test_any_numpy_file_is_a_table_or_one_line(folder, data):
    path = folder / "fuzz.npy"
    np.save(path, np.array(ROWS))
    path.write_bytes(data.draw(damaged(path.read_bytes())))
    try:
        table = read_numbers(path)
    except InputError as error:
        assert "\n" not in str(error) and "fuzz.npy" in str(error)
    else:
        assert table.dim() == 2


@settings(deadline=None, max_examples=60)
@given(
    st.lists(
        st.lists(
            st.floats(allow_nan=False, allow_infinity=False), min_size=2, max_size=4
        ),
        min_size=1,
        max_size=5,
    ).filter(lambda rows: len({len(row) for row in rows}) == 1),
    st.sampled_from([(",", "."), *((mark, dot) for mark in ";\t| " for dot in ",.")]),
    st.booleans(),
    st.booleans(),
)
def test_tables_of_pandas_are_read_as_by_it(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[list[float]],
    dialect: tuple[str, str],
    names: bool,
    index: bool,
) -> None:
    path = tmp_path_factory.getbasetemp() / "pandas.csv"
    separator, decimal = dialect
    columns = [f"bin {k}" for k in range(len(rows[0]))]
    index = index and names  # without names an index is a column like others
    table = pandas.DataFrame(rows, columns=columns)
    table.to_csv(path, sep=separator, decimal=decimal, header=names, index=index)
    want = pandas.read_csv(
        path,
        sep=separator,
        decimal=decimal,
        header=0 if names else None,
        index_col=0 if index else None,
        float_precision="round_trip",
    )
    assert read_numbers(path).tolist() == want.to_numpy(float).tolist()
