"""The folder of a run: durable files, what it was made with, epochs of its key.

Modules are imported singly: files and manifests need nothing of what settings of a run need.
"""
