"""What schemathesis is told beside its own checks."""

import re
from urllib.parse import unquote

import schemathesis
from schemathesis.core.failures import Failure
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import negative_data_rejection

# Properties that say nothing of each other.
ALONE = {"sync", "key_bytes_max", "value_bytes_max", "ttl_ms"}
PAIR = ("x-credenza-session", "x-credenza-request")
# What an available bucket may be called; the document says what a consistent one may.
BUCKET = re.compile(r"[A-Za-z0-9_~%-][A-Za-z0-9._~%-]{0,254}")


@schemathesis.check
def a_good_request_is_understood(_context, response, case):
    """What the document allows may fail for what the rows are, never for how it is written."""
    if response.status_code != 400 or case.meta.generation.mode != GenerationMode.POSITIVE:
        return
    headers = {name.lower(): value for name, value in (case.headers or {}).items()}
    # Its shortest examples of a pattern lose the quotes that the pattern asks for.
    if any(headers.get(name, "*").isdigit() for name in ("if-match", "if-none-match")):
        return
    # A document can't say that two headers come together or not at all.
    if sum(name in headers for name in PAIR) == 1:
        return
    # An answer to HEAD has no body to say why; GET takes the same words.
    if case.method == "HEAD":
        return
    error = response.json()["error"]
    reason = error["reason"]
    # What a bucket can do depends on its consistency, and that on the name that was hit: types
    # made a moment ago keep available buckets, which exist by being named.
    if reason == "not_supported" and ("available" in error["detail"] or "named" in error["detail"]):
        return
    # What a context may say only the node knows, and which operation fits only the bucket's type.
    if "context" in (case.query or {}) or "/datatypes/" in case.path:
        return
    # A document calls a chunk of records bytes; it can't say their format.
    if case.path.endswith("/import"):
        return
    # Nor can it say which token an earlier call gave.
    if isinstance(case.body, dict) and "continue" in case.body:
        return
    # Nor that a parameter repeats the name of what is destroyed, or confirms what a body says.
    judged_by_body = case.path == "/v1/access" or case.path.endswith(("/replace", "/part"))
    if "confirm" in (case.query or {}) or judged_by_body:
        return
    # Nor which verbs and scopes fit each other.
    if case.path == "/v1/access/check":
        return
    # Nor which parameters of a query exclude each other, what a path of an index looks like, and
    # which type fits which format.
    if "/index/" in case.path or case.path.endswith("/indexes"):
        return
    # Whether a node may join depends on who is there, not on how it asks.
    if reason == "not_supported" and case.path.startswith("/v1/cluster"):
        return
    # Properties of available buckets are judged together, and with the consistency that a type or
    # bucket was made with: a document can't say which may stand beside which.
    if case.method in ("PUT", "PATCH") and isinstance(case.body, dict):
        if set(case.body) - ALONE:
            return
    assert reason not in ("malformed", "not_supported"), f"refused as {reason}"


@schemathesis.check
def a_bad_request_is_refused(context, response, case):
    """The tool's own check, but for what is bad only before it stands in a path."""
    try:
        negative_data_rejection(context, response, case)
    except Failure as failure:
        words = f"{failure} {failure.message}"
        # A number in a path is its digits, and `0.5` is as good a bucket's name as any.
        if "in path - incorrect type" in words:
            return
        name = unquote(str((case.path_parameters or {}).get("bucket", "")))
        if "`bucket` in path - violates `pattern`" in words and BUCKET.fullmatch(name):
            return
        # How many replicas may stand beside as many members; a document can't count.
        both = isinstance(case.body, dict) and case.body.get("replicas") and case.body.get("members")
        if case.path == "/v1/cluster/groups" and both:
            return
        raise
