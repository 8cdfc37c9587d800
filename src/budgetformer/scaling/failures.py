"""What went wrong in a worker, as a row that travels: the driver raises it as the plain engine would."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass


@dataclass(frozen=True, kw_only=True)
class Failure:
    """An error's kind ("mistake" of the user, "system", "memory", or the name of its class), number and words."""

    kind: str
    words: str
    errno: int | None = None

    @classmethod
    def of(cls, error: Exception) -> Failure:
        """What is to be known of an error."""
        if isinstance(error, OSError):
            words = error.strerror or str(error)
            named = words if error.filename is None else f"{error.filename}: {words}"
            return cls(kind="system", words=named, errno=error.errno)
        if isinstance(error, MemoryError):
            return cls(kind="memory", words=str(error))
        return cls(kind="mistake" if isinstance(error, ValueError) else type(error).__name__, words=str(error))

    def text(self) -> str:
        """As JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def read(cls, text: str) -> Failure:
        """From JSON."""
        return cls(**json.loads(text))

    def error(self) -> Exception:
        """The exception to raise."""
        match self.kind:
            case "mistake":
                return ValueError(self.words)
            case "system":
                error = OSError(f"{self.words}; what is complete is kept: go on with the same command and --resume")
                error.__cause__ = None if self.errno is None else OSError(self.errno, self.words)
                return error
            case "memory":
                return MemoryError(self.words)
        return RuntimeError(f"a worker failed with {self.kind}: {self.words}")
