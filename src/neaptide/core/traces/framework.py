"""Framework-internal memory (Salus): what a process has on the device besides the program's tensors, such as a context.

A measured trace has it if the device counts it. An estimate cannot know it, so whoever knows it adds it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from neaptide.core.traces.columns import Labels
from neaptide.core.traces.trace import Kind, Trace


def with_framework(trace: Trace, framework_bytes: int) -> Trace:
    """The same iteration of a process that has so many bytes more on the device for as long as it lives."""
    if framework_bytes == 0:
        return trace
    tensors = trace.tensors
    return replace(
        trace,
        tensors=replace(
            tensors,
            bytes=np.append(tensors.bytes, framework_bytes),
            kind=np.append(tensors.kind, np.uint8(Kind.FRAMEWORK)),
            label=_with_blank(tensors.label),
            layout=_with_blank(tensors.layout),
            born=np.append(tensors.born, -1),
            died=np.append(tensors.died, len(trace.ops)),
            saved=np.append(tensors.saved, np.False_),
        ),
    )


def _with_blank(labels: Labels) -> Labels:
    words = labels.words if "" in labels.words else (*labels.words, "")
    return Labels(words, np.append(labels.codes, words.index("")))
