if __name__ != "marless.coordinator":  # a second copy of its modules, by way of a checkout
    raise ImportError(f"the package {__name__} of MARLess is imported as marless.{__name__}", name=__name__)
