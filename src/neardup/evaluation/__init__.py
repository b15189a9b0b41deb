"""How good is it, on the user's own data? Measured against brute force."""
