import bz2
import csv
import gzip
import itertools

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_transforms.errors import InputError
from dp_transforms.files import text_lines
from dp_transforms.files.delimited_text import DelimitedText
from dp_transforms.files.paths import FileRange
from tests.cases import refused

SECRET = "zanzibar"
# Fields with what CSV finds difficult, and lengths that let cuts fall anywhere.
FIELDS = st.text(st.sampled_from('a,"é😀 \t'), max_size=5)
COLUMNS = ("user", "page")
TWO = [("ann", "home"), ("bob", "help")]
MARK = "\ufeff"


def records(text_format, path, columns, cuts=None):
    """All records of a file as tuples, read in ranges that end at the cuts."""
    size = path.stat().st_size
    if cuts is None:
        parts = list(text_format.split(str(path), size))
    else:
        ends = sorted({0, size, *(cut for cut in cuts if cut < size)})
        parts = [FileRange(str(path), a, b) for a, b in itertools.pairwise(ends)]
    tables = [table for part in parts for table in text_format.read(part, columns)]
    return [row for table in tables for row in zip(*table.to_pydict().values(), strict=True)]


def fault(text_format, path, columns=("user", "page")):
    with pytest.raises(InputError) as caught:
        text_format.schema(str(path), columns)
        records(text_format, path, columns)
    message = str(caught.value)
    assert path.name in message
    assert "\n" not in message
    assert SECRET not in message
    return message


@pytest.fixture
def write(tmp_path):
    def write(content, name="records.csv"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


@pytest.mark.parametrize("multiline", [False, True])
@pytest.mark.parametrize("header", [False, True])
@pytest.mark.parametrize("cuts", [None, [100, 333]])
def test_a_byte_order_mark_is_left_out_at_the_beginning_of_a_file_alone(
    write, monkeypatch, multiline, header, cuts
):
    monkeypatch.setattr(text_lines, "BLOCK_BYTES", 64)
    lines = "".join(f"{MARK}user{i},home\n" for i in range(50))
    path = write(f"{MARK}user,page\n{lines}" if header else lines)
    text_format = DelimitedText(header=header, multiline=multiline)
    rows = records(text_format, path, ("user" if header else "1",), None if multiline else cuts)
    assert rows == [(f"{MARK * (header or i > 0)}user{i}",) for i in range(50)]


@pytest.mark.parametrize("multiline", [False, True])
@pytest.mark.parametrize(
    ("content", "columns", "expected"),
    [
        ("user,x,page\nann,1,home\nbob,2,help\n", ("page", "user"), [row[::-1] for row in TWO]),
        (f'{MARK}user,page\r\nann,"home"\r\n\r\n\nbob,help', COLUMNS, TWO),
        *((header, COLUMNS, []) for header in ("user,page\n", "user,page", 'user,"page"\r\n')),
    ],
)
def test_columns_line_ends_and_files_without_records(write, multiline, content, columns, expected):
    assert records(DelimitedText(multiline=multiline), write(content), columns) == expected


@pytest.mark.parametrize("header", [True, False])
@pytest.mark.parametrize("name", ["a\nb", 'a ""\r\nb""', "a\rb\n\n"])
def test_the_first_record_may_have_several_lines(write, header, name):
    path = write(f'"{name}",page\nann,home\n')
    unquoted = name.replace('""', '"')
    columns = (unquoted, "page") if header else ("1", "2")
    first = [] if header else [(unquoted, "page")]
    assert records(DelimitedText(header=header, multiline=True), path, columns) == first + TWO[:1]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (f'user,"{SECRET}\nann,home\n', "not closed"),
        (f'user,pa"ge\nann,{SECRET}"\n', "inside a field"),
        ("user,page\rann,home\r", "carriage returns"),
    ],
)
def test_quotes_and_line_ends_of_the_header_are_as_strict_as_those_of_records(write, text, says):
    assert says in fault(DelimitedText(multiline=True), write(text))


@pytest.mark.parametrize(
    ("suffix", "compress"),
    [
        ("gz", gzip.compress),
        ("bz2", bz2.compress),
        ("zst", lambda text: pa.compress(text, "zstd", asbytes=True)),
    ],
)
def test_compressed_files_are_read_whole_by_one_worker(write, suffix, compress):
    # Of two members, one after the other.
    content = compress(b"user,page\n" + b"ann,home\n" * 1000) + compress(b"bob,help\n")
    path = write(content, f"records.csv.{suffix}")
    assert len(list(DelimitedText().split(str(path), path.stat().st_size))) == 1
    assert records(DelimitedText(), path, COLUMNS) == [*TWO[:1] * 1000, TWO[1]]


@pytest.mark.thorough
@settings(max_examples=150)
@given(
    rows=st.lists(st.tuples(FIELDS, FIELDS, FIELDS), max_size=12),
    cuts=st.lists(st.integers(1, 200), max_size=4),
    block=st.integers(1, 50),
    line_end=st.sampled_from(["\n", "\r\n"]),
)
def test_any_cuts_give_what_the_csv_module_reads(tmp_path_factory, rows, cuts, block, line_end):
    path = tmp_path_factory.mktemp("cuts") / "records.csv"
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, quoting=csv.QUOTE_ALL, lineterminator=line_end)
        writer.writerow(["user", "x", "page"])
        writer.writerows(rows)
    with open(path, newline="", encoding="utf-8") as file:
        expected = [(row["user"], row["page"]) for row in csv.DictReader(file)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_lines, "BLOCK_BYTES", block)
        assert records(DelimitedText(), path, COLUMNS, cuts) == expected


