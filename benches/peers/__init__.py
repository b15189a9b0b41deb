"""The tools that neardup is compared with, one script each: `python -m peers.NAME TASK PATH...`.

Run them as modules, with `benches` on PYTHONPATH: started as a file, `daft.py` would import
itself instead of the package that it measures.
"""
