"""The report of a finished run: one HTML file, made from the run's folder alone."""
