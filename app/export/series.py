"""Times of some cells' answers, for their distributions. PURE."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from runner.analysis.gaps import gap_table

Series = dict[str, npt.NDArray[np.float64]]


def series_of(requests: pd.DataFrame, cells: Sequence[int]) -> dict[str, Series]:
    """{"ttft_ms" | "gap_ms": {class: values}} of the answers that count in these cells' windows.

    An answer that came in one piece has no gaps, as in the percentiles.
    """
    rows = requests[requests["cell"].isin(list(cells))]
    rows = rows[rows["in_window"].to_numpy(dtype=bool) & rows["latency_counts"].to_numpy(dtype=bool)]
    by_class = {str(name): part for name, part in rows.groupby("class_name", sort=False)}
    streamed = {name: part[~part["buffered"].to_numpy(dtype=bool)] for name, part in by_class.items()}
    return {
        "ttft_ms": {name: part["ttft_ms"].to_numpy(dtype=np.float64) for name, part in by_class.items()},
        "gap_ms": {name: gap_table(part.reset_index(drop=True)).gap_ms for name, part in streamed.items()},
    }
