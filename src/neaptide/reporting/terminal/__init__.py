"""What people read in a terminal: tables, drawings with characters, live displays and progress bars.

Imports `reporting.logs` and the palettes of `reporting.figures`; the commands import it.
"""
