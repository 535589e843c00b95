"""What would have been, and what will be: a live server's past or present, run again under other rules.

The state of a moment is read from the log as it was (``course``), with what each job was really worth (``lives``), and
goes on twice over the same core (``rerun``): with the rules of then, which shows how far a re-run can be believed
(``honesty``), and with others (``change``). Whoever gained and lost is told (``report``).
"""
