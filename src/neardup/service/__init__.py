"""The index behind HTTP, durable and guarded."""
