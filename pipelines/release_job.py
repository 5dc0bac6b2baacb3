"""Shared by all release jobs: flags, and the way from checked flags to a published release."""

from __future__ import annotations

import argparse
import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dp_transforms import specs
from dp_transforms.budget import PrivacyBudget, Request
from dp_transforms.errors import DoneError, InputError
from dp_transforms.files import filenames, release_files
from dp_transforms.files.output import ReleaseDirectory
from dp_transforms.files.paths import filesystem
from dp_transforms.reports.privacy_statement import statement_of
from dp_transforms.runtime.job_secret import JobSecret
from pipelines.command_line import DEFAULT_RUNNER, Job, Options
from pipelines.spending import check_job, origin_of, price, spending

if TYPE_CHECKING:
    import pyarrow as pa
    from apache_beam.options.pipeline_options import PipelineOptions

    from dp_transforms.files.record_files import RecordSource

# Here and in the jobs Beam, Arrow and the engines are imported where they are used: a second that
# help, a misspelt flag and a list of counts do not take.

_TABLES: dict[type, tuple[str, Callable[..., release_files.Tables]]] = {
    specs.ListSpec: (filenames.FREQUENCIES_FILE, release_files.list_tables),
    specs.PeriodListsSpec: (filenames.FREQUENCIES_FILE, release_files.list_tables),
    specs.DegreesSpec: (filenames.FREQUENCIES_FILE, release_files.list_tables),
    specs.GroupsSpec: (filenames.LISTS_FILE, release_files.grouped_tables),
    specs.UserDegreesSpec: (filenames.DEGREES_FILE, release_files.degree_tables),
}
"""The file of a release of lists, and the function that makes its content of the elements."""


@dataclass(frozen=True)
class Release:
    """A release about to be made, after all checks that need no data.

    Attributes:
      requests: what is spent.
      directories: receive the release.
      make: calls a verb of an engine, ``InProcess`` or ``OnBeam``, and returns the collections that
        are released.
      write: is called once, with the budget's part of each privacy.json and the elements of these
        collections. On Beam it may be called again, in another process.
      source: the records; None if there are none.
      whole: for a ledger of this job alone, if there is to be one.
      done: says what was written; ``say_done`` by default.
    """

    requests: Sequence[Request]
    directories: Sequence[ReleaseDirectory]
    make: Callable[[Any], Sequence[Any]]
    write: Callable[..., None]
    source: RecordSource | None = None
    whole: PrivacyBudget | None = None
    done: Callable[[], None] | None = None


def write_lists(
    directory: ReleaseDirectory,
    statement: dict[str, Any],
    tables: Callable[[list[Any]], release_files.Tables],
    budget: dict[str, Any],
    lists: Iterable[Any],
) -> None:
    """Writes released lists and their statement.

    Args:
      directory: where to.
      statement: the privacy.json, without the budget.
      tables: makes the content of the files of all lists, see ``release_files.list_tables``.
      budget: the budget's part of the privacy.json.
      lists: the lists.
    """
    directory.publish(tables(list(lists)), statement | budget)


def write_names(
    directory: ReleaseDirectory,
    statement: dict[str, Any],
    header: bytes,
    budget: dict[str, Any],
    names: Iterable[pa.Table],
    others: Iterable[int] = (),
) -> None:
    """Writes selected names, sorted: their order must not tell how the data were laid out.

    Args:
      directory, statement, budget: see ``write_lists``.
      header: the first line.
      names: tables of names.
      others: the number of users of partitions that are not named, if it is released.
    """
    from dp_transforms.files.partition_file import in_order, partition_lines

    lines = itertools.chain.from_iterable(map(partition_lines, names))
    content = [header, *in_order(lines, statement["noisy_counts"])]
    statement = statement | budget
    for users in others:
        statement["users_of_other_partitions"] = users
    directory.publish({directory.file_name: content}, statement)


