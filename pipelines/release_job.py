"""Shares the way of all release jobs from checked flags to a published release."""

from __future__ import annotations

import argparse
import functools
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from dp_transforms.budget import PrivacyBudget, Request
from dp_transforms.errors import DoneError, InputError, before_any_record
from dp_transforms.files.filenames import period_names
from dp_transforms.files.output import ReleaseDirectory
from dp_transforms.files.paths import join
from dp_transforms.releases import ListSpec, PeriodListsSpec, PeriodNamesSpec, ReleaseSpec
from dp_transforms.releases.base import time_entry
from dp_transforms.releases.periods import write_all_periods
from dp_transforms.releases.writing import Writer, write_periods
from dp_transforms.runtime.job_secret import JobSecret
from pipelines import job_flags, printing
from pipelines.command_line import DEFAULT_RUNNER, JobParser, require
from pipelines.job_context import Job, JobContext, Written
from pipelines.job_flags import PERIOD_FLAGS, records
from pipelines.running import run
from pipelines.spending import check_job, first_records, origin_of, price, spending

if TYPE_CHECKING:
    import apache_beam as beam

    from dp_transforms.engines.base import Collections, Engine
    from dp_transforms.files.record_files import RecordSource

# Here and in the jobs, functions import Beam, Arrow and the engines themselves: help, a misspelt
# flag and a list of counts do not wait a second for them.


@dataclass(frozen=True)
class PreparedRelease:
    """A release is ready to be made, after all checks that need no data.

    Attributes:
      requests: the budgets to spend.
      directories: receive the release.
      make: makes the release by an engine, and returns the released collections.
      write: is called once, with the budget's entry and the elements of these collections. On
        Beam it may be called again, in another process.
      source: the records; None if there are none.
      whole: for a ledger of this job alone, if there is to be one.
      check: looks for other files than records, before anything is spent.
      may_fail: whether the list or the noise may prevent the release, see ``PartitionMechanism``.
      of_counts: makes the release of counts that exist already, without an engine.
      combine: makes a file of all directories, or may ``keep`` one; returns its path.
      done: prints a summary; ``say_done`` by default.
    """

    requests: Sequence[Request]
    directories: Sequence[ReleaseDirectory]
    make: Callable[[Engine], Collections]
    write: Callable[..., None]
    source: RecordSource | None = None
    whole: PrivacyBudget | None = None
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
    bounded_by_job: bool = True,
) -> Writer:
    """Returns the writer of a specification's release into a directory, by default that of the
    flags. ``ReleaseSpec.statement`` explains ``bounded_by_job``."""
    columns = None if source is None else source.partition_fields
    formats = tuple(dict.fromkeys(flags.output_format))
    directory = ReleaseDirectory(
        path or flags.output,
        spec.tables.file_name,
        flags.overwrite,
        formats,
        spec.integer_columns,
    )
    statement = spec.statement(columns, bounded_by_job) | time_entry()
    return Writer(directory, statement, spec.tables)


def release_of(
    flags: argparse.Namespace,
    spec: ReleaseSpec,
    source: RecordSource | None,
    bounded_by_job: bool = True,
    **more: Any,
) -> PreparedRelease:
    """Returns the release of these records that the flags specify. ``more`` are attributes
    of ``PreparedRelease``. A public group that no record can have is an InputError."""
    if source is not None:
        source.check_groups(spec.public_groups)
    write = writer(flags, spec, source, bounded_by_job=bounded_by_job)
    may_fail = isinstance(spec, ListSpec) and spec.mechanism.may_fail
    return PreparedRelease(
        spec.requests, [write.directory], spec.release, write, source, may_fail=may_fail, **more
    )


def period_release(
    flags: argparse.Namespace,
    kind: type[PeriodListsSpec] | type[PeriodNamesSpec],
    **options: Any,
) -> PreparedRelease:
    """Returns the release of each period in a directory of its name, and of all in one file.
    ``options`` are those of its specification beside the flags of both jobs with periods."""
    require(flags, *PERIOD_FLAGS, "epsilon")
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
    directories = [replace(write.directory, path=join(flags.output, n)) for n in spec.periods]
    writers = {
        period: replace(write, directory=directory, period=period)
        for period, directory in zip(spec.periods, directories, strict=True)
    }
    combine = functools.partial(
        write_all_periods, flags.output, spec.periods, write.directory.file_name
    )
    write_all = functools.partial(write_periods, writers)
    return PreparedRelease(
        spec.requests, directories, spec.release, write_all, source, combine=combine
    )


