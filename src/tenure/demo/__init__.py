"""A demonstration: a small organisation, and a training program that behaves well under eviction."""
