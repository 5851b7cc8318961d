"""When the copies in of swapped tensors begin: just in time, but not before there is room for their bytes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from neaptide.planning.costing.gap_table import GapTable
from neaptide.planning.costing.rows import WAIT
from neaptide.planning.costing.schedule import Scheduler
from neaptide.planning.costing.timing import RowTimes, fetch_ops, latest_fetches


def prefetch_into_room(scheduler: Scheduler, table: GapTable, budget_bytes: int) -> GapTable:
    """The gaps with `fetch` set to the latest op that is in time, or to a later op if there is no room before it."""
    found = scheduler.schedule_gaps(replace(table, fetch=np.where(table.swap, table.before, -1)))
    rows, trace = found.rows, scheduler.trace
    swaps = np.flatnonzero(table.swap)
    unhindered = np.where(rows.stage == WAIT, 0.0, found.durations)
    starts = RowTimes(unhindered, found.host_seconds, trace.asynchronous).starts()
    sizes = trace.tensors.bytes[table.tensor[swaps]]
    needed = rows.group_row[table.before[swaps]]
    begins = latest_fetches(starts, needed, sizes / scheduler.device.link_bandwidth)
    first = fetch_ops(starts[rows.op_row[:-1]], begins, table.after[swaps], table.before[swaps])
    room = budget_bytes - found.held_if_copies_were_done()
    for at in np.argsort(needed, kind="stable").tolist():
        size, begin, end = int(sizes[at]), int(rows.group_row[first[at]]), int(needed[at])
        if begin < end:
            tight = np.flatnonzero(room[begin:end] < size)
            if tight.size:  # begin at the first op after the last row without room
                begin += int(tight[-1]) + 1
                op = int(rows.anchor[begin])
                first[at] = min(op + (begin > rows.group_row[op]), int(table.before[swaps[at]]))
                begin = int(rows.group_row[first[at]])
            room[begin:end] -= size
    fetch = np.full(len(table), -1)
    fetch[swaps] = first
    return replace(table, fetch=fetch)
