"""Where the gaps of a plan begin and end among the moments of a recorded iteration, and which gaps are refused."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from neaptide.core.traces.trace import Trace
from neaptide.planning.analysis.sign_readers import only_signs_are_read
from neaptide.planning.executor.compile.chain_builder import ChainBuilder
from neaptide.planning.executor.compile.program import Chain, Refusal
from neaptide.planning.executor.compile.recording import Recording, Save
from neaptide.planning.plan import Gap, Plan, Return


class Placement:
    """The gaps of one plan that can be carried out, the moments at which they begin and end, and the refusals."""

    def __init__(self, trace: Trace, plan: Plan, recording: Recording) -> None:
        self._trace, self._plan, self._recording = trace, plan, recording
        self._saves: dict[int, list[Save]] = {}
        for save in recording.saves:
            self._saves.setdefault(save.tensor, []).append(save)
        self._reasons: dict[int, str] = {}
        self._builder = ChainBuilder(trace, recording, self._saves, self._reasons)
        self._triggers: dict[int, int] = {}  # by op: the moment at which the gaps that end before it end
        self._void: set[Gap] = set()  # gaps that were merged with others, or dropped, without a refusal
        self._ends_at: set[tuple[int, int]] = set()  # (tensor, before) of recomputations
        gaps: Sequence[Gap] = [gap for gap in plan.gaps if self._can_begin(gap)]
        kept, self.chains = self._placed(gaps)
        # Later refusals only follow from these, so they are not reported.
        self.refused = tuple(Refusal(tensor, reason) for tensor, reason in sorted(self._reasons.items()))
        while set(kept) != set(gaps):  # a refused tensor stays, and other gaps may depend on its return
            gaps = kept
            kept, self.chains = self._placed(gaps)
        self.gaps = gaps

    def is_saved(self, tensor: int) -> bool:
        return tensor in self._saves

    def end(self, gap: Gap) -> int:
        """The moment at which the gap ends."""
        return self._triggers[gap.before]

    def begin(self, gap: Gap) -> int:
        """The moment at which the gap begins. If the tensor came back only for a recomputation, it is that moment."""
        interrupted = self._triggers.get(gap.after + 1)
        if interrupted is not None and (gap.tensor, gap.after + 1) in self._ends_at:
            return interrupted
        return max(self._recording.first_moment(gap.after + 1), self._recording.only_saved_from.get(gap.tensor, -1))

    def _first_asked(self, gap: Gap) -> int | None:
        """The first moment after the gap's beginning at which autograd asks for the tensor."""
        begin = self.begin(gap)
        return min((use for save in self._saves.get(gap.tensor, ()) for use in save.uses if use > begin), default=None)

    def _can_begin(self, gap: Gap) -> bool:
        """Whether the executor can release the tensor at all."""
        if gap.before == len(self._trace.ops):
            return self._refuse(gap, "autograd or the program holds it for good")
        if gap.tensor not in self._saves:
            # A tensor that is not saved dies by itself. It can only be recomputed for others.
            gone = int(self._trace.tensors.died[gap.tensor]) <= gap.after
            return (gap.back is Return.RECOMPUTE and gone) or self._refuse(gap, "autograd does not save it")
        if gap.tensor not in self._recording.only_saved_from:
            return self._refuse(gap, "the program holds it too")
        types = {save.view.dtype for save in self._saves[gap.tensor]}
        if gap.back is Return.DECODE and (len(types) > 1 or not min(types, key=str).is_floating_point):
            return self._refuse(gap, "a codec is for numbers of one floating-point type")
        if gap.codec == "bit" and not only_signs_are_read(self._trace, self._plan, gap):
            return self._refuse(gap, "more than its sign is read again")
        return True

    def _refuse(self, gap: Gap, reason: str) -> bool:
        self._reasons.setdefault(gap.tensor, reason)
        return False

    def _placed(self, gaps: Sequence[Gap]) -> tuple[list[Gap], dict[int, Chain]]:
        """The gaps that can end before their ops, and the chains that recompute tensors there."""
        groups: dict[int, list[Gap]] = defaultdict(list)
        for gap in gaps:
            groups[gap.before].append(gap)
        self._ends_at = {(gap.tensor, gap.before) for gap in gaps if gap.back is Return.RECOMPUTE}
        self._triggers = {}
        following = self._following(gaps)
        kept: list[Gap] = []
        chains: dict[int, Chain] = {}
        for before in sorted(groups):
            group = groups[before]
            trigger = self._trigger(before, group)
            there = [gap for gap in group if self._can_end(gap, trigger)]
            if trigger is None:
                self._merge(group, following, groups)
                continue
            self._triggers[before] = trigger
            members = [gap for gap in there if gap.back is Return.RECOMPUTE]
            if members:
                chain = self._builder.chain(members, {gap.tensor for gap in there}, trigger, following)
                there = [gap for gap in there if gap.back is not Return.RECOMPUTE or gap.tensor in chain.members]
                chains[before] = chain
            kept += there
        # If one gap of a saved tensor is refused, all its gaps are.
        stuck = {gap.tensor for gap in set(gaps) - set(kept) - self._void if gap.tensor in self._saves}
        return [gap for gap in kept if gap.tensor not in stuck], chains

    def _merge(
        self, group: Iterable[Gap], following: Mapping[tuple[int, int], Gap], groups: dict[int, list[Gap]]
    ) -> None:
        """Merge gaps with the next gap of their tensor, because no tensor comes back before this op after all."""
        for gap in group:
            again = following.get((gap.tensor, gap.before))
            if again is not None and again.after < gap.before and gap.tensor not in self._reasons:
                self._void |= {gap, again}
                others = [other for other in groups[again.before] if other != again]
                groups[again.before] = [*others, replace(again, after=gap.after)]

    @staticmethod
    def _following(gaps: Iterable[Gap]) -> dict[tuple[int, int], Gap]:
        """By tensor and `before` of a gap: the next gap of the same tensor."""
        found: dict[tuple[int, int], Gap] = {}
        last: dict[int, Gap] = {}
        for gap in sorted(gaps, key=lambda gap: (gap.tensor, gap.after)):
            if gap.tensor in last:
                found[gap.tensor, last[gap.tensor].before] = gap
            last[gap.tensor] = gap
        return found

    def _trigger(self, before: int, group: Iterable[Gap]) -> int | None:
        """The moment at which a group of gaps ends: autograd asks for the first of their tensors."""
        asked = [moment for gap in group if (moment := self._first_asked(gap)) is not None]
        return min((moment for moment in asked if self._recording.op_of_moment[moment] <= before), default=None)

    def _can_end(self, gap: Gap, trigger: int | None) -> bool:
        if trigger is None:
            # Only tensors that the op itself reads are refused; the others would have come back for them.
            blamed = gap.tensor in self._trace.ops.reads[gap.before].tolist()
            return blamed and self._refuse(gap, f"autograd does not ask for it in time for op {gap.before}")
        if gap.tensor in self._saves and self.begin(gap) >= trigger:
            if (gap.tensor, gap.after + 1) in self._ends_at:
                self._void.add(gap)  # two returns fall on one moment, and the tensor stays between them
                return False
            return self._refuse(gap, "there is no moment between its release and its return")
        return True
