"""The budget: what the user wants, what processes outside the board leave of it, and what policies are told."""

from __future__ import annotations

from collections.abc import Callable

from neaptide.core.control import events as ev
from neaptide.core.control.job_limits import check_budget
from neaptide.core.control.ledger import Ledger
from neaptide.devices.interface import DeviceKind
from neaptide.live.daemon.engine import LiveEngine

_LOOK_NS = 1_000_000_000  # between looks at processes outside the board


class Budget:
    """Keeps the board's capacity at what is possible, and the policy informed of what it may use."""

    def __init__(
        self,
        engine: LiveEngine,
        ledger: Ledger,
        kind: DeviceKind,
        wanted_bytes: int,
        changed: Callable[[int], None],
    ) -> None:
        self._engine = engine
        self._ledger = ledger
        self._kind = kind
        self._wanted_bytes = wanted_bytes
        self._changed = changed
        self._looked_ns = 0
        self._told_bytes = wanted_bytes  # as the policy knows it
        self.bytes = wanted_bytes  # in force: less than is wanted while processes outside the board take memory
        engine.board.set_capacity(wanted_bytes)

    def want(self, wanted_bytes: int) -> None:
        """The user wants another budget; ValueError if it is too small for one lease, or too large for the board."""
        check_budget(wanted_bytes, self._engine.board.chunk_bytes)
        self._wanted_bytes = wanted_bytes
        self._change(self._possible_bytes())

    def look(self, now_ns: int) -> None:
        """Lower the budget while processes outside the board take its memory, and raise it again afterwards."""
        if now_ns - self._looked_ns < _LOOK_NS:
            return
        self._looked_ns = now_ns
        possible_bytes = self._possible_bytes()
        if possible_bytes != self.bytes:
            self._change(possible_bytes)

    def tell(self) -> None:
        """Tell the policy what the budget leaves beside the bytes of unresponsive jobs and of jobs not measured yet.

        It is never too little for a job that could run alone: that job and one that is not measured take turns.
        """
        left_bytes = max(self.bytes - self._engine.stuck_bytes(), 1)
        least_bytes = min(self._ledger.largest_need_bytes(), left_bytes)
        granted_bytes = max(left_bytes - self._engine.newcomer_bytes(), least_bytes, 1)
        if granted_bytes != self._told_bytes:
            self._told_bytes = granted_bytes
            self._engine.post(ev.BudgetChanged(self._engine.now_ns, granted_bytes, self.bytes))

    def _possible_bytes(self) -> int:
        board = self._engine.board
        most_bytes = self._kind.most_bytes(board)
        if most_bytes is None:
            return self._wanted_bytes
        return min(self._wanted_bytes, max(most_bytes, board.chunk_bytes))

    def _change(self, budget_bytes: int) -> None:
        self.bytes = budget_bytes
        self._engine.board.set_capacity(budget_bytes)
        self.tell()
        self._changed(budget_bytes)
