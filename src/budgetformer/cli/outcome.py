"""How a command ends: exit codes and the one line that says why.

0 done · 2 the user's mistake · 130 stopped by hand · 1 anything else. A line begins with ``error:`` and has no
traceback; ``budgetformer --debug COMMAND …`` or ``BUDGETFORMER_DEBUG=1`` shows one.
"""

from __future__ import annotations

import errno
import os
import sys
import traceback
from collections.abc import Iterator, Sequence

DEBUG_VARIABLE = "BUDGETFORMER_DEBUG"
DONE, FAILED, MISTAKE, STOPPED = 0, 1, 2, 130
_MISTAKES = (ValueError, FileNotFoundError, FileExistsError, NotADirectoryError, IsADirectoryError, PermissionError)
_MISTAKEN_PATHS = (errno.ENAMETOOLONG, errno.ELOOP, errno.EROFS)
_MACHINE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


class Stopped(Exception):
    """Work that was stopped by hand; the message says what is kept and how to go on."""


def run(arguments: Sequence[str]) -> int:
    """Run a command line and return its exit code; what went wrong is said on standard error."""
    from .app import app

    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the caller
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        stream = getattr(sys, name)
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        code = app(args=list(arguments), prog_name="budgetformer", standalone_mode=False)
    except KeyboardInterrupt:
        code = STOPPED
    except Exception as error:
        return _explain(error)
    if code == STOPPED:
        _say("stopped")
    return code if isinstance(code, int) else DONE


def warn(message: str) -> None:
    """Tell the user something that does not stop the work."""
    print(f"warning: {_one_line(message)}", file=sys.stderr)


def _explain(error: Exception) -> int:
    if os.environ.get(DEBUG_VARIABLE, "") not in ("", "0"):
        traceback.print_exc()
    if type(error).__name__ == "Abort":  # of the option parser, which knows no exit code for Ctrl-C
        _say("stopped")
        return STOPPED
    if isinstance(error, Stopped) or _is(error, "Interrupted"):
        _say(str(error))
        return STOPPED
    if hasattr(error, "format_message"):  # the option parser's
        context = getattr(error, "ctx", None)
        command = getattr(context, "command_path", "budgetformer")
        _say(f"error: {error.format_message().rstrip('.')}; see {command} --help")
        return MISTAKE
    of_the_machine = any(isinstance(cause, OSError) and cause.errno in _MACHINE for cause in _causes(error))
    of_the_path = isinstance(error, OSError) and error.errno in _MISTAKEN_PATHS
    if (isinstance(error, _MISTAKES) and not of_the_machine) or of_the_path:
        _say(f"error: {error}")
        return MISTAKE
    if of_the_machine or isinstance(error, OSError) or _is(error, "NonFiniteError"):
        _say(f"error: {error}")
        return FAILED
    if isinstance(error, MemoryError) or "OutOfMemory" in type(error).__name__ or "allocate memory" in str(error):
        _say(f"error: there is not enough memory: {error}; try a smaller --batch-size or --max-length")
        return FAILED
    _say(
        f"error: unexpected {type(error).__name__}: {error}; {DEBUG_VARIABLE}=1 shows where it happened, "
        "please report it"
    )
    return FAILED


def _is(error: Exception, name: str) -> bool:
    """Whether it is that error of the training package, which is not imported for the question."""
    training = sys.modules.get("budgetformer.training")
    return training is not None and isinstance(error, getattr(training, name))


def _causes(error: BaseException) -> Iterator[BaseException]:
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__


def _say(message: str) -> None:
    print(_one_line(message), file=sys.stderr)


def _one_line(message: str) -> str:
    return " ".join(message.split())
