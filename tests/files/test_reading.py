from dataclasses import astuple

import apache_beam as beam
import pytest
from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import FlinkRunnerOptions, PipelineOptions

from dp_transforms.beam import engine as on_beam
from dp_transforms.beam.reading import ReadRecords
from dp_transforms.errors import InputError
from dp_transforms.files import parquet_files, text_lines
from dp_transforms.files.delimited_text import DelimitedText
from dp_transforms.files.parquet_files import ParquetFiles
from dp_transforms.files.paths import local_path, match_files
from dp_transforms.files.record_files import RecordFiles, format_of
from dp_transforms.runtime.job_secret import JobSecret


@pytest.mark.parametrize(
    "pattern", ["a.csv", "*.csv", "*", ".*", "a*", "a*b*", "*.c[st]v", "?.csv", "*/a.csv", "**.csv"]
)
def test_a_glob_finds_what_beam_finds(tmp_path, pattern):
    for name in ("a.csv", "b.csv", "ab.csv.gz", ".a.csv", "a\\b.csv", "in/a.csv", "in/b"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "gone.csv").symlink_to("nowhere")
    files = FileSystems.match([f"{tmp_path}/{pattern}"])[0].metadata_list
    expected = sorted((f.path, f.size_in_bytes, f.last_updated_in_seconds) for f in files)
    assert [astuple(file) for file in match_files(f"{tmp_path}/{pattern}")] == expected


def test_a_glob_needs_no_directory(tmp_path, monkeypatch):
    (tmp_path / "a.csv").touch()
    monkeypatch.chdir(tmp_path)
    for glob in ("*.csv", "?.csv", "[ab].csv"):
        assert [file.path for file in match_files(local_path(glob))] == ["./a.csv"]


@pytest.mark.parametrize(("given", "few", "parts"), [(4, 2, 4), (4, 3, 1), (1, 3, 1), (-1, 3, -1)])
def test_few_records_are_one_part_of_a_flink_job(given, few, parts, tmp_path, monkeypatch):
    (tmp_path / "records.jsonl").write_text('{"user": "ann", "partition": "jazz"}\n' * 2)
    source = RecordFiles(str(tmp_path / "*"), "user", ["partition"])
    monkeypatch.setattr(on_beam, "FEW_RECORDS", few)
    monkeypatch.setattr(RecordFiles, "estimated_rows", 2)
    pipeline = beam.Pipeline(options=PipelineOptions([f"--parallelism={given}"]))
    options = pipeline.options.view_as(FlinkRunnerOptions)
    _ = pipeline | "Alone" >> ReadRecords(source)
    assert options.parallelism == given
    on_beam.OnBeam(pipeline, source, JobSecret.from_os())
    assert options.parallelism == parts


@pytest.mark.parametrize("name", ["book.xlsx", "BOOK.XLS", "book.ods"])
def test_spreadsheets_are_no_text(name):
    with pytest.raises(InputError, match="is a spreadsheet: save it as CSV"):
        format_of(name)


@pytest.mark.parametrize(
    ("name", "kind", "delimiter"),
    [
        ("a.csv", "DelimitedText", ","),
        ("a.log", "DelimitedText", ","),
        ("a.tsv.gz", "DelimitedText", "\t"),
        ("A.NDJSON.zst", "JsonLines", None),
        ("a.csv.pq", "ParquetFiles", None),
        ("a.tsv.pq", "ParquetFiles", None),
        ("a.parquet", "ParquetFiles", None),
        ("a.avro", "AvroFiles", None),
    ],
)
def test_names_of_files_tell_their_format(name, kind, delimiter):
    file_format = format_of(name)
    assert type(file_format).__name__ == kind
    assert getattr(file_format, "delimiter", None) == delimiter


@pytest.mark.parametrize(
    ("file_format", "most"),
    [(DelimitedText(), text_lines.RANGE_BYTES), (ParquetFiles(), parquet_files.RANGE_BYTES)],
)
def test_a_file_is_cut_into_ranges_that_cover_it(file_format, most):
    size = 3 * most + 5
    parts = list(file_format.split("records", size))
    assert [part.start for part in parts[1:]] == [part.stop for part in parts[:-1]]
    assert (parts[0].start, parts[-1].stop, len(parts)) == (0, size, 4)
    assert {part.stop - part.start for part in parts} <= {size // 4, size // 4 + 1}
    assert len(list(DelimitedText(multiline=True).split("records.csv", size))) == 1
    # Reading it is an error, in text with a header and in Parquet.
    assert len(list(file_format.split("records", 0))) == 1
