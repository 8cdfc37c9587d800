"""The forms of ``POST /explain``: one text or pair, and how many maps of each layer."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, Field, create_model, model_validator

from ..answers import Pair
from ..configuration import BudgetFormerConfig
from .schemas import NOT_BOTH, STRICT, Answer, Timings, budget_fields
from .settings import ServingSettings

MAP_TOKENS = 64
"""Rows and columns of a map in an answer at most. With ``MAPS`` per layer it bounds the answer's size."""
MAPS = 4


def _whole(value: Any) -> Any:
    """3.0 is a whole number in JSON."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


class ExplainRequest(BaseModel):
    """What every request has, whatever the model; ``explain_model`` adds the fields that the model takes."""

    model_config = STRICT
    text: str = Field(description="The text, or the first of a pair.", examples=["Shares rose after the report."])
    heads: Annotated[int, BeforeValidator(_whole)] = Field(
        default=1, ge=1, le=MAPS, description="Maps of each layer, of its most relevant heads."
    )
    timeout_ms: float | None = Field(
        default=None, gt=0, le=3_600_000, description="Give up after this many milliseconds, if that is earlier."
    )

    @property
    def input(self) -> str | Pair:
        """The text or pair, as ``Classifier`` takes it."""
        pair = getattr(self, "pair", None)
        return self.text if pair is None else Pair(self.text, pair)

    @property
    def asked(self) -> tuple[float | None, float | None]:
        """``budget`` and ``max_budget``."""
        return getattr(self, "budget", None), getattr(self, "max_budget", None)


class _Checked(ExplainRequest):
    @model_validator(mode="after")
    def _one_budget(self) -> _Checked:
        budget, cap = self.asked
        if budget is not None and cap is not None:
            raise ValueError(f"give budget ({budget}) or max_budget ({cap}), not both")
        return self


def explain_model(config: BudgetFormerConfig, settings: ServingSettings) -> type[ExplainRequest]:
    """The request that this model takes: with a second text, budgets if it has any."""
    fields: dict[str, Any] = {}
    rules: dict[str, Any] = {}
    length: dict[str, Any] = {"maxLength": settings.max_characters}
    words = Field(description="The text.", examples=["Shares rose after the report."], json_schema_extra=length)
    fields["text"] = (Annotated[str, words], ...)
    words = Field(description="The second text of a pair.", json_schema_extra=length)
    if config.pair_column:
        fields["pair"] = (Annotated[str, words], ...)
    elif not config.text_columns:
        fields["pair"] = (Annotated[str | None, words], None)
    if config.budgeted:
        fields |= budget_fields()
        rules |= NOT_BOTH
    model: type[ExplainRequest] = create_model("Explain", __base__=_Checked, **fields)
    model.model_config["json_schema_extra"] = rules
    model.__doc__ = "One text to explain."
    model.model_rebuild(force=True)
    return model


class ExplainedHead(BaseModel):
    """A head of a layer. ``map[i][j]`` is the share of token i's attention that goes to token j."""

    head: int
    rank: int = Field(description="0 for the most relevant head of the layer.")
    kept: bool = Field(description="It ran for the answer; the maps of others were computed for the explanation alone.")
    relevance: float | None = Field(description="p; null with full attention.")
    gate: float
    entropy: float = Field(description="Of its attention over all tokens, in nats.")
    entropy_share: float | None = Field(description="As a share of the highest that is possible.")
    map: list[list[float]] | None = Field(default=None, description="Of the most relevant heads.")


class ExplainedLayer(BaseModel):
    """A layer's heads by rank."""

    layer: int
    budget: float | None = Field(description="The learned s; null with full attention.")
    heads_kept: int
    heads: list[ExplainedHead]


class ExplainResponse(BaseModel):
    """The answer as of ``/classify``, and what the heads of each layer did."""

    answer: Answer
    tokens: list[str] = Field(description=f"The rows and columns of the maps: the first {MAP_TOKENS} tokens.")
    layers: list[ExplainedLayer]
    timings: Timings
