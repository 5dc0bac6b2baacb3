"""Makes the page of released numbers of users by how many partitions they have."""

from __future__ import annotations

from fractions import Fraction
from html import escape
from typing import TYPE_CHECKING

from dp_transforms.files.filenames import RANKS_FILE
from dp_transforms.mechanisms.discrete_noise import DiscreteLaplace
from dp_transforms.mechanisms.selection.threshold_distribution import CONFIDENCE
from dp_transforms.postprocessing.estimates import Estimate
from dp_transforms.reports import page
from dp_transforms.reports.phrases import Words, wording

if TYPE_CHECKING:
    from dp_transforms.releases.user_degrees import DegreesOfUsers


def user_degrees_page(release: DegreesOfUsers, words: Words) -> page.Page:
    """Makes the page of how many partitions users have. Noisy numbers may be negative, and are
    drawn as 0."""
    nouns = wording(release.statement, words).nouns
    degrees, most = release.degrees, int(release.statement["max_degree"])
    ends = [*(lowest - 1 for lowest in degrees.lowest[1:]), most]
    spans = [
        f"{low:,}" if low == high else f"{low:,} to {high:,}"
        for low, high in zip(degrees.lowest, ends, strict=True)
    ]
    spans[-1] = f"{degrees.lowest[-1]:,} or more"
    noise = DiscreteLaplace(1 / Fraction(release.statement["epsilon_exact"]))
    reach = noise.reach((1 - CONFIDENCE) / 2)
    estimates = [Estimate(users, users - reach, users + reach) for users in degrees.users]
    drawn = [
        (span, Estimate(max(0, noisy.value), max(0, noisy.low), max(0, noisy.high)))
        for span, noisy in zip(spans, estimates, strict=True)
    ]
    things = nouns.things.capitalize()
    picture = page.png(page.interval_bars(f"{things} of {nouns.users}", nouns.users, drawn))
    intro = (
        f"How many {nouns.things} {nouns.users} have, with noise. The interval below each number "
        f"holds the number before noise with {float(CONFIDENCE):.0%} confidence. Each interval "
        "holds by itself. Noisy numbers may be below 0, and are drawn as 0."
    )
    rows = [(span, page.count_text(noisy)) for span, noisy in zip(spans, estimates, strict=True)]
    content = f"<p>{escape(intro)}</p>\n{page.figure(picture, 'Numbers and intervals.')}"
    content += page.table([(things, nouns.users.capitalize()), *rows], numbers=1)
    title = f"Differentially private numbers of {nouns.things} of {nouns.users}{words.of_data}"
    return page.document(title, words, content, {"": release}), {RANKS_FILE: picture}
