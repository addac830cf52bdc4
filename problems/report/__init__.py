"""Reports: one self-contained HTML page, or PDF, on a problem (``dynsys report``)."""

from dynsys.errors import ReportError
from problems.report.build import Report, build_report
from problems.report.page import render, write_page
from problems.report.pdf import write_pdf
from problems.report.subject import Subject, estimation_subject, read_subject

__all__ = [
    "Report",
    "ReportError",
    "Subject",
    "build_report",
    "estimation_subject",
    "read_subject",
    "render",
    "write_page",
    "write_pdf",
]