def write_both(
    write_list: Callable[..., None],
    write_names: Callable[..., None],
    budget: dict[str, Any],
    lists: Iterable[Any],
    names: Iterable[pa.Table],
) -> None:
    """Writes a list and names, by functions that lack only the budget and what is released."""
    write_list(budget, lists)
    write_names(budget, names)


def write_periods(
    writers: Mapping[str, Callable[..., None]], budget: dict[str, Any], found: Iterable[Any]
) -> None:
    """Writes the release of each period, by a function for each that lacks only the budget and what
    is released. ``found`` has pairs of a period and its list, or tables of names with the period in
    the column ``list``."""
    found = list(found)
    for name, write in writers.items():
        write(budget | {"period": name}, list(_of_period(found, name)))


def _of_period(found: list[Any], period: str) -> Iterator[Any]:
    import pyarrow.compute as pc

    for one in found:
        if not isinstance(one, tuple):
            yield one.filter(pc.equal(one["list"], period))
        elif one[0] == period:
            yield one[1]


def writer(
    flags: argparse.Namespace,
    spec: specs.Spec,
    fields: Sequence[pa.Field] | None,
    statement: dict[str, Any],
    path: str | None = None,
) -> tuple[ReleaseDirectory, Callable[..., None]]:
    """The directory of a release, and what writes it there, given the budget and what came out.

    Args:
      flags, spec: as parsed, and what they specify.
      fields: the columns of partitions; None if there are no records.
      statement: see ``statement_of``.
      path: of the directory; by default the flags name it.
    """
    receives = functools.partial(
        ReleaseDirectory,
        path or flags.output,
        overwrite=flags.overwrite,
        formats=tuple(dict.fromkeys(flags.output_format)),
    )
    if isinstance(spec, (specs.NamesSpec, specs.PeriodNamesSpec)):
        from dp_transforms.files.partition_file import header_line

        noisy = flags.noisy_counts
        directory = receives(filenames.PARTITIONS_FILE, numbers=len(filenames.COUNTS) * noisy)
        header = header_line(fields or (), noisy)
        return directory, functools.partial(write_names, directory, statement, header)
    file_name, tables = _TABLES[type(spec)]
    beside = (filenames.COORDINATES_FILE,) if release_files.is_decoded(statement) else ()
    directory = receives(file_name, beside=beside)
    return directory, functools.partial(write_lists, directory, statement, tables)


def release_of(
    flags: argparse.Namespace,
    spec: specs.Spec,
    source: RecordSource | None,
    make: Callable[[Any], Sequence[Any]] | None = None,
    bounded_by_job: bool = True,
    **more: Any,
) -> Release:
    """The release that the flags specify, of these records.

    Args:
      flags, spec, source: as parsed, what they specify, and the records.
      make, **more: of ``Release``; by default the verb of the specification makes it.
      bounded_by_job: see ``statement_of``.
    """
    fields = None if source is None else source.partition_fields
    statement = statement_of(spec, fields, bounded_by_job)
    directory, write = writer(flags, spec, fields, statement)
    make = make or functools.partial(_made, spec)
    return Release(spec.requests, [directory], make, write, source, **more)


def period_release(
    flags: argparse.Namespace,
    spec: specs.PeriodListsSpec | specs.PeriodNamesSpec,
    source: RecordSource,
) -> Release:
    """The release of each period in a directory of its name, and of all periods in one file."""
    fields = source.partition_fields
    statement = statement_of(spec, fields)
    join = filesystem(flags.output).join
    found = [writer(flags, spec, fields, statement, join(flags.output, n)) for n in spec.periods]
    directories, writers = zip(*found, strict=True)
    by_name = dict(zip(spec.periods, writers, strict=True))

    def done() -> None:
        say_done(flags, directories)
        print(release_files.write_all_periods(flags.output, spec.periods, directories[0].file_name))

    write = functools.partial(write_periods, by_name)
    make = functools.partial(_made, spec)
    return Release(spec.requests, directories, make, write, source, done=done)


