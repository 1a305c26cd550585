"""The description at /openapi.json is sound, and the server does what it says.

openapi-spec-validator judges the document, schemathesis makes requests of it, good ones and bad
ones; a server error, a status, header or body that the document does not tell is a failure. Run
with the port to talk to, the seconds that each of two rounds of requests may take, and a seed.
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import urllib.request

import openapi_spec_validator

HOOKS = pathlib.Path(__file__).with_name("openapi_checks.py")

# 503 is the documented answer to `at_least:N` with an index of the future, and to too many
# sessions; 504 to a ring that is given out while members that were made up by chance are away.
CHECKS = f"""
hooks = "{HOOKS}"
[checks]
not_a_server_error.expected-statuses = ["2xx", "3xx", "4xx", "503"]

[[operations]]
include-path = "/v1/cluster/ring"
checks.not_a_server_error.expected-statuses = ["2xx", "3xx", "4xx", "503", "504"]
"""

# Names made at random mostly name no bucket; here they name the one that is always there.
AT_HOME = """
[parameters]
"path.type" = "default"
"path.bucket" = "default"
"""


def fuzz(url, folder, name, configuration, unchecked, words):
    path = pathlib.Path(folder, f"{name}.toml")
    path.write_text(configuration)
    tool = pathlib.Path(sys.executable).with_name("schemathesis")
    command = [tool, "--config-file", path, "run", f"{url}/openapi.json", "--checks", "all"]
    # Two are replaced by checks that know which refusals are about rows, and what a path makes of
    # numbers: openapi_checks.py.
    # A member that has another name since is not found under the one it was made with.
    always = ["positive_data_acceptance", "negative_data_rejection", "ensure_resource_availability"]
    unchecked = ",".join([*always, *unchecked])
    command += ["--exclude-checks", unchecked, "--warnings", "off"]
    command += ["--generation-database", ":memory:", "--no-color", "--no-shrink"]
    done = subprocess.run([*command, *words], cwd=folder, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{name}: {done.stdout}{done.stderr}")
    print(f"{name}:", *(line for line in done.stdout.splitlines() if "generated" in line))


def main():
    url, seconds, seed = f"http://127.0.0.1:{sys.argv[1]}", sys.argv[2], sys.argv[3]
    with urllib.request.urlopen(f"{url}/openapi.json") as answer:
        document = json.load(answer)
    openapi_spec_validator.validate(document)
    words = ["--max-time", seconds, "--seed", seed]
    with tempfile.TemporaryDirectory() as folder:
        fuzz(url, folder, "any names", CHECKS, [], words)
        # Without its bucket, or with tiny keys, the rest of the second round would say nothing.
        for kept in ("DropBucket", "AlterBucket", "DropType"):
            words += ["--exclude-operation-id", kept]
        # A bad name is replaced by the good one and then rightly taken.
        unchecked = ["a_bad_request_is_refused"]
        fuzz(url, folder, "a bucket with rows", CHECKS + AT_HOME, unchecked, words)


main()
