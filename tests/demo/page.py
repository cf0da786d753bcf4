"""A comment as a page that looks as it does on GitHub, by GitHub's own Markdown parser."""

from __future__ import annotations

import cmarkgfm
from cmarkgfm.cmark import Options

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>{title}</title>
<style>
body {{ margin: 0; background: #f6f8fa; color: #1f2328;
  font: 14px/1.5 -apple-system, "Segoe UI", "Noto Sans", Helvetica, Arial, sans-serif; }}
main {{ max-width: 900px; margin: 24px auto; background: #fff; border: 1px solid #d1d9e0;
  border-radius: 6px; }}
header {{ padding: 8px 16px; background: #f6f8fa; border-bottom: 1px solid #d1d9e0;
  border-radius: 6px 6px 0 0; color: #59636e; }}
article {{ padding: 16px; overflow-wrap: break-word; }}
h2 {{ margin: 0 0 16px; padding-bottom: 6px; font-size: 21px; border-bottom: 1px solid #d1d9e0; }}
h3 {{ margin: 24px 0 16px; font-size: 17px; }}
p, ul, table, pre, blockquote, details {{ margin: 0 0 16px; }}
ul {{ padding-left: 28px; }}
li + li {{ margin-top: 4px; }}
table {{ border-collapse: collapse; display: block; overflow-x: auto; }}
th, td {{ padding: 6px 13px; border: 1px solid #d1d9e0; text-align: left; }}
tr:nth-child(2n) {{ background: #f6f8fa; }}
code {{ padding: 2px 5px; background: #818b981f; border-radius: 6px;
  font: 85% ui-monospace, SFMono-Regular, Menlo, "DejaVu Sans Mono", monospace; }}
pre {{ padding: 16px; background: #f6f8fa; border-radius: 6px; overflow: auto; }}
pre code {{ padding: 0; background: none; }}
blockquote {{ padding: 0 1em; color: #59636e; border-left: 4px solid #d1d9e0; }}
summary {{ cursor: pointer; }}
details[open] > summary {{ margin-bottom: 16px; }}
sub {{ font-size: 12px; color: #59636e; vertical-align: baseline; }}
a {{ color: #0969da; text-decoration: none; }}
a code {{ color: #0969da; }}
</style>
</head>
<body>
<main>
<header>{title}</header>
<article>
{body}
</article>
</main>
</body>
</html>
"""


def comment_page(comment: str, title: str) -> str:
    """Return an HTML page that shows a comment's Markdown; it loads nothing from elsewhere."""
    body = cmarkgfm.github_flavored_markdown_to_html(comment, options=Options.CMARK_OPT_UNSAFE)
    return _PAGE.format(title=title, body=body)
