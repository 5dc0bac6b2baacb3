"""The command line that all jobs share: flags, option files, exit codes and one-line errors."""

from __future__ import annotations

import argparse
import collections
import contextlib
import difflib
import functools
import io
import logging
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from dp_transforms import __version__
from dp_transforms.errors import InputError
from pipelines import SUCCESS, USAGE_ERROR, failed, printing
from pipelines.job_context import JobContext
from pipelines.option_files import read_settings

if TYPE_CHECKING:
    from apache_beam.options.pipeline_options import PipelineOptions

    from dp_transforms.mechanisms.decimals import ExactNumber

DEFAULT_RUNNER = "FnApiRunner"
_NEAR = 0.8
_FEWEST_USERS = 1000
_SCREEN = 24
_FIRST_FLAGS = (
    "input frequency_list user_column partition_column source_column target_column group_by users "
    "attributes combination reference epsilon epsilon_all epsilon_groups delta "
    "max_partitions_per_user for_epsilon noisy_counts period ledger output report"
).split()
"""The flags that the first screen of a long help explains, if a command has them."""
_MODULE = re.compile(r"^python -m [\w.]+")
_BEAMS_OWN = ("labels",)
"""Beam's options whose names are close to flags of a job, but are not misspelt."""
LOCAL_RUNNERS = (DEFAULT_RUNNER, "DirectRunner", "PrismRunner")


class OneLineParser(argparse.ArgumentParser):
    """A parser that reports errors as one line on stderr, with exit code 2.

    By default it keeps the line breaks of descriptions and epilogs. It does not accept a prefix of
    a flag. Flags may be written with dashes in place of underscores, and then errors write them so.
    A parser with --help has --version too. If the help is longer than a screen, --help prints a
    short form that fits, and --help-all prints everything.
    """

    has_dashes = False
    typed: str | None = None
    """The command as the user typed it, for the help; None if it is ``prog``."""

    def __init__(self, **options: Any):
        options.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        lines = (options.get("description") or "").splitlines()
        options["description"] = "\n".join(textwrap.fill(line, 90) for line in lines)
        # No prefixes: unknown flags of a job are Beam's, and one may be a prefix of a job's flag.
        super().__init__(**options, allow_abbrev=False)
        if self.add_help:
            self.add_argument(
                "--version",
                action="version",
                version=f"dp-frequency-lists {__version__}",
                help="print the version and exit",
            )
            self.add_argument("--help-all", action=_HelpAll, nargs=0, help=argparse.SUPPRESS)

    def format_help(self) -> str:
        """Returns the help if it fits a screen, or else its short form: usage, the most important
        flags in a line each, and an example."""
        whole = self.format_whole_help()
        if len(whole.splitlines()) <= _SCREEN:
            return whole
        usage = self.format_usage().split(" [")[0].strip()
        operands = [str(action.metavar) for action in self._actions if not action.option_strings]
        about = ["", *(self.description or "").splitlines()] if self.description else []
        head = [" ".join([usage, *operands]), *about, ""]
        pattern = re.compile(r"^examples?:\n(  \S.*(?:\n   .*)*)", re.MULTILINE)
        first_example = pattern.search(self.epilog or "")
        example = ["", "example:", *first_example[1].splitlines()] if first_example else []
        end = [*example, "", "--help-all explains every flag."]
        flags = {action.dest: action for action in self._actions if action.option_strings}
        first = [name for name in flags if flags[name].required]
        first += [name for name in _FIRST_FLAGS if name in flags and name not in first]
        lines = [_in_one_line(flags[name]) for name in first]
        screen = [*head, *lines[: _SCREEN - len(head) - len(end)], *end, ""]
        return "\n".join(screen).replace(self.prog, self._as_typed)

    def format_whole_help(self) -> str:
        """Returns the help with all flags."""
        return super().format_help().replace(self.prog, self._as_typed)

    @property
    def _as_typed(self) -> str:
        """The program's name as the user typed it, with the words of a subcommand."""
        if self.typed is None:
            return self.prog
        _, *subcommand = _MODULE.split(self.prog, maxsplit=1)
        return self.typed + "".join(subcommand)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        arguments = list(map(self._underscored, sys.argv[1:] if args is None else args))
        self._refuse_misspelt(arguments)
        self._refuse_repeated(arguments)
        return super().parse_known_args(arguments, namespace)

    def _refuse_misspelt(self, arguments: Sequence[str]) -> None:
        """Ends with an error if an unknown flag is close to one of the parser's own. Otherwise it
        would be taken for Beam's, and the error would be about a missing flag."""
        own = [option[2:] for option in self._option_string_actions if option.startswith("--")]
        for argument in arguments:
            name = argument.partition("=")[0]
            if not name.startswith("--") or name[2:] in (*own, *_BEAMS_OWN):
                continue
            near = difflib.get_close_matches(name[2:], own, 1, _NEAR)
            if near:
                self.error(f"there is no flag {name}: did you mean --{near[0]}?")

    def _refuse_repeated(self, arguments: Sequence[str]) -> None:
        """Ends with an error if a flag that takes one value is given several times. All values but
        the last would be dropped, even of a flag such as --ledger."""
        times = collections.Counter(map(self._name, arguments))
        for flag, action in self._option_string_actions.items():
            if times[flag] > 1 and isinstance(action, argparse._StoreAction):
                self.error(f"{flag} is given {times[flag]} times, and takes one value")

    def _underscored(self, argument: str) -> str:
        """Returns ``--user_column=x`` for ``--user-column=x`` if there is such a flag, and any
        other argument as it is."""
        flag, equals, value = argument.partition("=")
        known = "--" + flag[2:].replace("-", "_")
        if not flag.startswith("--") or known not in self._option_string_actions:
            return argument
        self.has_dashes |= flag != known
        return known + equals + value

    def _name(self, argument: str) -> str:
        return self._underscored(argument).partition("=")[0]

    def as_typed(self, message: str) -> str:
        """Returns a message in which flags are written as the user typed them."""
        if not self.has_dashes:
            return message
        known = self._option_string_actions
        return re.sub(
            r"--\w+",
            lambda flag: flag[0].replace("_", "-") if flag[0] in known else flag[0],
            message,
        )

    def error(self, message: str) -> NoReturn:
        self.exit(failed(self.as_typed(message), USAGE_ERROR))

    def _print_message(self, message: str, file: Any = None) -> None:
        try:
            with printing():
                print(message, end="", file=file)
        except InputError as error:
            self.exit(failed(str(error)))


