"""Files that open in a browser: the HTML report of a run, its SVG drawings, and the Perfetto trace.

Imports the other rooms of `reporting`; only commands import it.
"""
