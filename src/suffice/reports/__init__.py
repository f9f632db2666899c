"""The page of an audit."""

from suffice.reports.page import write_page

__all__ = ["write_page"]
