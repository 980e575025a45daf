"""Charts and bars as text, SVG or PNG. Pure: numbers in, characters or bytes out."""
