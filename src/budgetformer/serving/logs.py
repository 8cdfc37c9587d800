"""Logs as JSON lines on standard error. No line holds a user's text: no body, no query, no error's message."""

from __future__ import annotations

import json
import logging
import traceback
from datetime import UTC, datetime
from typing import Any

_OWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "color_message", "taskName"}


class JsonFormatter(logging.Formatter):
    """One record, one JSON object: time, level, event, and the ``extra`` fields of the call.

    Of an exception the kind and the places in the code are written, not its message, which may quote its input.
    """

    def format(self, record: logging.LogRecord) -> str:
        """The record as a line."""
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": record.getMessage().strip(),
            "process": record.process,
        }
        line |= {name: value for name, value in vars(record).items() if name not in _OWN}
        if record.exc_info and record.exc_info[0] is not None:
            line["kind"] = record.exc_info[0].__name__
            line["at"] = [f"{f.filename}:{f.lineno} {f.name}" for f in traceback.extract_tb(record.exc_info[2])][-12:]
        return json.dumps(line, ensure_ascii=False, default=str)


def log_config(level: str = "INFO") -> dict[str, Any]:
    """For ``logging.config.dictConfig`` and uvicorn."""
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"json": {"()": "budgetformer.serving.logs.JsonFormatter"}},
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "json", "stream": "ext://sys.stderr"}},
        "loggers": {
            "uvicorn": {"handlers": ["stderr"], "level": level, "propagate": False},
            "budgetformer.serving": {"handlers": ["stderr"], "level": level, "propagate": False},
        },
    }
