import argparse
import gzip
import importlib
import inspect
import os
import signal
import subprocess
import sys

import pytest

from dp_transforms import __version__
from dp_transforms.budget import Ledger
from pipelines.__main__ import COMMANDS, main
from tests.jobs import job_flags, python


@pytest.mark.parametrize("name", COMMANDS)
def test_help_fits_a_screen_and_the_whole_of_it_has_every_flag(name, capsys):
    texts = []
    for flag in ("--help", "--help-all", "--version"):
        with pytest.raises(SystemExit) as stopped:
            main([name, flag])
        assert stopped.value.code == 0
        texts.append(capsys.readouterr().out)
    first, whole, version = texts
    assert len(first.splitlines()) <= 24 and max(map(len, first.splitlines())) <= 100
    assert first == whole or "--help-all explains every flag" in first
    assert f"usage: dp-frequency-lists {name}" in first and "None" not in whole
    module = importlib.import_module(f"pipelines.{COMMANDS[name][0]}")
    actions = module.make_parser()._actions
    documented = [action for action in actions if action.help != argparse.SUPPRESS]
    assert all(flag in whole for action in documented for flag in action.option_strings)
    assert version == f"dp-frequency-lists {__version__}\n"
    # Every command is also a module to run.
    assert 'if __name__ == "__main__":' in inspect.getsource(module)


