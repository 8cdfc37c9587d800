"""How this program is called in the user's shell, for the commands that it prints."""

from __future__ import annotations

import os
import shlex
import shutil
import sys

NAME = "budgetformer"


def program() -> str:
    """``budgetformer`` where the shell knows it; else the script that runs, or the interpreter with ``-m``."""
    if shutil.which(NAME) is not None:
        return NAME
    script = sys.argv[0]
    if os.path.basename(script) == NAME and os.path.dirname(script) and os.access(script, os.X_OK):
        return shlex.quote(script)
    return f"{shlex.quote(sys.executable)} -m {NAME}"
