"""Where the bytes of one planned tensor of one iteration are now."""

from __future__ import annotations

import torch
from torch import Tensor

from neaptide.planning.executor.compile.recording import TensorView
from neaptide.planning.executor.run.codecs import DECODE, ENCODE, Code
from neaptide.planning.executor.run.copying import Copier, HostCopy
from neaptide.planning.plan import Gap, Return

AWAY = Gap(tensor=0, after=0, before=1, back=Return.SWAP)  # the gap of a record that no plan has sent to the host


class Record:
    """Holds a storage, its code, or its copy on the host. Autograd's handles share it and keep it alive."""

    __slots__ = ("__weakref__", "_code", "_copier", "_host_copy", "gap", "holder", "tensor", "version")

    def __init__(self, tensor: int, saved: Tensor, copier: Copier) -> None:
        self.tensor = tensor
        self.holder: Tensor | None = (
            saved.detach()
        )  # detached, because the tensor itself would hold its node in a cycle
        self.version: int | None = None  # of the tensor, when its storage was first released
        self.gap: Gap | None = None  # the current gap
        self._copier = copier
        self._host_copy: HostCopy | None = None
        self._code: Code | None = None

    def __del__(self) -> None:
        if self._host_copy is not None:
            self._copier.abandon(self._host_copy)

    def _release_storage(self) -> None:
        if self.version is None and self.holder is not None:
            self.version = self.holder._version
        self.holder = None

    def current_version(self) -> int | None:
        """The version of the user's tensor; after a release, its version at the release."""
        return self.version if self.version is not None or self.holder is None else self.holder._version

    def drop(self, gap: Gap) -> None:
        if self.holder is not None:
            self.gap = gap
            self._release_storage()

    def encode(self, gap: Gap, dtype: torch.dtype) -> None:
        if self.holder is not None:
            assert gap.codec is not None
            storage = self.holder.untyped_storage()
            count = storage.nbytes() // dtype.itemsize
            self._code = ENCODE[gap.codec](TensorView(dtype, torch.Size((count,)), (1,), 0).on(self.holder))
            self.gap = gap
            self._release_storage()

    def decode(self) -> None:
        assert self._code is not None
        assert self.gap is not None
        assert self.gap.codec is not None
        self.restore(DECODE[self.gap.codec](self._code))
        self._code = None

    def send(self, gap: Gap) -> None:
        if self.holder is not None and self._host_copy is None:
            self._host_copy = self._copier.send(self.holder)
            self.gap = gap

    def release(self, gap: Gap) -> None:
        """Release the storage after its copy out, unless autograd has asked for it meanwhile."""
        if self.gap is gap and self._host_copy is not None and self.holder is not None:
            self._copier.await_sent(self._host_copy)
            self._release_storage()

    @property
    def away_bytes(self) -> int:
        """Device memory that the return of the storage will yet take."""
        copy = self._host_copy
        return 0 if copy is None or copy.arriving is not None else copy.bytes

    def fetch(self, gap: Gap) -> None:
        if self.gap is gap and self.holder is None and self._host_copy is not None:
            self._copier.fetch(self._host_copy)

    def unfetch(self) -> None:
        """Release what was fetched ahead; the copy on the host stays."""
        if self._host_copy is not None:
            self._copier.unfetch(self._host_copy)

    def receive(self) -> None:
        assert self._host_copy is not None
        self.restore(self._copier.receive(self._host_copy))
        self._host_copy = None

    def stay(self) -> None:
        """Keep the storage, because autograd asked for it before its release."""
        if self._host_copy is not None:
            self._copier.abandon(self._host_copy)
            self._host_copy = None
        self.gap = None

    def restore(self, holder: Tensor) -> None:
        self.holder = holder
        self.gap = None