def release_command(
    make_parser: Callable[[], JobParser],
    check: Callable[[argparse.Namespace], None] = job_flags.check_positions,
) -> Callable[[Callable[[argparse.Namespace], PreparedRelease | Job]], Callable[..., int]]:
    """Makes the ``main`` of a job from a function that does all checks without data, and returns a
    release to make, or a job to do: see ``run``. What ``check`` refuses leaves no row in a ledger,
    even if records must be read for other checks."""

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
    """Returns the job that charges the budget, makes the release and reports it. Before anything is
    read or spent, a report that cannot be drawn is a ValueError, and a directory that cannot be
    written an InputError; see also ``worker_pool.make_runner``."""
    flags, options = context.flags, context.options
    if flags.report:
        from dp_transforms.reports import page

        page.check_available()
    origin = origin_of(flags, context.command)
    skips = flags.if_exists == "skip"
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
        if release.combine is not None and not flags.dry_run and (skips or origin.job_id):
            release.combine(keep=not origin.job_id)  # a run that was killed may not have come to it
        if skips:
            skipped = "the release is there already: nothing was spent"
            return printing()(functools.partial(_say, flags, {"skipped": skipped}))
        raise
    for directory in release.directories:
        directory.check()
    if flags.dry_run:
        lines = release.source.described() if release.source is not None else []
        lines += price(flags.ledger, release.requests)
        lines.append("dry run: no record was read, and nothing spent or written")
        return printing()(functools.partial(_say, flags, {"dry_run": lines}))
    if release.check is not None:
        release.check()
    pipeline, workers_reach_ledger = None, True
    if release.source is not None and context.on_beam:
        import apache_beam as beam

        from pipelines.worker_pool import make_runner

        given = options().get_all_options()
        # These workers are on this machine.
        is_here = given["runner"] == DEFAULT_RUNNER or given["environment_type"] == "LOOPBACK"
        workers_reach_ledger = is_here or flags.workers_reach_ledger
        with before_any_record(but=ValueError):
            pipeline = beam.Pipeline(make_runner(flags, options()), options=options())

    # Dataflow writes the job's description, and runs nothing.
    never_runs = (
        pipeline is not None
        and type(pipeline.runner).__name__ == "DataflowRunner"
        and options().get_all_options()["dry_run"]
    )
    if never_runs:
        price(flags.ledger, release.requests)

    def job() -> None:
        charged = spending(
            None if never_runs else flags.ledger,
            release.whole,
            release.requests,
            origin,
            context.progress,
        )
        with charged as budget_entry:
            if release.may_fail:
                # Whether a list is drawn depends on it and on the noise. On a full disk, where no
                # later note could say that this failed, the attempt would be free.
                budget_entry.begin()
            for_workers, before_it_runs = budget_entry, lambda: None
            if not workers_reach_ledger:
                # From when the engine runs it, it may write.
                before_it_runs = budget_entry.begin
                for_workers = budget_entry.for_workers_without_ledger()
            write = functools.partial(release.write, for_workers)

            def begin(*collections: Any) -> None:
                context.progress.written = Written.PERHAPS
                write(*collections)

            if release.of_counts is not None:
                begin(*release.of_counts())
            elif pipeline is None:
                _run_here(flags, release, begin)
            else:
                context.progress.written = Written.PERHAPS
                _run_on_beam(flags, release, write, pipeline, before_it_runs)
            context.progress.written = Written.YES
        combined = release.combine and release.combine()
        with printing():
            if release.done is not None:
                release.done()
            else:
                say_done(flags, release.directories, combined)

    return job


def _run_here(
    flags: argparse.Namespace, release: PreparedRelease, write: Callable[..., None]
) -> None:
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
    from dp_transforms.beam.engine import OnBeam

    assert release.source is not None
    shows = flags.progress, flags.show_private_counters
    engine = OnBeam(pipeline, release.source, JobSecret.from_os(), flags.num_buckets, *shows)
    engine.run(write, release.make(engine), before_it_runs)


def say_done(
    flags: argparse.Namespace,
    directories: Sequence[ReleaseDirectory],
    combined: str | None = None,
) -> None:
    """Prints the paths of all files, of the report of the first directory, which is drawn if it is
    wanted, and of the ``combined`` file of all directories."""
    files = [directory.file(name) for directory in directories for name in directory.files]
    if flags.report:
        from pipelines.report import write_report

        files.append(write_report(directories[0].path))
    if combined:
        files.append(combined)
    statements = [directory.statement() for directory in directories] if flags.json else []
    _say(flags, {"files": files}, privacy=statements)


def _say(flags: argparse.Namespace, values: dict[str, Any], **more: Any) -> None:
    """Prints the only value, a text or several lines, or with --json all values as an object."""
    if flags.json:
        print(json.dumps(values | more, indent=2, ensure_ascii=False))
        return
    (value,) = values.values()
    print(*([value] if isinstance(value, str) else value), sep="\n")