def _made(spec: specs.Spec, engine: Any) -> Sequence[Any]:
    made = getattr(engine, spec.verb)(spec)
    return made if isinstance(made, tuple) else [made]


def release_job(flags: argparse.Namespace, options: Options, release: Release) -> Job:
    """The job that charges the budget, makes the release and says what was written. If that cannot
    be written, there is an error before anything is read or spent.

    Raises:
      ValueError: a report cannot be drawn, or see ``worker_pool.make_runner``.
      InputError: a directory cannot be written, or see ``worker_pool.make_runner``.
    """
    if flags.report:
        from dp_transforms.reports import page

        page.check_available()
    origin = origin_of(flags)
    try:
        statements = [directory.statement() for directory in release.directories]
        if origin.job_id:
            check_job(flags.ledger, release.requests, origin, statements)
        if None not in statements and not flags.overwrite:
            raise DoneError(
                f"{release.directories[0].file(release.directories[0].file_name)} exists: give "
                "another --output, --overwrite to replace it, or --if_exists=skip"
            )
    except DoneError:
        if flags.if_exists == "skip":
            return lambda: print("the release is there already: nothing was done")
        raise
    for directory in release.directories:
        directory.check()
    if flags.dry_run:
        lines = price(flags.ledger, release.requests)
        return lambda: print(
            *lines, "dry run: no record was read, and nothing spent or written", sep="\n"
        )
    on_beam = release.source is not None and flags.on_beam
    runner = None
    if on_beam:
        from pipelines.worker_pool import make_runner

        runner = make_runner(flags, options())
    # Other runners may go on after this process, or where the ledger is not.
    announces = not on_beam or options().get_all_options()["runner"] == DEFAULT_RUNNER

    def make(budget: dict[str, Any]) -> None:
        write = functools.partial(release.write, budget)
        if release.source is None:
            write(*release.make(None))
        elif on_beam:
            _run_on_beam(flags, runner, options(), release, write)
        else:
            _run_here(flags, release, write)

    def job() -> None:
        with spending(flags.ledger, release.whole, release.requests, origin, announces) as budget:
            make(budget)
        (release.done or functools.partial(say_done, flags, release.directories))()

    return job


def _run_here(flags: argparse.Namespace, release: Release, write: Callable[..., None]) -> None:
    from dp_transforms.runtime.in_process import InProcess, enough_memory
    from dp_transforms.runtime.local import SpillError
    from pipelines.progress import Watch
    from pipelines.worker import keep_freed_memory

    assert release.source is not None
    keep_freed_memory()
    watch = Watch(flags.progress, flags.show_private_counters)
    engine = InProcess(release.source, JobSecret.from_os(), flags.num_buckets, watch)
    try:
        with enough_memory():
            write(*release.make(engine))
    except (MemoryError, SpillError) as error:
        raise InputError(str(error)) from None
    watch.end()


def _run_on_beam(
    flags: argparse.Namespace,
    runner: Any,
    options: PipelineOptions,
    release: Release,
    write: Callable[..., None],
) -> None:
    import apache_beam as beam

    from pipelines import on_beam

    assert release.source is not None
    pipeline = beam.Pipeline(runner, options=options)
    engine = on_beam.OnBeam(
        pipeline,
        release.source,
        JobSecret.from_os(),
        flags.num_buckets,
        flags.progress,
        flags.show_private_counters,
    )
    engine.finish(write, release.make(engine))
    on_beam.run_to_end(pipeline, flags.show_private_counters)


def say_done(flags: argparse.Namespace, directories: Sequence[ReleaseDirectory]) -> None:
    """Prints what was written, after drawing the report of the first directory if it is wanted."""
    for directory in directories:
        for name in directory.files:
            print(directory.file(name))
    if flags.report:
        from pipelines.report import write_report

        print(write_report(directories[0].path))
