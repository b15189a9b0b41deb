"""The review page: people look at what a run has decided, and decide otherwise."""
