"""What the documentation site needs beside MkDocs: pages of the examples, examples of docstrings.

A script in `examples/` is written in cells: `# %% [markdown]` opens one of text, whose lines are
comments, and `# %%` one of code. Its page shows them in that order.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import griffe
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parent


def example_page(script: str) -> str:
    """A script in cells as Markdown. Its links are relative to the script."""
    page = []
    for kind, cell in re.findall(r"^# %%(.*)\n((?:(?!# %%).*\n?)*)", script, re.MULTILINE):
        if "[markdown]" in kind:
            page.append(re.sub(r"^# ?", "", cell, flags=re.MULTILINE).strip())
        else:
            page.append(f"```python\n{cell.strip()}\n```")
    return "\n\n".join(page).replace("](../docs/", "](../") + "\n"


def on_files(files: Files, config: Any) -> Files:
    """Adds a page for each example."""
    for script in sorted((ROOT / "examples").glob("*.py")):
        page = example_page(script.read_text())
        files.append(File.generated(config, f"examples/{script.stem}.md", content=page))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """A link to an example leads to its page."""
    return re.sub(r"\]\(\.\./examples/(\w+)\.py\)", r"](examples/\1.md)", markdown)


class ExampleSections(griffe.Extension):
    """Reads `Example:` as the section that Google's style calls `Examples:`."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = re.sub(
                r"^( *)Example:$", r"\1Examples:", obj.docstring.value, flags=re.MULTILINE
            )
