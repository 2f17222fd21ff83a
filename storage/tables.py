"""One sweep's raw facts as DataFrames: what queries return and what analysis takes."""

from dataclasses import dataclass
from typing import Any

import pandas as pd


@dataclass(frozen=True)
class SweepTables:
    """Columns are the fields of storage.records, one DataFrame a table, sorted by (cell, time).

    `meta` is SweepMeta as a dict, with config, backend and environment already parsed from JSON.
    In `cells`, setting and load are parsed to dicts. In `requests`, chunk_deltas_us is a numpy uint32 array per row.
    Null integers are pandas Int64 / float NaN / None for text.
    """

    meta: dict[str, Any]
    cells: pd.DataFrame
    requests: pd.DataFrame
    engine: pd.DataFrame
    client: pd.DataFrame
