"""The live loop around the core: recover, decide, write, act."""
