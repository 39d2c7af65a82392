"""The gate for input: what it is, what is wrong with it, and arrays in return."""
