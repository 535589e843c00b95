"""The pure scheduling core: state and events in, decisions out. No clock, no I/O, no randomness."""
