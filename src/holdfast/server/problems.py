"""Requests that cannot be answered, with Flink's codes and its one shape for them."""

from __future__ import annotations

from starlette.responses import JSONResponse


class RequestRefused(Exception):
    """Why, and the status of the answer."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text


class Json(JSONResponse):
    """JSON as Flink labels it."""

    media_type = "application/json; charset=UTF-8"


def errors(status: int, text: str) -> Json:
    """Flink's answer for everything that goes wrong."""
    return Json({"errors": [text]}, status_code=status)
