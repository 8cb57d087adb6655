"""The README as a package index shows it.

There, links and pictures that are relative to a checkout lead nowhere. With an address under
`Repository` in `[project.urls]` they lead into it; without one, links become their plain text and
pictures are left out.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\((?!https?://)([^)\s]+)\)")


def package_readme(text: str, repository: str | None) -> str:
    """`text` without a relative link outside blocks of code."""

    def absolute(found: re.Match[str]) -> str:
        picture, words, target = found.groups()
        if repository is not None:
            return f"{picture}[{words}]({repository}/{'raw' if picture else 'blob'}/main/{target})"
        return "" if picture else words

    parts = re.split(r"(^```.*?^```$)", text, flags=re.MULTILINE | re.DOTALL)
    for place in range(0, len(parts), 2):  # the others are code
        parts[place] = re.sub(r"\n{3,}", "\n\n", LINK.sub(absolute, parts[place]))
    return "".join(parts)


class PackageReadme(MetadataHookInterface):
    """Sets the project's `readme`."""

    def update(self, metadata: dict[str, Any]) -> None:
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        readme = package_readme(text, metadata.get("urls", {}).get("Repository"))
        metadata["readme"] = {"content-type": "text/markdown", "text": readme}