FILES = {
    "visits.csv": "user,page\nann,home\n",
    "words.csv": "a,b\n777,1\n",
    "empty.csv": "frequency,multiplicity\n",
    "list/released_frequencies.csv": "frequency,multiplicity\n3,1\n",
    "list/privacy.json": "{}",
    "deep/released_frequencies.csv": "frequency,multiplicity\n3,1\n",
    "deep/privacy.json": "[" * 100_000,
    "text/released_frequencies.csv": "partition\na\n",
    "text/privacy.json": '{"mechanism": "noise"}',
    "names/released_partitions.csv": "partition\nhome\n",
    "names/privacy.json": '{"noisy_counts": true}',
    "groups/released_lists.csv": "frequency,multiplicity\n",
    "groups/privacy.json": '{"mechanism": "noise", "lists": []}',
    "degrees/released_user_degrees.csv": "frequency,multiplicity\n1,2\n",
    "degrees/privacy.json": '{"epsilon": 0.1}',
    "nobody/released_user_degrees.csv": "partitions_from,users\n1,-2\n",
    "nobody/privacy.json": '{"epsilon": 0.1}',
}
AUDIT = "audit --input=visits.csv --partition_column=page --user=ann --epsilon=1 --mechanism"
LISTS = "audit --mechanism=frequency_list --epsilon=1 --frequency_list=a --neighbour=b"
COUNTS = "release --frequency_list=words.csv --epsilon=1 --max_partitions_per_user=1 --output=out"
KAPPA = "choose-kappa --for_epsilon=1 --released"


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        ("relaese", 2, "there is no command 'relaese': did you mean release?\n"),
        ("xyzzy", 2, "there is no command 'xyzzy': the commands are plan, release,"),
        ("release-groups --epsilon=1", 2, "--epsilon_all or --epsilon_groups"),
        ("release --epsilon=1", 2, "give either --input or --frequency_list"),
        (f"{AUDIT}=optimal", 2, "--delta is needed"),
        (f"{AUDIT}=frequency_list --delta=0.1", 2, "are for strategies"),
        (f"{AUDIT.replace('ann', 'zed')}=frequency_list", 1, "no records of the user"),
        (f"{AUDIT.replace('visits.csv', 'none')}=frequency_list", 1, "no file matches"),
        (f"{AUDIT}=frequency_list --neighbour=a", 2, "--neighbour is for"),
        (f"{AUDIT}=frequency_list --frequency_list=a", 2, "give either"),
        (f"{AUDIT}=magic", 2, "invalid choice"),
        (f"{AUDIT}=renyi_rounds --delta=0.1 --noisy_counts", 2, "noisy counts"),
        (f"{LISTS} --user=ann", 2, "--user is for --input"),
        (f"{LISTS} --user_column=who", 2, "--user_column is for --input"),
        (f"{COUNTS} --drop_nulls", 2, "--drop_nulls is for --input: --frequency_list holds counts"),
        (f"{COUNTS} --no_header", 2, "--no_header is for --input"),
        (f"{COUNTS} --input_format=csv", 2, "--input_format is for --input"),
        (f"{KAPPA}=degrees --drop_nulls", 2, "--drop_nulls is for --input"),
        (f"{KAPPA}=degrees --label=x", 2, "--label is for --input"),
        (f"{KAPPA}=degrees --max_degree=9", 2, "--max_degree is for --input"),
        ("plan --reference=words.csv --epsilon=1 --zipf_exponent=1", 2, "is for --users"),
        ("plan --users=10 --epsilon=1 --zipf_exponent=0", 2, "exponent must be between"),
        ("plan --users=10 --epsilon=1 --groups=2 --records=9", 2, "--records is for one list"),
        (f"{KAPPA}=none", 1, "cannot be read"),
        (f"{KAPPA}=degrees", 1, "degrees/released_user_degrees.csv is not as it"),
        (f"{KAPPA}=degrees --epsilon=1", 2, "--epsilon is for --input"),
        (f"{KAPPA}=nobody", 1, "no comparison: the released degrees show no user"),
        ("evaluate --original=none --released=none", 1, "cannot be read"),
        ("evaluate --original=words.csv --released=words.csv", 1, "is not a frequency list"),
        ("evaluate --original=empty.csv --released=empty.csv", 1, "is empty"),
        ("ledger create book --epsilon=1", 1, "exists: a ledger is never replaced"),
        ("ledger create book/x --epsilon=1", 1, "cannot be made: "),
        ("ledger create new --epsilon=0", 2, "--epsilon: must be a number above 0"),
        ("ledger create new --epsilon=1 --composition_delta=0.1", 2, "composition_delta"),
        ("ledger show none", 1, "cannot be read: no such file"),
        ("ledger show words.csv", 1, "is not a privacy ledger"),
        ("ledger abandon book 7 --nothing_came_out", 2, "7 of"),
        ("ledger abandon book 1", 2, "gives budget back on your word"),
        ("ledger drop book", 2, "invalid choice"),
        ("plan --users=10", 2, "required: --epsilon"),
        ("plan --usres=10 --epsilon=1", 2, "there is no flag --usres: did you mean --users?"),
        ("ledger create new --epslon=1", 2, "there is no flag --epslon: did you mean --epsilon?"),
        ("plan --epsilon=1", 2, "--users --reference is required"),
        ("plan --users=10 --epsilon=1,x", 2, "must be a number above 0"),
        ("plan --users=10 --epsilon=1 --zipf_exponent=9", 2, "error: exponent must be between"),
        ("plan --reference=none.csv --epsilon=1", 1, "none.csv cannot be read: no such file"),
        ("plan --users=10 --epsilon=1 --plot=none/plan.png", 1, "cannot be drawn"),
        ("report list list list", 2, "one directory, or two"),
        ("report none", 1, "cannot be read"),
        ("show none", 1, "none cannot be read as a release: there is no such directory"),
        ("report list --abuot=x", 2, "there is no flag --abuot: did you mean --about?"),
        ("show list", 1, "list/privacy.json is not as it was released"),
        ("report list", 1, "list/privacy.json is not as it was released"),
        ("report deep", 1, "deep/privacy.json is not as it was released"),
        ("report text", 1, "text/released_frequencies.csv is not as it was released"),
        ("report names", 1, "names does not hold a release: its privacy.json lacks entries"),
        ("report groups", 1, "groups/released_lists.csv is not as it was released"),
    ],
)
def test_faults_are_one_line(tmp_path, monkeypatch, failure, arguments, code, says):
    monkeypatch.chdir(tmp_path)
    for name, content in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    Ledger.create("book", 1)
    assert "777" not in failure(code, says, main, arguments.split())


@pytest.mark.parametrize("flags", [["--help"], ["-h"], ["help"], []])
def test_help_lists_the_commands(flags, capsys):
    assert main(flags) == 0
    text = capsys.readouterr().out
    assert all(f"\n  {name} " in text for name in COMMANDS)
    assert max(map(len, text.splitlines())) <= 100
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"dp-frequency-lists {__version__}\n"


