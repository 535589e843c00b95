"""Pictures of a run as Vega-Lite specifications, the same for the web page and for PNG files."""
