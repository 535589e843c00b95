"""The template of a trace's page."""

from __future__ import annotations

from tenure.reports.pages import TABLES

TRACE = (
    """{% extends "base" %}
{% block content %}
<p class="quiet">{{ figures.source.format }}; {{ "{:,}".format(figures.source.rows) }} rows; submitted from
{{ first }} to {{ last }}{{ ", only " + figures.source.cut if figures.source.cut }}.</p>
{% if not figures.source.complete %}
<p class="note">Reading was broken off: the figures are of what was read by then.</p>
{% endif %}
<div class="figures">
{% for name, lines in sections.items() %}
<section>
<h2>{{ name }}</h2>
<table>
{% for label, value in lines %}
<tr><td>{{ label }}</td><td>{{ value }}</td></tr>
{% endfor %}
</table>
</section>
{% endfor %}
{% for name, counts in account.items() %}
<section>
<h2>{{ name }}</h2>
<table>
{% for what, count in counts.items() %}
<tr><td>{{ what }}</td><td>{{ "{:,}".format(count) }}</td></tr>
{% endfor %}
</table>
</section>
{% endfor %}
</div>
{% if figures.source.examples %}
<h2>The first bad rows</h2>
<ul>{% for example in figures.source.examples %}<li>{{ example }}</li>{% endfor %}</ul>
{% endif %}
{% endblock %}
"""
    + TABLES
)
