"""A batch run on Spark, over files or DataFrames: the same stages and the same answer.

Modules of stages have the names of the local ones in `pipeline/stages/`. Classes whose docstring
begins with "In a task" are pickled and sent to executors.
"""
