"""The specification as examples with their results, for implementations in other languages.

`examples.py` has the form of a line, `cases.py` and `hostile_texts.py` all that is computed,
`by_reference.py` computes it slowly and plainly, `by_kernels.py` as the library does.
"""
