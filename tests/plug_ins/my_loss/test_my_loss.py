from my_loss import SPEC

from marless.algorithms import check


def test_it_keeps_the_promises_of_an_algorithm():
    check(SPEC, {"hidden": [8], "epochs": 1, "num_minibatches": 2})
