"""When tensors are idle: from the last forward use to the first backward use, and between later uses."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from neaptide.core.traces.columns import Flags, Integers
from neaptide.core.traces.trace import Trace
from neaptide.planning.analysis.candidates import candidates
from neaptide.planning.plan import Gap, Return


@dataclass(frozen=True, slots=True, eq=False)
class IdleSpans:
    """Each span goes from one use of a tensor to its next, with ops between; ordered by `before`."""

    tensor: Integers
    bytes: Integers
    after: Integers  # the op of the first use
    before: Integers  # the op of the next use
    recomputable: Flags
    first: Flags  # whether it is the tensor's first: from the forward pass to the backward pass

    def __len__(self) -> int:
        return self.tensor.size

    def gap(self, index: int, back: Return) -> Gap:
        """The gap of a span."""
        return Gap(
            tensor=int(self.tensor[index]), after=int(self.after[index]), before=int(self.before[index]), back=back
        )

    def covering(self, rows: Integers, wanted_bytes: float) -> Integers:
        """The first of these rows, as many as are needed for `wanted_bytes`."""
        return rows[: int(np.searchsorted(np.cumsum(self.bytes[rows]), wanted_bytes)) + 1]

    def absent(self, chosen: Iterable[int], op: int) -> set[int]:
        """The tensors of the chosen spans that are absent before an op or come back before it."""
        return {int(self.tensor[each]) for each in chosen if self.after[each] < op <= self.before[each]}


def idle_spans(trace: Trace) -> IdleSpans:
    """The idle spans of all candidates, from the end of their forward use on."""
    known = candidates(trace)
    row_of = np.full(len(trace.tensors), -1)
    row_of[known.tensor] = np.arange(len(known))
    ops = trace.ops
    tensor = np.concatenate((ops.reads.items, ops.writes.items))
    op = np.concatenate((ops.reads.owners(), ops.writes.owners()))
    row = row_of[tensor]
    used = row >= 0
    used[used] = op[used] >= known.last_forward[row[used]]
    keys = np.unique(row[used] * (len(ops) + 1) + op[used])
    row, op = keys // (len(ops) + 1), keys % (len(ops) + 1)
    idle = np.flatnonzero((row[1:] == row[:-1]) & (op[1:] > op[:-1] + 1))
    idle = idle[np.lexsort((op[idle], op[idle + 1]))]
    which = row[idle]
    return IdleSpans(
        tensor=known.tensor[which],
        bytes=known.bytes[which],
        after=op[idle],
        before=op[idle + 1],
        recomputable=known.recomputable[which],
        first=op[idle] == known.last_forward[which],
    )
