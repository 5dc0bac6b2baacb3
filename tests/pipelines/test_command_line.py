import importlib
import logging
import signal
from unittest import mock

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from dp_transforms.errors import InputError
from pipelines.command_line import JobParser, OneLineParser
from pipelines.running import run
from pipelines.worker_pool import make_runner
from tests.jobs import JOBS

SECRET = "zanzibar"
TWO_PROCESSES = ["--direct_running_mode=multi_processing", "--direct_num_workers=2"]


@pytest.fixture
def parser():
    parser = JobParser("pipelines.example", "An example.", "")
    parser.add_argument("--epsilon", type=float)
    parser.add_common_flags()
    return parser


def test_flags_of_the_job_and_of_beam(parser):
    context = parser.parse_job(["--epsilon", "2", "--experiments=a", "--experiments", "b"])
    options = context.options
    assert context.flags.epsilon == 2.0
    assert options().get_all_options()["experiments"] == ["a", "b"]
    assert options().get_all_options()["runner"] == "FnApiRunner"
    # A cluster's runner may know other flags.
    options = parser.parse_job(["--runner=FlinkRunner", "--flag_of_the_server=4"]).options
    assert options().get_all_options(retain_unknown_options=True)["flag_of_the_server"] == "4"


def test_options_from_files_and_the_command_line_wins(parser, tmp_path, failure):
    path = tmp_path / "options.yaml"
    path.write_text(
        "# a comment\nepsilon: 3\nrunner: PortableRunner\nexperiments: [a, b]\nprogress: true\n"
        "show_private_errors: false\n"
    )
    context = parser.parse_job([f"--config={path}", "--runner=DirectRunner"])
    flags, options = context.flags, context.options
    assert (flags.epsilon, flags.progress, flags.show_private_errors) == (3.0, True, False)
    assert options().get_all_options()["experiments"] == ["a", "b"]
    assert options().get_all_options()["runner"] == "DirectRunner"
    # What is misspelt is refused, also on a cluster.
    path.write_text("epsilom: 1")
    for given in (["--runner=FlinkRunner", "--epsillon=1"], [f"--config={path}"]):
        failure(2, "did you mean --epsilon?", parser.parse_job, given)


def test_what_yaml_reads_in_its_own_way_is_taken_as_written(parser, tmp_path, failure):
    path = tmp_path / "options.yaml"
    parser.add_argument("--job_id")
    for written in ("2024_11", "0x10", "010", "1.10", "12:30", "2026-11-01", "1e-6"):
        path.write_text(f"job_id: {written}")
        assert parser.parse_job([f"--config={path}"]).flags.job_id == written
    # What is silently left out is not charged, or paid for again.
    for written in ("", "null", "[]", "[a, null]", "no", "off", "true"):
        path.write_text(f"job_id: {written}")
        err = failure(2, "job_id ", parser.parse_job, [f"--config={path}"])
        assert "job_id must be a value or" in err or "job_id takes a text" in err


def test_the_command_line_wins_for_flags_that_may_be_given_twice(parser, tmp_path):
    parser.add_argument("--partition_column", action="append")
    for name, column in (("first", "a"), ("second", "b, c")):
        (tmp_path / name).write_text(f"partition_column: [{column}]\nexperiments: {name}\n")
    files = [f"--config={tmp_path}/{name}" for name in ("first", "second")]
    context = parser.parse_job(files)
    assert context.flags.partition_column == ["b", "c"]
    assert context.options().get_all_options()["experiments"] == ["first", "second"]
    for given in (["--partition-column=d"], ["--partition_column", "d"]):
        assert parser.parse_job([*given, *files]).flags.partition_column == ["d"]


def test_a_home_directory_in_the_path_of_an_option_file(parser, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "options.yaml").write_text("epsilon: 3")
    assert parser.parse_job(["--config=~/options.yaml"]).flags.epsilon == 3


def test_workers_do_not_log_unless_asked_to(parser):
    def level(*argv):
        options = parser.parse_job(argv).options().get_all_options()
        return options["default_sdk_harness_log_level"]

    assert level() == "CRITICAL"
    assert level("--default_sdk_harness_log_level=INFO") == level("--log_level=info") == "INFO"
    assert level("--show_private_errors") is None


def failing_job(error):
    return mock.Mock(return_value=mock.Mock(side_effect=error))


def test_unforeseen_errors_keep_their_text_to_themselves(parser, capsys):
    job, log = failing_job(KeyError(SECRET)), logging.getLogger("apache_beam")
    before = log.level
    assert run(job, parser, []) == 1
    assert log.level == before, "Beam's log comes back"
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and "KeyError" in err and SECRET not in err
    assert run(job, parser, ["--show_private_errors"]) == 1
    assert SECRET in capsys.readouterr().err
    interrupt = failing_job(RuntimeError("KeyboardInterrupt [while running 'Read']"))
    assert run(interrupt, parser, []) == 130
    assert capsys.readouterr().err == "error: interrupted: no release was written\n"


@pytest.mark.parametrize("flags", [[], pytest.param(TWO_PROCESSES, marks=pytest.mark.slow)])
def test_errors_of_workers(parser, capfd, flags):
    def prepare_with(error):
        # Defined here, it travels to the worker by value: this file is no module there.
        def fail(element):
            raise error

        def prepare(context):
            options = context.options()
            pipeline = beam.Pipeline(make_runner(context.flags, options), options=options)
            pipeline | beam.Create([1]) | beam.Reshuffle() | beam.Map(fail)
            return lambda: pipeline.run().wait_until_finish()

        return prepare

    assert run(prepare_with(InputError("a.csv is empty")), parser, flags) == 1
    assert capfd.readouterr().err == "error: a.csv is empty\n"
    assert run(prepare_with(KeyError(SECRET)), parser, flags) == 1
    err = capfd.readouterr().err
    assert SECRET not in err and err.count("\n") == 1


def test_flags_may_have_dashes_for_underscores():
    parser = OneLineParser()
    parser.add_argument("--user_column")
    parser.add_argument("--no_header", action="store_true")
    given = ["--user-column=a-b", "--no-header", "--not-known=1", "a-b"]
    flags, unknown = parser.parse_known_args(given)
    assert (flags.user_column, flags.no_header) == ("a-b", True)
    assert unknown == ["--not-known=1", "a-b"]


@pytest.mark.parametrize("flag", ["--user_column", "--user-column"])
def test_errors_write_flags_as_they_were_typed(flag, failure):
    parser = OneLineParser()
    parser.add_argument("--user_column", type=int)
    says = f"error: argument {flag}: invalid int value: 'x_y'"
    failure(2, says, parser.parse_known_args, [f"{flag}=x_y"])


@pytest.mark.parametrize("job", JOBS)
def test_no_option_of_beam_is_taken_for_a_misspelt_flag_of_a_job(job):
    known = PipelineOptions([]).get_all_options()
    assert len(known) > 100
    parser = importlib.import_module(f"pipelines.{job}").make_parser()
    for name in known:
        parser._refuse_misspelt([f"--{name}=1"])


def test_an_interrupt_that_an_extension_made_another_error_of(parser, capsys):
    def prepare(context):
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            raise ImportError("cannot import pyarrow") from None

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in background jobs
    try:
        assert run(prepare, parser, []) == 130
        assert capsys.readouterr().err == "error: interrupted: no release was written\n"
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
