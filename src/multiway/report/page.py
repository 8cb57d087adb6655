"""Self-contained HTML pages: they open offline, and no request leaves them."""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from matplotlib.figure import Figure

from multiway.errors import visible
from multiway.files import make_directory, write_atomic
from multiway.report.style import figure_style
from multiway.report.tables import Table

__all__ = [
    "Block",
    "Html",
    "Picture",
    "Section",
    "Table",
    "Text",
    "coded",
    "render_page",
    "write_page",
]


@dataclass(frozen=True)
class Text:
    """A paragraph of plain text; `strong` for a verdict that a reader must not miss."""

    text: str
    strong: bool = False

    kind = "text"


@dataclass(frozen=True)
class Picture:
    """A figure. As SVG it is sharp at any size; "png" for pictures of very many parts."""

    figure: Figure
    alt: str
    caption: str = ""
    format: str = "svg"

    kind = "picture"

    @property
    def source(self) -> str:
        """The image itself, as a data address: ids of one figure cannot meet another's."""
        buffer = io.BytesIO()
        metadata = {"Date": None} if self.format == "svg" else None
        with figure_style():
            self.figure.savefig(buffer, format=self.format, metadata=metadata)
        kind = "svg+xml" if self.format == "svg" else self.format
        return f"data:image/{kind};base64,{base64.b64encode(buffer.getvalue()).decode()}"


@dataclass(frozen=True)
class Html:
    """Markup that was made here, such as an interactive figure; never a user's words."""

    markup: str

    kind = "html"


Block = Text | Table | Picture | Html


@dataclass(frozen=True)
class Section:
    """A heading, and what stands below it."""

    title: str
    blocks: Sequence[Block]


def write_page(
    path: Path | str,
    title: str,
    lead: str,
    sections: Sequence[Section],
    provenance: Mapping[str, Any],
) -> Path:
    """Write one HTML file with everything in it.

    Args:
        lead: what the page is about, in a sentence or two.
        provenance: how it was made (data, n, seeds, versions), shown at the end.
    """
    values = {"title": title, "lead": lead, "sections": sections, "provenance": provenance}
    return render_page(path, "page.html", values)


def coded(text: str) -> Markup:
    """Plain text, in which `words` between backticks are set as code.

    Example:
        >>> coded("`own` < margin")
        Markup('<code>own</code> &lt; margin')
    """
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))


def unbroken(text: str) -> str:
    """A figure whose interval stays in one line: blanks in brackets do not break."""
    return re.sub(r" (?=[^\[\]]*\])", "\N{NO-BREAK SPACE}", text)


def render_page(path: Path | str, template: str, values: Mapping[str, Any]) -> Path:
    """Write the HTML file that a template makes of `values`.

    Args:
        template: `page.html`, or one that extends it.
        values: for the template; what is not markup made here is escaped.
    """
    path = Path(path)
    environment = Environment(
        loader=PackageLoader("multiway.report"),
        autoescape=True,
        # Controls and overrides of the direction of writing are shown, not obeyed.
        finalize=lambda value: visible(value) if type(value) is str else value,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"coded": coded, "unbroken": unbroken}
    html = environment.get_template(template).render(**values)
    make_directory(path.parent)
    write_atomic(path, html.encode())
    return path
