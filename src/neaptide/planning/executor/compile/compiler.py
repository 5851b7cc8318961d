"""Compiles a plan into a program: moves gaps to moments, and refuses what cannot be carried out, with the reason."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from neaptide.core.device import DeviceSpec
from neaptide.core.traces.trace import Trace
from neaptide.planning.analysis.sign_readers import only_signs_are_read
from neaptide.planning.executor.compile.chain_builder import ChainBuilder
from neaptide.planning.executor.compile.program import Chain, Program, Refusal, Step, Verb
from neaptide.planning.executor.compile.recording import Recording, Save
from neaptide.planning.executor.compile.swapping import planned_fetch_ops, release_ops
from neaptide.planning.plan import Gap, Plan, Return


def compile_plan(trace: Trace, plan: Plan, recording: Recording, device: DeviceSpec, waits: bool = False) -> Program:
    """The program that carries out as much of the plan as is possible.

    A swapped tensor is released at the first moment after the expected end of its copy out. With `waits` it is released
    at the last moment before, where the program waits for the copy: that holds less and takes a little longer.
    """
    return _Compiler(trace, plan, recording, device, waits).program()


class _Compiler:
    def __init__(self, trace: Trace, plan: Plan, recording: Recording, device: DeviceSpec, waits: bool) -> None:
        self._trace, self._plan, self._recording, self._device = trace, plan, recording, device
        self._waits = waits
        self._saves: dict[int, list[Save]] = {}
        for save in recording.saves:
            self._saves.setdefault(save.tensor, []).append(save)
        self._reasons: dict[int, str] = {}
        self._builder = ChainBuilder(trace, recording, self._saves, self._reasons)
        self._triggers: dict[int, int] = {}  # by op: the moment at which the gaps that end before it end
        self._void: set[Gap] = set()  # gaps that became part of others, or of nothing, without a refusal
        self._ends_at: set[tuple[int, int]] = set()  # (tensor, before) of recomputations

    def program(self) -> Program:
        gaps: Sequence[Gap] = [gap for gap in self._plan.gaps if self._leaves(gap)]
        kept, chains = self._placed(gaps)
        blamed = dict(self._reasons)
        while set(kept) != set(gaps):  # a refused tensor stays, and other gaps may depend on its return
            gaps = kept
            kept, chains = self._placed(gaps)
        steps = self._steps(gaps)
        moments = {(step.verb, step.gap): moment for moment, some in steps.items() for step in some}
        executed = [self._executed(gap, moments) for gap in gaps]
        read = {t for chain in chains.values() for rerun in chain.reruns for t in rerun.call.tensors() if t >= 0}
        recorded = frozenset(t for t in {*read, *(gap.tensor for gap in gaps)} if t in self._saves)
        return Program(
            plan=replace(self._plan, gaps=tuple(sorted(executed, key=lambda gap: (gap.before, gap.after, gap.tensor)))),
            refused=tuple(Refusal(tensor, reason) for tensor, reason in sorted(blamed.items())),
            saves=self._recording.saves,
            steps=steps,
            chains={(gap.tensor, gap.before): chains[gap.before] for gap in gaps if gap.back is Return.RECOMPUTE},
            recorded=recorded,
            bytes_of={tensor: int(self._trace.tensors.bytes[tensor]) for tensor in read},
            persistent={t: name for t, name in self._recording.persistent.items() if t in read},
        )

    # Where gaps begin and end

    def _first_moment(self, op: int) -> int:
        """The first moment at which all ops before `op` have been launched."""
        return bisect_left(self._recording.op_of_moment, op)

    def _last_moment(self, op: int) -> int:
        """The last moment at which op `op` has not been launched yet."""
        return bisect_right(self._recording.op_of_moment, op) - 1

    def _leave(self, gap: Gap) -> int:
        """The moment at which the gap begins. If the tensor came back only for a recomputation, it is that moment."""
        interrupted = self._triggers.get(gap.after + 1)
        if interrupted is not None and (gap.tensor, gap.after + 1) in self._ends_at:
            return interrupted
        return max(self._first_moment(gap.after + 1), self._recording.only_saved_from.get(gap.tensor, -1))

    def _asked(self, gap: Gap) -> int | None:
        """The first moment after the gap's beginning at which autograd asks for the tensor."""
        leave = self._leave(gap)
        return min((use for save in self._saves.get(gap.tensor, ()) for use in save.uses if use > leave), default=None)

    def _leaves(self, gap: Gap) -> bool:
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
            there = [gap for gap in group if self._ends(gap, trigger)]
            if trigger is None:
                self._join(group, following, groups)
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

    def _join(
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
        asked = [moment for gap in group if (moment := self._asked(gap)) is not None]
        return min((moment for moment in asked if self._recording.op_of_moment[moment] <= before), default=None)

    def _ends(self, gap: Gap, trigger: int | None) -> bool:
        if trigger is None:
            # Only tensors that the op itself reads are refused; the others would have come back for them.
            blamed = gap.tensor in self._trace.ops.reads[gap.before].tolist()
            return blamed and self._refuse(gap, f"autograd does not ask for it in time for op {gap.before}")
        if gap.tensor in self._saves and self._leave(gap) >= trigger:
            if (gap.tensor, gap.after + 1) in self._ends_at:
                self._void.add(gap)  # two returns fall on one moment, and the tensor stays between them
                return False
            return self._refuse(gap, "there is no moment between its release and its return")
        return True

    # What is done at the moments

    def _steps(self, gaps: Sequence[Gap]) -> dict[int, tuple[Step, ...]]:
        steps: dict[int, list[Step]] = defaultdict(list)
        swaps = sorted((gap for gap in gaps if gap.back is Return.SWAP), key=lambda gap: (self._leave(gap), gap.tensor))
        begun = [replace(gap, after=self._recording.op_of_moment[self._leave(gap)] - 1) for gap in swaps]
        releases = release_ops(self._trace, begun, self._device)
        fetches = planned_fetch_ops(self._trace, swaps, self._device)
        for gap, release, fetch in zip(swaps, releases, fetches, strict=True):
            leave, back = self._leave(gap), self._triggers[gap.before]
            comes = min(max(self._last_moment(fetch), leave + 1), back)
            ended = self._last_moment(release) if self._waits else self._first_moment(release + 1)
            goes = ended if gap.gone is None else self._last_moment(gap.gone)
            goes = min(max(goes, leave + 1), comes)
            steps[leave].append(Step(Verb.SEND, gap))
            steps[goes].append(Step(Verb.RELEASE, gap))
            steps[comes].append(Step(Verb.FETCH, gap))
        for gap in gaps:
            if gap.back is not Return.SWAP and gap.tensor in self._saves:
                verb = Verb.ENCODE if gap.back is Return.DECODE else Verb.DROP
                steps[self._leave(gap)].append(Step(verb, gap))
        return {
            moment: tuple(sorted(some, key=lambda step: (step.verb.value, step.gap.before)))
            for moment, some in steps.items()
        }

    def _executed(self, gap: Gap, moments: Mapping[tuple[Verb, Gap], int]) -> Gap:
        """The gap as the program carries it out, in ops."""
        op_of = self._recording.op_of_moment
        before = min(op_of[self._triggers[gap.before]], gap.before)
        if gap.tensor not in self._saves:
            return replace(gap, before=before)
        after = op_of[self._leave(gap)] - 1
        if gap.back is not Return.SWAP:
            return replace(gap, after=after, before=before)
        gone, fetch = (min(max(op_of[moments[verb, gap]], after + 1), before) for verb in (Verb.RELEASE, Verb.FETCH))
        return replace(gap, after=after, before=before, gone=gone, fetch=fetch)
