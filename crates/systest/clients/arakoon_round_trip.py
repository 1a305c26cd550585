"""What a program that uses one of Arakoon's Python clients expects; Python 2.7, used by others."""


def expect(found, wanted):
    if found != wanted:
        raise AssertionError("%r is not %r" % (found, wanted))


def fails(error, call, *words):
    try:
        call(*words)
    except error as told:
        return str(told)
    raise AssertionError("%r%r did not fail" % (call, words))


def round_trip(client, errors):
    """Everything both clients can do."""
    expect(client.hello("proof", "ricky"), "Arakoon 1.9.25")
    expect(client.whoMaster(), "arakoon_0")
    expect(tuple(client.getVersion())[:3], (1, 9, 25))
    expect(client.getCurrentState("arakoon_0"), "Stable_master")
    client.deletePrefix("")
    for number in range(5):
        client.set("k%d" % number, "v%d" % number)
    expect(client.get("k1"), "v1")
    expect((client.exists("k1"), client.exists("none")), (True, False))
    expect(client.multiGet(["k0", "k3", "k1"]), ["v0", "v3", "v1"])
    expect(client.multiGetOption(["k0", "none", "k1"]), ["v0", None, "v1"])
    expect(client.range("k1", True, "k3", True), ["k1", "k2", "k3"])
    expect(client.range("k1", False, None, False, 2), ["k2", "k3"])
    expect(client.range_entries("k1", True, "k3", False), [("k1", "v1"), ("k2", "v2")])
    expect(client.rev_range_entries("k4", True, "k1", True, 2), [("k4", "v4"), ("k3", "v3")])
    expect(list(client.prefix("k")), ["k0", "k1", "k2", "k3", "k4"])
    expect(client.getKeyCount(), 5)
    steps = client.makeSequence()
    steps.addAssert("k1", "v1")
    steps.addSet("n", "1")
    steps.addDelete("k0")
    client.sequence(steps)
    expect((client.exists("k0"), client.get("n")), (False, "1"))
    steps = client.makeSequence()
    steps.addSet("n", "2")
    steps.addAssert("k1", "wrong")
    told = fails(errors.ArakoonAssertionFailed, lambda: client.sequence(steps, sync=True))
    expect("k1" in told, True)
    expect(client.get("n"), "1")
    fails(errors.ArakoonNotFound, client.get, "none")
    fails(errors.ArakoonNotFound, client.delete, "none")
    fails(errors.ArakoonAssertionFailed, client.aSSert, "k1", "wrong")
    fails(errors.ArakoonAssertionFailed, client.aSSert_exists, "none")
    expect(client.testAndSet("k1", "v1", "new"), "v1")
    expect(client.replace("k1", None), "new")
    expect(client.replace("k1", "again"), None)
    client.confirm("k1", "again")
    client.aSSert("k1", "again")
    client.aSSert_exists("k1")
    client.nop()
    client.setConsistency(client.get_txid())
    expect(client.get("k1"), "again")
    client.disallowDirtyReads()
    expect(client.expectProgressPossible(), True)
    expect(list(client.statistics()["node_is"]), ["arakoon_0"])
    expect("could not be found" in fails(errors.ArakoonException, client.userFunction, "f", "x"),
           True)
    expect(client.deletePrefix("k"), 4)
