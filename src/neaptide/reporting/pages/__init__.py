"""Files that open in a browser: the HTML report of a run with its SVG drawings, and the Perfetto trace.

Imports `reporting.logs` and the axes, colours and windows of `reporting.figures`; only `cli` imports it.
"""
