"""Where the weights of a model are from, and under which licence, as its card says it."""

from __future__ import annotations

from dataclasses import dataclass

UNKNOWN = "not stated in its card; find it where the model is from"


@dataclass(frozen=True, kw_only=True)
class Origin:
    """A source model: ``title`` as people call it, whether that is a name ``on_hub``, the ``licence`` that its card
    names, ``family`` and ``model_type``, and whether it was a ``classifier``.
    """

    title: str
    on_hub: bool
    licence: str | None
    family: str
    model_type: str
    classifier: bool

    def front_matter(self) -> list[str]:
        """Lines of the Hub's metadata block: a folder of this machine is no name that others could follow."""
        return [f"base_model: {self.title}"] * self.on_hub + [f"license: {self.licence}"] * (self.licence is not None)

    def words(self) -> str:
        """The model by family, name and type."""
        return f"the {self.family} model `{self.title.replace('`', '')}` (`{self.model_type}`)"

    def licence_sentence(self) -> str:
        """What is known of its licence."""
        return f"Licence of the source: {self.licence or UNKNOWN}."

    def trained_from(self) -> list[str]:
        """Lines for the card of a model that was trained from it."""
        part = "a text classifier" if self.classifier else "an encoder; the classifier on it was new"
        return [
            f"The weights come from {self.words()}, {part}, and were trained further. {self.licence_sentence()}",
            "",
        ]
