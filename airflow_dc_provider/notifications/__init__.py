"""Telling people that a gate is closed."""
