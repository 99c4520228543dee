"""Building blocks of the tables: interned values, labels, ports, images, change log, order."""
