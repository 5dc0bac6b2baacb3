"""Shows the notebooks of docs/ as pages of the site, with what is stored in them."""

import base64
import json
import pathlib
import re
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Adds a Markdown page and its pictures to each notebook, which stays there to be loaded."""
    for notebook in [file for file in files if file.src_uri.endswith(".ipynb")]:
        path = pathlib.Path(notebook.src_uri)
        page, pictures = as_markdown(json.loads(notebook.content_string), path.stem)
        files.append(File.generated(config, str(path.with_suffix(".md")), content=page))
        for name, picture in pictures.items():
            files.append(File.generated(config, str(path.with_name(name)), content=picture))
    return files


def as_markdown(notebook: dict[str, Any], stem: str) -> tuple[str, dict[str, bytes]]:
    """The text of a notebook's page, and its pictures by name, which begins with ``stem``."""
    parts: list[str] = []
    pictures: dict[str, bytes] = {}
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        outputs = cell.get("outputs", [])
        printed = "".join("".join(output.get("text", "")) for output in outputs).rstrip()
        if printed:
            parts.append(f"```text\n{printed}\n```")
        for data in (output["data"] for output in outputs if "data" in output):
            if "image/png" in data:
                name = f"{stem}-{len(pictures) + 1}.png"
                pictures[name] = base64.b64decode(data["image/png"])
                parts.append(f"![output of the code above]({name}){{ width=560 }}")
            else:
                # A table of pandas without its own style is one like all others of the site.
                html = re.sub(r"<style.*?</style>", "", "".join(data["text/html"]), flags=re.DOTALL)
                parts.append(html.replace(' border="1" class="dataframe"', ""))
    return "\n\n".join(parts) + "\n", pictures
