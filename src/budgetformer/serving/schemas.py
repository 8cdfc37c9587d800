"""The forms of requests and answers: what OpenAPI describes and pydantic checks."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, create_model, model_validator

from ..answers import Pair
from ..configuration import BudgetFormerConfig
from .settings import ServingSettings

NOT_BOTH = {
    "not": {
        "properties": {"budget": {"type": "number"}, "max_budget": {"type": "number"}},
        "required": ["budget", "max_budget"],
    }
}
STRICT = ConfigDict(extra="forbid", strict=True)


class PairIn(BaseModel):
    """Two texts that are classified together."""

    model_config = STRICT
    text: str = Field(description="The first text, such as a premise.", examples=["A man sleeps."])
    pair: str = Field(description="The second text, such as a hypothesis.", examples=["Someone is awake."])


class ClassifyRequest(BaseModel):
    """What every request has, whatever the model; ``request_model`` adds the fields that the model takes."""

    model_config = STRICT
    details: bool = Field(
        default=False, description="Also give the relevance of every head and which heads were kept, by layer."
    )
    timeout_ms: float | None = Field(
        default=None, gt=0, le=3_600_000, description="Give up after this many milliseconds, if that is earlier."
    )

    @property
    def inputs(self) -> list[str | Pair]:
        """The texts or pairs, as ``Classifier`` takes them."""
        pairs = getattr(self, "pairs", None)
        return [Pair(p.text, p.pair) for p in pairs] if pairs else list(getattr(self, "texts", ()))

    @property
    def place(self) -> str:
        """The field that holds the inputs."""
        return "pairs" if getattr(self, "pairs", None) else "texts"

    @property
    def asked(self) -> tuple[float | None, float | None]:
        """``budget`` and ``max_budget``."""
        return getattr(self, "budget", None), getattr(self, "max_budget", None)


class _Checked(ClassifyRequest):
    @model_validator(mode="after")
    def _one_of_each(self) -> _Checked:
        names = [n for n in ("texts", "pairs") if n in type(self).model_fields]
        given = [n for n in names if n in self.model_fields_set]
        if len(given) != 1:
            raise ValueError(f"give {' or '.join(names)}, and not both")
        budget, cap = self.asked
        if budget is not None and cap is not None:
            raise ValueError(f"give budget ({budget}) or max_budget ({cap}), not both")
        return self


def request_model(config: BudgetFormerConfig, settings: ServingSettings) -> type[ClassifyRequest]:
    """The request that this model takes: texts or pairs as it was trained, budgets if it has any."""
    fields: dict[str, Any] = {}
    rules: dict[str, Any] = {}
    single = not config.pair_column
    double = bool(config.pair_column) or not config.text_columns
    if single:
        text = Annotated[str, Field(json_schema_extra={"maxLength": settings.max_characters})]
        words = Field(description="One or many texts.", examples=[["Shares rose after the report."]])
        fields["texts"] = (Annotated[list[text], words, *_size(settings)], _default(other=double))
    if double:
        words = Field(description="One or many pairs of texts.")
        fields["pairs"] = (Annotated[list[PairIn], words, *_size(settings)], _default(other=single))
    if single and double:
        rules["oneOf"] = [{"required": ["texts"]}, {"required": ["pairs"]}]
    if config.budgeted:
        fields |= budget_fields()
        rules |= NOT_BOTH
    model: type[ClassifyRequest] = create_model("Classify", __base__=_Checked, **fields)
    model.model_config["json_schema_extra"] = rules
    model.__doc__ = "Texts to classify."
    model.model_rebuild(force=True)
    return model


def budget_fields() -> dict[str, Any]:
    """The two ways to ask for fewer heads, as fields of a request."""
    share = Annotated[float, Field(gt=0, le=1)]
    asked = {"budget": "Use this share", "max_budget": "Use at most this share"}
    return {
        name: (Annotated[share | None, Field(description=f"{what} of the heads in every layer.", examples=[0.5])], None)
        for name, what in asked.items()
    }


def _size(settings: ServingSettings) -> list[Any]:
    return [Field(min_length=1, json_schema_extra={"maxItems": settings.max_texts})]


def _default(*, other: bool) -> Any:
    """Of a field that may be left out when there is another one; null is no value of it."""
    return Field(default_factory=list) if other else ...


class Details(BaseModel):
    """Layers × heads: ``relevance`` p, ``kept`` which heads were computed; ``budgets`` per layer: the learned s."""

    relevance: list[list[float]]
    kept: list[list[bool]]
    budgets: list[float]


class Answer(BaseModel):
    """The answer to one input, in the order of the request."""

    label: str
    score: float = Field(description="Probability of the label.")
    scores: dict[str, float] = Field(description="Probability of every label.")
    heads: list[int] = Field(description="Heads kept in each layer.")
    macs: int = Field(description="Multiply-adds that this input cost.")
    macs_dense: int = Field(description="Multiply-adds of the same input with all heads.")
    tokens: int
    truncated: bool = Field(description="The text was cut to the model's limit.")
    reason: str | None = Field(description="Set when the text had no tokens.")
    shed_budget: float | None = Field(description="Cap that the server put on the heads because it was loaded.")
    details: Details | None = Field(description="On request, for a model with budgets.")


class Timings(BaseModel):
    """Milliseconds: ``queue`` from tokenised to the first batch, ``inference`` of the batches with these inputs."""

    tokenisation_ms: float
    queue_ms: float
    inference_ms: float
    total_ms: float


class ClassifyResponse(BaseModel):
    """Answers in the order of the inputs."""

    answers: list[Answer]
    timings: Timings


class FieldError(BaseModel):
    """What is wrong with one field."""

    field: str
    message: str


class ErrorResponse(BaseModel):
    """Why a request was not answered."""

    error: str
    fields: list[FieldError]


class StatusResponse(BaseModel):
    """``ok``, ``ready``, or why not ready."""

    status: str


class Sizes(BaseModel):
    """Shape of the model."""

    layers: int
    heads: int
    hidden_size: int
    max_tokens: int
    parameters: int


class ModelResponse(BaseModel):
    """What is served: labels in the order of the model's outputs, sizes, and what training measured."""

    name: str
    labels: list[str]
    takes: str = Field(description="texts, pairs, or texts or pairs")
    budgeted: bool
    default_budget: float | None = Field(description="Share of the heads for requests that name none; null: its own.")
    sizes: Sizes
    kept_heads: list[list[int]] | None = Field(
        description="The heads that each layer has, where some were dropped for good; null where all are there."
    )
    device: str
    precision: str
    execution: str
    threads: int
    measured: dict[str, Any] = Field(description="Accuracy, heads and cost on the validation rows; empty if unknown.")
    examples: list[dict[str, str]] = Field(description="Texts to try: ``text``, and ``pair`` for a pair.")
    limits: dict[str, float | None]
    revision: str = Field(description="Of configuration, tokenizer and weights; in the header of every answer.")
    version: str = Field(description="Of the program.")
