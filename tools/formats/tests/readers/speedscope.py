"""Validates a profile by the JSON schema that speedscope publishes.

    python speedscope.py SCHEMA FILE
"""

import json
import sys

from jsonschema import Draft7Validator


def main(schema_path, path):
    with open(schema_path, encoding="utf-8") as file:
        schema = json.load(file)
    with open(path, encoding="utf-8") as file:
        profile = json.load(file)
    Draft7Validator.check_schema(schema)
    for error in Draft7Validator(schema).iter_errors(profile):
        print(f"{error.json_path}: {error.message}")


main(*sys.argv[1:])
