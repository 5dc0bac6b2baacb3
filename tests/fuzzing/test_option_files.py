"""Option files (--config) and command lines that are made up: a clear error, or flags."""

import string

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pipelines import release_all, release_frequency_list, select_partitions
from tests.fuzzing.shared import damaged, fuzz, no_hang

PARSERS = [
    module.make_parser() for module in (release_frequency_list, select_partitions, release_all)
]
FILES = [
    b"epsilon: 1\nmax_partitions_per_user: 4\n",
    b"input: 'a*.csv'\nuser_column: user\npartition_column: [page, device]\noverwrite: true\n",
    b"runner: FnApiRunner\ndirect_num_workers: 2\n",
    b"",
]
PIECES = [
    *[b"{" * 900, b"&a [*a]", b"*a", b"!!python/object:os.system", b"---\n"],
    *[b": ", b"- ", b"\t", b"null", b"~", b".nan", b"1e400", b"0x7f", b"1:30", b"\0", b"\xff"],
    *[b"!!binary x", b"!!timestamp 2001-99-99", b"<<: *a", b"? ", b"config: x", b"help: true"],
]
NAMES = ["epsilon", "delta", "max_partitions_per_user", "eta", "runner", "num_buckets", "config"]
VALUES = ["1", "-1", "nan", "1e999", "0", "²", "1_0", "", " 1", "1\n2", "x" * 5000, "1" * 5000]
ARGUMENTS = st.one_of(
    st.builds("--{}={}".format, st.sampled_from(NAMES), st.sampled_from(VALUES)),
    st.text(alphabet=string.printable, max_size=12),
    st.text(max_size=6).map("--".__add__),
)


@no_hang()
def parse(parser, arguments, capfd):
    """The parser takes the arguments, or says in one line why not."""
    try:
        parser.parse_job(arguments)
    except SystemExit as stop:
        out, err = capfd.readouterr()
        # Help is on stdout.
        assert stop.code == (0 if out else 2)
        assert out or (err.startswith("error: ") and err.count("\n") == 1), err[:500]
    assert capfd.readouterr() == ("", "")


@pytest.mark.thorough
@fuzz
@given(content=damaged(FILES, PIECES), parser=st.sampled_from(PARSERS))
@example(content=b"epsilon: " + b"[" * 900, parser=PARSERS[0])
@example(content=b"epsilon: 1" + b"0" * 5000, parser=PARSERS[0])
@example(content=b"2001-99-99: 1", parser=PARSERS[0])
@example(content=b"epsilon: !!int", parser=PARSERS[0])
@example(content=b"!!timestamp 2001: 1", parser=PARSERS[0])
def test_option_files(tmp_path_factory, capfd, content, parser):
    path = tmp_path_factory.getbasetemp() / "options.yaml"
    path.write_bytes(content)
    parse(parser, [f"--config={path}"], capfd)


@fuzz
@given(parser=st.sampled_from(PARSERS), arguments=st.lists(ARGUMENTS, max_size=4))
@example(parser=PARSERS[0], arguments=["-"])
@example(parser=PARSERS[1], arguments=["--eta=1\n2", "--eta=1\n2", "", ""])
def test_command_lines(capfd, parser, arguments):
    parse(parser, arguments, capfd)
