"""The test modules that come with Riak's own Python client, unchanged, against a running cluster.

Usage: riak_suite.py http|pbc PORT MODULE...   (MODULE: kv, 2i, datatypes, btypes, client, pool)

What can't pass for a reason of its own is listed below by name. The run fails if anything else
fails or is skipped, and if something listed passes.
"""

import collections
import collections.abc
import os
import sys
import unittest

# The client is of 2016: these two lines are what Python 3.11 lacks of Python 3.5.
vars(collections).update({name: getattr(collections.abc, name) for name in collections.abc.__all__})
collections.namedtuple = lambda *words, verbose=False, made=collections.namedtuple, **more: made(*words, **more)

EXPECTED = {
    "test_kv.KVFileTests.test_store_binary_object_from_file_should_use_default_mimetype":
        "wants a README.md two folders above the package, of a type that no Python knows",
    "test_client.ClientTests.test_pool_close":
        "reads an attribute that the client itself has set to None",
    "test_pool.PoolTest.test_removes_bad_resource":
        "raises an exception of the client without the argument that it needs",
    "test_2i.TwoITests.test_set_indexes":
        "runs a MapReduce query over an index",
}
# A list asks one replica of each key, which may hear of a write a moment after it was acknowledged:
# what fails among these is tried once more.
LISTS = {
    "test_kv.BasicKVTests.test_generate_key",
    "test_kv.BasicKVTests.test_list_buckets",
    "test_kv.BasicKVTests.test_stream_buckets",
    "test_kv.BasicKVTests.test_stream_keys",
    "test_btypes.BucketTypeTests.test_btype_list_buckets",
    "test_btypes.BucketTypeTests.test_btype_list_keys",
    "test_btypes.BucketTypeTests.test_default_btype_list_buckets",
    "test_btypes.BucketTypeTests.test_default_btype_list_keys",
}
SKIPPED = {
    "http": {"test_kv.BasicKVTests.test_get_no_returnbody": "is for Protocol Buffers alone"},
    "pbc": {},
}


class Result(unittest.TextTestResult):
    """Which tests passed, failed and were left out, by name."""

    def __init__(self, *words):
        super().__init__(*words)
        self.passed, self.failed, self.left_out = set(), {}, set()

    @staticmethod
    def name(test):
        return test.id().removeprefix("riak.tests.")

    def addSuccess(self, test):
        super().addSuccess(test)
        self.passed.add(self.name(test))

    def addError(self, test, error):
        super().addError(test, error)
        self.failed[self.name(test)] = self.errors[-1][1]

    def addFailure(self, test, error):
        super().addFailure(test, error)
        self.failed[self.name(test)] = self.failures[-1][1]

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.left_out.add(self.name(test))


def main():
    protocol, port, modules = sys.argv[1], sys.argv[2], sys.argv[3:]
    os.environ.update(RIAK_TEST_PROTOCOL=protocol)
    for transport in ("HTTP", "PB"):
        os.environ.update({f"RIAK_TEST_{transport}_HOST": "127.0.0.1", f"RIAK_TEST_{transport}_PORT": port})
    for switch in ("KV", "INDEXES", "RESOLVE", "BTYPES", "DATATYPES", "CLIENT", "POOL"):
        os.environ["RUN_" + switch] = "1"
    names = ["riak.tests.test_" + module for module in modules]
    suite = unittest.defaultTestLoader.loadTestsFromNames(names)
    runner = unittest.TextTestRunner(open(os.devnull, "w"), resultclass=Result, warnings="ignore")
    result = runner.run(suite)
    again_asked = sorted(LISTS & result.failed.keys())
    for name in again_asked:
        again = runner.run(unittest.defaultTestLoader.loadTestsFromName("riak.tests." + name))
        if again.wasSuccessful():
            result.failed.pop(name)
            result.passed.add(name)
    ran = {"test_" + module for module in modules}
    listed = {name for name in EXPECTED if name.split(".")[0] in ran}
    wrong = [f"{name} failed:\n{why}" for name, why in result.failed.items() if name not in listed]
    wrong += [f"{name} is listed as a failure and passed" for name in sorted(listed - result.failed.keys())]
    wrong += [f"{name} was left out" for name in sorted(result.left_out - SKIPPED[protocol].keys())]
    if len(result.passed) < 10:
        wrong.append("hardly anything ran")
    print(
        f"{' '.join(modules)}: {len(result.passed)} passed, {len(listed)} failed as they must, "
        f"{len(result.left_out)} are not for {protocol}, {len(again_asked)} of lists were tried twice"
    )
    if wrong:
        sys.exit("\n".join(wrong))


main()
