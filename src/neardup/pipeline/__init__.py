"""A batch run: from input files to a folder with the kept files and every decision."""
