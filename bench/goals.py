# SPDX-License-Identifier: Apache-2.0
"""A goal is text for people. This reads it as well, so that a run says by itself what it missed.

Its conditions stand between commas and must all hold: "<= 6" and "< 57 (60 MB)" are of a row's value, "ratio >= 0.5" and
"40 x docker" of its ratio. "<= 2 x" before a ratio is the same in other words."""
import operator
import re

NUMBER = r"(\d+(?:\.\d+)?)"
FORMS = (
    (re.compile(rf"(<|<=|=|>=|>) {NUMBER}(?: \(.+\))?"), "value"),
    (re.compile(rf"ratio (>=|>) {NUMBER}"), "ratio"),
    (re.compile(rf"(){NUMBER} x [a-z]+"), "ratio"),
)
IN_OTHER_WORDS = re.compile(rf"<= {NUMBER} x, (?=ratio )")
HOLDS = {"<": operator.lt, "<=": operator.le, "=": operator.eq, ">=": operator.ge, ">": operator.gt, "": operator.ge}


def conditions(goal):
    for part in IN_OTHER_WORDS.sub("", goal).split(", "):
        found = [(of, HOLDS[m[1]], float(m[2])) for form, of in FORMS if (m := form.fullmatch(part))]
        if not found:  # a slip of the pen shall not pass for a goal that is met
            raise ValueError(f"what does the goal {goal!r} say with {part!r}?")
        yield found[0]


def met(goal, value, ratio):
    """None without a goal, and where nothing of it was measured: a peer that cannot run takes its condition with it."""
    measured = {"value": value, "ratio": ratio}
    told = [holds(measured[of], bound) for of, holds, bound in (conditions(goal) if goal else ()) if measured[of] is not None]
    return all(told) if told else None
