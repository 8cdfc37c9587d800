"""Registers the model with the Auto classes of ``transformers``."""

from transformers import AutoConfig, AutoModel, AutoModelForSequenceClassification

from .configuration import BudgetFormerConfig
from .modeling import BudgetFormerForSequenceClassification, BudgetFormerModel

AutoConfig.register(BudgetFormerConfig.model_type, BudgetFormerConfig, exist_ok=True)
AutoModel.register(BudgetFormerConfig, BudgetFormerModel, exist_ok=True)
AutoModelForSequenceClassification.register(BudgetFormerConfig, BudgetFormerForSequenceClassification, exist_ok=True)
