"""Tenure: a GPU-cluster scheduler that hands out GPU time."""

__version__ = "0.1.0"
