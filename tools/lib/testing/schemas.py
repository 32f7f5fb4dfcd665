"""Validates --json output of the programs against the schemas in docs/schema."""
import functools
import json

import pytest

from programs import ROOT

jsonschema = pytest.importorskip("jsonschema")


@functools.cache
def schema(name):
    return json.loads((ROOT / f"docs/schema/{name}.json").read_text())


def fits(text, name, part):
    """Parses the text, validates it against a part ($defs) of the schema, and returns the value."""
    answer = json.loads(text)
    jsonschema.Draft202012Validator({**schema(name), "$ref": f"#/$defs/{part}"}).validate(answer)
    return answer


def is_schema(name):
    jsonschema.Draft202012Validator.check_schema(schema(name))
