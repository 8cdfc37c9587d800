"""Grams of CO2 equivalents that a kilowatt hour of electricity stands for, and where the number comes from."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from importlib.resources import files
from importlib.util import find_spec
from typing import Any

from ..extras import how_to_install

WORLD_GRAMS_PER_KWH = 475.0
"""World average: IEA, Global Energy & CO2 Status Report 2019; CodeCarbon's default for an unknown place too."""

TABLE = "data/private_infra/global_energy_mix.json"


@dataclass(frozen=True, kw_only=True)
class Grid:
    """``grams_per_kwh`` of CO2 equivalents and the ``source`` of this number, in words."""

    grams_per_kwh: float
    source: str


def grid(*, grams_per_kwh: float | None = None, region: str | None = None) -> Grid:
    """The number that was stated, else that of the country ``region``, else the world average.

    ``region`` is a country by its ISO code of three letters, such as FRA, looked up in the table that CodeCarbon
    brings along, without network. Raises ValueError for a number below 0, an unknown code, both at once, or a
    region without CodeCarbon.
    """
    if grams_per_kwh is not None and region is not None:
        raise ValueError(f"give grams_per_kwh ({grams_per_kwh}) or region ({region}), not both")
    if grams_per_kwh is not None:
        if not 0 <= grams_per_kwh < math.inf:
            raise ValueError(f"grams_per_kwh must be 0 or above, got {grams_per_kwh}")
        return Grid(grams_per_kwh=float(grams_per_kwh), source="stated")
    if region is None:
        return Grid(grams_per_kwh=WORLD_GRAMS_PER_KWH, source="world average, IEA 2019")
    country = _countries(region).get(region.upper())
    if country is None:
        raise ValueError(f"region must be the ISO code of a country in three letters, such as FRA, got {region!r}")
    source = f"{country['country_name']} {country['year']}, table of CodeCarbon"
    return Grid(grams_per_kwh=float(country["carbon_intensity"]), source=source)


def _countries(region: str) -> dict[str, Any]:
    if find_spec("codecarbon") is None:
        raise ValueError(
            f"region {region} is looked up in CodeCarbon's table; {how_to_install('carbon')}, "
            "or state the grams per kWh"
        )
    return json.loads(files("codecarbon").joinpath(TABLE).read_text(encoding="utf-8"))
