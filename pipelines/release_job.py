"""The steps that all release jobs share, from checked flags to a published release."""

from __future__ import annotations

import argparse
import functools
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from dp_transforms.budget import Origin, Request
from dp_transforms.budget.entry import BudgetEntry
from dp_transforms.errors import DoneError, InputError, before_any_record
from dp_transforms.files.filenames import period_names
from dp_transforms.files.output import ReleaseDirectory
from dp_transforms.files.paths import join
from dp_transforms.files.several_releases import SeveralReleases
from dp_transforms.releases import ListSpec, ReleaseSpec
from dp_transforms.releases.base import time_entry
from dp_transforms.releases.periods import PeriodNamesSpec, PeriodSpec, write_all_periods
from dp_transforms.releases.writing import Writer, write_periods
from dp_transforms.runtime.job_secret import JobSecret
from pipelines import job_flags, printing
from pipelines.command_line import DEFAULT_RUNNER, JobParser, require
from pipelines.job_context import Job, JobContext, Written
from pipelines.job_flags import records
from pipelines.running import run
from pipelines.spending import check_job, first_records, origin_of, price, spending

if TYPE_CHECKING:
    import apache_beam as beam

    from dp_transforms.engines.base import Collections, Engine
    from dp_transforms.files.record_files import RecordSource

# Here and in the jobs, functions import Beam, Arrow and the engines themselves. These imports take
# a second, and neither help, nor an error in flags, nor a release of counts needs them.


@dataclass(frozen=True)
class PreparedRelease:
    """A release that is ready to be made: all checks that need no data have passed.

    Attributes:
      requests: the budgets to spend.
      directories: the directories to write to.
      make: makes the release by an engine, and returns the released collections.
      write: writes the release, given the budget's entry and the elements of these collections. It
        is called once; on Beam it may be called again, in another process.
      source: the records; None if there are none.
      check: checks other files than records, before anything is spent.
      may_fail: whether the list or the noise may prevent the release, see ``PartitionMechanism``.
      of_counts: makes the release of counts that exist already, without an engine.
      combine: writes one file about all directories, and returns its path. Its argument ``keep`` is
        whether to keep such a file if there is one.
      done: prints a summary; by default ``say_done`` does.
    """

    requests: Sequence[Request]
    directories: Sequence[ReleaseDirectory]
    make: Callable[[Engine], Collections]
    write: Callable[..., None]
    source: RecordSource | None = None
    check: Callable[[], object] | None = None
    may_fail: bool = False
    of_counts: Callable[[], Collections] | None = None
    combine: Callable[..., str] | None = None
    done: Callable[[], None] | None = None


def writer(
    flags: argparse.Namespace,
    spec: ReleaseSpec,
    source: RecordSource | None,
    path: str | None = None,
    several: SeveralReleases | None = None,
    bounded_by_job: bool = True,
) -> Writer:
    """Returns the writer of a specification's release into a directory.

    Args:
      flags: the job's flags.
      spec: what is released.
      source: the records; None if there are none.
      path: the directory; by default that of the flags.
      several: the directory that holds it, if the job makes several releases.
      bounded_by_job: see ``ReleaseSpec.statement``.
    """
    columns, opened = None, None
    if source is not None:
        columns, opened = source.partition_fields, source.opened
    formats = tuple(dict.fromkeys(flags.output_format))
    directory = ReleaseDirectory(
        path or flags.output,
        spec.tables.file_name,
        flags.overwrite,
        formats,
        spec.integer_columns,
        several,
    )
    statement = spec.statement(columns, bounded_by_job) | time_entry(opened)
    return Writer(directory, statement, spec.tables)


def release_of(
    flags: argparse.Namespace,
    spec: ReleaseSpec,
    source: RecordSource | None,
    bounded_by_job: bool = True,
    **more: Any,
) -> PreparedRelease:
    """Returns the release of a specification, ready to be made.

    Args:
      flags: the job's flags.
      spec: what is released.
      source: the records; None if there are none.
      bounded_by_job: see ``ReleaseSpec.statement``.
      **more: further attributes of ``PreparedRelease``.

    Raises:
      InputError: no record can be in one of the public groups.
    """
    if source is not None:
        source.check_groups(spec.public_groups)
    write = writer(flags, spec, source, bounded_by_job=bounded_by_job)
    may_fail = isinstance(spec, ListSpec) and spec.mechanism.may_fail
    return PreparedRelease(
        spec.requests, [write.directory], spec.release, write, source, may_fail=may_fail, **more
    )


