"""The templates of the web pages. Everything put in is escaped by the engine, unless it was marked as safe before."""

BASE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval';
 style-src 'unsafe-inline'; img-src data: blob:">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{ title }} - Tenure</title>
<style>
body { font: 15px/1.5 Helvetica, Arial, "Liberation Sans", sans-serif; color: #222; max-width: 1220px;
  margin: 2em auto; padding: 0 1em; }
h1 { font-size: 1.7em; margin-bottom: .2em; } h2 { font-size: 1.25em; margin: 2em 0 .3em; }
.quiet { color: #666; } .note { background: #FFF6E0; border-left: 4px solid #E69F00; padding: .5em 1em; }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(360px, 1fr)); gap: 0 2.5em; }
table { border-collapse: collapse; font-size: 13px; } .wide { overflow-x: auto; }
.figures table { width: 100%; }
th, td { text-align: right; padding: .25em .7em; border-bottom: 1px solid #E8E8E8; vertical-align: top;
  font-variant-numeric: tabular-nums; }
.wide td { white-space: nowrap; }
.named th:first-child, .named td:first-child { position: sticky; left: 0; background: #FFF; }
.legend { font-size: 13px; display: grid; grid-template-columns: max-content 1fr; gap: .2em 1em; }
.legend dt { font-weight: 600; } .legend dd { margin: 0; }
.pair { margin: .6em 0; } .pair > details { margin-left: 1.2em; }
th:first-child, td:first-child { text-align: left; padding-left: 0; } th { font-weight: 600; color: #444; }
.chart { overflow-x: auto; margin: .5em 0 2.5em; } .better { color: #00664B; } .worse { color: #A34600; }
@media print { body { max-width: none; } h2 { break-after: avoid; } }
</style>
</head>
<body>
<h1>{{ title }}</h1>
{% block content %}{% endblock %}
{% for chart, spec in charts %}
<h2 id="{{ chart.name }}">{{ chart.title }}</h2>
<p class="quiet">{{ chart.text }}</p>
<div class="chart" id="chart-{{ loop.index }}"></div>
<script type="application/json" id="spec-{{ loop.index }}">{{ spec }}</script>
{% endfor %}
{% block after %}{% endblock %}
<noscript><p class="note">The charts are drawn by JavaScript that is inside this page.</p></noscript>
<script>{{ library }}</script>
<script>
(async () => {
  const options = {renderer: "canvas", actions: {export: true, source: false, compiled: false, editor: false}};
  let drawn = 0;
  for (let i = 1; i <= {{ charts | length }}; i++) {
    const place = document.getElementById("chart-" + i);
    try {
      const spec = JSON.parse(document.getElementById("spec-" + i).textContent);
      await vegaEmbed(place, spec, options);
      drawn += 1;
    } catch (error) {
      place.textContent = "This chart could not be drawn: " + error;
    }
  }
  document.body.dataset.drawn = drawn;
})();
</script>
</body>
</html>
"""

TABLE = """<h2>{{ table.title }}</h2>
<div class="wide"><table>
<tr>{% for cell in table.head %}<th>{{ cell }}</th>{% endfor %}</tr>
{% for row in table.rows %}
<tr>{% for cell in row %}<td>{{ cell }}</td>{% endfor %}</tr>
{% endfor %}
</table></div>
"""
"""One table, with its title."""
TABLES = """{% block after %}
{% for table in tables %}
{% include "table" %}
{% endfor %}
{% endblock %}
"""

RUN = (
    """{% extends "base" %}
{% block content %}
<p class="quiet">{{ run.workload }}; {{ "{:,}".format(run.jobs) }} jobs; {{ run.days }} days simulated until
{{ run.simulated_until }}, the first {{ run.warmup_days }} of which are not counted;
{{ "{:,}".format(run.events) }} events in {{ "%.1f" | format(run.wall_s) }} s.</p>
{% if not run.complete %}
<p class="note">This run was interrupted: figures are over the {{ run.measured_days }} days that were simulated.</p>
{% endif %}
{% for note in run.notes %}
<p class="note">{{ note }}</p>
{% endfor %}
{% if run.settings %}
<p>Settings:
{% for name, value in run.settings.items() %}
{{ name }} = {{ value }}{{ "; " if not loop.last }}
{% endfor %}
</p>
{% endif %}
<div class="figures">
{% for name, figures in sections.items() %}
<section>
<h2>{{ name }}</h2>
<table>
{% for label, value in figures %}
<tr><td>{{ label }}</td><td>{{ value }}</td></tr>
{% endfor %}
</table>
</section>
{% endfor %}
</div>
<p class="quiet">Debug: funded, at most 8 GPUs and 15 min of min_runtime; large: funded, 128 GPUs and more; mid-size:
other funded jobs. Jobs that never started count with the wait they had when they were cancelled or the run ended, so
waits are lower bounds where there are such jobs.</p>
{% endblock %}
"""
    + TABLES
)

COMPARISON = """{% extends "base" %}
{% block content %}
<p>{{ about }}</p>
<p>{{ rule }}</p>
{% for warning in warnings %}
<p class="note">{{ warning }}</p>
{% endfor %}
<h2>Side by side</h2>
<p class="quiet">The median over seeds, and the range in brackets.</p>
<div class="wide named"><table>
<tr><th></th>{% for label in labels %}<th>{{ label }}</th>{% endfor %}</tr>
{% for section, rows in sections.items() %}
<tr><th>{{ section }}</th>{% for label in labels %}<th></th>{% endfor %}</tr>
{% for row in rows %}
<tr>{% for cell in row %}<td>{{ cell }}</td>{% endfor %}</tr>
{% endfor %}
{% endfor %}
</table></div>
<h2>What the figures mean</h2>
<dl class="legend">
{% for word, meaning in legend %}
<dt>{{ word }}</dt><dd>{{ meaning }}</dd>
{% endfor %}
</dl>
{% endblock %}
{% block after %}
{% if pairs %}
<h2>What differs</h2>
{% endif %}
{% for pair in pairs %}
<details class="pair" {{ "open" if pairs | length <= open_pairs }}>
<summary><b>{{ pair.heading }}</b>
<span class="quiet">{% for name, lines in pair.said.items() %}
{{ lines | length }} {{ name.partition(":")[0] }}{{ ", " if not loop.last }}
{% endfor %}</span></summary>
{% for name, lines in pair.said.items() %}
<details {{ "open" if name in ("better", "worse", "different") or pair.said | length == 1 }}>
<summary class="{{ name }}">{{ name | capitalize }} ({{ lines | length }})</summary>
<ul>{% for line in lines %}<li>{{ line }}</li>{% endfor %}</ul>
</details>
{% endfor %}
</details>
{% endfor %}
{% endblock %}
"""

SIDES = """{% extends "base" %}
{% block content %}
<p class="quiet">{{ about }}</p>
{% for pair in pairs %}
<h2>{{ pair.heading }}</h2>
<ul>{% for line in pair.said %}<li>{{ line }}</li>{% endfor %}</ul>
{% endfor %}
{% endblock %}
{% block after %}
{% for table in tables %}
{% include "table" %}
{% for line in table.about %}<p class="quiet">{{ line }}</p>
{% endfor %}
{% endfor %}
{% if notes %}
<h2>What to know</h2>
<ul>{% for note in notes %}<li>{{ note }}</li>{% endfor %}</ul>
{% endif %}
{% endblock %}
"""

BEHAVIOURS = """{% extends "base" %}
{% block content %}
<p>{{ about }}</p>
<p>{{ rule }}</p>
<ul>{% for line in said %}<li>{{ line }}</li>{% endfor %}</ul>
{% for grid in grids %}
<h2>{{ grid.title }}</h2>
<p class="quiet">{{ grid.text }}</p>
<div class="wide"><table>
<tr>{% for cell in grid.head %}<th>{{ cell }}</th>{% endfor %}</tr>
{% for row in grid.rows %}
<tr>{% for cell in row %}<td>{{ cell }}</td>{% endfor %}</tr>
{% endfor %}
</table></div>
{% endfor %}
{% endblock %}
"""
