"""Rows that are still in memory, as the same tables that read_sweep gives."""

from collections.abc import Sequence
from dataclasses import asdict

import pandas as pd

from storage.columns import meta_dict, parse_objects, to_arrow, to_frame
from storage.records import CellRecord, ClientSample, EngineSample, RequestRecord, SweepMeta
from storage.tables import SweepTables


def tables_of(
    meta: SweepMeta,
    cells: Sequence[CellRecord],
    requests: Sequence[RequestRecord],
    engine: Sequence[EngineSample],
    client: Sequence[ClientSample],
) -> SweepTables:
    """One SweepTables from records, without a database; sorted as read_sweep sorts."""
    cell_frame = to_frame(CellRecord, to_arrow(CellRecord, sorted(cells, key=lambda c: c.cell)))
    return SweepTables(
        meta=meta_dict(pd.Series(asdict(meta))),
        cells=cell_frame.assign(**{c: parse_objects(cell_frame[c]) for c in ("setting", "load")}),
        requests=to_frame(
            RequestRecord,
            to_arrow(RequestRecord, sorted(requests, key=lambda r: (r.cell, r.scheduled_ns, r.request))),
        ),
        engine=to_frame(EngineSample, to_arrow(EngineSample, sorted(engine, key=lambda s: (s.cell, s.at_ns)))),
        client=to_frame(ClientSample, to_arrow(ClientSample, sorted(client, key=lambda s: (s.cell, s.at_ns)))),
    )
