"""Was this key there before? Exactly, or with a known rate of error in little memory."""
