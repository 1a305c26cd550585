"""A client that a generator makes of /openapi.json has every operation, and works.

openapi-python-client leaves out what it does not understand and warns: any warning is a failure here.
Run with the port to talk to.
"""

import builtins
import importlib
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import urllib.request

# What the generator would run afterwards changes layout alone. It knows no JSON by lines: a user of it
# takes such an answer as bytes.
CONFIGURATION = """post_hooks: []
content_type_overrides:
  application/x-ndjson: application/octet-stream
"""


def generate(document, folder):
    """The package of the client, imported."""
    source, configuration = folder / "openapi.json", folder / "configuration.yml"
    source.write_text(json.dumps(document))
    configuration.write_text(CONFIGURATION)
    tool = pathlib.Path(sys.executable).with_name("openapi-python-client")
    command = [tool, "generate", "--path", source, "--config", configuration, "--meta", "none"]
    command += ["--output-path", folder / "generated", "--fail-on-warning"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"the generator warns of the document: {done.stdout}{done.stderr}")
    sys.path.insert(0, str(folder))
    return importlib.import_module("generated")


def snake(name):
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def operations(document, generated):
    """The module of each operation, by its name in the document."""
    found = {}
    for methods in document["paths"].values():
        for operation in methods.values():
            name = operation["operationId"]
            tag = (operation.get("tags") or ["default"])[0]
            module = snake(name)
            if hasattr(builtins, module):
                module += "_"
            found[name] = importlib.import_module(f"generated.api.{snake(tag)}.{module}")
    return found


def main():
    url = f"http://127.0.0.1:{sys.argv[1]}"
    with urllib.request.urlopen(f"{url}/openapi.json") as answer:
        document = json.load(answer)
    with tempfile.TemporaryDirectory() as folder:
        generated = generate(document, pathlib.Path(folder))
        api = operations(document, generated)
        models = importlib.import_module("generated.models")
        talk(generated.Client(base_url=url), api, models)
    print(f"{len(api)} operations, all of them generated")


def talk(client, api, models):
    """A compare-and-set loop without a read, and replies of every kind that is a union."""
    where = {"type_": "default", "bucket": "default"}

    def call(name, status, **words):
        answer = api[name].sync_detailed(client=client, **words)
        assert answer.status_code == status, (name, answer)
        return answer

    def put(status, value, **conditions):
        body = value_of(value)
        return call("PutKey", status, key="generated", body=body, **where, **conditions)

    first = put(204, b"one", if_none_match="*")
    put(412, b"two", if_none_match="*")
    seen = first.headers["etag"]
    for value in (b"two", b"three"):
        seen = put(204, value, if_match=seen).headers["etag"]
    put(412, b"lost", if_match=first.headers["etag"])
    read = call("GetKey", 200, key="generated", **where)
    assert (read.content, read.headers["etag"]) == (b"three", seen)
    add = models.UpdateAdd(op="add", key="generated-count", delta=2)
    added = call("Update", 200, body=add, **where).parsed
    assert (added.outcome, added.number) == ("number", 2), added
    steps = [add, models.UpdateSequence(op="sequence", steps=[add])]
    told = call("Sequence", 200, body=steps, **where).parsed
    numbers = told.steps[0].number, told.steps[1].steps[0].number
    assert numbers == (4, 6), told
    deleted = call("DeletePrefix", 200, body=models.Prefix(prefix="generated"), **where).parsed
    assert (deleted.outcome, deleted.count) == ("count", 2), deleted
    status = call("Status", 200).parsed
    # A group that was not compared yet has none; the model of one is there.
    assert status.ready and hasattr(status.groups[0], "comparison") and models.Comparison, status
    token = call("MakeToken", 201, body=models.NewToken(lifetime_ms=60_000)).parsed
    assert token.lifetime_ms <= 60_000 and token.token
    call("RevokeTokens", 204)


def value_of(content):
    """A value as the generated client takes it: a file."""
    import io

    return importlib.import_module("generated.types").File(payload=io.BytesIO(content))


main()
