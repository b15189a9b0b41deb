"""The same run on something else than the threads of one machine."""