def test_a_shell_completes_commands_and_flags(tmp_path, capsys, monkeypatch, failure):
    assert main(["--completion", "bash"]) == 0
    script = tmp_path / "completion.sh"
    script.write_text(capsys.readouterr().out)

    def completed(*words):
        """Returns the words that bash offers for the last of these."""
        line = " ".join(f"'{word}'" for word in words)
        ask = (
            f"source {script}; COMP_WORDS=(dp-frequency-lists {line}); COMP_CWORD={len(words)}; "
            "$(complete -p dp-frequency-lists | sed 's/.*-F \\([^ ]*\\).*/\\1/') "
            f"dp-frequency-lists '{words[-1]}'; "
            'printf "%s\\n" "${COMPREPLY[@]}"'
        )
        command = ["bash", "-c", ask]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()

    kinds = ["all", "attributes", "groups", "hierarchy"]
    assert sorted(completed("rel")) == ["release", *(f"release-{kind}" for kind in kinds)]
    assert completed("release", "--max_part") == ["--max_partitions_per_user"]
    assert "--strategy" in completed("select", "--")
    for arguments in (["--completion"], ["--completion=cmd"], ["--completion", "zsh", "fish"]):
        failure(2, "--completion takes one of bash, zsh", main, arguments)
    monkeypatch.setitem(sys.modules, "shtab", None)
    failure(2, "pip install 'dp-frequency-lists[completion]'", main, ["--completion=zsh"])


@pytest.mark.parametrize("module", [["pipelines", "release"], ["pipelines.release_frequency_list"]])
def test_an_interrupt_while_modules_are_imported_is_one_line(module, tmp_path):
    (tmp_path / "numpy.py").write_text("raise KeyboardInterrupt")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), os.getcwd()])}
    done = python("-m", *module, "--help", env=environment)
    assert done.stderr == "error: interrupted\n"
    assert done.returncode == 130


def test_samples_replace_no_file_unless_told_to(tmp_path, failure):
    path = tmp_path / "records.csv"
    path.write_text("mine")
    failure(1, "--overwrite", main, ["sample", "--users=10", f"--output={path}"])
    assert path.read_text() == "mine"
    assert main(["sample", "--users=10", f"--output={path}", "--overwrite"]) == 0
    assert len(path.read_text().splitlines()) == 11


def test_a_sample_is_compressed_as_its_name_says(tmp_path, capsys):
    plain, compressed = tmp_path / "records.csv", tmp_path / "records.csv.gz"
    for path in (plain, compressed):
        assert main(["sample", "--users=1", f"--output={path}"]) == 0
    assert gzip.decompress(compressed.read_bytes()) == plain.read_bytes()
    assert f"{plain}: 1 record, one of each synthetic user" in capsys.readouterr().out


@pytest.fixture
def release(tmp_path):
    """The command that releases a list of one partition to a directory, or to ``out``."""
    (tmp_path / "counts.csv").write_text("frequency,multiplicity\n3,1\n")
    counts = f"--frequency_list={tmp_path}/counts.csv"
    return lambda *output: ["release", *job_flags(tmp_path, counts, *output)]


@pytest.mark.parametrize("command", ["show", "report"])
def test_an_empty_path_is_not_left_out(tmp_path, failure, command, release):
    assert main(release()) == 0
    says = "--degrees is for a job that bounds users"
    failure(2, says, main, [command, f"{tmp_path}/out", "--degrees="])


@pytest.mark.thorough
def test_a_home_directory_in_paths(tmp_path, monkeypatch, failure):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    explain = "select --explain --epsilon=1 --delta=1e-5 --max_partitions_per_user=1"
    for name, command in {
        "a.csv": "sample --users=10 --output",
        "b.png": "plan --users=10 --epsilon=4 --plot",
        "c.png": f"{explain} --plot",
    }.items():
        assert main([*f"{command}=~/{name}".split()]) == 0
        assert (tmp_path / "home" / name).exists() and not (tmp_path / "~").exists()
    failure(1, "is there already", main, ["sample", "--users=10", "--output=~/a.csv"])


@pytest.mark.thorough
def test_standard_output_that_lacks_characters(tmp_path, release):
    for command in (release(f"--output={tmp_path}/ü"), ["show", f"{tmp_path}/ü"]):
        done = python("-m", "pipelines", *command, env=os.environ | {"PYTHONIOENCODING": "ascii"})
        assert (done.returncode, done.stderr) == (0, "")
        assert "\\xfc" in done.stdout or command[0] == "show"


