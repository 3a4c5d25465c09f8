"""Points of low order on Curve25519, with which every secret agrees on zero: Bernstein, "Curve25519: high-speed
elliptic-curve cryptography" (2006), and the list of cr.yp.to/ecdh.html.
"""

_P = 2**255 - 19
_EIGHTH = (
    325606250916557431795983626356110631294008115727848805560023387167927233504,
    39382357235489614581723060781553021112529911719440698176882885853963445705823,
)
NO_KEYS = [n.to_bytes(32, "little") for n in (0, 1, *_EIGHTH, _P - 1, _P, _P + 1)]