def period_release(
    flags: argparse.Namespace,
    kind: Callable[..., PeriodSpec],
    **options: Any,
) -> PreparedRelease:
    """Returns the release of all periods, ready to be made: each period gets a directory of its
    name, and one file has all of them.

    Args:
      flags: the flags of a job with periods.
      kind: the class of the specification.
      **options: arguments of the specification other than the flags that all such jobs have.
    """
    require(flags, "time_column", "periods", "epsilon")
    if kind is not PeriodNamesSpec or flags.max_partitions_per_user is not None:
        require(flags, "max_periods_per_user")
    spec = kind(
        periods=period_names(flags.period, flags.periods),
        epsilon=flags.epsilon,
        max_periods_per_user=flags.max_periods_per_user,
        max_partitions_per_user=flags.max_partitions_per_user,
        kind=flags.period,
        span=flags.periods,
        **options,
    )
    source = records(flags, [flags.time_column])
    source.name_periods(flags.period, flags.periods)
    write = writer(flags, spec, source)
    parent = write.directory.path
    several = SeveralReleases(parent, tuple(spec.periods))
    directories = [
        replace(write.directory, path=join(parent, name), several=several) for name in spec.periods
    ]
    writers = {
        period: replace(write, directory=directory, period=period)
        for period, directory in zip(spec.periods, directories, strict=True)
    }
    combine = functools.partial(write_all_periods, flags.output, spec.periods, spec.combined_file)
    write_all = functools.partial(write_periods, writers)
    return PreparedRelease(
        spec.requests, directories, spec.release, write_all, source, combine=combine
    )


def release_command(
    make_parser: Callable[[], JobParser],
    check: Callable[[argparse.Namespace], None] = job_flags.check_positions,
) -> Callable[[Callable[[argparse.Namespace], PreparedRelease | Job]], Callable[..., int]]:
    """Returns a decorator that makes the ``main`` of a job.

    It decorates a function that makes all checks which need no data, and returns a release to make
    or a job to do (see ``run``). ``check`` is called before that function. So an error that it
    raises leaves no row in a ledger, even if the function has to read first records.
    """

    def decorate(
        prepare: Callable[[argparse.Namespace], PreparedRelease | Job],
    ) -> Callable[..., int]:
        def prepared(context: JobContext) -> Job:
            flags = context.flags
            check(flags)
            doing = job_flags.reads_first_records(flags)
            with first_records(flags.ledger if doing else None, doing):
                made = prepare(flags)
            if isinstance(made, PreparedRelease):
                return release_job(context, made)
            return printing()(made)

        return lambda argv=None: run(prepared, make_parser(), argv)

    return decorate


def release_job(context: JobContext, release: PreparedRelease) -> Job:
    """Returns the job that charges the budget, makes the release and reports it.

    The following errors are raised before anything is read or spent.

    Raises:
      ValueError: a report cannot be drawn; or see ``worker_pool.make_runner``.
      InputError: a directory cannot be written, or has a release already; or see
        ``worker_pool.make_runner``.
    """
    flags = context.flags
    if flags.report:
        from dp_transforms.reports import page

        page.check_available()
    origin = origin_of(flags, context.command)
    skipped = _skipped_if_done(flags, release, origin)
    if skipped is not None:
        return skipped
    for directory in release.directories:
        directory.check()
    if flags.dry_run:
        return _dry_run(flags, release)
    if release.check is not None:
        release.check()
    on_beam = None
    if release.source is not None and context.on_beam:
        on_beam = _on_beam(context)
        if on_beam.never_runs:
            price(flags.ledger, release.requests)
    return functools.partial(_pay_and_make, context, release, origin, on_beam)


def _skipped_if_done(
    flags: argparse.Namespace, release: PreparedRelease, origin: Origin
) -> Job | None:
    """Returns the job that says that the release is there already, or None if it is not. Without
    --if_exists=skip it raises a DoneError in place of the former; see ``_check_not_done`` for
    further errors."""
    skips = flags.if_exists == "skip"
    try:
        _check_not_done(flags, release, origin)
    except DoneError:
        if release.combine is not None and not flags.dry_run and (skips or origin.job_id):
            # An earlier run may have been killed before it combined its directories.
            release.combine(keep=not origin.job_id)
        if not skips:
            raise
        skipped = "the release is there already: nothing was spent"
        return printing()(functools.partial(_say, flags, {"skipped": skipped}))
    return None


def _dry_run(flags: argparse.Namespace, release: PreparedRelease) -> Job:
    """Returns the job that says what a release would read and cost."""
    lines = release.source.described() if release.source is not None else []
    lines += price(flags.ledger, release.requests)
    lines.append("dry run: no record was read, and nothing spent or written")
    return printing()(functools.partial(_say, flags, {"dry_run": lines}))


def _pay_and_make(
    context: JobContext, release: PreparedRelease, origin: Origin, on_beam: _OnBeam | None
) -> None:
    """Charges the budget, makes and writes the release, and says what was written."""
    flags = context.flags
    never_runs = on_beam is not None and on_beam.never_runs
    charged = spending(
        None if never_runs else flags.ledger,
        release.requests,
        origin,
        context.progress,
    )
    with charged as budget_entry:
        if release.may_fail:
            # Whether a list can be drawn depends on the data and on the noise, so a failure is paid
            # for. It is noted now: on a full disk it could not be noted later, and the attempt
            # would be free.
            budget_entry.begin()
        _make(context, release, budget_entry, on_beam)
        context.progress.written = Written.YES
    combined = None if release.combine is None else release.combine()
    with printing():
        if release.done is not None:
            release.done()
        else:
            say_done(flags, release.directories, combined)


