"""The dashboard: what a broker does, seen in a terminal. Textual is loaded here and nowhere else."""
