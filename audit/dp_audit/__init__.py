"""Black-box audits of differential privacy: lower bounds on epsilon from what a mechanism is seen to do.

A lower bound with confidence, never a certificate: an audit that shows little has shown that it is weak, or that the
mechanism is private, and cannot tell which. So every bound comes with the ceiling that this audit could ever reach.
"""
