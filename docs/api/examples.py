"""Shows the examples in docstrings as code: they stand there without a heading of their own."""

import re
from typing import Any

import griffe


class Examples(griffe.Extension):
    """Fences every paragraph that begins with ``>>>``."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring:
            obj.docstring.value = re.sub(
                r"^>>> (?:.+\n?)+",
                r"```pycon\n\g<0>\n```\n",
                obj.docstring.value,
                flags=re.MULTILINE,
            )
