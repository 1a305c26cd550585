"""Arakoon's own Python client (src/client/python of its source); run with its folder and a port."""

import sys

sys.path.insert(0, sys.argv[1])

import Arakoon
import ArakoonExceptions
import ArakoonProtocol

from arakoon_round_trip import round_trip

nodes = {"arakoon_0": (["127.0.0.1"], int(sys.argv[2]))}
config = ArakoonProtocol.ArakoonClientConfig("ricky", nodes)
round_trip(Arakoon.ArakoonClient(config), ArakoonExceptions)
