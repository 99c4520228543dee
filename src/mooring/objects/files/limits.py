"""Limits of the file reader.

The numbers leave room for dumps of the largest clusters that Kubernetes supports (5 000 nodes,
150 000 pods), and stop files that were made to exhaust the memory.
"""

from __future__ import annotations

#: Bytes of one file, decompressed. A pod as kubectl prints it takes 5 to 10 KB, so 150 000 pods
#: take about 1.2 GB.
FILE_BYTES_MAX = 2 * 1024**3

#: Bytes of a configuration file. An API server refuses objects above 1.5 MiB; people write less.
CONFIG_BYTES_MAX = 1024**2

#: Decompressed bytes per compressed byte. kubectl's dumps reach 30, and 10 000 copies of one pod
#: about 150; deflate itself can reach 1 032, which only a bomb does.
COMPRESSION_RATIO_MAX = 200

#: Below this many decompressed bytes the ratio is not checked.
COMPRESSION_FREE_BYTES = 8 * 1024**2

#: Levels of mappings and lists inside each other. A pod inside a List has 16; schemas of custom
#: resources, which may lie in the same folder, reach 50.
DEPTH_MAX = 64

#: Documents of one file.
DOCUMENTS_MAX = 1_000_000

#: Maximum number of files in folders on the command line.
FILES_MAX = 100_000

#: Objects of all files together, of the kinds that mooring stores.
OBJECTS_MAX = 2_000_000

#: Pods of one Deployment or the like. Kubernetes supports 150 000 pods in a cluster; a controller
#: would create the pods of a larger number until the memory is full.
WORKLOAD_PODS_MAX = 500_000

#: Steps of the path in an error; the longest paths of Kubernetes' fields have some twenty. The rest
#: of a text that nests too deeply would only fill the screen.
PATH_STEPS_MAX = 24

#: Maximum number of errors in one report: enough to correct a file at once, and fits on a screen.
ERRORS_MAX = 20

#: Values that the aliases of one YAML text may stand for; a configuration has some hundreds.
ALIASED_VALUES_MAX = 10_000
