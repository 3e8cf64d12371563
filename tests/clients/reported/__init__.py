"""Hangs that people reported, each in as few lines as show its kind, written anew.

The first line of a module says what goes wrong, the second who reported it. reported_hangs.py has
what is to be said of each.
"""
