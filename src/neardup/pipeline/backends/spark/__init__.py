"""A run over files or DataFrames on Spark: the same stages, the same answer.

Spark shuffles, spills and tries again; kernels run on Arrow batches in its Python workers.
What is between two stages is a table of Parquet files, so that a lost executor loses nothing.
"""
