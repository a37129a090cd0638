"""Reads a flame graph as XML, and prints its boxes and its script as JSON.

    python svg.py FILE
"""

import json
import sys
from xml.etree import ElementTree

SVG = "{http://www.w3.org/2000/svg}"


def main(path):
    root = ElementTree.parse(path).getroot()
    boxes = [
        {"class": group.get("class"), "title": group.findtext(f"{SVG}title")}
        for group in root.iter(f"{SVG}g")
        if group.get("data-d") is not None
    ]
    scripts = [script.text for script in root.iter(f"{SVG}script")]
    tags = sorted({element.tag.removeprefix(SVG) for element in root.iter()})
    json.dump({"boxes": boxes, "scripts": scripts, "tags": tags}, sys.stdout)


main(sys.argv[1])
