"""Evaluates XPath expressions on events with lxml: an evaluator that shares no code with ours.

Input: lines of an id, a tab and an event's XML; an empty line; expressions. Output: lines of an expression, a tab and the ids of the
events that it selects. The two functions of the Event Log that XPath does not have are added.
"""

import datetime
import sys

from lxml import etree


def texts(argument):
    nodes = argument if isinstance(argument, list) else [argument]
    return [node if isinstance(node, (str, float)) else node.xpath("string()") for node in nodes]


def band(context, left, right):
    numbers = []
    for argument in (left, right):
        text = texts(argument)[:1]
        if not text:
            return []
        value = text[0]
        numbers.append(int(value) if isinstance(value, float) else int(value, 0))
    return float(numbers[0] & numbers[1])


def timediff(context, first, second):
    times = []
    for argument in (first, second):
        text = texts(argument)[:1]
        if not text:
            return []
        seconds, fraction = text[0].rstrip("Z").split(".")
        time = datetime.datetime.strptime(seconds, "%Y-%m-%dT%H:%M:%S")
        times.append((time, int((fraction + "000")[:3])))
    (a, a_ms), (b, b_ms) = times
    return float((b - a).total_seconds() * 1000 + b_ms - a_ms)


functions = etree.FunctionNamespace(None)
functions["band"] = band
functions["timediff"] = timediff
events, expressions = sys.stdin.buffer.read().decode().split("\n\n")
events = [line.split("\t", 1) for line in events.split("\n")]
events = [(number, etree.ElementTree(etree.fromstring(xml))) for number, xml in events]
for expression in expressions.split("\n"):
    query = etree.XPath("/" + expression)
    found = [number for number, event in events if query(event)]
    sys.stdout.write(expression + "\t" + " ".join(found) + "\n")
