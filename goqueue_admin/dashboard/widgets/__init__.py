"""What screens are made of: a table, a plot, a tail, and the lines around them."""
