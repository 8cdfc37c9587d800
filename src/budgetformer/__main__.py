"""``python -m budgetformer``, for launchers such as ``torchrun`` that start a module."""

from .cli import main

main()
