"""The audit: runs every case, holds the truth, scores the claims of each attack, keeps the record, and the command
line.
"""
