"""The stages of a local batch run, in order: sketch, rank, band, match, compare, decide, tables.

Each stage reads files and leaves files in the work folder, with a key of what they depend on
(`pipeline/stage_files.py`), so that a stopped run resumes. What a stage leaves in memory is small:
a byte or two for each document.
"""