class _HelpAll(argparse.Action):
    def __call__(self, parser: Any, *_: Any) -> None:
        parser._print_message(parser.format_whole_help(), sys.stdout)
        parser.exit()


def _in_one_line(flag: argparse.Action) -> str:
    """Returns a flag and the beginning of its help, as one line."""
    value: Any = ""
    if flag.nargs != 0:
        value = flag.metavar or flag.dest.upper()
    beginning = re.split(r"[;:(]| or, |, and ", flag.help or "")[0].strip()
    explanation = textwrap.shorten(beginning, 64, placeholder=" ...")
    return f"  {f'--{flag.dest} {value}':<33} {explanation}".rstrip()


class JobParser(OneLineParser):
    """A parser for a job. Flags that it does not know are options of Beam or of its runner."""

    def __init__(self, module: str, description: str, epilog: str):
        self.command = module.rpartition(".")[2]
        super().__init__(
            prog=f"python -m {module}",
            usage="%(prog)s --input=GLOB --output=DIR ... [options of Beam or of its runner]",
            description=description,
            epilog=epilog,
        )

    def add_common_flags(self) -> None:
        """Adds the flags that every job has. They are last in the help, so this is called last."""
        group = self.add_argument_group("running the job")
        group.add_argument(
            "--config",
            metavar="FILE.yaml",
            action="append",
            help="read flags from a YAML file, one 'flag: value' on each line; the command line "
            "wins. Files of runner_configs are found by name, such as flink/session.yaml",
        )
        group.add_argument(
            "--dry_run",
            action="store_true",
            help="check flags, columns, ledger and output, print what the job would spend, and end",
        )
        group.add_argument(
            "--progress",
            action="store_true",
            help="show stages, rates and, if the size is known, the time left on stderr",
        )
        group.add_argument(
            "--log_level",
            choices=("error", "warning", "info", "debug"),
            help="show Beam's log on stderr from this level on: it may quote PRIVATE records",
        )
        group.add_argument(
            "--show_private_counters",
            action="store_true",
            help="print exact counts on stderr: PRIVATE, and not part of the release",
        )
        group.add_argument(
            "--show_private_errors",
            action="store_true",
            help="print the full text of an unforeseen error: it may hold PRIVATE records",
        )

    def parse_job(self, argv: Sequence[str] | None = None) -> JobContext:
        """Returns the parsed command line. Beam is loaded if there are options of Beam, or when its
        options are asked for."""
        arguments = list(sys.argv[1:] if argv is None else argv)
        config_flag = OneLineParser(add_help=False)
        config_flag.add_argument("--config", action="append", default=[])
        for path in reversed(config_flag.parse_known_args(arguments)[0].config):
            # A flag on the command line replaces that of a file: otherwise a flag that may be given
            # several times would have the values of both.
            given = set(map(self._name, arguments)) & self._option_string_actions.keys()
            from_file = self._from_config(path)
            arguments[:0] = [text for text in from_file if self._name(text) not in given]
        if "--" in arguments:
            # Flags after "--" would be dropped, even a --ledger.
            self.error("there is no place for '--': give flags as --name=value")
        # With a value, --dry_run is Beam's own option for Dataflow.
        of_beam = [text for text in arguments if text.startswith("--dry_run=")]
        flags, others = self.parse_known_args([text for text in arguments if text not in of_beam])
        others += of_beam
        options = functools.cache(functools.partial(self._beam_options, flags, others))
        if others:
            options()
        return JobContext(self.command, flags, options, on_beam=bool(others))

    def _from_config(self, path: str) -> Iterator[str]:
        """Yields the flags of an option file, as they would be written on the command line."""
        try:
            settings = read_settings(path)
        except ValueError as error:
            self.error(f"--config={path} {error}")
        for name, value in settings.items():
            if name == "config":
                self.error(f"--config={path} names another option file: give each with --config")
            yield from self._flags_of(path, name, value if isinstance(value, list) else [value])

    def _flags_of(self, path: str, name: str, values: list[Any]) -> Iterator[str]:
        """Yields the flag of a name in an option file with each of its values. A flag without a
        value has True there."""
        if not values or any(item is None or isinstance(item, dict | list) for item in values):
            # A flag without a value is not left out silently: a ledger would not be charged.
            self.error(
                f"--config={path}: {name} must be a value or a list of values; leave out the line "
                "if there is none"
            )
        flag = self._option_string_actions.get(self._name(f"--{name}"))
        for item in values:
            if isinstance(item, bool) and flag is not None and flag.nargs != 0:
                self.error(f"--config={path}: {name} takes a text: put its value in quotes")
            if item is True:
                yield f"--{name}"
            elif item is not False:
                yield f"--{name}={item}"

    def _beam_options(self, flags: argparse.Namespace, others: list[str]) -> PipelineOptions:
        """Returns Beam's options, given the arguments that are no flags of the job. Ends with an
        error if Beam does not know one, or if one is unsafe."""
        from apache_beam.options.pipeline_options import (
            DirectOptions,
            PipelineOptions,
            SetupOptions,
            StandardOptions,
            WorkerOptions,
        )

        from dp_transforms.beam.pipeline_secret import refuse_reruns

        # On a bad value, Beam prints its whole usage. Only the last line names the fault.
        printed = io.StringIO()
        try:
            with contextlib.redirect_stderr(printed), quiet_beam():
                options = PipelineOptions(others)
                known = options.get_all_options().keys()
                unknown = options.get_all_options(retain_unknown_options=True).keys() - known
        except SystemExit:
            self.error(printed.getvalue().strip().rpartition("error: ")[2])
        except (ValueError, AssertionError):
            # Beam raises these for an argument such as "-", or one with a line break.
            self.error(f"Beam cannot read one of {others}: give flags as --name=value")
        standard = options.view_as(StandardOptions)
        standard.runner = standard.runner or DEFAULT_RUNNER
        self._refuse_strays(others, sorted(unknown), known, standard.runner)
        if standard.runner in LOCAL_RUNNERS and options.get_all_options()["dry_run"]:
            self.error("--dry_run takes no value: with one it is Beam's option for Dataflow")
        try:
            refuse_reruns(options)
        except ValueError as error:
            self.error(str(error))
        if options.view_as(DirectOptions).direct_running_mode == "multi_threading":
            self.error(
                "--direct_running_mode=multi_threading is refused because it corrupts data: use "
                "multi_processing"
            )
        setup = options.view_as(SetupOptions)
        # Beam's default depends on the runner. All code is in the package, so no main session has
        # to be saved.
        setup.save_main_session = bool(setup.save_main_session)
        worker = options.view_as(WorkerOptions)
        if flags.log_level:
            worker.default_sdk_harness_log_level = flags.log_level.upper()
        elif not flags.show_private_errors and not worker.default_sdk_harness_log_level:
            # Workers log the tracebacks of errors, and these may quote records.
            worker.default_sdk_harness_log_level = "CRITICAL"
        return options

    def _refuse_strays(
        self, others: list[str], unknown: list[str], known: Iterable[str], runner: str
    ) -> None:
        """Ends with an error if one of the arguments ``others`` is neither an option of Beam nor
        the value of one."""
        for name in unknown:
            near = difflib.get_close_matches(name, known, 1, _NEAR)
            flags = self._option_string_actions
            longer = [flag for flag in flags if flag.startswith(f"--{name}_")]
            # A cluster's runner may have options that this machine's Beam does not know.
            if near or runner in LOCAL_RUNNERS:
                meant = [f"--{option}" for option in near] or longer
                hint = f"did you mean {' or '.join(meant)}?" if meant else "see --help"
                self.error(f"there is no flag --{name}: {hint}")
        for before, other in zip(["", *others], others, strict=False):
            if not other.startswith("-") and ("=" in before or not before.startswith("--")):
                self.error(f"there is no place for {other!r}: give flags as --name=value")