@pytest.mark.parametrize("block", [64, 1 << 20])
@pytest.mark.parametrize(
    "stray",
    ['u9,"a" b', 'u9,"a"b"', 'u9,"', 'u9,a"', 'u9,a"b"', 'u9, "a"', '"u9"x,a', "u9,a\ru1,forged"],
)
def test_a_stray_quote_of_one_user_is_refused_among_line_breaks(write, monkeypatch, block, stray):
    monkeypatch.setattr(text_lines, "BLOCK_BYTES", block)
    lines = [f'u{i},"ho\nme {i}"\n' for i in range(9)]
    text_format = DelimitedText(multiline=True)
    expected = [(f"u{i}", f"ho\nme {i}") for i in range(9)]
    assert records(text_format, write("user,page\n" + "".join(lines)), COLUMNS) == expected
    for place in (0, 5, 9):
        text = "".join([*lines[:place], stray + "\n", *lines[place:]])
        for content, columns in ((f"user,page\n{text}", COLUMNS), (text, ("1", "2"))):
            text_format = DelimitedText(multiline=True, header=columns[0] == "user")
            fault(text_format, write(content), columns)


@pytest.mark.parametrize("quotes", [True, False])
@pytest.mark.parametrize("cuts", [(), (10, 20)])
def test_a_carriage_return_of_one_user_makes_no_record_of_another(write, quotes, cuts):
    path = write("user,page\nann,home\nbob,home\rann,forged\n")
    with pytest.raises(InputError, match="carriage returns inside a line"):
        records(DelimitedText(quotes=quotes), path, COLUMNS, cuts)


def test_a_quote_that_is_not_closed_behind_the_columns(write):
    lines = 'ann,home,x\nend of the records,end of the records,"y\nbob,home,z\n'
    path = write(f"user,page,note\n{lines}")
    assert "not closed" in fault(DelimitedText(multiline=True), path)


@pytest.mark.parametrize("piece", [50, 53, 1000])
@pytest.mark.parametrize(
    ("encoding", "letter"),
    [("utf-8", "é"), ("latin-1", "é"), ("shift_jis", "表"), ("gb18030", "表")],
)
def test_pieces_of_any_size_and_encoding(write, monkeypatch, piece, encoding, letter):
    monkeypatch.setattr(text_lines, "BLOCK_BYTES", piece)
    lines = f'"a""{letter},\r\n",{letter}\r\n"","\r"\nb,\n'
    path = write(("user,page\n" + lines * 9).encode(encoding))
    rows = records(DelimitedText(multiline=True, encoding=encoding), path, COLUMNS)
    assert rows == [(f'a"{letter},\r\n', letter), ("", "\r"), ("b", None)] * 9


def test_the_number_of_rows_is_estimated_from_the_first_lines(write):
    text = b"user,page\n" + b"".join(b"user%05d,page\n" % i for i in range(20_000))
    cases = ("a.csv", text, 1.01), ("a.csv.gz", gzip.compress(text), 3), ("b.csv", b"", 1)
    for name, content, factor in cases:
        estimated = DelimitedText().estimated_rows(str(write(content, name)), len(content))
        expected = 20_000 if content else 0
        assert expected / factor <= estimated <= expected * factor


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.csv", f"{SECRET},home\n", "no column 'user'"),
        ("a.csv", b"us\xffer,page\nann,home\n", "--encoding"),
        ("a.csv", "user,page\nann,home\n".encode("utf-16"), "iconv -f UTF-16"),
        ("a.csv", f'user,page\nann,{SECRET}\nbob"x,"{SECRET}\n', "--multiline"),
        ("a.csv", f"user,page\rann,{SECRET}\r", "carriage returns"),
        ("a.csv", b"PAR1" + bytes(range(256)), "a.csv"),
        # A damaged file is not read in part.
        ("a.csv.gz", gzip.compress(b"user,page\nann,home\n", mtime=0) + b"x", "cut short, damaged"),
        # Arrow does not read on after an empty member of bzip2.
        ("a.csv.bz2", bz2.compress(b"") * 2 + bz2.compress(b"user,page\n"), "cut short, damaged"),
        ("a.csv.xz", b"", "gzip, bzip2 or zstd"),
    ],
)
def test_faults_say_what_to_do_and_nothing_of_the_data(write, name, content, says):
    assert says in fault(DelimitedText(), write(content, name))


test_arguments_are_checked = refused(
    lambda arguments: DelimitedText(**arguments),
    *(
        ({"delimiter": delimiter}, "one ASCII character other than")
        for delimiter in ("", "||", '"', "¦")
    ),
    ({"encoding": "klingon"}, "encoding must be the name of a Python codec"),
    ({"encoding": "utf-16"}, "iconv -f utf-16"),
    *(
        ({"encoding": encoding}, "does not keep ASCII")
        for encoding in ("base64", "utf-7", "hz", "iso2022_jp", "iso2022_kr", "raw_unicode_escape")
    ),
    ({"multiline": True, "quotes": False}, "multiline needs quotes"),
)
