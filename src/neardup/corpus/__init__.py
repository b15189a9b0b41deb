"""Documents in: files, folders, DataFrames, Arrow streams; kept files out.

    find_inputs(arguments)      inputs.py     which files, in which order, of which format
    chunks(file) -> parse(...)  read.py       the documents of a file, cut for worker processes
    from_data(data)             frames.py     the documents of a Python object
    write_kept(file, keep, to)  write.py      the file again, without the rows that go

Columns, Documents and concat_keep (documents.py) are what they exchange. Import from the files:
this page imports nothing, so that looking at the package does not load PyArrow.
"""
