"""HTML pages: a finished run, an evaluation, a sweep, sketches compared, hash functions."""
