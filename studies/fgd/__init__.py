"""Fragmentation of GPUs: the experiments of "Beware of Fragmentation" (USENIX ATC 2023).

Six scheduling policies as plugins, 17 lists of pods, and the cluster of the openb trace.
"""
