"""Another operating point beside the current one, tried on the same documents."""
