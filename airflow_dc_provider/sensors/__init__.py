"""Tasks that wait: for a verdict, for loads, for data to be mended."""