def add_json_flag(
    parser: argparse._ActionsContainer, what: str = "print the same as one JSON object"
) -> None:
    """Adds the flag --json, for commands whose output programs may read."""
    parser.add_argument("--json", action="store_true", help=what)


def draw(plot: Callable[[str], None], path: str) -> str:
    """Draws a picture into a file and returns its path. Raises an InputError if that fails."""
    try:
        plot(path)
    except (ImportError, OSError, ValueError) as error:
        raise InputError(f"{path} cannot be drawn: {error}") from None
    return path


def warn(message: str) -> None:
    """Prints one line on stderr about flags that are valid, but probably a mistake."""
    print(f"warning: {message}", file=sys.stderr)


def warn_of_delta(delta: ExactNumber) -> None:
    """Warns of a delta that is likely to expose single users."""
    if delta * _FEWEST_USERS >= 1:
        warn(
            f"--delta={delta} allows the release to show what a single user has, with about "
            "this probability: it should be far below one divided by the number of users"
        )


def require(flags: argparse.Namespace, *names: str) -> None:
    """Raises a ValueError unless all these flags were given. The parser itself does not require
    them, so that it reports a misspelt flag first."""
    for name in names:
        if getattr(flags, name) is None:
            raise ValueError(f"--{name} is needed; --help explains it")


