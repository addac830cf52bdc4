"""Reports as PDF, printed by a headless Chromium.

A browser prints the page as it is shown: one layout, vector pictures. What prints HTML without
one knows too little of SVG and CSS, or needs more libraries than a browser is large.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from dynsys.errors import ReportError
from dynsys.resumable import written

__all__ = ["chromium_flags", "find_browser", "write_pdf"]

SECONDS = 120
BROWSERS = (
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "microsoft-edge",
    "chrome",
)


def find_browser() -> str | None:
    """Path of the first Chromium-like browser there is, None if there is none."""
    return next((found for name in BROWSERS if (found := shutil.which(name))), None)


def chromium_flags(profile: str) -> list[str]:
    """Flags of a quiet headless run that writes its profile into a folder of its own."""
    flags = [
        "--headless",
        "--disable-gpu",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        f"--user-data-dir={profile}",
    ]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        flags.append("--no-sandbox")  # as root Chromium has none
    return flags


def write_pdf(page: str | Path, path: str | Path) -> Path:
    """Print an HTML file to a PDF file.

    Raises
    ------
    ReportError
        if there is no browser, with what to install; or if it fails.
    """
    browser = find_browser()
    if browser is None:
        raise ReportError(
            "a PDF is printed by Chromium, which is not installed; run 'sudo apt-get install"
            " chromium' (or install Google Chrome), or open the HTML report and print it from"
            " any browser"
        )
    target = Path(path).resolve()
    with tempfile.TemporaryDirectory(prefix="dynsys-pdf-") as folder:
        made = Path(folder) / "report.pdf"
        command = [
            browser,
            *chromium_flags(str(Path(folder) / "profile")),
            "--no-pdf-header-footer",
            f"--print-to-pdf={made}",
            Path(page).resolve().as_uri(),
        ]
        try:
            done = subprocess.run(command, capture_output=True, timeout=SECONDS, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise ReportError(f"{browser}: cannot print {page}: {error}") from None
        if not made.is_file():
            last = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
            raise ReportError(f"{browser}: printed nothing of {page}: {' '.join(last)}")
        with written(target, ReportError) as part:
            shutil.copyfile(made, part)
    return Path(path)
