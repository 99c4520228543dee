"""The eight schedulers of the tutorial, each an extension of the one before.

Each module has a class ``Scheduler`` with the same constructor and method ``run``::

    scheduler = Scheduler(client, "my-scheduler", clock=clock, rng=rng, emit=emit)
    await scheduler.run()

``nodes`` and ``pods`` are its informers. The schedulers use only mooring's public parts.
"""
