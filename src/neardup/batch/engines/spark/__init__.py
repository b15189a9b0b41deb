"""The batch run on Spark: it shuffles, spills and tries again; the kernels are those of the local run.

PySpark is imported in here only, and never by `import neardup`.
"""
