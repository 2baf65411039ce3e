"""What libraries print while a job runs: into a file, out of sight."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class _Handler(logging.StreamHandler[IO[str]]):
    """A log that cannot be written, on a full disk, is no news for the terminal."""

    def handleError(self, _: logging.LogRecord) -> None:  # noqa: N802  (its name is Python's)
        """What is lost is lost."""


@contextmanager
def noise_in(log: Path) -> Iterator[None]:
    """What Java prints and what Python logs goes to ``log``; Python's stderr stays where it is.

    Spark logs pages about each query that is stopped, in the middle of whatever is being shown.
    """
    log.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND
    target = os.open(log, flags, 0o600)
    try:
        with _stderr_of_children(target), _python_logging(target):
            yield
    finally:
        os.close(target)


@contextmanager
def _stderr_of_children(target: int) -> Iterator[None]:
    sys.stderr.flush()
    before, kept = sys.stderr, os.dup(2)
    os.dup2(target, 2)
    sys.stderr = os.fdopen(os.dup(kept), "w", buffering=1, errors="backslashreplace")
    try:
        yield
    finally:
        sys.stderr.close()
        sys.stderr = before
        os.dup2(kept, 2)
        os.close(kept)


@contextmanager
def _python_logging(target: int) -> Iterator[None]:
    stream = os.fdopen(os.dup(target), "a", buffering=1, errors="backslashreplace")
    handler = _Handler(stream)
    handler.setFormatter(logging.Formatter(_FORMAT))
    logging.getLogger().addHandler(handler)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(handler)
        stream.close()
