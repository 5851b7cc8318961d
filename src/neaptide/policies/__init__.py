"""Many jobs on one device: the papers' policies and our own, one file each, by name.

`parts/` holds rules that several policies share; `files` finds a policy by its name, or in a user's file. A new policy
is a file here and a line of `POLICIES`. This room imports core, and `files` also `user_files`. `live.runs`,
reproductions, the commands and `neaptide.api` find policies here; policy authors use `neaptide.policy`.
"""

from __future__ import annotations

from functools import partial

from neaptide.core.control.policy import Policy
from neaptide.core.registry import Registry
from neaptide.policies.antman import AntMan
from neaptide.policies.gandiva import Gandiva
from neaptide.policies.gslice import Gslice
from neaptide.policies.herald import Herald
from neaptide.policies.mig import Mig
from neaptide.policies.mps import Mps
from neaptide.policies.neaptide import Neaptide
from neaptide.policies.salus import Order, Salus
from neaptide.policies.spatial import Spatial, SpatialPaged
from neaptide.policies.switchflow import SwitchFlow
from neaptide.policies.temporal import Fifo, Temporal
from neaptide.policies.ticktock import TickTock
from neaptide.policies.zico import Zico

POLICIES: Registry[Policy] = Registry(
    "policy",
    {
        "temporal": Temporal,
        "fifo": Fifo,
        "spatial": Spatial,
        "spatial-paged": SpatialPaged,
        "mps": Mps,
        "mig": Mig,
        "gslice": Gslice,
        "switchflow": SwitchFlow,
        "ticktock": TickTock,
        "zico": Zico,
        **{f"salus-{order.value}": partial(Salus, order=order) for order in Order},
        "gandiva": Gandiva,
        "antman": AntMan,
        "herald": Herald,
        "neaptide": Neaptide,
    },
)

__all__ = ["POLICIES"]
