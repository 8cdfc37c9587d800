"""Some questions about a text: does it show anything, can it be written down, how is it shown in a message."""

from __future__ import annotations


def is_blank(text: str) -> bool:
    """Nothing in it can be seen: empty, blanks, or invisible characters such as U+200B and U+FEFF."""
    return not any(character.isprintable() and not character.isspace() for character in text)


def well_formed(text: str) -> str:
    """The text with half surrogate pairs, which no encoding can hold, replaced by U+FFFD."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def shown(text: str) -> str:
    """The text for a message: as it is when all of it can be seen, else in quotes and with escapes."""
    return text if text.strip() == text != "" and text.isprintable() else ascii(text)


def typed(text: str) -> str:
    """A text from the command line as its bytes say in UTF-8, whatever the machine's locale made of them."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def require_writable_name(path: object) -> None:
    """Refuse a path that cannot be written down in UTF-8, as every record of what was read must."""
    if well_formed(str(path)) != str(path):
        raise ValueError(f"{str(path)!a}: the name is not valid UTF-8; rename it, or use a UTF-8 locale")
