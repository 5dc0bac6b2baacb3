"""The transforms in a pipeline of your own: what may be said about the pages of a site.

python -m examples.compose_transforms
"""

import apache_beam as beam

from dp_transforms import (
    BoundContributions,
    CountDistinctUsers,
    ReleaseFrequencyList,
    SelectPartitions,
)

VISITS = [{"visitor": v, "page": f"/{v % p}"} for v in range(1, 5_000) for p in (2, 3, 700)]
KAPPA = 2


def release(visits: list[dict], output: str) -> None:
    """Writes how often pages are visited, and which may be named: epsilon 1, delta 1e-6 in all."""
    with beam.Pipeline() as pipeline:
        rows = pipeline | beam.Create(visits)
        records = rows | beam.Map(lambda row: (row["visitor"], row["page"]))
        bounded = records | BoundContributions(KAPPA)
        frequencies = (
            bounded
            | CountDistinctUsers()
            | ReleaseFrequencyList(epsilon=0.5)
            | beam.FlatMap(lambda released: [f"{n},{times}" for n, times in released])
        )
        pages = bounded | SelectPartitions(0.5, 1e-6)
        _ = frequencies | "Frequencies" >> beam.io.WriteToText(f"{output}/frequencies", ".csv")
        _ = pages | "Pages" >> beam.io.WriteToText(f"{output}/pages", ".txt")


if __name__ == "__main__":
    release(VISITS, "out/composed")
