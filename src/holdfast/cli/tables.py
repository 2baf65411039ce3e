"""The one look of all tables."""

from __future__ import annotations

from rich import box
from rich.table import Table
from rich.text import Text


def table(*columns: str) -> Table:
    """Columns below a rule; what is too wide is folded and never cut."""
    made = Table(
        box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0), header_style=""
    )
    for name in columns:
        made.add_column(Text(name), overflow="fold")
    return made


def grid(*styles: str) -> Table:
    """Columns without names."""
    made = Table.grid(padding=(0, 2))
    for style in styles:
        made.add_column(style=style)
    return made