def refuse(flags: argparse.Namespace, why: str, *names: str) -> None:
    """Raises a ValueError if a flag was given; the message is its name and then ``why``."""
    for name in names:
        value = getattr(flags, name)
        # The number 0 equals False, and is a value that was given.
        is_absent = value is None or value is False or value == []
        if not is_absent:
            raise ValueError(f"--{name} {why}")


def command(
    make_parser: Callable[[], OneLineParser],
) -> Callable[[Callable[[argparse.Namespace], int | None]], Callable[..., int]]:
    """Returns a decorator that makes the ``main`` of a command from a function of its flags. It is
    for commands other than jobs. Errors are one line on stderr, with the exit codes of ``run``."""

    def decorate(act: Callable[[argparse.Namespace], int | None]) -> Callable[..., int]:
        def run_command(argv: Sequence[str] | None = None) -> int:
            parser = make_parser()
            flags = parser.parse_args(argv)
            code = SUCCESS
            try:
                with printing():
                    code = act(flags) or SUCCESS
            except InputError as error:
                return failed(str(error))
            except ValueError as error:
                return failed(parser.as_typed(str(error)), USAGE_ERROR)
            return code

        return run_command

    return decorate


@contextlib.contextmanager
def quiet_beam() -> Iterator[None]:
    """Suppresses Beam's log within the block, since its errors may quote records."""
    log, root = logging.getLogger("apache_beam"), logging.getLogger()
    level, nothing = log.level, lambda record: False
    log.setLevel(logging.CRITICAL + 1)
    # Messages of a job service are logged by the root logger. The filter does not apply to other
    # loggers.
    root.addFilter(nothing)
    try:
        yield
    finally:
        log.setLevel(level)
        root.removeFilter(nothing)