def test_a_reader_that_has_seen_enough_is_no_fault():
    command = [sys.executable, "-m", "pipelines", "plan", "--users=10", "--epsilon=4"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    process.stdout.close()
    assert process.stderr.read() == ""
    assert process.wait() == 0


def printed_to(output, *arguments, module="pipelines", **more):
    """The exit code of a command whose standard output is a file, or closed, and its errors."""
    options = {"env": os.environ | more, "preexec_fn": None if output else lambda: os.close(1)}
    with open(output or os.devnull, "w") as file:
        done = python("-m", module, *arguments, stdout=file, **options)
    return done.returncode, done.stderr


@pytest.mark.thorough
def test_standard_output_that_cannot_be_written(tmp_path, release):
    # A release that was made is not made, and paid for, once more.
    reason = "the release was made, but standard output cannot be written: no space left on device"
    error = f"error: {reason}\n"
    for name, place, expected in (("full", "/dev/full", (1, error)), ("closed", None, (0, ""))):
        assert printed_to(place, *release(f"--output={tmp_path}/{name}")) == expected
        assert (tmp_path / name / "released_frequencies.csv").exists()
    book = str(tmp_path / "book")
    Ledger.create(book, 1)
    plan, show = ["plan", "--users=10", "--epsilon=4"], ["ledger", "show", book]
    message = "error: standard output cannot be written: no space left on device\n"
    for command in (plan, show, ["--help"], ["--version"], ["plan", "--help"]):
        assert printed_to("/dev/full", *command) == (1, message)


@pytest.mark.slow
@pytest.mark.parametrize("environment", [{}, {"PYTHONUNBUFFERED": "1"}], ids=["", "unbuffered"])
def test_standard_output_of_each_job_that_cannot_be_written(tmp_path, release, environment):
    refused = "error: standard output cannot be written: no space left on device\n"
    explain = ["--explain", "--epsilon=1", "--delta=1e-5", "--max_partitions_per_user=1"]
    # Where nothing is buffered, argparse itself drops what it cannot print.
    expected = [(1, refused), (0, "")] if environment else [(1, refused)]
    for module, *command in (
        ("plan", "--users=10", "--epsilon=4"),
        ("plan", "--version"),
        ("release_all", "--help-all"),
        ("release_frequency_list", *release("--dry_run", f"--output={tmp_path}/none")[1:]),
        ("select_partitions", *explain),
        ("worker_pool", "--port=0"),
    ):
        printed = printed_to("/dev/full", *command, module=f"pipelines.{module}", **environment)
        assert printed in expected


@pytest.mark.thorough
def test_standard_error_that_cannot_be_written(tmp_path):
    """What goes wrong is no success, no progress ends a job, and nothing private goes elsewhere."""
    (tmp_path / "records.csv").write_text("user,page\n1,a\n")
    shows = ["--progress", "--show_private_counters"]
    command = [sys.executable, "-m", "pipelines", "release"]
    flags = [flag for flag in job_flags(tmp_path, *shows) if not flag.startswith("--output=")]
    for name, redirected in (("full", "2> /dev/full"), ("closed", "2>&-"), ("gone", "2> >(true)")):
        # A reader that is gone needs a moment to go.
        script = f'exec {redirected}; sleep 0.5; exec "$@" --output={tmp_path}/{name}'
        file = f"{tmp_path}/{name}/released_frequencies.csv\n"
        for arguments, expected in ((flags, (0, file)), (["nowhere"], (2, ""))):
            shell = ["bash", "-c", script, "bash", *command, *arguments]
            done = subprocess.run(shell, stdout=subprocess.PIPE, text=True, check=False)
            assert (done.returncode, done.stdout) == expected


BEGIN = "import os, signal, sys, threading, types; from dp_transforms.__main__ import leave, main\n"
INTERRUPTED = "sys.argv[1:] = ['--version']; main(); os.kill(os.getpid(), signal.SIGINT)"
THREADS = """class Stream:
    def __del__(self): threading.Event().wait()
sys.modules['grpc'] = types.ModuleType('grpc')
sys.modules['grpc'].stream = Stream()
sys.argv[1:] = ['no-such-command']; sys.exit(main())"""


@pytest.mark.parametrize(
    ("end", "code", "says"),
    [
        (INTERRUPTED, -signal.SIGINT, ""),
        ("sys.stdout = None; leave(3)", 3, ""),
        (THREADS, 2, "no-such-command"),
    ],
    ids=["an interrupt after the end", "no standard output", "threads of gRPC"],
)
def test_a_process_ends_with_its_exit_code_and_no_traceback(end, code, says):
    done = python("-c", BEGIN + end)
    assert (done.returncode, done.stderr.count("\n")) == (code, bool(says)) and says in done.stderr
