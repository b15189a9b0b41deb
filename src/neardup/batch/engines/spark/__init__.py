"""The batch run on Spark, which shuffles, spills and tries again; the kernels are the same.

PySpark is imported in here only, and never by `import neardup`.
"""
