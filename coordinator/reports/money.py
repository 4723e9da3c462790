"""Dollars as people read them."""


def money(dollars: float) -> str:
    """Two significant digits below a dollar, cents above; never an exponent: ``$0.00021``."""
    if dollars >= 1 or dollars <= 0:
        return f"${max(0.0, dollars):,.2f}"
    digits = 1
    while dollars * 10**digits < 1:
        digits += 1
    return f"${dollars:.{digits + 1}f}"
