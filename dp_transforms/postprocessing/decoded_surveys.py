"""Decodes released degrees, once for all who need to know what they tell."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from dp_transforms.mechanisms.user_degrees import ReleasedDegrees

if TYPE_CHECKING:
    from dp_transforms.postprocessing.degree_survey import DegreeSurvey


@functools.lru_cache(maxsize=128)
def decoded_survey(degrees: ReleasedDegrees, largest_degree: int | None = None) -> DegreeSurvey:
    """Returns what a released survey tells about users' degrees. Decoding takes a tenth of a
    second. Results are cached, since the choice of kappa, the estimate and its intervals all begin
    with decoding. Releases by period decode all surveys before the first estimate."""
    # This loads scipy, which is slow: a misspelt flag should be refused before that.
    from dp_transforms.postprocessing.degree_survey import DegreeSurvey

    return DegreeSurvey.of(degrees, largest_degree)
