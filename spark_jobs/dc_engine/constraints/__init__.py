"""The constraint language: parse, normalise, print. Pure Python; imports only PyYAML, and that late."""
