"""Figures for papers and pages, drawn with matplotlib, and the axes and colours that all drawings share.

Imports `reporting.logs`; terminal tables and pages take their axes and colours from here.
"""
