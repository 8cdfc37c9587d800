"""A trained model for other programs: an ONNX file, or a folder that carries its own code."""

from __future__ import annotations

from .head_sets import HeadSets, measure_head_sets
from .hub_folder import HubExport, export_hub
from .onnx_file import OnnxExport, export_onnx

__all__ = ["HeadSets", "HubExport", "OnnxExport", "export_hub", "export_onnx", "measure_head_sets"]
