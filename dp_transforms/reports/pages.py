"""The page, and the picture, of each kind of release."""

from __future__ import annotations

from typing import Any

from dp_transforms.reports.lists import comparison_figure, comparison_page, list_page
from dp_transforms.reports.names import names_page
from dp_transforms.reports.phrases import NO_WORDS, Words
from dp_transforms.reports.series import series_figure, series_page

_PAGES: dict[str, Any] = {
    "list": list_page,
    "names": names_page,
    "series": series_page,
    "comparison": comparison_page,
}


def page_of(release: Any, words: Words = NO_WORDS) -> tuple[str, dict[str, bytes]]:
    """The whole page of what ``load`` or ``compare`` gives, pictures included, and these by the
    names of their files.

    Raises:
      InputError: there are no error bars for such a release.
      ImportError: matplotlib is not installed.
    """
    found: tuple[str, dict[str, bytes]] = _PAGES[release.page_kind](release, words)
    return found


def figure_of(release: Any) -> Any:
    """The figure of several lists, or of two that are compared."""
    compared = release.page_kind == "comparison"
    return comparison_figure(release) if compared else series_figure(release)
