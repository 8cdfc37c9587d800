"""How what a command lacks is installed: the package is on no index, so its extras come from a checkout."""


def how_to_install(extra: str) -> str:
    """The words for messages; ``extra`` is a name of pyproject.toml, such as ``serve``."""
    return f"install the extra {extra}: pip install '.[{extra}]' in a checkout of BudgetFormer"
