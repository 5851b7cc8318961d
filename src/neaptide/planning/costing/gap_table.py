"""A plan's gaps as columns, with the checks that do not depend on what ops read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from neaptide.core.traces.columns import Flags, Floats, Integers
from neaptide.core.traces.trace import Trace
from neaptide.planning.plan import CODECS, Gap, Return

_CODE_OF = {Return.SWAP: 0, Return.RECOMPUTE: 1, Return.DECODE: 2}


@dataclass(frozen=True, slots=True, eq=False)
class GapTable:
    """Gaps ordered by (tensor, after)."""

    tensor: Integers
    after: Integers
    before: Integers
    fetch: Integers  # -1: as late as is in time
    gone: Integers  # -1: no op waits for the copy out
    swap: Flags
    recompute: Flags
    decode: Flags
    ratio: Floats  # bytes of the code over bytes of the tensor, for DECODE
    codec: tuple[str, ...]
    first: Flags  # whether it is the first gap of its tensor
    last: Flags  # whether it is the last gap of its tensor
    dropped: Flags  # the tensor never comes back: the gap ends at the number of ops

    def __len__(self) -> int:
        return self.tensor.size

    def gaps(self) -> tuple[Gap, ...]:
        """The gaps in a plan's order."""
        made = []
        for row in np.lexsort((self.tensor, self.after, self.before)).tolist():
            fetch, gone = int(self.fetch[row]), int(self.gone[row])
            made.append(
                Gap(
                    tensor=int(self.tensor[row]),
                    after=int(self.after[row]),
                    before=int(self.before[row]),
                    back=Return.SWAP if self.swap[row] else Return.RECOMPUTE if self.recompute[row] else Return.DECODE,
                    fetch=fetch if fetch >= 0 else None,
                    gone=gone if gone >= 0 else None,
                    codec=self.codec[row] or None,
                )
            )
        return tuple(made)

    @classmethod
    def of(cls, trace: Trace, gaps: Sequence[Gap]) -> GapTable:
        """The table of some gaps; ValueError if they cannot be gaps of this trace."""
        gaps = sorted(gaps, key=lambda gap: (gap.tensor, gap.after, gap.before))
        rows = np.array(
            [
                (
                    gap.tensor,
                    gap.after,
                    gap.before,
                    -1 if gap.fetch is None else gap.fetch,
                    -1 if gap.gone is None else gap.gone,
                    _CODE_OF[gap.back],
                )
                for gap in gaps
            ],
            dtype=np.int64,
        ).reshape(len(gaps), 6)
        tensor, after, before, fetch, gone, back = np.ascontiguousarray(rows.T)
        same = tensor[1:] == tensor[:-1]
        for gap in gaps:
            if (gap.back is Return.DECODE) != (gap.codec is not None) or gap.codec not in (None, *CODECS):
                raise ValueError(f"tensor {gap.tensor} comes back by {gap.back.value} with codec {gap.codec}")
        table = cls(
            tensor=tensor,
            after=after,
            before=before,
            fetch=fetch,
            gone=gone,
            swap=back == 0,
            recompute=back == 1,
            decode=back == 2,
            ratio=np.array([CODECS[gap.codec].ratio if gap.codec else 0.0 for gap in gaps], dtype=np.float64),
            codec=tuple(gap.codec or "" for gap in gaps),
            first=np.concatenate((np.ones(min(len(gaps), 1), dtype=np.bool_), ~same)),
            last=np.concatenate((~same, np.ones(min(len(gaps), 1), dtype=np.bool_))),
            dropped=before == len(trace.ops),
        )
        table._check(trace)
        return table

    def _check(self, trace: Trace) -> None:
        n, m = len(trace.ops), len(trace.tensors)
        _refuse(self, (self.tensor < 0) | (self.tensor >= m), f"is none of the {m} tensors")
        _refuse(self, (self.after >= self.before) | (self.before > n), f"has no gap there: there are {n} ops")
        born, died = trace.tensors.born[self.tensor], trace.tensors.died[self.tensor]
        _refuse(self, (self.after < born) | (self.after < 0), "is released before it is made")
        _refuse(
            self,
            (self.fetch >= 0) & ((self.fetch <= self.after) | (self.fetch > self.before)),
            "is fetched outside its gap",
        )
        _refuse(
            self,
            (self.gone >= 0) & ((self.gone <= self.after) | (self.gone > self.before)),
            "is waited for outside its gap",
        )
        _refuse(
            self,
            self.dropped & ((died == n) | ~self.recompute),
            "cannot be released for good: it outlives the iteration",
        )
        _refuse(self, self.first & ~self.recompute & (self.after > died), "has died before it can be copied")
        inner = ~self.first
        previous = np.roll(self.before, 1)
        _refuse(self, inner & (self.after < previous - 1), "is released again before it is back")


def _refuse(gaps: GapTable, wrong: Flags, why: str) -> None:
    if wrong.any():
        row = int(wrong.argmax())
        where = f"gap after op {gaps.after[row]}, before op {gaps.before[row]}"
        raise ValueError(f"not a plan: tensor {gaps.tensor[row]} {why} ({where})")
