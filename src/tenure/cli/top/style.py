"""How the screen is laid out and coloured, in Textual's CSS."""

from __future__ import annotations

CSS = """
Screen { background: #10141c; color: #c9d1de; layout: vertical; overflow: hidden; }

#head { height: 1; padding: 0 1; background: #1a2130; color: #e4e9f2; }
#away { height: 1; padding: 0 1; background: #7a2e36; color: #ffffff; display: none; }
.-away #away { display: block; }
.-away #overview, .-away #jobs, .-away #why { opacity: 60%; }

#overview { height: 38%; min-height: 9; max-height: 22; }
#map, #budgets, #why, #jobs {
    border: round #2a3345; border-title-color: #8fa3c4; border-title-style: bold;
    border-subtitle-color: #6b7890; background: #10141c; padding: 0 1;
}
#map { width: 2fr; }
#budgets { width: 3fr; }
.-wide #map { width: 1fr; }
.-wide #budgets { width: 1fr; }
#budgets, #why, #jobs { scrollbar-size-vertical: 1; scrollbar-color: #34405a; scrollbar-background: #10141c;
    scrollbar-color-hover: #4c8dff; scrollbar-background-hover: #10141c; }
#budgets { scrollbar-gutter: stable; }
#budgets Static { text-wrap: nowrap; }
#budgets:focus, #why:focus, #jobs:focus { border: round #3f5680; }

#why { height: 55%; display: none; }
.-tall #why { height: 35%; }
.-tall.-asking #overview { height: 30%; }
.-asking #why { display: block; }
.-low.-asking #overview { display: none; }

#filter { height: 1; border: none; padding: 0 1; background: #1a2130; display: none; }
.-filtering #filter { display: block; }

#jobs { height: 1fr; padding: 0; background-tint: #10141c 0%; }
#jobs:focus { background-tint: #10141c 0%; }
#jobs > .datatable--header { background: #10141c; color: #8fa3c4; text-style: bold; }
#jobs > .datatable--cursor { background: #263556; color: #ffffff; text-style: none; }
#jobs > .datatable--hover { background: #182033; }

Footer { background: #1a2130; color: #8fa3c4; }
FooterKey .footer-key--key { background: #1a2130; color: #6ea4ff; }
FooterKey .footer-key--description { color: #8fa3c4; }

Help { align: center middle; background: #10141c 60%; }
Help > VerticalScroll { width: 64; max-width: 100%; height: auto; max-height: 100%; padding: 0 2;
    background: #1a2130; border: round #3f5680;
    border-title-color: #8fa3c4; }
"""
