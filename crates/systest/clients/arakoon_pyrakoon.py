"""pyrakoon's client; run with a checkout of it and a port."""

import sys

sys.path.insert(0, sys.argv[1])

from pyrakoon import compat

from arakoon_round_trip import round_trip

nodes = {"arakoon_0": ("127.0.0.1", int(sys.argv[2]))}
config = compat.ArakoonClientConfig("ricky", nodes)
client = compat.ArakoonClient(config)
round_trip(client, compat)
compat.ArakoonAdmin(config).collapse("arakoon_0", 3)
