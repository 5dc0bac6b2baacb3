import argparse
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
    for flag in ("--help", "--help-all"):
        with pytest.raises(SystemExit) as stopped:
            main([name, flag])
        assert stopped.value.code == 0
        texts.append(capsys.readouterr().out)
    first, whole = texts
    assert len(first.splitlines()) <= 24 and max(map(len, first.splitlines())) <= 100
    assert first == whole or "--help-all explains every flag" in first
    assert f"usage: dp-frequency-lists {name}" in first and "None" not in whole
    module = importlib.import_module(f"pipelines.{COMMANDS[name][0]}")
    actions = module.make_parser()._actions
    told = [action for action in actions if action.help != argparse.SUPPRESS]
    assert all(flag in whole for action in told for flag in action.option_strings)
    with pytest.raises(SystemExit) as stopped:
        main([name, "--version"])
    assert stopped.value.code == 0
    assert capsys.readouterr().out == f"dp-frequency-lists {__version__}\n"
    # Every command is also a module to run.
    assert 'if __name__ == "__main__":' in inspect.getsource(module)


def test_a_command_runs_and_its_exit_code_is_passed_on(tmp_path, capsys):
    counts = tmp_path / "counts.csv"
    counts.write_text("frequency,multiplicity\n90,1\n4,20\n1,300\n")
    arguments = [f"--frequency_list={counts}", "--epsilon=1", f"--output={tmp_path}/release"]
    assert main(["release", *arguments]) == 0
    assert (tmp_path / "release" / "released_frequencies.csv").exists()
    # The release is there already, which is no fault in files or flags.
    assert main(["release", *arguments]) == 3
    assert main(["release", *arguments, "--if_exists=skip"]) == 0
    assert main(["release", "--epsilon=1"]) == 2
    assert "give either --input or --frequency_list" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["relaese"], "there is no command 'relaese': did you mean release?\n"),
        (["xyzzy"], "there is no command 'xyzzy': the commands are plan, release,"),
        (["release-groups", "--epsilon=1"], "--epsilon_all or --epsilon_groups"),
    ],
)
def test_faults_are_one_line_and_exit_code_2(arguments, message, failure):
    code, error = failure(main, arguments)
    assert code == 2 and message in error


@pytest.mark.parametrize("flags", [["--help"], ["-h"], ["help"], []])
def test_help_lists_the_commands(flags, capsys):
    assert main(flags) == 0
    text = capsys.readouterr().out
    assert all(f"\n  {name} " in text for name in COMMANDS)
    assert max(map(len, text.splitlines())) <= 100
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"dp-frequency-lists {__version__}\n"


def test_a_shell_completes_commands_and_flags(tmp_path, capsys, monkeypatch):
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

    assert completed("rel") == ["release", "release-groups", "release-all"]
    assert completed("release", "--max_part") == ["--max_partitions_per_user"]
    assert "--strategy" in completed("select", "--")
    for arguments in (["--completion"], ["--completion=cmd"], ["--completion", "zsh", "fish"]):
        assert main(arguments) == 2
        assert "--completion takes one of bash, zsh" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert main(["--completion=zsh"]) == 2
    assert "pip install 'dp-frequency-lists[completion]'" in capsys.readouterr().err


@pytest.mark.parametrize("module", [["pipelines", "release"], ["pipelines.release_frequency_list"]])
def test_an_interrupt_while_modules_are_imported_is_one_line(module, tmp_path):
    (tmp_path / "numpy.py").write_text("raise KeyboardInterrupt")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), os.getcwd()])}
    done = python("-m", *module, "--help", env=environment)
    assert done.stderr == "error: interrupted: no release was written\n"
    assert done.returncode == 130


def test_samples_replace_no_file_unless_told_to(tmp_path, capsys):
    path = tmp_path / "records.csv"
    path.write_text("mine")
    assert main(["sample", "--users=10", f"--output={path}"]) == 1
    assert "--overwrite" in capsys.readouterr().err and path.read_text() == "mine"
    assert main(["sample", "--users=10", f"--output={path}", "--overwrite"]) == 0
    assert len(path.read_text().splitlines()) == 11


