"""Read documents from files, folders, DataFrames and Arrow streams; write the kept rows.

    find_inputs(arguments)               inputs.py   the input files, in order, with their formats
    cut_shards(files, reading)           shards.py   the files as independent pieces of work
    read_chunks(file), parse_chunk(...)  read.py     the documents of a file, in chunks for workers
    read_data(data)                      frames.py   the documents of a Python object
    write_kept(file, keep, to)           write.py    the file without the rows that are removed

They exchange `Columns` and `Documents` (documents.py). Import from the modules: this package
imports none of them, so that importing it does not load PyArrow.
"""
