"""What people read in a terminal: tables, curves drawn with characters, live displays, progress bars, tracebacks.

Imports `reporting.logs` and the axes, colours and trace timelines of `reporting.figures`; scenarios, reproductions and
commands import it.
"""
