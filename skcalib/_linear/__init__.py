"""Log loss of linear maps and splines of logits and of mixtures, and its minimum."""
