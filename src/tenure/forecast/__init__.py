"""When will it start? The core, run forward from the live state, and how far such estimates have been off."""