def _check_not_done(flags: argparse.Namespace, release: PreparedRelease, origin: Origin) -> None:
    """Raises a DoneError if the release is there already. Errors about an earlier run of the job
    are those of ``check_job``."""
    statements = [directory.statement() for directory in release.directories]
    if origin.job_id:
        check_job(flags.ledger, release.requests, origin, statements)
    if None not in statements and not flags.overwrite:
        raise DoneError(
            f"{release.directories[0].file(release.directories[0].file_name)} exists: give "
            "another --output, --overwrite to replace it, or --if_exists=skip"
        )


@dataclass(frozen=True)
class _OnBeam:
    """How a release runs on Beam.

    Attributes:
      pipeline: the pipeline, without steps.
      workers_reach_ledger: whether workers can note in the ledger when they begin to write.
      never_runs: whether the runner only writes the job's description.
    """

    pipeline: beam.Pipeline
    workers_reach_ledger: bool
    never_runs: bool


def _on_beam(context: JobContext) -> _OnBeam:
    """Returns a pipeline with the runner that the options name; see ``make_runner`` for errors."""
    import apache_beam as beam

    from pipelines.worker_pool import make_runner

    flags, options = context.flags, context.options
    given = options().get_all_options()
    # With these options workers are on this machine, and so reach the ledger.
    is_here = given["runner"] == DEFAULT_RUNNER or given["environment_type"] == "LOOPBACK"
    with before_any_record(but=ValueError):
        pipeline = beam.Pipeline(make_runner(flags, options()), options=options())
    # With Dataflow's option --dry_run=..., Beam only writes the job's description.
    is_dataflow = type(pipeline.runner).__name__ == "DataflowRunner"
    never_runs = is_dataflow and bool(options().get_all_options()["dry_run"])
    return _OnBeam(pipeline, is_here or flags.workers_reach_ledger, never_runs)


def _make(
    context: JobContext,
    release: PreparedRelease,
    budget_entry: BudgetEntry,
    on_beam: _OnBeam | None,
) -> None:
    """Makes a release and writes it: of counts that exist already, in process, or on Beam."""

    def write(*collections: Any) -> None:
        context.progress.written = Written.PERHAPS
        release.write(budget_entry, *collections)

    if release.of_counts is not None:
        write(*release.of_counts())
    elif on_beam is None:
        _run_here(context.flags, release, write)
    else:
        for_workers, before_it_runs = budget_entry, lambda: None
        if not on_beam.workers_reach_ledger:
            # Such workers cannot note when they write. They may as soon as the engine runs.
            before_it_runs = budget_entry.begin
            for_workers = budget_entry.for_workers_without_ledger()
        context.progress.written = Written.PERHAPS
        # Workers get this function by pickling, which ``write`` does not allow.
        write_by_workers = functools.partial(release.write, for_workers)
        _run_on_beam(context.flags, release, write_by_workers, on_beam.pipeline, before_it_runs)


def _run_here(
    flags: argparse.Namespace, release: PreparedRelease, write: Callable[..., None]
) -> None:
    """Makes a release from records in this process, and writes it."""
    from dp_transforms.engines.in_process import InProcess, enough_memory
    from dp_transforms.engines.local_shuffle import SpillError
    from dp_transforms.engines.progress import Watch
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
    release: PreparedRelease,
    write: Callable[..., None],
    pipeline: beam.Pipeline,
    before_it_runs: Callable[[], None],
) -> None:
    """Adds the steps of a release from records to a pipeline, with one that writes it, and runs
    the pipeline."""
    from dp_transforms.beam.engine import OnBeam

    assert release.source is not None
    engine = OnBeam(
        pipeline,
        release.source,
        JobSecret.from_os(),
        flags.num_buckets,
        flags.progress,
        flags.show_private_counters,
    )
    engine.run(write, release.make(engine), before_it_runs)


def say_done(
    flags: argparse.Namespace,
    directories: Sequence[ReleaseDirectory],
    combined: str | None = None,
) -> None:
    """Prints the paths of all files of a release, and of the ``combined`` file if there is one. If
    a report is wanted, it is drawn in the first directory, and its path is printed too."""
    files = [directory.file(name) for directory in directories for name in directory.files]
    if flags.report:
        from pipelines.report import write_report

        files.append(write_report(directories[0].path))
    if combined:
        files.append(combined)
    statements = [directory.statement() for directory in directories] if flags.json else []
    _say(flags, {"files": files}, privacy=statements)


def _say(flags: argparse.Namespace, values: dict[str, Any], **more: Any) -> None:
    """Prints the only entry of ``values``, a text or several lines. With --json, it prints
    ``values`` and ``more`` as one object."""
    if flags.json:
        print(json.dumps(values | more, indent=2, ensure_ascii=False))
        return
    (value,) = values.values()
    lines = [value] if isinstance(value, str) else value
    print(*lines, sep="\n")
