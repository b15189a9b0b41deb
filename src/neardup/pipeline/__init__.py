"""A run over files: from inputs on disk to a folder with the kept files and every decision."""
