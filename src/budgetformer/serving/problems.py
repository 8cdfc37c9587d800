"""What a request is refused with: a status, one line, and the field it is about. Every error answer has one form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fastapi import HTTPException
from starlette.responses import JSONResponse

from ..data.unicode import shown


@dataclass(frozen=True, kw_only=True)
class FieldProblem:
    """What is wrong with one field of a request, such as ``texts[3]``."""

    field: str
    message: str


class Problem(HTTPException):
    """A request that is not answered: why, and what the client can do."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        field: str | None = None,
        fields: Sequence[FieldProblem] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(status, message, headers=dict(headers or {}))
        self.status, self.message = status, message
        self.fields = list(fields) or ([] if field is None else [FieldProblem(field=field, message=message)])

    def response(self) -> JSONResponse:
        """The answer to the client."""
        fields = [{"field": f.field, "message": f.message} for f in self.fields]
        message = f"{self.fields[0].field}: {self.message}" if len(self.fields) == 1 else self.message
        return JSONResponse({"error": message, "fields": fields}, status_code=self.status, headers=self.headers or None)


def from_validation(errors: Sequence[Mapping[str, Any]], *, budgeted: bool) -> Problem:
    """The fields that pydantic refused, without their values: those are the user's texts."""
    fields = [
        FieldProblem(field=_name(error["loc"]), message=_message(error, budgeted=budgeted)) for error in errors[:10]
    ]
    if len(fields) == 1:
        return Problem(422, fields[0].message, fields=fields)
    said = "; ".join(f"{f.field}: {f.message}" for f in fields[:3])
    more = f"; and {len(errors) - 3} more" if len(errors) > 3 else ""
    return Problem(422, said + more, fields=fields)


def _name(place: Sequence[int | str]) -> str:
    name = ""
    for part in place[1:] if place and place[0] == "body" else place:
        name += f"[{part}]" if isinstance(part, int) else f".{part}" if name else str(part)
    return shown(name if len(name) <= 80 else name[:79] + "…") if name else "body"


def _message(error: Mapping[str, Any], *, budgeted: bool) -> str:
    if error["type"] == "extra_forbidden":
        if error["loc"][-1] in ("budget", "max_budget") and not budgeted:
            return "has no effect: this model has full attention and always uses all heads"
        return "there is no such field; see /openapi.json"
    return str(error["msg"]).removeprefix("Value error, ")
