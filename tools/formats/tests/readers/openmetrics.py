"""Reads metrics with the OpenMetrics parser of prometheus_client, and prints them as JSON.

    python openmetrics.py FILE
"""

import json
import sys

from prometheus_client.openmetrics.parser import text_string_to_metric_families


def main(path):
    # Line ends within labels must stay as they are.
    with open(path, encoding="utf-8", newline="") as file:
        text = file.read()
    families = [
        {
            "name": family.name,
            "type": family.type,
            "unit": family.unit,
            "help": family.documentation,
            "samples": [[sample.name, sample.labels, sample.value] for sample in family.samples],
        }
        for family in text_string_to_metric_families(text)
    ]
    json.dump(families, sys.stdout)


main(sys.argv[1])
