"""The stages of a local batch run, in order: sketch, rank, band, match, decide, tables, pairs.

Each stage reads and writes files in the work folder, with a key of everything they depend on
(`pipeline/stage_files.py`), so that a stopped run can resume. Between stages a byte or two for each
document are in memory.
"""
