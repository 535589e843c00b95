"""Metrics and pictures of a run: simulated today, from a live server's records tomorrow."""
