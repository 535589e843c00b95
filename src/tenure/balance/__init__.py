"""A budget's week as a statement: what it was owed and used, what comes back when, what lapses, and who used what.

``gather`` copies what is needed out of the live state; everything else is a function of that copy.
"""

from tenure.balance.facts import Facts, Going, Promised, gather
from tenure.balance.outlook import Day, Outlook, Point
from tenure.balance.parts import Parts
from tenure.balance.statement import Statement, statement
from tenure.balance.who import Child, JobPart, jobs

__all__ = [
    "Child",
    "Day",
    "Facts",
    "Going",
    "JobPart",
    "Outlook",
    "Parts",
    "Point",
    "Promised",
    "Statement",
    "gather",
    "jobs",
    "statement",
]
