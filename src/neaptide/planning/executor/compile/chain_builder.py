"""Which ops run again to recompute tensors before one op, and whether they can."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import torch

from neaptide.core.traces.trace import Kind, Trace
from neaptide.planning.executor.compile.program import Chain, Rerun
from neaptide.planning.executor.compile.recording import Call, Recording, Save
from neaptide.planning.plan import Gap

# These ops write buffers among their arguments although their schemas do not say so.
_SILENT_WRITERS = ("batch_norm", "fake_quant")


class ChainBuilder:
    """Builds the chains of one plan; adds to `reasons` why a tensor cannot be recomputed."""

    def __init__(
        self, trace: Trace, recording: Recording, saves: Mapping[int, Sequence[Save]], reasons: dict[int, str]
    ) -> None:
        self._trace, self._recording, self._saves, self._reasons = trace, recording, saves, reasons
        self._writers: dict[int, list[int]] = {}
        pairs = zip(trace.ops.writes.owners().tolist(), trace.ops.writes.items.tolist(), strict=True)
        for op, tensor in pairs:
            self._writers.setdefault(tensor, []).append(op)

    def chain(
        self, gaps: Sequence[Gap], returning: Collection[int], moment: int, following: Mapping[tuple[int, int], Gap]
    ) -> Chain:
        """The chain for the gaps that end before one op; its members are the tensors that it can recompute.

        `returning` are all tensors that come back there, `moment` is when they do, and `following` has the next gap of
        each tensor.
        """
        members = {gap.tensor: gap for gap in gaps}
        others = set(returning) - set(members)
        first = True
        while True:
            bad = {t: reason for t, gap in members.items() if (reason := self._problem(gap, members, others, moment))}
            # A tensor that is recomputed only for other members leaves when none of them reads it.
            idle = {t for t in members if t not in self._saves and not self._read_by_others(t, members)}
            if first:  # later problems only follow from these
                self._reasons.update({t: reason for t, reason in bad.items() if t not in self._reasons})
            first = False
            if not bad and not idle:
                return self._assembled(members, following)
            for tensor in {*bad, *idle}:
                del members[tensor]

    def _ops(self, gap: Gap) -> list[int]:
        return [op for op in self._writers.get(gap.tensor, []) if op <= gap.after]

    def _read_by_others(self, tensor: int, members: Mapping[int, Gap]) -> bool:
        return any(
            tensor in self._trace.ops.reads[op].tolist()
            for other, gap in members.items()
            if other != tensor
            for op in self._ops(gap)
        )

    def _problem(self, gap: Gap, members: Mapping[int, Gap], others: Collection[int], moment: int) -> str:
        """Why the tensor cannot be recomputed; empty if it can."""
        ops = self._ops(gap)
        if not ops:
            return "no op of the iteration makes it"
        for op in ops:
            call = self._recording.calls.get(op)
            name = self._trace.ops.name[op]
            if call is None:
                return f"op {op} ({name}) was not recorded"
            if call.changes:
                return f"op {op} ({name}) is given other numbers in other iterations"
            if torch.Tag.nondeterministic_seeded in call.function.tags:
                return f"op {op} ({name}) draws random numbers"
            for tensor in call.tensors():
                problem = self._missing(tensor, op, members, others, moment)
                if problem:
                    return f"op {op} ({name}) {problem}"
        return ""

    def _missing(self, tensor: int, op: int, members: Mapping[int, Gap], others: Collection[int], moment: int) -> str:
        if tensor < 0:
            return "reads a tensor that is not on the device"
        if tensor in members or tensor in others or tensor in self._recording.persistent:
            return ""
        if int(self._trace.tensors.born[tensor]) == op:
            return ""  # the op itself makes it
        if any(save.gone is None or save.gone > moment for save in self._saves.get(tensor, ())):
            return ""
        return f"reads tensor {tensor}, which nothing keeps until then"

    def _assembled(self, members: Mapping[int, Gap], following: Mapping[tuple[int, int], Gap]) -> Chain:
        ops = sorted({op for gap in members.values() for op in self._ops(gap)})
        touched = {op: {*self._trace.ops.reads[op].tolist(), *self._trace.ops.writes[op].tolist()} for op in ops}
        onward = {
            t: again
            for t, gap in members.items()
            if (again := following.get((t, gap.before))) is not None and again.after < gap.before
        }
        died = self._trace.tensors.died
        stays = {t for t, gap in members.items() if t in self._saves and t not in onward and died[t] >= gap.before}
        last = {t: max(op for op in ops if t in touched[op]) for t in members if t not in stays}
        reruns = []
        for op in ops:
            call = self._recording.calls[op]
            replaced = {t for t in self._written(call) if t not in members and self._is_protected(t, op)}
            if any(part in call.function.name() for part in _SILENT_WRITERS):
                replaced |= {t for t in call.tensors() if self._trace.tensors.kind[t] == Kind.BUFFER}
            frees = tuple(t for t, until in last.items() if until == op)
            begins = {t for t in self._written(call) if int(self._trace.tensors.born[t]) == op}
            reruns.append(Rerun(op, call, frozenset(replaced), frozenset(begins), frees))
        return Chain(tuple(reruns), frozenset(members), frozenset(stays), onward)

    def _is_protected(self, tensor: int, op: int) -> bool:
        return self._trace.tensors.kind[tensor] == Kind.BUFFER or int(self._trace.tensors.born[tensor]) != op

    @staticmethod
    def _written(call: Call) -> set[int]:
        """The tensors among the arguments that the call writes."""
        found: set[int] = set()
        for position, argument in enumerate(call.function._schema.arguments):
            if argument.alias_info is None or not argument.alias_info.is_write:
                continue
            given = call.keywords.get(argument.name)
            if position < len(call.arguments) and not argument.kwarg_only:
                given = call.arguments[position]
            found.update(call.tensors_in((given,)))
        return found