def test_a_reader_that_has_seen_enough_is_no_fault():
    command = [sys.executable, "-m", "pipelines", "plan", "--users=10", "--epsilon=4"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    process.stdout.close()
    assert process.stderr.read() == ""
    assert process.wait() == 0


def printed_to(output, *arguments):
    """The exit code of a command whose standard output is a file, or closed, and its errors."""
    command = [sys.executable, "-m", "pipelines", *arguments]
    closed = (lambda: os.close(1)) if output is None else None
    with open(output or os.devnull, "w") as file:
        done = subprocess.run(
            command, stdout=file, stderr=subprocess.PIPE, text=True, check=False, preexec_fn=closed
        )
    return done.returncode, done.stderr


def test_standard_output_that_cannot_be_written(tmp_path):
    counts = tmp_path / "counts.csv"
    counts.write_text("frequency,multiplicity\n3,1\n")
    release = ["release", *job_flags(tmp_path, f"--frequency_list={counts}")]
    # A release that was made is not made, and paid for, once more.
    told = "the release was made, but standard output cannot be written: no space left on device"
    assert printed_to("/dev/full", *release, f"--output={tmp_path}/full") == (1, f"error: {told}\n")
    assert printed_to(None, *release, f"--output={tmp_path}/closed") == (0, "")
    for name in ("full", "closed"):
        assert (tmp_path / name / "released_frequencies.csv").exists()
    book = str(tmp_path / "book")
    Ledger.create(book, 1)
    plan, show = ["plan", "--users=10", "--epsilon=4"], ["ledger", "show", book]
    for command in (plan, show, ["--help"], ["--version"]):
        told = f"error: {command[0]} failed: no space left on device\n"
        assert printed_to("/dev/full", *command) == (1, told)


def test_standard_error_that_cannot_be_written(tmp_path):
    """What goes wrong is no success, no progress ends a job, and nothing private goes elsewhere."""
    (tmp_path / "records.csv").write_text("user,page\n1,a\n")
    shows = ["--progress", "--show_private_counters"]
    command = [sys.executable, "-m", "pipelines", "release", *job_flags(tmp_path, *shows)]
    for name, redirected in (("full", "2> /dev/full"), ("closed", "2>&-"), ("gone", "2> >(true)")):
        # A reader that is gone needs a moment to go.
        script = f'exec {redirected}; sleep 0.5; exec "$@" --output={tmp_path}/{name}'
        for expected in ((0, f"{tmp_path}/{name}/released_frequencies.csv\n"), (3, "")):
            done = subprocess.run(
                ["bash", "-c", script, "bash", *command],
                stdout=subprocess.PIPE,
                text=True,
                check=False,
            )
            assert (done.returncode, done.stdout) == expected


def test_an_interrupt_after_the_end_is_no_traceback():
    done = python(
        "-c",
        "import os, signal, sys; from dp_transforms.__main__ import main\n"
        "sys.argv = ['dp-frequency-lists', '--version']; main()\n"
        "os.kill(os.getpid(), signal.SIGINT)",
    )
    assert (done.returncode, done.stderr) == (-signal.SIGINT, "")


def test_threads_of_grpc_do_not_keep_the_command_from_ending():
    done = python(
        "-c",
        "import sys, threading, types; from dp_transforms.__main__ import main\n"
        "class Stream:\n"
        "    def __del__(self): threading.Event().wait()\n"
        "sys.modules['grpc'] = types.ModuleType('grpc')\n"
        "sys.modules['grpc'].stream = Stream()\n"
        "sys.argv = ['dp-frequency-lists', 'no-such-command']; sys.exit(main())",
    )
    assert (done.returncode, "no-such-command" in done.stderr) == (2, True)
