"""Which operating point meets what is asked? The planner, the sweep and its results."""
