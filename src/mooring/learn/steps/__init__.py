"""The eight schedulers of the tutorial, each grown from the one before.

Each module has a class ``Scheduler`` with one way to make it and one way to run it::

    scheduler = Scheduler(client, "my-scheduler", clock=clock, rng=rng, tell=tell)
    await scheduler.run()

``nodes`` and ``pods`` are its informers. They are made of mooring's public parts only, to be read,
changed and run.
"""
