"""Redis' own test suite, as its source ships it, against a running server ("external mode").

Usage: redis_suite.py PORT SOURCE [UNIT...]   (SOURCE: the unpacked source of Redis 7.0)

The units are those of the commands that are served. What can't pass is listed with its reason in
redis_suite.txt beside this file; below a reason that begins with "Sometimes" stands what may pass. The
run fails if anything else fails, if something listed passes that can't, and if a unit does not come
to its end.
"""

import re
import subprocess
import sys
from pathlib import Path

UNITS = [
    "unit/type/string",
    "unit/type/incr",
    "unit/keyspace",
    "unit/expire",
    "unit/scan",
    "unit/multi",
    "unit/protocol",
    "unit/quit",
    "unit/other",
    "unit/introspection",
]
# Tests with these tags reach into a server of Redis, or need several.
TAGS = "-needs:debug -needs:repl -needs:reset -needs:config-maxmemory -needs:save -cluster -large-memory"
UNIT_SECONDS_MAX = 600
LINE = re.compile(r"^\[(ok|err|skip|ignore|exception)\]: (.*)$")


def listed(file):
    """The tests that can't pass, each with the heading above it."""
    reason, tests = None, {}
    for line in file.read_text().splitlines():
        if line.startswith("# "):
            reason = line[2:]
        elif line and reason:
            tests[line] = reason
    return tests


def prepare(source):
    """Lets the suite's own set-up bear commands and settings that are not served."""
    file = source / "tests/support/server.tcl"
    text = file.read_text()
    for line in ("r function flush", "r config set $param $val"):
        text = re.sub(rf"^(\s*){re.escape(line)}$", rf"\1catch {{{line}}}", text, flags=re.M)
    file.write_text(text)


def run(port, source, unit):
    """What became of each test of a unit: ok, err, ignore; and whether it came to its end."""
    words = ["--host", "127.0.0.1", "--port", port, "--singledb", "--durable", "--single", unit, "--tags", TAGS]
    command = ["tclsh", "tests/test_helper.tcl", *words, "--timeout", str(UNIT_SECONDS_MAX)]
    try:
        done = subprocess.run(command, cwd=source, capture_output=True, timeout=UNIT_SECONDS_MAX + 60, text=True, errors="replace")
    except subprocess.TimeoutExpired as late:
        return {}, f"no end after {late.timeout} s"
    outcomes = {}
    lines = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout).splitlines()
    for place, line in enumerate(lines):
        found = LINE.match(line)
        if found:
            outcome, name = found.groups()
            name = re.sub(r" \(\d+ ms\)$", "", name)
            name = re.sub(r" in tests/unit/\S+$", "", name)
            why = " | ".join(lines[place + 1 : place + 3]) if outcome in ("err", "exception") else ""
            outcomes[f"{unit}: {name}"] = (outcome, why)
    return outcomes, None if "The End" in done.stdout else (done.stdout + done.stderr)[-2000:]


def main():
    port, source = sys.argv[1], Path(sys.argv[2])
    prepare(source)
    expected = listed(Path(__file__).with_suffix(".txt"))
    units = sys.argv[3:] or UNITS
    counts, wrong = {}, []
    for unit in units:
        outcomes, failure = run(port, source, unit)
        if failure:
            wrong.append(f"{unit}: {failure}")
        for name, (outcome, why) in outcomes.items():
            counts[outcome] = counts.get(outcome, 0) + 1
            if outcome in ("err", "exception") and name not in expected:
                wrong.append(f"{name}: {why}")
            if outcome == "ok" and not expected.get(name, "Sometimes").startswith("Sometimes"):
                wrong.append(f"{name}: listed as one that can't pass ({expected[name]}), and passed")
    print("Redis' own suite:", ", ".join(f"{outcome}={count}" for outcome, count in sorted(counts.items())))
    print("\n".join(wrong))
    sys.exit(1 if wrong or counts.get("ok", 0) < 50 * len(units) // len(UNITS) else 0)


main()
