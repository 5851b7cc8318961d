"""From a model or a step function to a trace: `measured` runs it, `estimated` does not."""

from neaptide.capture.estimated import estimated
from neaptide.capture.measured import measured
from neaptide.capture.session import CaptureError

__all__ = ["CaptureError", "estimated", "measured"]
