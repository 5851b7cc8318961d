"""Figures for papers, drawn with matplotlib, and what all drawings share: axes, colours and the parts of a run to draw.

Imports `reporting.logs`; `terminal` and `pages` take axes, colours and windows from here.
"""
