"""The training loops that people use, unchanged, as jobs; each asks for a GPU and is given the software one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from neaptide.core.traces.trace import Phase
from neaptide.core.traces.trace_format import decode
from neaptide.live.protocol import messages as say
from stand_in import StandIn, finished

STEPS = 14
MEASURED = 5
# Of each: the package, and how many batches are evaluated after the measurement.
PROGRAMS = {
    "hugging_face": ("transformers", 4),
    "lightning_fit": ("lightning", 4),
    "accelerate_loop": ("accelerate", 1),
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_framework_needs_no_change(program: str, tmp_path: Path) -> None:
    package, evaluated = PROGRAMS[program]
    pytest.importorskip(package)
    daemon = StandIn(tmp_path)
    daemon.after_profiled = StandIn.permit_many
    daemon.start()
    path = Path(__file__).parent / "third_party" / f"{program}.py"
    job = daemon.start_job(str(path), NEAPTIDE_CUDA_AS_SOFT="1", HF_HUB_OFFLINE="1")
    outcome = json.loads(finished(job).splitlines()[-1])
    assert outcome == {"device": "cuda", "same": True}
    daemon.wait_for(say.Goodbye)
    daemon.close()
    (profiled,) = daemon.all(say.Profiled)
    phases = decode(profiled.trace).ops.phase
    assert {Phase.FORWARD, Phase.BACKWARD} == set(phases.tolist())
    assert phases[0] == Phase.FORWARD
    # Every optimizer step is one iteration, however it accumulates gradients, and every evaluated batch another.
    assert profiled.measured == MEASURED
    assert len(daemon.all(say.PhaseEnded)) == STEPS - MEASURED
    assert len(daemon.all(say.IterationEnded)) == STEPS - MEASURED + evaluated
