"""How Sphinx builds the site: Markdown in, HTML out, formulas as MathML, no network.

Run through ``python -m docs.build``, which adds the generated pages first.
"""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml

project = "dynsys"
author = "the dynsys authors"
project_copyright = "the dynsys authors, BSD-3-Clause"
extensions = ["myst_parser"]
myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 3
root_doc = "index"
exclude_patterns = ["results/*"]
nitpicky = True

html_theme = "furo"
html_title = "dynsys"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_math_renderer = "mathml"
pygments_style = "tango"
pygments_dark_style = "monokai"


def _mathml(text: str, *, block: bool = False) -> str:
    """MathML of a formula; indices of accented letters stand beside, not below them."""
    text = re.sub(r"\\(ddot|dot|bar|hat) ?(\w)", r"{\\\1 \2}{}", text)
    text = re.sub(r"([{}])pmatrix([{}])", r"\1matrix\2", text)
    found: str = tex2mathml(text, as_block=block)
    return found


def _inline(writer: Any, node: nodes.math) -> None:
    writer.body.append(_mathml(node.astext()))
    raise nodes.SkipNode


def _block(writer: Any, node: nodes.math_block) -> None:
    writer.body.append(f'<div class="equation">{_mathml(node.astext(), block=True)}</div>')
    raise nodes.SkipNode


def setup(app: Any) -> dict[str, bool]:
    """Register MathML, which browsers draw by themselves, as the way of writing formulas."""
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
