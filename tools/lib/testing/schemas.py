"""What programs print with --json, against the schemas of docs/schema."""
import functools
import json

import pytest

from programs import ROOT

jsonschema = pytest.importorskip("jsonschema")


@functools.cache
def schema(name):
    return json.loads((ROOT / f"docs/schema/{name}.json").read_text())


def fits(text, name, part):
    """The value of a text that fits that part of the schema of that name."""
    answer = json.loads(text)
    jsonschema.Draft202012Validator({**schema(name), "$ref": f"#/$defs/{part}"}).validate(answer)
    return answer


def is_schema(name):
    jsonschema.Draft202012Validator.check_schema(schema(name))
