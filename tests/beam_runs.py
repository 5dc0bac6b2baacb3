"""Running a small pipeline and getting its output's elements."""

import collections
import os
import uuid

import apache_beam as beam
import pyarrow as pa
from hypothesis import settings

few_pipelines = settings(max_examples=int(os.environ.get("PIPELINE_EXAMPLES", "4")))
"""For properties of which every example is a pipeline; ``make test-long`` tries more of them."""

_collected = collections.defaultdict(list)


def run(elements, *transforms, runner=None, element_type=None):
    """The elements that come out of the transforms, one after the other. What goes in are elements,
    declared as ``element_type``, or what a function of the pipeline gives. The runner runs in this
    process; by default, it is that of this process's tests."""
    key = uuid.uuid4().hex
    with beam.Pipeline(runner=runner) as pipeline:
        pcoll = elements(pipeline) if callable(elements) else pipeline | beam.Create(elements)
        if element_type is not None:
            pcoll |= "Declare" >> beam.Map(same).with_output_types(element_type)
        for i, transform in enumerate(transforms):
            pcoll |= f"{i}" >> transform
        _ = pcoll | "Collect" >> beam.Map(_collect, key)
    return _collected.pop(key, [])


def with_and_without(planted, other_records, releases):
    """In one pipeline, the outputs of releases from the other records, with the planted ones and
    without: a list for each (place among the releases, whether the planted ones are there). A
    release is a function that makes the transform of a pipeline from its records."""

    def outputs(pipeline):
        named = []
        for place, release in enumerate(releases):
            for name, records in (
                ((place, False), other_records),
                ((place, True), other_records + planted),
            ):
                label = beam.Map(lambda output, *name: (name, output), *name)
                named.append(pipeline | f"{name}" >> release(records) | f"Name {name}" >> label)
        return named | beam.Flatten()

    by_name = collections.defaultdict(list)
    for name, output in run(outputs):
        by_name[name].append(output)
    return by_name


def same(element):
    return element


def _collect(element, key):
    # Pickled by its name, so that this process's list is the one that grows.
    _collected[key].append(element)


def table_of(records, names=("user", "partition")):
    """Records as a table."""
    return pa.table([list(part) for part in zip(*records, strict=True)], names=names)


def of_kind(kind, records, names=("user", "partition")):
    """Records as tuples, rows or two tables."""
    if kind == "rows":
        return [beam.Row(**dict(zip(names, record, strict=True))) for record in records]
    if kind == "tables" and records:
        table = table_of(records, names)
        halves = (pa.array(range(start, len(records), 2), pa.int64()) for start in (0, 1))
        return [table.take(half) for half in halves]
    return records


def steps_of(step):
    """A step that was applied, and all its parts."""
    return [step, *(inner for part in step.parts for inner in steps_of(part))]


def rows_of(elements):
    """The rows of tables, or other records, as tuples."""
    rows = []
    for element in elements:
        if hasattr(element, "to_pylist"):
            rows += [tuple(row.values()) for row in element.to_pylist()]
        else:
            rows.append(tuple(element))
    return rows
